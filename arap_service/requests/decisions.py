"""Deciding a request and taking an approval back: the one chokepoint, whatever surface the answer came from (GOV-09).

Authorises the caller, judges eligibility at this moment, records the vote, and ends the request when the workflow says
so, all in one transaction. A refused attempt by somebody who sees the request is recorded as well. A repeated decision
counts once under an idempotency key; without one, the second meets a newer version and is told the current state.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final

from pydantic import JsonValue
from sqlalchemy.exc import IntegrityError

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
    StaleVersion,
    UnknownTask,
)
from arap_service.domain.reviewers import Eligible, Ineligible
from arap_service.domain.task import Approve, Deny, Event, Expire, Refused
from arap_service.domain.workflow import Completed, Ended, Waiting, progress
from arap_service.domain.workflow import Vote as Voice
from arap_service.protocol.arap import format_instant
from arap_service.records import task_seal
from arap_service.requests.creation import AUTOMATIC
from arap_service.requests.details import detail
from arap_service.requests.endings import REQUESTS, Cause, Moved, carry_out, end, granted_end, move, record, task_topic
from arap_service.requests.once import once
from arap_service.requests.voters import Board, Decider, board_of, decider_of, eligibility, may_see
from arap_service.store import tasks, votes
from arap_service.store.database import WriteSession
from arap_service.store.tables import Task, Vote
from arap_service.tracing import spanning
from arap_service.views import RequestDetail

MAX_REASON: Final = 4000


@dataclass(frozen=True, slots=True)
class Choice:
    """What the decider chose, having seen `version`."""

    decision: str
    version: int
    reason: str | None
    approved_until: datetime | None

    def said(self, task_id: str) -> dict[str, Any]:
        """The decision as a JSON object, to tell it from another under the same key."""
        until = None if self.approved_until is None else format_instant(self.approved_until)
        return {"task": task_id, **asdict(self), "approved_until": until}


async def decide(
    ctx: Context,
    caller: Caller,
    task_id: str,
    *,
    decision: str,
    version: int,
    reason: str | None = None,
    approved_until: datetime | None = None,
    idempotency_key: str | None = None,
) -> RequestDetail:
    """Approve or deny as the caller, who has seen `version`; the request as it stands afterwards.

    Raises:
        UnknownTask: There is no such request for this caller.
        Forbidden, IneligibleApprover: The caller may not decide it.
        StaleVersion, InvalidTaskState: It is not what the caller has seen, or already ended.
        InvalidRequest, InputInvalid: The decision is not complete.
        DuplicateRequest: The key was used for another decision.
    """
    choice = Choice(decision, version, reason.strip() or None if reason else None, approved_until)
    _check_choice(choice)
    repeatable = once(caller, idempotency_key, choice.said(task_id))

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

    # A refusal is returned and raised after the commit, because its record has to stay.
    with spanning(ctx.tracer, "arap.decide", attributes={"arap.channel": caller.channel}) as span:
        try:
            fault = await ctx.database.write(work)
        except IntegrityError:
            raise DuplicateRequest from None  # the key was just used for another request
        span.set_attribute("arap.outcome", decision if fault is None else fault.urn)
        if fault is None:  # else it may be nothing but what somebody wrote into an address
            span.set_attribute("arap.task_id", task_id)
    ctx.checkpoint("decide.after_commit")
    if fault is not None:
        ctx.log.info("decision_refused", task_id=task_id, problem=fault.urn)
        raise fault
    ctx.log.info("decision_recorded", task_id=task_id, decision=decision)
    return await detail(ctx, caller, task_id)


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


def _decide(ctx: Context, session: WriteSession, caller: Caller, task_id: str, choice: Choice) -> ArapError | None:
    """Record the decision; a refusal is returned, with its own record written where the caller may know of the task."""
    now = ctx.clock()
    # Version and votes must be of one moment: who clicked twice has seen an old version, and is not ineligible.
    task = tasks.find_task(session, task_id, for_update=True)
    if task is None or now >= task.expires_at:
        return UnknownTask()
    decider, board = decider_of(session, caller), board_of(session, task)
    if not may_see(caller, board, decider):
        return UnknownTask()
    if not caller.may(Scope.APPROVAL_RESOLVE):
        return _refuse(session, task, decider, "missing_scope", Forbidden(scope=Scope.APPROVAL_RESOLVE), now=now)
    if expire_if_due(ctx, session, task, now=now):
        return InvalidTaskState("The time to decide has passed.", current="expired", version=task.version)
    if fault := _state_fault(task, choice):
        return fault
    found = eligibility(task, board, decider)
    if isinstance(found, Ineligible):
        return _refuse(session, task, decider, found.reason, IneligibleApprover(code=found.reason), now=now)
    if fault := _input_fault(task, choice, board.votes, now=now):
        return fault
    return _count(ctx, session, task, board, _Counted(decider, found, choice, caller.channel), now=now)


def _state_fault(task: Task, choice: Choice) -> ArapError | None:
    if task.status != "pending":
        return InvalidTaskState(current=task.status, version=task.version)
    if task.version != choice.version:  # ARS-118
        return StaleVersion(current=task.status, version=task.version)
    return None


def _input_fault(task: Task, choice: Choice, cast: Sequence[Vote], *, now: datetime) -> ArapError | None:
    errors: list[Mapping[str, str]] = []
    if choice.reason is None and choice.decision in task.template["reason_required"]:
        errors.append({"pointer": "/reason", "code": "required"})
    if choice.decision == "approve":
        # ARS-59, ARS-108: also when it is an earlier approver's wish that leaves no time; who comes now can still deny.
        wishes = (choice.approved_until, *(vote.approved_until for vote in cast))
        if granted_end(task, [wish for wish in wishes if wish is not None], now=now) <= now:
            errors.append({"pointer": "/approved_until", "code": "past"})
    return InputInvalid("The decision is not complete.", errors=errors) if errors else None


def _refuse(
    session: WriteSession, task: Task, decider: Decider, code: str, fault: ArapError, *, now: datetime
) -> ArapError:
    """An attempt that counts for nothing is recorded as such (ARS-115, GOV-09)."""
    record(session, task, "decision_refused", decider.actor, {"code": code, "version": task.version}, now=now)
    return fault


@dataclass(frozen=True, slots=True)
class _Counted:
    """A decision that counts: whose, in which step, by which way."""

    decider: Decider
    eligible: Eligible
    choice: Choice
    channel: str


def _count(
    ctx: Context, session: WriteSession, task: Task, board: Board, counted: _Counted, *, now: datetime
) -> ArapError | None:
    vote = _vote(ctx, task, counted, now=now)
    cast = [*board.votes, vote]
    outcome = progress([board.step(state) for state in board.steps], [_voice(each) for each in cast if _counts(each)])
    cause = _cause(counted, cast)
    moved = _move(ctx, session, task, outcome, cause, now=now)
    if moved is None:
        session.refresh(task)
        return _state_fault(task, counted.choice) or StaleVersion(current=task.status, version=task.version)
    session.add(vote)
    _mark_steps(session, task, board, outcome, step_id=vote.step_id)
    record(session, task, "vote_cast", counted.decider.actor, _vote_detail(task, vote, counted), now=now)
    if isinstance(moved, Moved):
        carry_out(ctx, session, moved, cause, now=now)
    session.after_commit(partial(ctx.metrics.decided, vote.decision, counted.channel))
    session.on_commit(task_topic(task.id))
    session.on_commit(REQUESTS)
    return None


def _counts(vote: Vote) -> bool:
    return vote.step_id != AUTOMATIC


def _voice(vote: Vote) -> Voice:
    return Voice(vote.step_id, vote.voter, "approve" if vote.decision == "approve" else "deny")


def _vote_detail(task: Task, vote: Vote, counted: _Counted) -> dict[str, JsonValue]:
    return {
        "step": vote.step_id,
        "decision": vote.decision,
        "version_seen": vote.version_seen,
        "binding_hash": task.binding_hash,
        "channel": counted.channel,
        "exception": counted.eligible.exception,
        "approved_until": None if vote.approved_until is None else format_instant(vote.approved_until),
    }


def _vote(ctx: Context, task: Task, counted: _Counted, *, now: datetime) -> Vote:
    vote_id, choice = ctx.new_id("vote"), counted.choice
    sealed = None
    if choice.reason is not None:
        sealed = task_seal(task, ctx.ring).seal_at(f"vote:{vote_id}:reason_sealed", choice.reason)
    return Vote(
        id=vote_id,
        task_id=task.id,
        step_id=counted.eligible.step_id,
        voter=counted.decider.voter,
        voter_kind=counted.decider.kind,
        decision=choice.decision,
        version_seen=choice.version,
        at=now,
        channel=counted.channel,
        approved_until=choice.approved_until,
        reason_sealed=sealed,
    )


def _cause(counted: _Counted, cast: list[Vote]) -> Cause:
    wishes = tuple(vote.approved_until for vote in cast if vote.approved_until is not None)
    reason = counted.choice.reason
    if counted.choice.decision == "deny":
        return Cause(counted.decider.actor, "veto", wrote={"reason": reason} if reason else None)
    return Cause(counted.decider.actor, "quorum", wishes=wishes)


def _move(
    ctx: Context,
    session: WriteSession,
    task: Task,
    outcome: Waiting | Completed | Ended,
    cause: Cause,
    *,
    now: datetime,
) -> Moved | Task | None:
    """Take the task to where the workflow has come; None when somebody else was faster."""
    event: Event
    match outcome:
        case Waiting():
            return tasks.touch_task(session, task.id, seen=task.version)
        case Completed():
            event = Approve()
        case Ended():
            event = Deny()
    moved = move(ctx, session, task, event, cause, now=now)
    return None if isinstance(moved, Refused) else moved


def _mark_steps(
    session: WriteSession, task: Task, board: Board, outcome: Waiting | Completed | Ended, *, step_id: str
) -> None:
    for state in board.steps:
        if state.status == "waiting":
            status = _step_status(state.step_id, outcome, spoken_in=step_id)
            if status != "waiting":
                tasks.set_step(session, task.id, item=0, step_id=state.step_id, status=status)


def _step_status(step_id: str, outcome: Waiting | Completed | Ended, *, spoken_in: str) -> str:
    match outcome:
        case Waiting(step_ids):
            return "waiting" if step_id in step_ids else "completed"
        case Completed():
            return "completed"
        case Ended():
            return "ended" if step_id == spoken_in else "waiting"


def expire_if_due(ctx: Context, session: WriteSession, task: Task, *, now: datetime) -> bool:
    """Expire a task whose deadline has passed although no sweeper came by; whether it is expired by that."""
    if task.status != "pending" or now < task.pending_until:
        return False
    ended = end(ctx, session, task, Expire(), Cause("system", "deadline"), now=now)
    return not isinstance(ended, Refused | None)


async def revoke(ctx: Context, caller: Caller, approval_id: str, *, reason: str) -> RequestDetail:
    """Take an approval back, effective at the decision point with the commit; the task stays approved (ARS-121).

    Raises:
        UnknownTask: There is no such approval for this caller.
        Forbidden: The caller may not revoke.
        InvalidTaskState: The approval is not in force any more.
        InvalidRequest: There is no reason, or it is too long.
    """
    text = reason.strip()
    if not 0 < len(text) <= MAX_REASON or not is_text(text):
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
    decider, board = decider_of(session, caller), board_of(session, task)
    if not may_see(caller, board, decider):
        return UnknownTask()
    if not caller.may(Scope.APPROVAL_REVOKE):
        return _refuse(session, task, decider, "missing_scope", Forbidden(scope=Scope.APPROVAL_REVOKE), now=now)
    if now >= approval.approved_until:
        return InvalidTaskState("The approval has run out.", current=task.status, version=task.version)
    sealed = task_seal(task, ctx.ring).seal_at(f"approval:{approval_id}:reason_sealed", reason)
    ended = tasks.end_approval(session, approval_id, to="revoked", at=now, by=decider.actor, reason=sealed)
    if ended is None:
        return InvalidTaskState("The approval is not in force.", current=task.status, version=task.version)
    tasks.bump_task(session, task.id)
    record(session, task, "approval_revoked", decider.actor, {"approval_id": approval_id}, now=now)
    session.on_commit(task_topic(task.id))
    session.on_commit(REQUESTS)
    return task.id
