"""Two ordinary tools for clients without tasks: one requests an approval, the other tells what became of it.

Off unless the operator switches them on (PEP-05). They say what `tasks/get` would say, to the same principals, and
nothing else (PEP-06). A server's own tools of these names are hidden by them. SEP-2848, "Client maturity".
"""

from collections.abc import Mapping
from typing import Any, Final

from mcp_gate.errors import InvalidParams
from mcp_gate.texts import COMPLETE, ENVELOPE, NO_APPROVAL_NEEDED, REQUESTED, sanitised

Json = dict[str, Any]

REQUEST_ACCESS: Final = "request_access"
GET_STATUS: Final = "get_request_status"
PAIR: Final = frozenset({REQUEST_ACCESS, GET_STATUS})
LISTING: Final = "tools"
_SHOWN: Final = ("taskId", "status", "statusMessage", "createdAt", "lastUpdatedAt", "ttlMs", "pollIntervalMs")

TOOLS: Final[tuple[Json, ...]] = (
    {
        "name": REQUEST_ACCESS,
        "title": "Request an approval",
        "description": (
            "Requests the approval of one call of another tool, for calls that were refused for want of one. Give the "
            "tool's name and exactly the arguments of the call. After an approval the call is carried out once, by "
            f"itself; ask {GET_STATUS} for its result, and do not repeat the call."
        ),
        "inputSchema": {
            "type": "object",
            "properties": {"tool": {"type": "string"}, "arguments": {"type": "object"}},
            "required": ["tool"],
            "additionalProperties": False,
        },
        "annotations": {"readOnlyHint": False, "idempotentHint": True},
    },
    {
        "name": GET_STATUS,
        "title": "Look after a requested approval",
        "description": f"Tells what became of a call whose approval {REQUEST_ACCESS} requested, and its result.",
        "inputSchema": {
            "type": "object",
            "properties": {"task_id": {"type": "string"}},
            "required": ["task_id"],
            "additionalProperties": False,
        },
        "annotations": {"readOnlyHint": True},
    },
)


def listed(result: Mapping[str, Any], *, shown: bool) -> Json:
    """A page of `tools/list` without others of these names, and with the two on the last page if they are `shown`."""
    tools = result.get(LISTING)
    if not isinstance(tools, list):
        return dict(result)
    others = [tool for tool in tools if not (isinstance(tool, dict) and tool.get("name") in PAIR)]
    own = [dict(tool) for tool in TOOLS] if shown and result.get("nextCursor") is None else []
    return {**result, LISTING: others + own}


def wanted_call(arguments: Mapping[str, Any]) -> tuple[str, Json]:
    """The tool and the arguments that an approval is wanted for.

    Raises:
        InvalidParams: They are none, or are about one of the two tools themselves.
    """
    tool, given = arguments.get("tool"), arguments.get("arguments", {})
    if not isinstance(tool, str) or not isinstance(given, dict) or arguments.keys() - {"tool", "arguments"}:
        raise InvalidParams(f"{REQUEST_ACCESS} needs `tool`, a text, and `arguments`, an object")
    if tool in PAIR:
        raise InvalidParams(f"{tool} needs no approval")
    return tool, given


def wanted_task(arguments: Mapping[str, Any]) -> str:
    """The task that is asked about.

    Raises:
        InvalidParams: None is named.
    """
    task_id = arguments.get("task_id")
    if not isinstance(task_id, str) or arguments.keys() - {"task_id"}:
        raise InvalidParams(f"{GET_STATUS} needs `task_id`, a text")
    return task_id


def requested(answer: Mapping[str, Any] | None) -> Json:
    """What `request_access` says, from what a call with tasks would have been answered; None is a permitted call."""
    if answer is None:
        return _result(NO_APPROVAL_NEEDED, is_error=False)
    if answer.get("resultType") != "task":
        return dict(answer)
    text = REQUESTED.format(task_id=answer["taskId"], tool=GET_STATUS)
    envelope = answer.get("_meta", {}).get(ENVELOPE)
    # No hint at a task: this client has none.
    hinted = None if envelope is None else {key: envelope[key] for key in ("reason", "remediation")}
    return {
        **_result(text, is_error=False),
        "structuredContent": _state(answer),
        **({} if hinted is None else {"_meta": {ENVELOPE: hinted}}),
    }


def told(state: Mapping[str, Any]) -> Json:
    """What `get_request_status` says, from what `tasks/get` says: the call's own result as soon as there is one."""
    if state["status"] == "completed":
        return dict(state["result"])
    if state["status"] == "failed":
        return _result(sanitised(str(state.get("error", {}).get("message", ""))), is_error=True)
    ended = state["status"] == "cancelled"
    return {**_result(str(state.get("statusMessage", "")), is_error=ended), "structuredContent": _state(state)}


def _state(task: Mapping[str, Any]) -> Json:
    return {name: task[name] for name in _SHOWN if name in task}


def _result(text: str, *, is_error: bool) -> Json:
    return {"resultType": COMPLETE, "content": [{"type": "text", "text": text}], "isError": is_error}
