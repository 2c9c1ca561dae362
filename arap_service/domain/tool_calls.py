"""Whether the tool call that an evaluation shows is the one that it binds.

Rules and reviewers read the shown call (`urn:x-arap:tool_call`), but only `arguments_hash` is bound; if the two could
differ, a harmless call could be shown and another one approved. Nothing here reads policy. See design.md section 4.
"""

from collections.abc import Mapping
from typing import Any, Final

from arap_service.protocol.canonical import TOOL_CALL, Unrepresentable, arguments_hash, digest

MALFORMED: Final = "tool_call_malformed"
MISMATCH: Final = "arguments_hash_mismatch"
UNBOUND: Final = "arguments_unbound"
ABSENT: Final = "absent"
TOOL: Final = "tool"
"""The type of resource that a tool is, by the default mapping of MCP calls."""


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


def is_bound(context: Mapping[str, Any], *, resource_type: str) -> bool:
    """Whether the arguments are bound, so that an approval would be for this call and no other (PEP-24, X-02)."""
    return not is_call(context, resource_type=resource_type) or isinstance(context.get("arguments_hash"), str)


def is_call(context: Mapping[str, Any], *, resource_type: str) -> bool:
    """Whether a question is about the call of a tool, shown or not, with whatever arguments."""
    return resource_type == TOOL or TOOL_CALL in context or "arguments_hash" in context


def shown_call(context: Mapping[str, Any]) -> str:
    """Which call `context` shows, to be told from any other: `absent`, or `whole:` or `partial:` and its digest.

    Raises:
        Unrepresentable: The call has no canonical form, so no later one could be compared with it.
    """
    if TOOL_CALL not in context:
        return ABSENT
    return f"{'whole' if is_whole(context) else 'partial'}:{digest(context[TOOL_CALL])}"


def is_whole(context: Mapping[str, Any]) -> bool:
    """Whether `context` shows a call with all its arguments; that they are the bound ones is for `flaw_of` to say."""
    call = context.get(TOOL_CALL)
    return isinstance(call, Mapping) and call.get("complete", True) is True


def hides_arguments(context: Mapping[str, Any]) -> bool:
    """Whether arguments are bound that nobody was shown, or not all of them (X-42)."""
    return "arguments_hash" in context and not is_whole(context)
