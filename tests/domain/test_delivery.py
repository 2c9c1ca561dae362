"""What follows a callback attempt: the schedule up to three days, the receiver's wishes, and the ends."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arap_service.domain.delivery import (
    GIVE_UP_AFTER,
    SCHEDULE_SECONDS,
    Answered,
    Blocked,
    Dead,
    Delivered,
    DeliveryState,
    Disabled,
    Outcome,
    Retry,
    Unreachable,
    after_attempt,
)

NOW = datetime(2026, 4, 30, 20, 0, tzinfo=UTC)
FIRST = DeliveryState(attempts=1, created_at=NOW)


@pytest.mark.parametrize("status", [200, 204, 299])
def test_any_success_ends_the_delivery(status: int) -> None:
    assert after_attempt(FIRST, Answered(status), now=NOW, jitter=0) == Delivered()


def test_gone_switches_the_destination_off() -> None:
    assert after_attempt(FIRST, Answered(410), now=NOW, jitter=0) == Disabled()


def test_a_destination_that_we_may_not_dial_is_given_up_at_once() -> None:
    assert after_attempt(FIRST, Blocked("private_address"), now=NOW, jitter=0) == Dead("private_address")


@pytest.mark.parametrize(
    "outcome", [Answered(302), Answered(400), Answered(401), Answered(500), Unreachable("timeout")]
)
def test_every_other_outcome_is_tried_again(outcome: Outcome) -> None:
    """A redirect is not followed; a refused signature can be a key that the receiver is still rotating."""
    assert after_attempt(FIRST, outcome, now=NOW, jitter=0) == Retry(NOW + timedelta(seconds=5))


@pytest.mark.requirement("ARS-97")
def test_the_waits_follow_the_schedule_and_then_end() -> None:
    waits = []
    at, attempts = NOW, 0
    while True:
        attempts += 1
        after = after_attempt(DeliveryState(attempts, NOW), Answered(503), now=at, jitter=0)
        if not isinstance(after, Retry):
            break
        waits.append(int((after.at - at).total_seconds()))
        at = after.at
    assert tuple(waits) == SCHEDULE_SECONDS
    assert after == Dead("status_503")
    assert timedelta(days=2) < at - NOW <= GIVE_UP_AFTER


def test_jitter_shortens_the_wait_by_a_fifth_at_most() -> None:
    assert after_attempt(FIRST, Answered(503), now=NOW, jitter=0.5) == Retry(NOW + timedelta(seconds=4.5))


@pytest.mark.parametrize(("asked", "waits"), [(1, 5), (120, 120), (10**30, 86400), (-7, 5)])
def test_the_receivers_wish_is_honoured_within_a_day(asked: int, waits: int) -> None:
    assert after_attempt(FIRST, Answered(429, asked), now=NOW, jitter=0) == Retry(NOW + timedelta(seconds=waits))


def test_nothing_is_sent_later_than_three_days_after_the_first() -> None:
    state = DeliveryState(attempts=9, created_at=NOW - timedelta(days=2, hours=20))
    assert after_attempt(state, Unreachable("refused"), now=NOW, jitter=0) == Dead("refused")


@given(st.integers(0, 30), st.floats(0, 1, exclude_max=True), st.integers(0, 10**6), st.integers(0, 300_000))
@pytest.mark.requirement("ARS-97")
def test_a_retry_is_always_ahead_and_within_the_limit(attempts: int, jitter: float, asked: int, age: int) -> None:
    created = NOW - timedelta(seconds=age)
    after = after_attempt(DeliveryState(attempts, created), Answered(500, asked), now=NOW, jitter=jitter)
    if isinstance(after, Retry):
        assert NOW < after.at <= created + GIVE_UP_AFTER
    else:
        assert after == Dead("status_500")
