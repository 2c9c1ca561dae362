"""The gate task as a state machine: phases, endings, events, one table, one pure function.

Decides what an event does to a task and what must be written with it. It doesn't know who asks, reads no clock and
touches no store; the store applies what `decide` returned and decides nothing. SEP-2848, "Lifecycle and task status".
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from math import ceil
from typing import Final, Literal, NewType

from mcp_gate.events import (
    Allowed,
    Approved,
    BackendEnded,
    Cancel,
    Cause,
    ChainRequested,
    Due,
    Event,
    ExecutionOverdue,
    Expire,
    FailedClosed,
    HandleStored,
    InputAsked,
    InputSettled,
    Orphaned,
    PolicyDenied,
    RetryLater,
    SubmissionAbandoned,
    SubmissionRefused,
    ToolReturned,
    ToolSilent,
    WorkerLost,
)

TaskId = NewType("TaskId", str)


class Phase(StrEnum):
    """Where a task stands inside the gate; finer than the status that MCP shows."""

    INTENT = "intent"
    INPUT = "input"
    PENDING = "pending"
    GRANTED = "granted"
    WAITING = "waiting"
    RESUBMITTING = "resubmitting"
    CLAIMED = "claimed"
    DONE = "done"


class Ending(StrEnum):
    """How a task ended; the first four are the dispositions of the extension, on the wire as spelt here."""

    APPROVED_EXECUTED = "approved-executed"
    DENIED_NOT_EXECUTED = "denied-not-executed"
    EXECUTION_ERROR = "execution-error"
    OUTCOME_UNKNOWN = "outcome-unknown"
    CANCELLED = "cancelled"
    FAILED = "failed"


ENDINGS: Final[Mapping[Cause, Ending]] = {
    Cause.EXECUTED: Ending.APPROVED_EXECUTED,
    Cause.TOOL_ERROR: Ending.EXECUTION_ERROR,
    Cause.NO_RESPONSE: Ending.OUTCOME_UNKNOWN,
    Cause.WORKER_LOST: Ending.OUTCOME_UNKNOWN,
    Cause.EXECUTION_DEADLINE: Ending.OUTCOME_UNKNOWN,
    Cause.DENIED: Ending.DENIED_NOT_EXECUTED,
    Cause.POLICY_DENIED: Ending.DENIED_NOT_EXECUTED,
    Cause.EXPIRED: Ending.DENIED_NOT_EXECUTED,
    Cause.BACKEND_EXPIRED: Ending.DENIED_NOT_EXECUTED,
    Cause.BACKEND_LOST_TASK: Ending.DENIED_NOT_EXECUTED,
    Cause.NOT_ENFORCEABLE: Ending.DENIED_NOT_EXECUTED,
    Cause.CHAIN_BOUND: Ending.DENIED_NOT_EXECUTED,
    Cause.SUBMISSION_REFUSED: Ending.DENIED_NOT_EXECUTED,
    Cause.BINDING_BROKEN: Ending.DENIED_NOT_EXECUTED,
    Cause.TOOL_CHANGED: Ending.DENIED_NOT_EXECUTED,
    Cause.CLIENT_CANCELLED: Ending.CANCELLED,
    Cause.BACKEND_CANCELLED: Ending.CANCELLED,
    Cause.ORPHANED: Ending.CANCELLED,
    Cause.BACKEND_FAILED: Ending.FAILED,
    Cause.SUBMISSION_LIMIT: Ending.FAILED,
}
DISPOSITIONS: Final = frozenset(
    {Ending.APPROVED_EXECUTED, Ending.DENIED_NOT_EXECUTED, Ending.EXECUTION_ERROR, Ending.OUTCOME_UNKNOWN}
)
OPEN_PHASES: Final = frozenset(Phase) - {Phase.DONE}
PRE_CLAIM: Final = frozenset({Phase.INPUT, Phase.PENDING, Phase.GRANTED, Phase.WAITING, Phase.RESUBMITTING})
AT_BACKEND: Final = frozenset({Phase.INTENT, Phase.INPUT, Phase.PENDING, Phase.RESUBMITTING})


@dataclass(frozen=True, slots=True)
class GateTask:
    """What the machine reads of a task; every instant is aware UTC.

    `pending_deadline` is the request's clock, `approved_until` the approval's, `execution_deadline` the claim's.
    """

    id: TaskId
    phase: Phase
    version: int
    generation: int
    created_at: datetime
    updated_at: datetime
    ttl_ms: int
    pending_deadline: datetime
    approved_until: datetime | None = None
    execution_deadline: datetime | None = None
    worker: str | None = None
    ending: Ending | None = None
    cause: Cause | None = None
    terminalized_at: datetime | None = None
    announced: bool = False
    attempts: int = 0


# The table ----------------------------------------------------------------------------------------------------------


def _from(phases: frozenset[Phase], event: type[Event], to: Phase) -> dict[tuple[Phase, type[Event]], Phase]:
    return dict.fromkeys(((phase, event) for phase in phases), to)


_ASKED: Final = frozenset({Phase.PENDING, Phase.INPUT})

TRANSITIONS: Final[Mapping[tuple[Phase, type[Event]], Phase]] = {
    (Phase.INTENT, HandleStored): Phase.PENDING,
    (Phase.INTENT, SubmissionRefused): Phase.DONE,
    (Phase.INTENT, Orphaned): Phase.DONE,
    (Phase.PENDING, InputAsked): Phase.INPUT,
    (Phase.INPUT, InputSettled): Phase.PENDING,
    **_from(_ASKED, Approved, Phase.GRANTED),
    **_from(_ASKED, BackendEnded, Phase.DONE),
    (Phase.GRANTED, Allowed): Phase.CLAIMED,
    (Phase.GRANTED, RetryLater): Phase.WAITING,
    (Phase.GRANTED, ChainRequested): Phase.RESUBMITTING,  # DONE at the chain bound, see `decide`
    (Phase.GRANTED, PolicyDenied): Phase.DONE,
    (Phase.GRANTED, FailedClosed): Phase.DONE,
    (Phase.WAITING, Due): Phase.GRANTED,
    (Phase.RESUBMITTING, HandleStored): Phase.PENDING,
    (Phase.RESUBMITTING, SubmissionRefused): Phase.DONE,
    (Phase.RESUBMITTING, SubmissionAbandoned): Phase.DONE,
    **_from(PRE_CLAIM, Cancel, Phase.DONE),
    **_from(PRE_CLAIM, Expire, Phase.DONE),
    (Phase.CLAIMED, ToolReturned): Phase.DONE,
    (Phase.CLAIMED, ToolSilent): Phase.DONE,
    (Phase.CLAIMED, WorkerLost): Phase.DONE,
    (Phase.CLAIMED, ExecutionOverdue): Phase.DONE,
}

# Events whose cause is always the same; the others carry theirs.
CAUSES: Final[Mapping[type[Event], Cause]] = {
    SubmissionRefused: Cause.SUBMISSION_REFUSED,
    SubmissionAbandoned: Cause.SUBMISSION_LIMIT,
    Orphaned: Cause.ORPHANED,
    ChainRequested: Cause.CHAIN_BOUND,
    PolicyDenied: Cause.POLICY_DENIED,
    Cancel: Cause.CLIENT_CANCELLED,
    Expire: Cause.EXPIRED,
    ToolSilent: Cause.NO_RESPONSE,
    WorkerLost: Cause.WORKER_LOST,
    ExecutionOverdue: Cause.EXECUTION_DEADLINE,
}


@dataclass(frozen=True, slots=True)
class CancelAtBackend:
    """Tell the backend, best effort, that nobody waits for the request of `generation` any more."""

    generation: int


@dataclass(frozen=True, slots=True)
class ReportExecution:
    """Tell the backend what became of the approval of `generation`."""

    generation: int
    disposition: Ending


Effect = CancelAtBackend | ReportExecution


@dataclass(frozen=True, slots=True)
class Transition:
    """What to write: `after`, by compare-and-set on version and phase of `before`, and the effects with it."""

    before: GateTask
    after: GateTask
    effects: tuple[Effect, ...] = ()


@dataclass(frozen=True, slots=True)
class Refused:
    """The event does nothing to this task, and why. A lost race is normal, hence a value."""

    reason: Literal["not_in_this_phase", "superseded_generation", "deadline_passed", "deadline_not_reached"]


def decide(task: GateTask, event: Event, *, now: datetime) -> Transition | Refused:
    """What `event` does to `task`. Pure: same input, same answer, nothing written."""
    to = TRANSITIONS.get((task.phase, type(event)))
    if to is None:
        return Refused("not_in_this_phase")
    if refusal := _refusal(task, event, now):
        return refusal
    if isinstance(event, ChainRequested) and task.generation >= event.limit:
        to = Phase.DONE  # PEP-101: the chain is bounded
    attempts = task.attempts + isinstance(event, RetryLater) if isinstance(event, RetryLater | Due) else 0
    after = replace(_clocked(task, event), phase=to, version=task.version + 1, updated_at=now, attempts=attempts)
    if to is Phase.DONE:
        cause = _cause(event)
        after = replace(after, ending=ENDINGS[cause], cause=cause, terminalized_at=now)
    elif isinstance(event, ChainRequested):
        after = replace(after, generation=task.generation + 1)
    return Transition(task, after, _effects(task, after))


def _clocked(task: GateTask, event: Event) -> GateTask:
    """The task with the clocks, and for a claim the worker, that `event` sets."""
    match event:
        case HandleStored(deadline=until):
            return replace(task, pending_deadline=until, announced=True)
        case Approved(approved_until=until):
            return replace(task, approved_until=until)
        case Allowed(worker=worker, execution_deadline=until, approved_until=narrowed):
            known = [clock for clock in (task.approved_until, narrowed) if clock is not None]
            return replace(task, worker=worker, execution_deadline=until, approved_until=min(known))  # PEP-41
        case ChainRequested(deadline=until, limit=limit) if task.generation < limit:
            return replace(task, pending_deadline=until, approved_until=None)
        case _:
            return task


def _refusal(task: GateTask, event: Event, now: datetime) -> Refused | None:
    match event:
        case (
            HandleStored(generation=generation)
            | InputAsked(generation=generation)
            | InputSettled(generation=generation)
            | BackendEnded(generation=generation)
        ):
            return Refused("superseded_generation") if generation != task.generation else None  # PEP-92
        case Approved(generation=generation, approved_until=until):
            if generation != task.generation:
                return Refused("superseded_generation")
            return Refused("deadline_passed") if now >= until else None
        case Allowed(execution_deadline=claim_ends, approved_until=until):  # PEP-109: all of it holds at the claim
            clocks = [clock for clock in (task.approved_until, until, claim_ends) if clock is not None]
            return Refused("deadline_passed") if task.approved_until is None or now >= min(clocks) else None
        case RetryLater() | Due() | ChainRequested():
            return Refused("deadline_passed") if now >= deadline(task) else None
        case Expire() | ExecutionOverdue():
            return None if now >= deadline(task) else Refused("deadline_not_reached")
        case _:
            return None


def _cause(event: Event) -> Cause:
    if isinstance(event, BackendEnded | FailedClosed):
        return event.cause
    if isinstance(event, ToolReturned):
        return Cause.TOOL_ERROR if event.is_error else Cause.EXECUTED
    return CAUSES[type(event)]


def _effects(before: GateTask, after: GateTask) -> tuple[Effect, ...]:
    open_there = after.cause in {Cause.EXPIRED, Cause.ORPHANED} and before.phase in AT_BACKEND
    if after.cause is Cause.CLIENT_CANCELLED or open_there:  # PEP-115: fenced here first, then told to the backend
        return (CancelAtBackend(before.generation),)
    if after.ending in DISPOSITIONS and before.phase in {Phase.GRANTED, Phase.WAITING, Phase.CLAIMED}:
        return (ReportExecution(before.generation, after.ending),)
    return ()


# What a phase means to others ---------------------------------------------------------------------------------------

McpStatus = Literal["working", "input_required", "completed", "failed", "cancelled"]


def mcp_status(phase: Phase, ending: Ending | None) -> McpStatus:
    """The status that MCP shows for a phase."""
    if phase is Phase.INPUT:
        return "input_required"
    if phase is not Phase.DONE:
        return "working"
    if ending is Ending.CANCELLED:
        return "cancelled"
    return "failed" if ending is Ending.FAILED else "completed"


def remediation(phase: Phase, ending: Ending | None) -> Literal["available", "unavailable"] | None:
    """What the denial envelope says, or None when a denial must not be asserted (PEP-121)."""
    if phase is not Phase.DONE:
        return "available"
    return "unavailable" if ending is Ending.DENIED_NOT_EXECUTED else None


def deadline(task: GateTask) -> datetime:
    """The clock that runs in the task's phase: the request's, the approval's or the claim's."""
    match task.phase:
        case Phase.GRANTED | Phase.WAITING:
            return task.approved_until or task.pending_deadline
        case Phase.CLAIMED:
            return task.execution_deadline or task.updated_at
        case _:
            return task.pending_deadline


def retained(task: GateTask, *, retention: timedelta) -> GateTask:
    """The task with a `ttlMs` that covers its clock, or its end, plus the result's retention.

    `ttlMs` is counted from createdAt always and never shrinks (PEP-73, PEP-74, PEP-75, PEP-79).
    """
    until = task.terminalized_at or deadline(task)
    wanted = ceil((until + retention - task.created_at) / timedelta(milliseconds=1))
    return replace(task, ttl_ms=max(task.ttl_ms, wanted))


def ends_at(task: GateTask) -> datetime:
    """When `ttlMs` has elapsed."""
    return task.created_at + timedelta(milliseconds=task.ttl_ms)
