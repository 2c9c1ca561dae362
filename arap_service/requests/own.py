"""What an enforcement point does with its own requests: look at one, withdraw it, report what became of it.

Each operation has its right of its own (ARS-66, ARS-74). A request belongs to the principal and client that submitted
it; for everybody else it does not exist, byte for byte (ARS-63, ARS-67, ARS-68).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from pydantic import JsonValue
from sqlalchemy.exc import IntegrityError
from sqlmodel import Session

from arap_service.context import Context
from arap_service.domain.callers import Caller, Scope
from arap_service.domain.errors import ArapError, Forbidden, InvalidRequest, InvalidTaskState, TaskExpired, UnknownTask
from arap_service.domain.task import Cancel
from arap_service.protocol.arap import parse_instant
from arap_service.records import Part, task_seal
from arap_service.requests.decisions import expire_if_due, find_part
from arap_service.requests.endings import REQUESTS, Cause, end, record, task_topic
from arap_service.requests.grounds import grounds_of
from arap_service.requests.handles import handle_of, response
from arap_service.requests.owning import ownership_of
from arap_service.requests.reviews import note_use
from arap_service.requests.voters import Board, Decider, board_of, decider_of, is_named, may_see
from arap_service.store import items, tasks, votes
from arap_service.store.database import WriteSession
from arap_service.store.tables import Approval, Execution, Task

DISPOSITIONS: Final = frozenset(
    {"approved-executed", "denied-not-executed", "execution-error", "outcome-unknown", "cancelled", "failed"}
)
_RAN: Final = frozenset({"approved-executed", "execution-error", "outcome-unknown"})
MAX_TEXT: Final = 2000


async def status(ctx: Context, caller: Caller, task_id: str) -> dict[str, Any]:
    """The task as it stands, with its result for a caller who may have it.

    Raises:
        UnknownTask: There is no such task for this caller.
        TaskExpired: There was one.
        Forbidden: It is his, but he may not look.
    """

    def look(session: Session) -> dict[str, Any] | None:
        task = own_task(ctx, session, caller, task_id)
        caller.require(Scope.STATUS)
        if task.status == "pending" and ctx.clock() >= task.pending_until:
            return None
        return _wire(ctx, session, caller, task)

    def expire(session: WriteSession) -> dict[str, Any]:
        task = own_task(ctx, session, caller, task_id)
        expire_if_due(ctx, session, task, now=ctx.clock())
        return _wire(ctx, session, caller, task)

    found = await ctx.database.read(look)
    return found if found is not None else await ctx.database.write(expire)


def _wire(ctx: Context, session: Session, caller: Caller, task: Task) -> dict[str, Any]:
    seal = task_seal(task, ctx.ring)
    return response(session, task, ctx.settings, may_have=caller.may(Scope.RESULT), seal=seal)


def own_task(ctx: Context, session: Session, caller: Caller, task_id: str, *, for_update: bool = False) -> Task:
    """The caller's own task, as long as it is kept; `for_update` makes others wait who ask so.

    Raises:
        UnknownTask: There is no such task for this caller.
        TaskExpired: There was one.
    """
    now, task = ctx.clock(), tasks.find_task(session, task_id, for_update=for_update)
    if task is not None:
        if not _is_own(caller, task.submitter, task.client_id):
            raise UnknownTask
        if now >= task.expires_at:
            raise TaskExpired  # ARS-62
        return task
    tombstone = tasks.find_tombstone(session, task_id)
    is_known = tombstone is not None and _is_own(caller, tombstone.submitter, tombstone.client_id)
    if is_known and tombstone is not None and now < tombstone.keep_until:
        raise TaskExpired
    raise UnknownTask


def _is_own(caller: Caller, submitter: str, client_id: str) -> bool:
    return caller.principal == submitter and caller.client_id == client_id


async def cancel(ctx: Context, caller: Caller, task_id: str, body: Mapping[str, Any] | None) -> dict[str, Any]:
    """Withdraw a pending request; the task as it stands then.

    The requester's client needs `arap:cancel`. On the human surface the requester, an approver whom a step names and an
    administrator may cancel as well (ARS-76).

    Raises:
        UnknownTask, TaskExpired: There is no such task for this caller, or no longer.
        Forbidden: He may not cancel it.
        InvalidTaskState: It has ended already.
        InvalidRequest: The body is malformed.
    """
    wrote = _cancellation(body)

    def work(session: WriteSession) -> dict[str, Any] | ArapError:
        return _cancel(ctx, session, caller, task_id, wrote)

    outcome = await ctx.database.write(work)
    if isinstance(outcome, ArapError):
        raise outcome
    ctx.log.info("task_cancelled", task_id=task_id)
    return outcome


def _cancel(
    ctx: Context, session: WriteSession, caller: Caller, task_id: str, wrote: Mapping[str, str]
) -> dict[str, Any] | ArapError:
    now, (task, actor, role) = ctx.clock(), _canceller(ctx, session, caller, task_id)
    if expire_if_due(ctx, session, task, now=now) and task.status != "pending":
        return InvalidTaskState(current=task.status, version=task.version)
    ended = end(ctx, session, task, Cancel(), Cause(actor, role, wrote=wrote or None), now=now)
    if isinstance(ended, Task):
        return {"task": handle_of(session, ended, ctx.settings, seal=task_seal(ended, ctx.ring))}
    session.refresh(task)
    return InvalidTaskState(current=task.status, version=task.version)  # ARS-73


def _canceller(ctx: Context, session: Session, caller: Caller, task_id: str) -> tuple[Task, str, str]:
    """The task, who cancels it, and in which role."""
    task = tasks.find_task(session, task_id)
    if task is None or _is_own(caller, task.submitter, task.client_id):
        own = own_task(ctx, session, caller, task_id)
        caller.require(Scope.CANCEL)
        return own, caller.principal, "requester"
    decider, board = decider_of(session, caller, grounds_of(ctx)), board_of(session, task)
    is_administrator = caller.may(Scope.ADMIN)
    is_requester = caller.channel == "desk" and ownership_of(session, caller).holds(task)
    if not (is_administrator or is_requester or may_see(caller, board, decider)):
        raise UnknownTask
    if ctx.clock() >= task.expires_at:
        raise TaskExpired
    if is_administrator:
        return task, decider.actor, "administrator"
    if caller.may(Scope.APPROVAL_RESOLVE) and _is_named_throughout(session, task, board, decider):
        return task, decider.actor, "approver"
    if is_requester:
        return task, decider.actor, "requester"
    raise Forbidden("Only the requester, an approver or an administrator may withdraw this request.")


def _is_named_throughout(session: Session, task: Task, board: Board, decider: Decider) -> bool:
    """Whether every part that would be withdrawn names the decider; one who decides one item withdraws no other."""
    if not task.item_count:
        return is_named(board, decider)
    rows = items.items_of(session, [task.id])
    return all(is_named(board.of(row.item), decider) for row in rows if row.status == "pending")


def _cancellation(body: Mapping[str, Any] | None) -> dict[str, str]:
    wrote: dict[str, str] = {}
    for name in ("reason", "comment"):
        text = (body or {}).get(name)
        if text is None:
            continue
        if not isinstance(text, str) or len(text) > MAX_TEXT:
            raise InvalidRequest(f"A text of at most {MAX_TEXT} characters is wanted.", pointer=f"/{name}")
        wrote[name] = text
    return wrote


async def report(
    ctx: Context, caller: Caller, task_id: str, body: Mapping[str, Any], *, item: int | None = None
) -> None:
    """Record what an enforcement point says became of an approval; the same report twice is one.

    Of a bundle it is the approval of one item, counted from 1.

    Raises:
        UnknownTask, TaskExpired: There is no such task for this caller, or no longer.
        Forbidden: He may not report.
        InvalidRequest: The body is malformed.
        InvalidTaskState: The request was never approved.
    """
    said = _reported(body)

    def work(session: WriteSession) -> None:
        task = own_task(ctx, session, caller, task_id)
        caller.require(Scope.REPORT)
        part = find_part(session, task, item)
        approval = None if part is None else votes.approval_of(session, task.id, item=part.item)
        if part is None or approval is None:
            raise InvalidTaskState("There is no approval to report on.", current=task.status, version=task.version)
        _keep(ctx, session, caller, _Report(part, approval, *said))

    try:
        await ctx.database.write(work)
    except IntegrityError:
        await ctx.database.write(work)  # the same report was committed meanwhile: the second look finds it
    ctx.log.info("execution_reported", task_id=task_id, disposition=said[0])


@dataclass(frozen=True, slots=True)
class _Report:
    """What was said about which approval."""

    part: Part
    approval: Approval
    disposition: str
    at: datetime
    generation: int


def _keep(ctx: Context, session: WriteSession, caller: Caller, said: _Report) -> None:
    task, approval, now = said.part.task, said.approval, ctx.clock()
    if votes.find_execution(session, approval, generation=said.generation, disposition=said.disposition) is not None:
        return
    session.add(
        Execution(
            id=ctx.new_id("exe"),
            task_id=task.id,
            approval_id=approval.id,
            generation=said.generation,
            disposition=said.disposition,
            at=said.at,
            received_at=now,
            reported_by=caller.principal,
        )
    )
    tasks.bump_task(session, task.id)
    detail: dict[str, JsonValue] = {
        "approval_id": approval.id,
        "disposition": said.disposition,
        "generation": said.generation,
    }
    record(session, said.part, "execution_reported", caller.principal, detail, now=now)
    if said.disposition in _RAN:
        note_use(ctx, session, said.part, approval.id, now=now)
    session.on_commit(task_topic(task.id))
    session.on_commit(REQUESTS)


async def report_on_approval(ctx: Context, caller: Caller, approval_id: str, body: Mapping[str, Any]) -> None:
    """Like `report`, for a caller who knows the approval only.

    Raises:
        UnknownTask: There is no such approval for this caller; otherwise as `report`.
    """
    found = await ctx.database.read(lambda session: votes.find_approval(session, approval_id))
    if found is None or not _is_own(caller, found[1].submitter, found[1].client_id):
        raise UnknownTask
    await report(ctx, caller, found[1].id, body, item=found[0].item or None)


def _reported(body: Mapping[str, Any]) -> tuple[str, datetime, int]:
    disposition, at, generation = body.get("disposition"), body.get("at"), body.get("generation")
    if not isinstance(disposition, str) or disposition not in DISPOSITIONS:
        raise InvalidRequest("The disposition is not known.", pointer="/disposition")
    if type(generation) is not int or not 0 <= generation < 2**31:
        raise InvalidRequest("The generation is a whole number.", pointer="/generation")
    try:
        return disposition, parse_instant(at if isinstance(at, str) else ""), generation
    except ValueError:
        raise InvalidRequest("A timestamp is wanted.", pointer="/at") from None
