"""What a person sees of his own requests, and does about them: how one stands, answer a question, withdraw it.

Nothing that reviewers alone may see is in here: neither who decides or has decided, nor what they say to each other; a
reason for a denial only where the template tells it. To anybody else there is no such request. Design.md section 7.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from sqlmodel import Session

from arap_service.context import Context
from arap_service.cursors import cursor, read_cursor
from arap_service.domain.callers import Caller
from arap_service.domain.errors import ArapError, InputInvalid, InvalidRequest, TaskExpired, UnknownTask
from arap_service.domain.forms import FormField, fields_of, read, unaskable
from arap_service.domain.revealing import reveal
from arap_service.domain.visible import visible
from arap_service.protocol.arap import parse_instant
from arap_service.records import Part, task_seal
from arap_service.requests.conversation import answer_within, asked_in
from arap_service.requests.decisions import expire_if_due
from arap_service.requests.handles import revealed_decision
from arap_service.requests.owning import ownership_of
from arap_service.requests.telling import effect_sentence
from arap_service.sealed import RowSeal
from arap_service.store import conversations, items, own_requests, tasks, votes
from arap_service.store.approvals import USES
from arap_service.store.database import WriteSession
from arap_service.store.tables import Approval, Execution, Task
from arap_service.views import ArgumentView, Page, argument_view

_KIND: Final = "own"
_ROOT: Final = "requested_access"
_NOT_ACCEPTED: Final = "This is not accepted as it stands. Please look at what is asked for."


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnPart:
    """A request, or one thing of a request for several, as who asked for it sees it.

    `until` is how long it may be used, once it is approved; `approval` is active, revoked or superseded; `reported` is
    what was said of its use; `reason` and `proposed` are what he may know of a denial: why, and what to ask instead.
    """

    item: int
    text: str
    status: str
    until: datetime | None
    approval: str | None
    reported: str | None
    reason: str | None
    proposed: tuple[ArgumentView, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnQuestion:
    """What a reviewer asks; without `fields` only the system that sent the request can answer.

    `messages` stand beside the fields that they name, the one for no field under an empty name; `typed` is what was
    typed.
    """

    number: int
    message: str
    fields: tuple[FormField, ...]
    messages: Mapping[str, str] = field(default_factory=dict)
    typed: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRequest:
    """One request of the reader's own; `parts` are several where it asks for several things."""

    id: str
    status: str
    title: str
    explanation: str
    subject: Mapping[str, Any]
    agent: str | None
    created_at: datetime
    deadline: datetime
    ended_at: datetime | None
    parts: tuple[OwnPart, ...]
    question: OwnQuestion | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRow:
    """One line of the list; `is_asked` says that a question waits for the reader's answer."""

    id: str
    status: str
    text: str
    agent: str | None
    created_at: datetime
    deadline: datetime
    is_asked: bool


async def own_requests_page(ctx: Context, caller: Caller, *, after: str | None, limit: int) -> Page[OwnRow]:
    """The caller's own requests, the newest first.

    Raises:
        InvalidRequest: The cursor is none.
    """
    place = None if after is None else _place(after)

    def look(session: Session) -> Page[OwnRow]:
        owns, now = ownership_of(session, caller), ctx.clock()
        found = own_requests.requests_of(
            session, subjects=owns.subjects, submitters=owns.submitters, now=now, after=place, limit=limit + 1
        )
        shown = found[:limit]
        more = cursor(_KIND, shown[-1].created_at.isoformat(), shown[-1].id) if len(found) > limit else None
        return Page(tuple(_row(ctx, session, task, now=now) for task in shown), more)

    return await ctx.database.read(look)


async def own_request(ctx: Context, caller: Caller, task_id: str) -> OwnRequest:
    """One request of the caller's own.

    Raises:
        UnknownTask: There is no such request for this person.
        TaskExpired: It was his, and is not kept any more.
    """

    def look(session: Session) -> OwnRequest:
        return _told(ctx, session, _own(ctx, session, caller, task_id))

    return await ctx.database.read(look)


async def answer_own(
    ctx: Context, caller: Caller, task_id: str, *, number: int, typed: Mapping[str, str]
) -> OwnQuestion | None:
    """Answer the open question; the question with what is wrong with the answer, or None once it is kept.

    Raises:
        UnknownTask, TaskExpired: As `own_request`.
        InvalidTaskState, StaleVersion: Nothing is asked any more, or something else is.
    """

    def look(session: Session) -> OwnQuestion | None:
        return _told(ctx, session, _own(ctx, session, caller, task_id)).question

    def work(session: WriteSession) -> ArapError | None:
        task = _own(ctx, session, caller, task_id, for_update=True)
        expire_if_due(ctx, session, task, now=ctx.clock())
        by = f"person:{caller.person_id}"
        return answer_within(ctx, session, task, by=by, version=number, given=given)

    question = await ctx.database.read(look)
    given: Mapping[str, Any] = {}
    if question is not None:
        found = read(question.fields, typed)
        if found.messages:
            return replace(question, messages=found.messages, typed=typed)
        given = found.values.get(_ROOT, {})
    fault = await ctx.database.write(work)
    if isinstance(fault, InputInvalid) and question is not None:
        return replace(question, messages=_beside(question, fault), typed=typed)
    if fault is not None:
        raise fault
    ctx.log.info("question_answered", task_id=task_id)
    return None


def _beside(question: OwnQuestion, fault: InputInvalid) -> dict[str, str]:
    """What the question's schema does not accept, beside the fields that it is about."""
    messages: dict[str, str] = {}
    for error in fault.extra.get("errors", ()):
        place = str(error["pointer"]).replace("/input", f"/{_ROOT}", 1)
        name = next((each.name for each in question.fields if (place + "/").startswith(each.pointer + "/")), "")
        messages.setdefault(name, _NOT_ACCEPTED)
    return messages or {"": _NOT_ACCEPTED}


def _place(text: str) -> tuple[datetime, str]:
    at, task_id = read_cursor(text, _KIND, str, str)
    try:
        if tasks.is_storable(str(task_id)):
            return parse_instant(str(at)), str(task_id)
    except ValueError:
        pass
    raise InvalidRequest("The cursor is not one of this list.", pointer="/cursor")


def _own(ctx: Context, session: Session, caller: Caller, task_id: str, *, for_update: bool = False) -> Task:
    owns, task = ownership_of(session, caller), tasks.find_task(session, task_id, for_update=for_update)
    if task is None or not owns.holds(task):
        raise UnknownTask  # ARS-63: what is not his looks as if it were not there
    if ctx.clock() >= task.expires_at:
        raise TaskExpired
    return task


def _row(ctx: Context, session: Session, task: Task, *, now: datetime) -> OwnRow:
    is_open = task.status == "pending" and now < task.pending_until
    return OwnRow(
        id=task.id,
        status="expired" if task.status == "pending" and not is_open else task.status,
        text=_text(session, task, task_seal(task, ctx.ring)),
        agent=None if task.agent is None else visible(task.agent),
        created_at=task.created_at,
        deadline=task.pending_until,
        is_asked=is_open and conversations.open_question(session, task.id) is not None,
    )


def _text(session: Session, task: Task, seal: RowSeal) -> str:
    if not task.item_count:
        return effect_sentence(Part(task), seal)
    first = items.items_of(session, [task.id])[0]
    return f"{effect_sentence(Part(task, first), seal).removesuffix('.')}, and {task.item_count - 1} more"


def _told(ctx: Context, session: Session, task: Task) -> OwnRequest:
    seal, now = task_seal(task, ctx.ring), ctx.clock()
    parts = [Part(task, row) for row in items.items_of(session, [task.id])] if task.item_count else [Part(task)]
    is_open = task.status == "pending" and now < task.pending_until
    titles = {str(part.own.template["title"]) for part in parts}
    return OwnRequest(
        id=task.id,
        status="expired" if task.status == "pending" and not is_open else task.status,
        title=titles.pop() if len(titles) == 1 else "Several things together",
        explanation="" if task.item_count else str(task.template["explanation"]),
        subject={"type": visible(task.subject_type), "id": visible(task.subject_id)},
        agent=None if task.agent is None else visible(task.agent),
        created_at=task.created_at,
        deadline=task.pending_until,
        ended_at=task.ended_at,
        parts=tuple(_part(session, part, seal, is_late=not is_open) for part in parts),
        question=_question(ctx, session, task) if is_open else None,
    )


def _part(session: Session, part: Part, seal: RowSeal, *, is_late: bool) -> OwnPart:
    own = part.own
    approval = votes.approval_of(session, part.task.id, item=part.item)
    told = revealed_decision(part, seal) or {}
    reason = told.get("reason")
    return OwnPart(
        item=part.item,
        text=effect_sentence(part, seal),
        status="expired" if own.status == "pending" and is_late else own.status,
        until=None if approval is None else approval.approved_until,
        approval=None if approval is None else approval.status,
        reported=_reported(votes.executions_of(session, part.task.id, item=part.item), approval),
        reason=visible(reason) if isinstance(reason, str) else None,
        proposed=_proposed(told.get("proposed_arguments"), mask=own.template["mask"]),
    )


def _proposed(arguments: object, *, mask: Sequence[str]) -> tuple[ArgumentView, ...]:
    shown = reveal(arguments, allowed="whole", mask=mask).shown if isinstance(arguments, Mapping) else ()
    return tuple(map(argument_view, shown))


def _reported(reports: Any, approval: Approval | None) -> str | None:
    said: list[Execution] = [each for each in reports if approval is not None and each.approval_id == approval.id]
    used = [each.disposition for each in said if each.disposition in USES]
    return used[0] if used else said[-1].disposition if said else None


def _question(ctx: Context, session: Session, task: Task) -> OwnQuestion | None:
    found = conversations.open_question(session, task.id)
    if found is None:
        return None
    asked = asked_in(ctx, task, found)
    schema = {"properties": {_ROOT: asked["schema"]}, "$defs": asked["schema"].get("$defs", {})}
    fields = () if unaskable(schema) else fields_of(schema, context={}, bound=())
    return OwnQuestion(number=found.number, message=visible(asked["message"]), fields=fields)
