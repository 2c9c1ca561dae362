"""What the local backend reads from a question about a call, and what identifies that call. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from arap_service.protocol.canonical import TOOL_CALL, Unrepresentable, digest
from mcp_gate.mapping import AGENT, ARGUMENTS_HASH, SERVER

_METHOD: Final = "name"


@dataclass(frozen=True, slots=True)
class AskedCall:
    """The tool that would be called, None when the question is about another method, and the digest of the call.

    The digest covers subject, server, tool, the hash of the arguments and the agent; None when the arguments have no
    exact form, so that nobody can approve them.
    """

    tool: str | None
    method: str
    digest: str | None


def asked_call(question: Mapping[str, Any]) -> AskedCall:
    """What `question` is about; every member is the gate's own and cannot come from a mapping."""
    context: Mapping[str, Any] = question.get("context", {})
    method = str(question["action"].get(_METHOD, ""))
    call = context.get(TOOL_CALL)
    if not isinstance(call, Mapping):
        return AskedCall(None, method, None)
    tool = str(call["tool"])
    if ARGUMENTS_HASH not in context:
        return AskedCall(tool, method, None)
    bound = {
        "v": 1,
        "subject": question["subject"],
        "server": context.get(SERVER),
        "tool": tool,
        "arguments_hash": context[ARGUMENTS_HASH],
        "agent": context.get(AGENT),
    }
    try:
        return AskedCall(tool, method, digest(bound))
    except Unrepresentable:
        return AskedCall(tool, method, None)
