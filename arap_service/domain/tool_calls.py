"""Whether the tool call that an evaluation shows is the one that it binds.

Rules and reviewers read the shown call (`urn:x-arap:tool_call`), but only `arguments_hash` is bound; if the two could
differ, a harmless call could be shown and another one approved. Nothing here reads policy. See design.md section 4.
"""

from collections.abc import Mapping
from typing import Any, Final

from arap_service.protocol.canonical import TOOL_CALL, Unrepresentable, arguments_hash

MALFORMED: Final = "tool_call_malformed"
MISMATCH: Final = "arguments_hash_mismatch"
UNBOUND: Final = "arguments_unbound"


def flaw_of(context: Mapping[str, Any]) -> str | None:
    """Why the call that `context` shows cannot be believed: `tool_call_malformed`, `arguments_hash_mismatch` or None.

    A call that says it is incomplete is not recomputed; it is shown as the enforcement point's statement.
    """
    if TOOL_CALL not in context:
        return None
    call = context[TOOL_CALL]
    if not isinstance(call, dict) or not all(isinstance(call.get(name), str) for name in ("server", "tool")):
        return MALFORMED
    arguments, complete = call.get("arguments", {}), call.get("complete", True)
    if not isinstance(arguments, dict) or not isinstance(complete, bool):
        return MALFORMED
    if not complete or "arguments_hash" not in context:
        return None
    try:
        return None if arguments_hash(arguments) == context["arguments_hash"] else MISMATCH
    except Unrepresentable:
        return MISMATCH


def is_bound(context: Mapping[str, Any]) -> bool:
    """Whether the arguments are bound, so that an approval would be for this call and no other (PEP-24)."""
    return TOOL_CALL not in context or isinstance(context.get("arguments_hash"), str)
