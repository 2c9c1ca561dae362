"""How a task looks to its client: `tasks/get`, and the fields that `CreateTaskResult` shares with it. Pure.

MCP Tasks extension, "Task"; SEP-2848, "Lifecycle and task status". Nothing of the backend's is in it (PEP-126).
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from mcp_gate.backend import InputQuestion
from mcp_gate.lifecycle import DISPOSITIONS, GateTask, Phase, mcp_status
from mcp_gate.limits import Limits
from mcp_gate.store import View
from mcp_gate.tables import InputState
from mcp_gate.texts import ENDED, WORKING, Wording, sanitised, sanitised_tree

Json = dict[str, Any]

INTERNAL_ERROR: Final = -32603
MESSAGE_CHARACTERS: Final = 2000
_PRIMITIVES: Final = frozenset({"string", "number", "integer", "boolean"})


def instant(value: datetime) -> str:
    """RFC 3339 in UTC, to the millisecond."""
    return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def task_fields(task: GateTask, limits: Limits) -> Json:
    """The fields of every task; `ttlMs` is always an integer, because a null doesn't survive every serializer."""
    text = WORKING[task.phase] if task.cause is None else ENDED[task.cause]
    fields: Json = {
        "taskId": task.id,
        "status": mcp_status(task.phase, task.ending),
        "statusMessage": text,
        "createdAt": instant(task.created_at),
        "lastUpdatedAt": instant(task.updated_at),
        "ttlMs": task.ttl_ms,
    }
    if task.phase is not Phase.DONE:
        fields["pollIntervalMs"] = int(limits.client_poll / timedelta(milliseconds=1))
    return fields


def task_view(view: View, *, limits: Limits, wording: Wording) -> Json:
    """The result of `tasks/get`."""
    task = view.stored.task
    body: Json = {"resultType": "complete", **task_fields(task, limits)}
    if task.phase is Phase.INPUT:
        body["inputRequests"] = {
            question.key: elicitation(question.request)
            for question in view.questions
            if question.state is InputState.OPEN and question.generation == task.generation
        }
    if task.ending in DISPOSITIONS and task.cause is not None:
        body["result"] = dict(view.result) if view.result is not None else wording.completed(task.cause)
    if body["status"] == "failed":  # PEP-89: always a JSON-RPC error object
        body["error"] = {"code": INTERNAL_ERROR, "message": body["statusMessage"]}
    if task.phase is not Phase.DONE and (envelope := wording.envelope_of(task.phase, task.ending)):
        body["_meta"] = envelope  # PEP-11: as long as the task is open, its claim included
    return body


def is_elicitable(schema: Mapping[str, Any]) -> bool:
    """Whether MCP's forms can carry a question: an object of primitive members, or of choices among texts."""
    properties = schema.get("properties")
    if schema.get("type") != "object" or not isinstance(properties, Mapping) or not properties:
        return False
    return all(
        isinstance(member, Mapping) and _is_primitive(member) and sanitised(name) == name
        for name, member in properties.items()
    )


def _is_primitive(member: Mapping[str, Any]) -> bool:
    if member.get("type") == "array":
        items = member.get("items")
        return isinstance(items, Mapping) and ("enum" in items or "anyOf" in items)
    return member.get("type") in _PRIMITIVES


def elicitation(request: InputQuestion) -> Json:
    """The backend's question as an input request; its words are untrusted, so they are sanitised (PEP-127)."""
    properties, required = request.schema["properties"], request.schema.get("required")
    requested: Json = {"type": "object", "properties": sanitised_tree(properties)}
    if isinstance(required, list):
        requested["required"] = [sanitised(name) for name in required if isinstance(name, str)]
    message = sanitised(request.message, most=MESSAGE_CHARACTERS)
    return {
        "method": "elicitation/create",
        "params": {"mode": "form", "message": message, "requestedSchema": requested},
    }
