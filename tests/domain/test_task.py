"""The task machine against the table of the profile's statuses, and the deadline that ends a task by itself."""

from datetime import UTC, datetime, timedelta
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arap_service.domain.task import (
    TRANSITIONS,
    Approve,
    Cancel,
    Deny,
    Event,
    Expire,
    Fail,
    Grant,
    Notify,
    Record,
    Refused,
    TaskState,
    Transition,
    decide,
)
from arap_service.protocol.arap import TERMINAL, TaskStatus

NOW = datetime(2026, 4, 30, 20, 0, tzinfo=UTC)
EVENTS = tuple(event() for event in get_args(Event))
INSTANT = timedelta(microseconds=1)


def task(status: TaskStatus = TaskStatus.PENDING, *, deadline: datetime = NOW + timedelta(hours=1)) -> TaskState:
    return TaskState("task_1", status, 1, deadline)


def test_approval_grants_records_and_notifies() -> None:
    assert decide(task(), Approve(), now=NOW) == Transition(
        TaskStatus.PENDING,
        TaskStatus.APPROVED,
        (Grant(), Record("task_approved"), Notify(TaskStatus.APPROVED)),
    )


@pytest.mark.parametrize(
    ("event", "status"),
    [(Deny(), TaskStatus.DENIED), (Cancel(), TaskStatus.CANCELLED), (Fail(), TaskStatus.FAILED)],
)
@pytest.mark.requirement("ARS-75")
def test_no_other_end_grants_anything(event: Event, status: TaskStatus) -> None:
    assert decide(task(), event, now=NOW) == Transition(
        TaskStatus.PENDING, status, (Record(f"task_{status}"), Notify(status))
    )


@pytest.mark.parametrize("status", sorted(TERMINAL))
@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
@pytest.mark.requirement("ARS-55")
def test_a_terminal_task_takes_no_event(status: TaskStatus, event: Event) -> None:
    assert decide(task(status), event, now=NOW + timedelta(days=9)) == Refused("terminal", status)


@pytest.mark.requirement("ARS-55")
def test_every_transition_leaves_pending_and_none_leads_to_partial() -> None:
    """`partial` belongs to bulk requests only (ARS-83)."""
    assert {origin for origin, _ in TRANSITIONS} == {TaskStatus.PENDING}
    assert set(TRANSITIONS.values()) == TERMINAL - {TaskStatus.PARTIAL}


@pytest.mark.parametrize("event", [Approve(), Deny(), Cancel()], ids=lambda event: type(event).__name__)
@pytest.mark.parametrize("late", [timedelta(0), timedelta(days=1)])
@pytest.mark.requirement("ARS-120")
def test_at_its_deadline_a_task_can_no_longer_be_decided(event: Event, late: timedelta) -> None:
    deadline = NOW - late
    assert decide(task(deadline=deadline), event, now=NOW) == Refused("deadline_passed", TaskStatus.PENDING)


def test_just_before_its_deadline_a_task_can_be_approved() -> None:
    assert isinstance(decide(task(deadline=NOW + INSTANT), Approve(), now=NOW), Transition)


@pytest.mark.requirement("ARS-120")
def test_a_task_expires_at_its_deadline_and_not_before() -> None:
    assert decide(task(deadline=NOW + INSTANT), Expire(), now=NOW) == Refused(
        "deadline_not_reached", TaskStatus.PENDING
    )
    expired = decide(task(deadline=NOW), Expire(), now=NOW)
    assert isinstance(expired, Transition)
    assert expired.to is TaskStatus.EXPIRED


def test_a_failure_is_recorded_even_past_the_deadline() -> None:
    assert isinstance(decide(task(deadline=NOW), Fail(), now=NOW + INSTANT), Transition)


@given(st.sampled_from(EVENTS), st.sampled_from(TaskStatus), st.integers(-5, 5))
def test_only_an_approval_in_time_grants(event: Event, status: TaskStatus, seconds: int) -> None:
    outcome = decide(task(status, deadline=NOW + timedelta(seconds=seconds)), event, now=NOW)
    grants = isinstance(outcome, Transition) and Grant() in outcome.effects
    assert grants == (status is TaskStatus.PENDING and isinstance(event, Approve) and seconds > 0)
