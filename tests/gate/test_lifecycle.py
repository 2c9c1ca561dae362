"""The gate task's machine. Provenance: SEP-2848 "Lifecycle and task status", "Completion", "Cancellation"; design 8."""

import typing
from dataclasses import replace
from datetime import timedelta
from itertools import product
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
from mcp_gate.lifecycle import (
    DISPOSITIONS,
    ENDINGS,
    PRE_CLAIM,
    TRANSITIONS,
    CancelAtBackend,
    Ending,
    GateTask,
    Phase,
    Refused,
    ReportExecution,
    TaskId,
    Transition,
    deadline,
    decide,
    ends_at,
    mcp_status,
    remediation,
    retained,
)
from tests.clock import START

HOUR = timedelta(hours=1)
LATER = START + HOUR
EVENTS: tuple[type[Event], ...] = typing.get_args(Event)


def task(phase: Phase, **fields: Any) -> GateTask:
    plain = GateTask(
        id=TaskId("tsk_1"),
        phase=phase,
        version=3,
        generation=2,
        created_at=START - HOUR,
        updated_at=START - HOUR,
        ttl_ms=0,
        pending_deadline=LATER,
        approved_until=LATER if phase in {Phase.GRANTED, Phase.WAITING, Phase.CLAIMED} else None,
        execution_deadline=LATER if phase is Phase.CLAIMED else None,
        worker="wrk_1" if phase is Phase.CLAIMED else None,
        announced=phase is not Phase.INTENT,
    )
    return replace(plain, **fields)


def example(event: type[Event], *, generation: int = 2) -> Event:
    """An event that nothing but the phase can refuse at START, but for those that need a deadline to have passed."""
    examples: dict[type[Event], Event] = {
        HandleStored: HandleStored(generation, LATER),
        InputAsked: InputAsked(generation),
        InputSettled: InputSettled(generation),
        Approved: Approved(generation, LATER),
        BackendEnded: BackendEnded(generation, Cause.DENIED),
        Allowed: Allowed("wrk_2", LATER),
        RetryLater: RetryLater(LATER),
        ChainRequested: ChainRequested(9, LATER),
        FailedClosed: FailedClosed(Cause.TOOL_CHANGED),
        ToolReturned: ToolReturned(is_error=False),
    }
    bare: Any = event
    return examples.get(event) or cast("Event", bare())


def moved(before: GateTask, event: Event, *, now: Any = START) -> GateTask:
    decided = decide(before, event, now=now)
    assert isinstance(decided, Transition), decided
    assert decided.before == before
    return decided.after


def effects(before: GateTask, event: Event, *, now: Any = START) -> tuple[object, ...]:
    decided = decide(before, event, now=now)
    assert isinstance(decided, Transition), decided
    return decided.effects


@pytest.mark.parametrize(("phase", "event"), list(product(Phase, EVENTS)))
def test_an_event_moves_a_task_as_the_table_says_or_not_at_all(phase: Phase, event: type[Event]) -> None:
    """Every pair of phase and event, the impossible ones included."""
    before = task(phase)
    now = LATER if event in {Expire, ExecutionOverdue} else START
    decided = decide(before, example(event), now=now)
    if (phase, event) not in TRANSITIONS:
        assert decided == Refused("not_in_this_phase")
    else:
        assert isinstance(decided, Transition)
        assert decided.after.phase is TRANSITIONS[phase, event]
        assert decided.after.version == before.version + 1
        assert decided.after.updated_at == now
        assert (decided.after.ending is not None) == (decided.after.phase is Phase.DONE)


@pytest.mark.requirement("PEP-65", "PEP-70", "PEP-78", "PEP-118")
@pytest.mark.parametrize("event", EVENTS)
def test_nothing_moves_a_task_that_is_done(event: type[Event]) -> None:
    for ending in Ending:
        done = task(Phase.DONE, ending=ending, cause=Cause.EXPIRED, terminalized_at=START)
        assert decide(done, example(event), now=LATER) == Refused("not_in_this_phase")


@pytest.mark.requirement("PEP-66", "PEP-108", "PEP-111")
def test_a_claim_is_taken_once_from_granted_and_from_nowhere_else() -> None:
    assert [phase for phase, event in TRANSITIONS if event is Allowed] == [Phase.GRANTED]
    claimed = moved(task(Phase.GRANTED), Allowed("wrk_9", LATER))
    assert (claimed.worker, claimed.execution_deadline) == ("wrk_9", LATER)
    assert decide(claimed, Allowed("wrk_8", LATER), now=START) == Refused("not_in_this_phase")


@pytest.mark.parametrize("phase", [Phase.INPUT, Phase.PENDING, Phase.GRANTED, Phase.WAITING, Phase.RESUBMITTING])
def test_whatever_is_known_to_its_client_and_not_claimed_can_be_cancelled_and_expires(phase: Phase) -> None:
    assert moved(task(phase), Cancel()).ending is Ending.CANCELLED
    assert moved(task(phase), Expire(), now=LATER).ending is Ending.DENIED_NOT_EXECUTED


@pytest.mark.requirement("PEP-108", "PEP-114", "PEP-116", "PEP-118")
def test_neither_cancel_nor_expiry_touches_a_claimed_task() -> None:
    for event in (Cancel(), Expire()):
        assert decide(task(Phase.CLAIMED), event, now=LATER + HOUR) == Refused("not_in_this_phase")


@pytest.mark.requirement("PEP-89")
def test_only_unclaimed_tasks_fail_or_are_cancelled_and_only_claimed_ones_ran() -> None:
    """Every way into the end, by what its causes mean."""
    ran = {Ending.APPROVED_EXECUTED, Ending.EXECUTION_ERROR, Ending.OUTCOME_UNKNOWN}
    for phase, event in TRANSITIONS:
        if TRANSITIONS[phase, event] is not Phase.DONE:
            continue
        now = LATER if event in {Expire, ExecutionOverdue} else START
        after = moved(task(phase), example(event), now=now)
        assert (after.ending in ran) == (phase is Phase.CLAIMED), (phase, event)


@pytest.mark.requirement("PEP-92")
@pytest.mark.parametrize("event", [HandleStored, InputAsked, InputSettled, Approved, BackendEnded])
@pytest.mark.parametrize("generation", [1, 3])
def test_news_of_another_generation_is_refused(event: type[Event], generation: int) -> None:
    for phase, known in TRANSITIONS:
        if known is event:
            decided = decide(task(phase), example(event, generation=generation), now=START)
            assert decided == Refused("superseded_generation")


@pytest.mark.requirement("PEP-109")
@pytest.mark.parametrize(
    ("fields", "event"),
    [
        ({"approved_until": START}, Allowed("wrk", LATER)),
        ({"approved_until": None}, Allowed("wrk", LATER)),
        ({}, Allowed("wrk", LATER, START)),
        ({}, Allowed("wrk", START)),
    ],
)
def test_the_claim_fails_when_any_clock_has_run_out_at_its_very_instant(fields: Any, event: Allowed) -> None:
    assert decide(task(Phase.GRANTED, **fields), event, now=START) == Refused("deadline_passed")


@pytest.mark.requirement("PEP-41")
def test_the_earlier_of_both_expiries_is_kept_with_the_claim() -> None:
    sooner = START + timedelta(minutes=1)
    assert moved(task(Phase.GRANTED), Allowed("wrk", LATER, sooner)).approved_until == sooner
    assert moved(task(Phase.GRANTED), Allowed("wrk", LATER, LATER + HOUR)).approved_until == LATER


def test_an_approval_that_is_over_already_grants_nothing() -> None:
    assert decide(task(Phase.PENDING), Approved(2, START), now=START) == Refused("deadline_passed")


@pytest.mark.requirement("PEP-100")
def test_waiting_ends_with_the_approval() -> None:
    waiting = moved(task(Phase.GRANTED), RetryLater(START + timedelta(minutes=1)))
    assert waiting.phase is Phase.WAITING
    assert moved(waiting, Due()).phase is Phase.GRANTED
    assert decide(waiting, Due(), now=LATER) == Refused("deadline_passed")
    assert decide(task(Phase.GRANTED), RetryLater(LATER), now=LATER) == Refused("deadline_passed")


def test_attempts_are_counted_over_waits_and_forgotten_elsewhere() -> None:
    waiting = moved(task(Phase.GRANTED, attempts=1), RetryLater(LATER))
    assert waiting.attempts == 2
    assert moved(waiting, Due()).attempts == 2
    assert moved(replace(waiting, phase=Phase.GRANTED), Allowed("wrk", LATER)).attempts == 0


@pytest.mark.requirement("PEP-101")
def test_a_chain_consumes_the_generation_and_stops_at_its_bound() -> None:
    again = moved(task(Phase.GRANTED), ChainRequested(3, LATER + HOUR))
    assert (again.phase, again.generation) == (Phase.RESUBMITTING, 3)
    assert (again.approved_until, again.pending_deadline) == (None, LATER + HOUR)
    bound = moved(task(Phase.GRANTED), ChainRequested(2, LATER + HOUR))
    assert (bound.phase, bound.ending, bound.cause) == (Phase.DONE, Ending.DENIED_NOT_EXECUTED, Cause.CHAIN_BOUND)
    assert bound.generation == 2


def test_expiry_waits_for_the_clock_that_runs_in_the_phase() -> None:
    for phase in PRE_CLAIM:
        short = {"approved_until": START, "pending_deadline": LATER}
        by_approval = phase in {Phase.GRANTED, Phase.WAITING}
        fields = short if by_approval else {"pending_deadline": START, "approved_until": None}
        assert moved(task(phase, **fields), Expire()).cause is Cause.EXPIRED
        assert decide(task(phase), Expire(), now=START) == Refused("deadline_not_reached")
    assert decide(task(Phase.CLAIMED), ExecutionOverdue(), now=START) == Refused("deadline_not_reached")


@pytest.mark.requirement("PEP-115")
def test_what_stays_open_at_the_backend_is_cancelled_there() -> None:
    for phase in PRE_CLAIM:
        assert effects(task(phase), Cancel()) == (CancelAtBackend(2),)
    for phase in (Phase.PENDING, Phase.INPUT, Phase.RESUBMITTING):
        assert effects(task(phase), Expire(), now=LATER) == (CancelAtBackend(2),)
    assert effects(task(Phase.INTENT), Orphaned()) == (CancelAtBackend(2),)


def test_what_became_of_an_approval_is_reported() -> None:
    report = ReportExecution(2, Ending.APPROVED_EXECUTED)
    assert effects(task(Phase.CLAIMED), ToolReturned(is_error=False)) == (report,)
    assert effects(task(Phase.CLAIMED), ToolReturned(is_error=True)) == (ReportExecution(2, Ending.EXECUTION_ERROR),)
    for event in (ToolSilent(), WorkerLost()):
        assert effects(task(Phase.CLAIMED), event) == (ReportExecution(2, Ending.OUTCOME_UNKNOWN),)
    denied = ReportExecution(2, Ending.DENIED_NOT_EXECUTED)
    assert effects(task(Phase.GRANTED), PolicyDenied()) == (denied,)
    assert effects(task(Phase.WAITING), Expire(), now=LATER) == (denied,)
    assert effects(task(Phase.PENDING), BackendEnded(2, Cause.DENIED)) == ()


def test_causes_name_their_ending_and_their_event() -> None:
    assert set(ENDINGS) == set(Cause)
    ended: dict[Event, tuple[Phase, Ending]] = {
        SubmissionRefused(): (Phase.RESUBMITTING, Ending.DENIED_NOT_EXECUTED),
        SubmissionAbandoned(): (Phase.RESUBMITTING, Ending.FAILED),
        BackendEnded(2, Cause.BACKEND_CANCELLED): (Phase.PENDING, Ending.CANCELLED),
        BackendEnded(2, Cause.BACKEND_FAILED): (Phase.INPUT, Ending.FAILED),
        FailedClosed(Cause.BINDING_BROKEN): (Phase.GRANTED, Ending.DENIED_NOT_EXECUTED),
    }
    for event, (phase, ending) in ended.items():
        assert moved(task(phase), event).ending is ending


@pytest.mark.requirement("PEP-88", "PEP-90", "PEP-110")
def test_phases_and_endings_show_as_the_statuses_of_mcp() -> None:
    shown = {phase: mcp_status(phase, None) for phase in Phase if phase is not Phase.DONE}
    assert shown == dict.fromkeys(shown, "working") | {Phase.INPUT: "input_required"}
    assert {ending: mcp_status(Phase.DONE, ending) for ending in Ending} == dict.fromkeys(DISPOSITIONS, "completed") | {
        Ending.CANCELLED: "cancelled",
        Ending.FAILED: "failed",
    }


@pytest.mark.requirement("PEP-121")
def test_a_denial_is_asserted_while_open_and_when_denied_and_never_else() -> None:
    assert {remediation(phase, None) for phase in Phase if phase is not Phase.DONE} == {"available"}
    asserted = {ending: remediation(Phase.DONE, ending) for ending in Ending}
    assert asserted == dict.fromkeys(Ending) | {Ending.DENIED_NOT_EXECUTED: "unavailable"}


@pytest.mark.requirement("PEP-73", "PEP-74", "PEP-75", "PEP-79")
def test_the_ttl_covers_clock_and_retention_from_creation_on_and_never_shrinks() -> None:
    kept = retained(task(Phase.PENDING), retention=HOUR)
    assert ends_at(kept) == LATER + HOUR
    longer = retained(replace(kept, pending_deadline=LATER + HOUR), retention=HOUR)
    assert ends_at(longer) == LATER + 2 * HOUR
    assert retained(replace(longer, pending_deadline=START), retention=HOUR).ttl_ms == longer.ttl_ms
    late = replace(kept, phase=Phase.DONE, terminalized_at=LATER + 5 * HOUR)
    assert ends_at(retained(late, retention=HOUR)) == LATER + 6 * HOUR
    fraction = replace(kept, pending_deadline=LATER + HOUR + timedelta(microseconds=1))
    assert ends_at(retained(fraction, retention=HOUR)) == LATER + 2 * HOUR + timedelta(milliseconds=1)


def test_a_clock_that_was_never_set_has_run_out() -> None:
    assert deadline(task(Phase.CLAIMED, execution_deadline=None)) == START - HOUR
    assert deadline(task(Phase.GRANTED, approved_until=None)) == LATER


@given(st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(0, 7200), st.integers(1, 3)), max_size=30))
def test_any_history_claims_at_most_once_and_stays_in_its_end(history: list[tuple[type[Event], int, int]]) -> None:
    """Property over arbitrary sequences of events at arbitrary, also receding, times."""
    current = task(Phase.INTENT, generation=1)
    claims, ended = 0, None
    for event, seconds, generation in history:
        now = START + timedelta(seconds=seconds)
        decided = decide(current, example(event, generation=generation), now=now)
        if isinstance(decided, Transition):
            assert ended is None
            current = decided.after
            claims += current.phase is Phase.CLAIMED
            ended = current.ending
    assert claims <= 1
    if ended in {Ending.CANCELLED, Ending.FAILED, Ending.DENIED_NOT_EXECUTED}:
        assert claims == 0
