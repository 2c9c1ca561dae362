"""Counter-proposals: a denial that carries other arguments, with which the agent may call anew.

Nothing that was bound ever changes by one. It is a JSON object within limits, sealed like a reason, and told to the
requester whole; what the reviewer was not shown is not in one that he made from the shown values. See design.md
section 5, "Denial".
"""

import json
from collections.abc import Mapping
from itertools import islice
from typing import Any, Final

from sqlmodel import Session

from arap_service.context import Context
from arap_service.domain.callers import Caller
from arap_service.domain.errors import ArapError, InputInvalid, InvalidRequest, UnknownTask
from arap_service.domain.foreign_schemas import SchemaRefused, cautious
from arap_service.domain.revealing import told
from arap_service.protocol.canonical import (
    InvalidJson,
    Unrepresentable,
    canonical,
    json_pointer,
    same_json,
    strict_loads,
)
from arap_service.records import Part, asked_of, task_seal
from arap_service.requests.grounds import grounds_of
from arap_service.requests.voters import board_of, decider_of, may_see
from arap_service.store import items, tasks

MAX_BYTES: Final = 65_536
MAX_DEPTH: Final = 64
POINTER: Final = "/proposed_arguments"
_MOST_ERRORS: Final = 20
_LACKING: Final = frozenset({"required", "minProperties", "dependentRequired"})
_YES_NO: Final[Mapping[str, bool]] = {"true": True, "false": False, "yes": True, "no": False}


def check_shape(decision: str, proposed: Mapping[str, Any]) -> None:
    """Insist that a proposal goes with a denial and is an object that can be carried exactly.

    Raises:
        InvalidRequest: It is not.
    """
    if decision != "deny":
        raise InvalidRequest("Only a denial proposes other arguments.", pointer=POINTER)
    try:
        text = canonical(dict(proposed))
        if len(text) > MAX_BYTES:
            raise InvalidRequest(f"Proposed arguments may have {MAX_BYTES} bytes.", pointer=POINTER)
        strict_loads(text, max_depth=MAX_DEPTH)
    except (InvalidJson, Unrepresentable) as fault:
        raise InvalidRequest(
            "The proposed arguments are not what arguments can be.", pointer=POINTER + fault.pointer
        ) from None


def proposal_fault(part: Part, proposed: Mapping[str, Any], call: Mapping[str, Any] | None) -> ArapError | None:
    """Why other arguments cannot be proposed for this request; `call` is what it calls."""
    if call is None:
        return InvalidRequest("This request calls no tool that could be called otherwise.", pointer=POINTER)
    if not part.own.template.get("reveal_reason"):
        return InvalidRequest("Requests of this kind tell the requester nothing of a denial.", pointer=POINTER)
    if same_json(dict(call.get("arguments", {})), dict(proposed)):
        return InputInvalid("Nothing else is proposed.", errors=[{"pointer": POINTER, "code": "unchanged"}])
    if errors := _misfits(call.get("input_schema"), proposed):
        return InputInvalid("The tool does not take what is proposed.", errors=errors)
    return None


def _misfits(schema: object, proposed: Mapping[str, Any]) -> list[Mapping[str, str]]:
    """What the tool's own schema says against a proposal; what is missing may be what the proposer was not shown."""
    if not isinstance(schema, Mapping):
        return []
    try:
        validator = cautious(schema)
    except SchemaRefused:
        return []  # a schema that is none, or would hold everybody up, says nothing
    return [
        {"pointer": POINTER + json_pointer(error.instance_path), "code": str(error.kind.name)}
        for error in islice(validator.iter_errors(dict(proposed)), _MOST_ERRORS)
        if error.kind.name not in _LACKING
    ]


def call_of(part: Part, asked: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The call that a request or item makes, if it makes one."""
    is_called = part.task.tool is not None and (part.row is None or part.own.resource_id == part.task.tool)
    return asked.get("tool_call", {}) if is_called else None


async def amended(
    ctx: Context, caller: Caller, task_id: str, changes: Mapping[str, str], *, item: int | None = None
) -> dict[str, Any]:
    """The arguments that the caller is shown, with `changes` (JSON pointer to text) in them; nothing is recorded.

    Secrets and what is hidden stay out: the agent knows its own. A changed value keeps its type.

    Raises:
        UnknownTask: There is no such request for this caller.
        InvalidRequest: It calls no tool.
        InputInvalid: A change is no value of the type, or of nothing that is shown.
    """

    def read(session: Session) -> dict[str, Any]:
        task = tasks.find_task(session, task_id)
        row = None if task is None or item is None else items.find_item(session, task.id, item)
        if task is None or (item is not None and row is None):
            raise UnknownTask
        part, board = Part(task, row), board_of(session, task)
        if ctx.clock() >= task.expires_at or not may_see(
            caller, board.of(part.item), decider_of(session, caller, grounds_of(ctx))
        ):
            raise UnknownTask
        call = call_of(part, asked_of(part, task_seal(task, ctx.ring)))
        if call is None:
            raise InvalidRequest("This request calls no tool that could be called otherwise.", pointer=POINTER)
        template = part.own.template
        shown: dict[str, Any] = told(call.get("arguments", {}), allowed=template["reveal"], mask=template["mask"])
        return shown

    arguments = await ctx.database.read(read)
    errors = [
        {"pointer": POINTER + pointer, "code": "type"}
        for pointer, text in changes.items()
        if not _change(arguments, pointer, text)
    ]
    if errors:
        raise InputInvalid("A proposed value is not of its kind.", errors=errors)
    return arguments


def _change(arguments: Any, pointer: str, text: str) -> bool:
    *way, last = [name.replace("~1", "/").replace("~0", "~") for name in pointer.split("/")[1:]]
    here: Any = arguments
    try:
        for name in way:
            here = here[int(name)] if isinstance(here, list) else here[name]
        place = int(last) if isinstance(here, list) else last
        here[place] = _typed(here[place], text)
    except (KeyError, IndexError, TypeError, ValueError, RecursionError):
        return False
    return True


def _typed(value: Any, text: str) -> Any:
    """`text` as a value of the kind that it replaces."""
    if isinstance(value, str):
        return text
    if isinstance(value, bool):
        return _YES_NO[text.strip().casefold()]
    other = json.loads(text)
    is_alike = type(other) in {int, float} if isinstance(value, int | float) else type(other) is type(value)
    if value is not None and not is_alike:
        raise ValueError("another kind")
    return other
