"""What people say about an open request: a reviewer's question and its answer, comments, who works on it.

Nothing here decides a request, and nothing changes what was bound; the deadline keeps running. A question and its
answer give the request its next version, so that nobody decides on what he has not read (ARS-118). The requester sees
questions only. See design.md section 5, "Question and answer", and section 6.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from pydantic import JsonValue
from sqlmodel import Session

from arap_service.context import Context
from arap_service.domain.callers import Caller, Scope
from arap_service.domain.errors import (
    ArapError,
    Forbidden,
    IneligibleApprover,
    InputInvalid,
    InvalidRequest,
    InvalidTaskState,
    StaleVersion,
    UnknownTask,
)
from arap_service.domain.foreign_schemas import SchemaRefused, cautious
from arap_service.domain.notices import NoticeKind
from arap_service.domain.visible import is_blank
from arap_service.protocol.canonical import Unrepresentable, digest, json_pointer
from arap_service.records import Part, task_seal
from arap_service.requests.announcing import announce
from arap_service.requests.decisions import expire_if_due, is_text
from arap_service.requests.details import detail, visible_items, why_not
from arap_service.requests.endings import REQUESTS, record, task_topic
from arap_service.requests.grounds import grounds_of
from arap_service.requests.own import own_task
from arap_service.requests.voters import Decider, board_of, decider_of, may_see
from arap_service.store import conversations, items, tasks
from arap_service.store.conversation_tables import Claim, Comment, Question
from arap_service.store.database import WriteSession
from arap_service.store.tables import Task
from arap_service.views import RequestDetail

MAX_TEXT: Final = 2000
MAX_SCHEMA: Final = 20_000
ANSWER: Final[Mapping[str, Any]] = {
    "type": "object",
    "required": ["answer"],
    "properties": {"answer": {"type": "string", "title": "Answer", "minLength": 1, "maxLength": MAX_TEXT}},
}
"""What is asked for when a reviewer gives no schema of his own."""

Work = Callable[[WriteSession, Task, Decider], ArapError | None]


async def ask(
    ctx: Context, caller: Caller, task_id: str, *, message: str, schema: Mapping[str, Any] | None = None
) -> RequestDetail:
    """Ask the requester for more; `schema` describes the object that is wanted, one text by default.

    Raises:
        UnknownTask: There is no such request for this caller.
        Forbidden, IneligibleApprover: The caller may not decide it, nor ask therefore.
        InvalidTaskState: It has ended, or another question waits for its answer.
        InvalidRequest: The message or the schema is none.
    """
    text, wanted = _text(message, "/message"), _schema(schema)

    def work(session: WriteSession, task: Task, decider: Decider) -> ArapError | None:
        if conversations.open_question(session, task.id) is not None:
            return InvalidTaskState("A question is open already.", current=task.status, version=task.version)
        now, question_id = ctx.clock(), ctx.new_id("qst")
        number = len(conversations.questions_of(session, task.id)) + 1
        place = f"question:{question_id}:asked_sealed"
        sealed = task_seal(task, ctx.ring).seal_at(place, {"message": text, "schema": wanted})
        session.add(
            Question(
                id=question_id,
                task_id=task.id,
                number=number,
                asked_by=decider.actor,
                asked_at=now,
                asked_sealed=sealed,
            )
        )
        _changed(session, task)
        record(session, task, "question_asked", decider.actor, {"number": number}, now=now)
        announce(ctx, session, NoticeKind.QUESTION_ASKED, task, now=now, about=str(number), actor=decider.actor)
        return None

    return await _as_reviewer(ctx, caller, task_id, work)


async def question(ctx: Context, caller: Caller, task_id: str) -> dict[str, Any]:
    """The open question of a request of the caller's own: message, JSON Schema, and version to answer to.

    Raises:
        UnknownTask, TaskExpired: There is no such task for this caller, or no longer.
        Forbidden: He may not look.
        InvalidTaskState: Nothing is asked.
    """

    def look(session: Session) -> dict[str, Any]:
        task = own_task(ctx, session, caller, task_id)
        caller.require(Scope.STATUS)
        found = None if ctx.clock() >= task.pending_until else _open(session, task)
        if found is None:
            raise InvalidTaskState("No question is open.", current=task.status, version=task.version)
        asked = asked_in(ctx, task, found)
        return {"message": asked["message"], "schema": asked["schema"], "version": found.number}

    return await ctx.database.read(look)


async def answer(ctx: Context, caller: Caller, task_id: str, *, version: int, given: Mapping[str, JsonValue]) -> None:
    """Answer the open question of a request of the caller's own.

    Raises:
        UnknownTask, TaskExpired: There is no such task for this caller, or no longer.
        Forbidden: He may not submit.
        InvalidTaskState: Nothing is asked, or not any more.
        StaleVersion: Another question is open than the one that this answers.
        InputInvalid: The answer is not what the schema of the question wants.
    """

    def work(session: WriteSession) -> ArapError | None:
        task = own_task(ctx, session, caller, task_id, for_update=True)
        caller.require(Scope.SUBMIT)
        expire_if_due(ctx, session, task, now=ctx.clock())
        return answer_within(ctx, session, task, by=caller.principal, version=version, given=given)

    fault = await ctx.database.write(work)
    if fault is not None:
        raise fault
    ctx.log.info("question_answered", task_id=task_id)


def answer_within(
    ctx: Context, session: WriteSession, task: Task, *, by: str, version: int, given: Mapping[str, JsonValue]
) -> ArapError | None:
    """Keep an answer to the open question of `task`, which the caller of this function holds and may answer for."""
    now, found = ctx.clock(), _open(session, task)
    if found is None:
        return InvalidTaskState("No question is open.", current=task.status, version=task.version)
    if found.number != version:
        return StaleVersion("Another question is open.", current=task.status, version=found.number)
    try:
        validator = cautious(asked_in(ctx, task, found)["schema"])
    except SchemaRefused:  # asked before such schemas were refused; the request can still be decided
        return InputInvalid("The question cannot be answered.", errors=[{"pointer": "/input", "code": "schema"}])
    errors = [
        {"pointer": json_pointer(("input", *error.instance_path)), "code": str(error.kind.name)}
        for error in validator.iter_errors(dict(given))
    ]
    if errors:
        return InputInvalid("The answer is not what was asked for.", errors=errors)
    try:
        said = digest(dict(given))
    except Unrepresentable as fault:  # a number that would be another one to whoever reads it
        pointer = json_pointer(("input",)) + fault.pointer
        return InputInvalid("The answer is not what was asked for.", errors=[{"pointer": pointer, "code": "number"}])
    sealed = task_seal(task, ctx.ring).seal_at(f"question:{found.id}:answer_sealed", dict(given))
    conversations.answer_question(session, found.id, by=by, at=now, sealed=sealed)
    _changed(session, task)
    detail_: dict[str, JsonValue] = {"number": found.number, "digest": said}
    record(session, task, "question_answered", by, detail_, now=now)
    asker = [found.asked_by.removeprefix("person:")] if found.asked_by.startswith("person:") else []
    announce(ctx, session, NoticeKind.QUESTION_ANSWERED, task, now=now, about=str(found.number), people=asker)
    return None


async def comment(ctx: Context, caller: Caller, task_id: str, *, text: str) -> RequestDetail:
    """Say something to the other reviewers; raises as `ask`."""
    said = _text(text, "/text")

    def work(session: WriteSession, task: Task, decider: Decider) -> ArapError | None:
        comment_id, now = ctx.new_id("cmt"), ctx.clock()
        sealed = task_seal(task, ctx.ring).seal_at(f"comment:{comment_id}:text_sealed", said)
        session.add(Comment(id=comment_id, task_id=task.id, by=decider.actor, at=now, text_sealed=sealed))
        record(session, task, "commented", decider.actor, {"comment_id": comment_id}, now=now)
        session.on_commit(task_topic(task.id))
        return None

    return await _as_reviewer(ctx, caller, task_id, work)


async def claim(ctx: Context, caller: Caller, task_id: str) -> RequestDetail:
    """Tell the others that the caller works on it, which keeps nobody from deciding; twice is once. Raises as `ask`."""

    def work(session: WriteSession, task: Task, decider: Decider) -> ArapError | None:
        held, now = conversations.claim_of(session, task.id), ctx.clock()
        if held is not None:
            taken = InvalidTaskState("Somebody else works on it.", current=task.status, version=task.version)
            return None if held.by == decider.actor else taken
        session.add(Claim(id=ctx.new_id("clm"), task_id=task.id, by=decider.actor, at=now))
        record(session, task, "claimed", decider.actor, {}, now=now)
        session.on_commit(task_topic(task.id))
        return None

    return await _as_reviewer(ctx, caller, task_id, work)


async def release(ctx: Context, caller: Caller, task_id: str) -> RequestDetail:
    """Take that back; whoever may decide the request may, so that nobody's absence stays on it. Raises as `ask`."""

    def work(session: WriteSession, task: Task, decider: Decider) -> ArapError | None:
        held, now = conversations.claim_of(session, task.id), ctx.clock()
        if held is None:
            return None
        conversations.release_claim(session, held.id, at=now)
        record(session, task, "released", decider.actor, {"claimed_by": held.by}, now=now)
        session.on_commit(task_topic(task.id))
        return None

    return await _as_reviewer(ctx, caller, task_id, work)


async def _as_reviewer(ctx: Context, caller: Caller, task_id: str, work: Work) -> RequestDetail:
    """Do `work` as somebody who may decide the request, or one of its items, at this moment."""

    def within(session: WriteSession) -> ArapError | None:
        task, now = tasks.find_task(session, task_id, for_update=True), ctx.clock()
        if task is None or now >= task.expires_at:
            return UnknownTask()
        expire_if_due(ctx, session, task, now=now)
        decider, board = decider_of(session, caller, grounds_of(ctx)), board_of(session, task)
        if not may_see(caller, board, decider):
            return UnknownTask()
        if not caller.may(Scope.APPROVAL_RESOLVE):
            return Forbidden(scope=Scope.APPROVAL_RESOLVE)
        if task.status != "pending":
            return InvalidTaskState("The request has ended.", current=task.status, version=task.version)
        parts = [Part(task)]
        if task.item_count:
            parts = visible_items(task, items.items_of(session, [task.id]), board, caller, decider)
        refusals = [why_not(caller, part, board.of(part.item), decider, now=now) for part in parts]
        # Whoever has voted already may still ask, comment and hand over.
        if not {None, "already_decided"}.intersection(refusals):
            return IneligibleApprover(code=next((code for code in refusals if code), None))
        return work(session, task, decider)

    fault = await ctx.database.write(within)
    if fault is not None:
        raise fault
    return await detail(ctx, caller, task_id)


def _open(session: Session, task: Task) -> Question | None:
    return conversations.open_question(session, task.id) if task.status == "pending" else None


def asked_in(ctx: Context, task: Task, asked: Question) -> dict[str, Any]:
    """What was asked: message and schema."""
    opened: dict[str, Any] = task_seal(task, ctx.ring).open_at(f"question:{asked.id}:asked_sealed", asked.asked_sealed)
    return opened


def _changed(session: WriteSession, task: Task) -> None:
    """Give the request, and every item of it that is still open, its next version."""
    tasks.bump_task(session, task.id)
    if task.item_count:
        for row in items.items_of(session, [task.id]):
            items.touch_item(session, task.id, row.item, seen=row.version)
    session.on_commit(task_topic(task.id))
    session.on_commit(REQUESTS)


def _text(text: str, pointer: str) -> str:
    stripped = text.strip()
    if is_blank(stripped) or len(stripped) > MAX_TEXT or not is_text(stripped) or "\x00" in stripped:
        raise InvalidRequest(f"A text of 1 to {MAX_TEXT} characters is wanted.", pointer=pointer)
    return stripped


def _schema(schema: Mapping[str, Any] | None) -> Mapping[str, Any]:
    if schema is None:
        return ANSWER
    try:
        if schema.get("type") == "object" and len(json.dumps(schema)) <= MAX_SCHEMA:
            cautious(schema)
            return schema
    except ValueError:
        pass
    raise InvalidRequest("A JSON Schema of an object that stands by itself is wanted.", pointer="/schema")
