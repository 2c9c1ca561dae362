"""Deciding a request or an item of a bundle, and taking an approval back: the one chokepoint of all surfaces (GOV-09).

Authorises the caller, judges eligibility at this moment, records the vote, and ends the request when the workflow says
so, all in one transaction. A refused attempt by somebody who sees the request is recorded as well. A repeated decision
counts once under an idempotency key; without one, the second meets a newer version and is told the current state.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from opentelemetry.trace import Span
from sqlalchemy.exc import IntegrityError
from sqlmodel import Session

from arap_service.context import Context
from arap_service.domain.callers import Caller, Scope
from arap_service.domain.errors import (
    ArapError,
    DuplicateRequest,
    Forbidden,
    IneligibleApprover,
    InputInvalid,
    InvalidRequest,
    InvalidTaskState,
    StepUpRequired,
    UnknownTask,
)
from arap_service.domain.notices import NoticeKind
from arap_service.domain.reasons import reason_fault
from arap_service.domain.reviewers import Ineligible
from arap_service.domain.step_up import is_fresh
from arap_service.domain.task import Expire, Refused
from arap_service.domain.visible import is_blank
from arap_service.records import Part, asked_of, task_seal
from arap_service.requests.announcing import announce
from arap_service.requests.counting import Choice, Counted, count, state_fault
from arap_service.requests.details import detail
from arap_service.requests.endings import (
    REQUESTS,
    Cause,
    end,
    granted_end,
    record,
    task_topic,
)
from arap_service.requests.grounds import grounds_of
from arap_service.requests.once import once
from arap_service.requests.proposals import call_of, check_shape, proposal_fault
from arap_service.requests.step_times import keep_time
from arap_service.requests.voters import Board, Decider, board_of, decider_of, eligibility, may_see
from arap_service.store import items, tasks, votes
from arap_service.store.database import WriteSession
from arap_service.store.tables import Task, Vote
from arap_service.tracing import spanning
from arap_service.views import RequestDetail

MAX_REASON: Final = 4000


async def decide(
    ctx: Context,
    caller: Caller,
    task_id: str,
    *,
    decision: str,
    version: int,
    reason: str | None = None,
    approved_until: datetime | None = None,
    item: int | None = None,
    may_vary: Sequence[str] | None = None,
    proposed_arguments: Mapping[str, Any] | None = None,
    idempotency_key: str | None = None,
) -> RequestDetail:
    """Approve or deny as the caller, who has seen `version`; the request as it stands afterwards.

    Of a bundle one item is decided, counted from 1, and `version` is that of the item. `may_vary` narrows a scope that
    the template widened to these members, none of them for exactly what was asked. A denial may propose other
    arguments, which the requester is told; what was asked stays what it was.

    Raises:
        UnknownTask: There is no such request for this caller.
        Forbidden, IneligibleApprover: The caller may not decide it.
        StepUpRequired: He may, after a fresh log-in.
        StaleVersion, InvalidTaskState: It is not what the caller has seen, or already ended.
        InvalidRequest, InputInvalid: The decision is not complete.
        DuplicateRequest: The key was used for another decision.
    """
    wide = None if may_vary is None else tuple(may_vary)
    said = None if reason is None or is_blank(reason) else reason.strip()
    choice = Choice(decision, version, said, approved_until, item, wide, proposed_arguments)
    _check_choice(choice)
    if proposed_arguments is not None:
        check_shape(decision, proposed_arguments)
    # A refusal is returned and raised after the commit, because its record has to stay.
    with spanning(ctx.tracer, "arap.decide", attributes={"arap.channel": caller.channel}) as span:
        fault = await _decided(ctx, caller, task_id, choice, key=idempotency_key)
        _note(span, task_id, decision, fault)
    ctx.checkpoint("decide.after_commit")
    if fault is not None:
        ctx.log.info("decision_refused", task_id=task_id, problem=fault.urn)
        raise fault
    ctx.log.info("decision_recorded", task_id=task_id, decision=decision)
    return await detail(ctx, caller, task_id)


async def _decided(ctx: Context, caller: Caller, task_id: str, choice: Choice, *, key: str | None) -> ArapError | None:
    """Decide in one transaction; under the same key the same decision is made once."""
    repeatable = once(caller, key, choice.said(task_id))

    def work(session: WriteSession) -> ArapError | None:
        if repeatable is not None and repeatable.is_done(session):
            return None
        fault = _decide(ctx, session, caller, task_id, choice)
        if repeatable is not None:
            if fault is None:
                repeatable.remember(session, task_id, now=ctx.clock())
            elif repeatable.is_done(session):
                return None  # the same decision was committed while this one waited for it
        ctx.checkpoint("decide.before_commit")
        return fault

    return await _written(ctx, work)


def _note(span: Span, task_id: str, decision: str, fault: ArapError | None) -> None:
    span.set_attribute("arap.outcome", decision if fault is None else fault.urn)
    if fault is None:  # else it may be nothing but what somebody wrote into an address
        span.set_attribute("arap.task_id", task_id)


async def _written(ctx: Context, work: Callable[[WriteSession], ArapError | None]) -> ArapError | None:
    try:
        return await ctx.database.write(work)
    except IntegrityError:
        raise DuplicateRequest from None  # the key was just used for another request


def is_text(text: str) -> bool:
    """Whether `text` can be stored at all; half a surrogate pair cannot."""
    return not any("\ud800" <= char <= "\udfff" for char in text)


def _check_choice(choice: Choice) -> None:
    if choice.decision not in {"approve", "deny"}:
        raise InvalidRequest("The decision is either approve or deny.", pointer="/decision")
    if choice.reason is not None and len(choice.reason) > MAX_REASON:
        raise InvalidRequest(f"The reason may have {MAX_REASON} characters.", pointer="/reason")
    if choice.reason is not None and not is_text(choice.reason):
        raise InvalidRequest("The reason holds half a character.", pointer="/reason")
    if choice.decision == "deny" and choice.approved_until is not None:
        raise InvalidRequest("A denial has no lifetime.", pointer="/approved_until")
    if choice.decision == "deny" and choice.may_vary is not None:
        raise InvalidRequest("A denial has no scope.", pointer="/scope")


def _decide(ctx: Context, session: WriteSession, caller: Caller, task_id: str, choice: Choice) -> ArapError | None:
    """Record the decision; a refusal is returned, with its own record written where the caller may know of the task."""
    now = ctx.clock()
    # Version and votes must be of one moment: who clicked twice has seen an old version, and is not ineligible.
    task = tasks.find_task(session, task_id, for_update=True)
    if task is None or now >= task.expires_at:
        return UnknownTask()
    is_late = expire_if_due(ctx, session, task, now=now)  # before anything is judged: it may let others speak
    decider, board = decider_of(session, caller, grounds_of(ctx)), board_of(session, task)
    if not may_see(caller, board, decider):
        return UnknownTask()
    if not caller.may(Scope.APPROVAL_RESOLVE):
        return refuse(session, task, decider, "missing_scope", Forbidden(scope=Scope.APPROVAL_RESOLVE), now=now)
    part = find_part(session, task, choice.item)
    if part is None or not may_see(caller, board.of(part.item), decider):
        return InvalidRequest("The item is to be named: one of this request, counted from 1.", pointer="/item")
    if is_late and part.own.status == "expired":
        return InvalidTaskState("The time to decide has passed.", current="expired", version=part.own.version)
    return _decide_part(ctx, session, part, _Deciding(decider, board.of(part.item), choice, caller), now=now)


def find_part(session: Session, task: Task, item: int | None) -> Part | None:
    """The item of a bundle, or a single request when no item is named; None when that names nothing."""
    if item is None:
        return None if task.item_count else Part(task)
    row = items.find_item(session, task.id, item)
    return None if row is None else Part(task, row)


@dataclass(frozen=True, slots=True)
class _Deciding:
    """Who decides as whom on which board, and what."""

    decider: Decider
    board: Board
    choice: Choice
    caller: Caller


def _decide_part(
    ctx: Context, session: WriteSession, part: Part, deciding: _Deciding, *, now: datetime
) -> ArapError | None:
    decider, board, choice = deciding.decider, deciding.board, deciding.choice
    if fault := state_fault(part, choice):
        return fault
    found = eligibility(part.task, board, decider)
    if isinstance(found, Ineligible):
        return refuse(session, part, decider, found.reason, IneligibleApprover(code=found.reason), now=now)
    if fault := step_up_fault(deciding.caller, decider, part.own.template.get("step_up"), now=now):
        return refuse(session, part, decider, StepUpRequired.code, fault, now=now)
    if fault := _input_fault(part, choice, board.votes, now=now):
        return fault
    if choice.decision == "approve" and choice.may_vary is None and is_exact_unless_said(deciding.caller, part):
        choice = replace(choice, may_vary=())
    if choice.proposed is not None:
        call = call_of(part, asked_of(part, task_seal(part.task, ctx.ring)))
        if fault := proposal_fault(part, choice.proposed, call):
            return fault
    return count(ctx, session, part, board, Counted(decider, found, choice, deciding.caller.channel), now=now)


def is_exact_unless_said(caller: Caller, part: Part) -> bool:
    """Whether silence about a scope that the template widens means exactly what was asked: by a program, it does.

    At the desk and at a terminal a person has the wider scope before his eyes, in words (PDP-67).
    """
    return caller.channel == "api" and bool(part.own.template.get("scope"))


def step_up_fault(caller: Caller, decider: Decider, seconds: int | None, *, now: datetime) -> StepUpRequired | None:
    """Why a person has to log in anew first, where the template wants it within `seconds`."""
    is_old = decider.kind == "person" and seconds and not is_fresh(caller.proved_at, seconds=seconds, now=now)
    return StepUpRequired(seconds=seconds) if is_old and seconds else None


def _input_fault(part: Part, choice: Choice, cast: Sequence[Vote], *, now: datetime) -> ArapError | None:
    errors: list[Mapping[str, str]] = []
    if code := reason_fault(part.own.template, choice.decision, choice.reason):
        errors.append({"pointer": "/reason", "code": code})
    offered = (part.own.template.get("scope") or {}).get("may_vary", ())
    for index, pointer in enumerate(choice.may_vary or ()):
        if pointer not in offered:  # a scope can be narrowed, and never widened
            errors.append({"pointer": f"/scope/may_vary/{index}", "code": "not_allowed"})
    if choice.decision == "approve":
        # ARS-59, ARS-108: also when it is an earlier approver's wish that leaves no time; who comes now can still deny.
        wishes = (choice.approved_until, *(vote.approved_until for vote in cast))
        if granted_end(part, [wish for wish in wishes if wish is not None], now=now) <= now:
            errors.append({"pointer": "/approved_until", "code": "past"})
    return InputInvalid("The decision is not complete.", errors=errors) if errors else None


def refuse(
    session: WriteSession, about: Task | Part, decider: Decider, code: str, fault: ArapError, *, now: datetime
) -> ArapError:
    """An attempt that counts for nothing is recorded as such (ARS-115, GOV-09)."""
    version = about.own.version if isinstance(about, Part) else about.version
    record(session, about, "decision_refused", decider.actor, {"code": code, "version": version}, now=now)
    return fault


def expire_if_due(ctx: Context, session: WriteSession, task: Task, *, now: datetime) -> bool:
    """Do to a task what the clock says although no sweeper came by; whether anything has ended by that."""
    if task.status != "pending":
        return False
    is_over = False
    if now >= task.pending_until:
        is_over = not isinstance(
            end(ctx, session, task, Expire(), Cause("system", "deadline"), now=now), Refused | None
        )
    return keep_time(ctx, session, task, now=now) or is_over


async def revoke(ctx: Context, caller: Caller, approval_id: str, *, reason: str) -> RequestDetail:
    """Take an approval back, effective at the decision point with the commit; the task stays approved (ARS-121).

    Raises:
        UnknownTask: There is no such approval for this caller.
        Forbidden: The caller may not revoke.
        InvalidTaskState: The approval is not in force any more.
        InvalidRequest: There is no reason, or it is too long.
        InputInvalid: The template wants something in the reason that is not there.
    """
    text = reason.strip()
    if is_blank(text) or len(text) > MAX_REASON or not is_text(text):
        raise InvalidRequest(f"A reason of 1 to {MAX_REASON} characters is required.", pointer="/reason")
    outcome = await ctx.database.write(lambda session: _revoke(ctx, session, caller, approval_id, text))
    if isinstance(outcome, ArapError):
        raise outcome
    ctx.log.info("approval_revoked", approval_id=approval_id, task_id=outcome)
    return await detail(ctx, caller, outcome)


def _revoke(ctx: Context, session: WriteSession, caller: Caller, approval_id: str, reason: str) -> ArapError | str:
    now = ctx.clock()
    found = votes.find_approval(session, approval_id)
    if found is None:
        return UnknownTask()
    approval, task = found
    decider, board = decider_of(session, caller, grounds_of(ctx)), board_of(session, task)
    if not may_see(caller, board.of(approval.item), decider):
        return UnknownTask()
    if not caller.may(Scope.APPROVAL_REVOKE):
        return refuse(session, task, decider, "missing_scope", Forbidden(scope=Scope.APPROVAL_REVOKE), now=now)
    about = find_part(session, task, approval.item or None) or Part(task)
    if now >= approval.approved_until:
        return InvalidTaskState("The approval has run out.", current=task.status, version=task.version)
    if code := reason_fault(about.own.template, "revoke", reason):
        return InputInvalid("The reason is not complete.", errors=[{"pointer": "/reason", "code": code}])
    sealed = task_seal(task, ctx.ring).seal_at(f"approval:{approval_id}:reason_sealed", reason)
    ended = tasks.end_approval(session, approval_id, to="revoked", at=now, by=decider.actor, reason=sealed)
    if ended is None:
        return InvalidTaskState("The approval is not in force.", current=task.status, version=task.version)
    tasks.bump_task(session, task.id)
    record(session, about, "approval_revoked", decider.actor, {"approval_id": approval_id}, now=now)
    announce(ctx, session, NoticeKind.REVOKED, task, now=now, about=approval_id, actor=decider.actor)
    session.on_commit(task_topic(task.id))
    session.on_commit(REQUESTS)
    return task.id
