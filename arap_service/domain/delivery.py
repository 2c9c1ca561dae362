"""What becomes of a callback delivery after an attempt: done, again later, given up or switched off.

Decides from the outcome alone; sending, signing and choosing the address are others' work. Delivery is at least once
and never touches the task (ARS-97). Callback companion of the profile, "Notification Delivery".
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, assert_never

SCHEDULE_SECONDS: Final = (5, 30, 120, 600, 3600, 10800, 21600, 36000, 57600, 57600, 57600)
GIVE_UP_AFTER: Final = timedelta(days=3)
_LONGEST_WISH_SECONDS: Final = 86400


class DeliveryStatus(StrEnum):
    """Where a delivery stands; `dead` ones can be sent again by an operator."""

    PENDING = "pending"
    DELIVERED = "delivered"
    DEAD = "dead"
    DISABLED = "disabled"


@dataclass(frozen=True, slots=True)
class DeliveryState:
    """A delivery before the attempt's outcome; `attempts` counts the finished ones including this.

    Where an operator had it sent again, both are counted from there.
    """

    attempts: int
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Answered:
    """The receiver answered with this HTTP status; `retry_after` in seconds, when it said so."""

    status: int
    retry_after: int | None = None


@dataclass(frozen=True, slots=True)
class Unreachable:
    """No answer came: refused connection, time-out, broken exchange."""

    reason: str


@dataclass(frozen=True, slots=True)
class Blocked:
    """The destination is not one we may dial (ARS-89); nothing was sent."""

    reason: str


@dataclass(frozen=True, slots=True)
class Silenced:
    """The receiver has said 410 before and nobody has enabled it again; nothing was sent."""


Outcome = Answered | Unreachable | Blocked | Silenced


@dataclass(frozen=True, slots=True)
class Delivered:
    """The receiver has it."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Send again at this instant, under the same identifier."""

    at: datetime


@dataclass(frozen=True, slots=True)
class Dead:
    """Give up; the reason is for the operator."""

    reason: str


@dataclass(frozen=True, slots=True)
class Disabled:
    """The receiver said 410: send it nothing further until somebody enables it again."""


def after_attempt(
    state: DeliveryState, outcome: Outcome, *, now: datetime, jitter: float
) -> Delivered | Retry | Dead | Disabled:
    """What to do next; `jitter` in [0, 1) shortens the wait by up to a fifth, so that failures spread out."""
    match outcome:
        case Answered(status=status) if 200 <= status < 300:
            return Delivered()
        case Answered(status=410) | Silenced():
            return Disabled()
        case Blocked(reason=reason):
            return Dead(reason)
        case Answered(status=status, retry_after=retry_after):
            return _again(state, f"status_{status}", now=now, jitter=jitter, asked=retry_after)
        case Unreachable(reason=reason):
            return _again(state, reason, now=now, jitter=jitter, asked=None)
        case _:
            assert_never(outcome)


def _again(state: DeliveryState, reason: str, *, now: datetime, jitter: float, asked: int | None) -> Retry | Dead:
    if state.attempts > len(SCHEDULE_SECONDS):
        return Dead(reason)
    scheduled = timedelta(seconds=SCHEDULE_SECONDS[max(state.attempts, 1) - 1] * (1 - jitter / 5))
    wished = timedelta(seconds=min(asked or 0, _LONGEST_WISH_SECONDS))
    at = now + max(scheduled, wished)
    return Retry(at) if at <= state.created_at + GIVE_UP_AFTER else Dead(reason)
