"""When a step reminds, asks further people, and runs out: moments that follow from when it opened.

Moments only; what is done at them, and that a decision is judged by the clock and not by what has been done, is decided
in `requests/step_times.py`. See design.md section 4, "A step".
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

OnDeadline = Literal["deny", "expire", "escalate"]
DueKind = Literal["remind", "escalate", "deadline"]


@dataclass(frozen=True, slots=True)
class Escalation:
    """Who may decide as well when nobody has for `after_seconds`; None leaves that to the deadline."""

    after_seconds: int | None
    groups: frozenset[str] = frozenset()
    people: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Timing:
    """What happens while a step waits, in seconds since it opened."""

    remind_seconds: tuple[int, ...] = ()
    escalate: Escalation | None = None
    deadline_seconds: int | None = None
    on_deadline: OnDeadline = "expire"


@dataclass(frozen=True, slots=True)
class Due:
    """Something that is to be done at a moment; `number` tells one reminder from the next."""

    kind: DueKind
    number: int
    at: datetime


def dues(timing: Timing, opened_at: datetime) -> Iterator[Due]:
    """Everything that becomes due with a step that opened then."""
    for number, seconds in enumerate(sorted(timing.remind_seconds), start=1):
        yield Due("remind", number, opened_at + timedelta(seconds=seconds))
    if timing.escalate is not None:
        first = _first(timing)
        if first is not None:
            yield Due("escalate", 1, opened_at + timedelta(seconds=first))
    end = deadline_of(timing, opened_at)
    if end is not None:
        yield Due("deadline", 1, end)


def deadline_of(timing: Timing, opened_at: datetime | None) -> datetime | None:
    """When the step, and with it the request, is over; None when its deadline only asks further people, or is none."""
    if opened_at is None or timing.deadline_seconds is None or timing.on_deadline == "escalate":
        return None
    return opened_at + timedelta(seconds=timing.deadline_seconds)


def timing_as_json(timing: Timing) -> dict[str, Any] | None:
    """How a request keeps the timing that it was made with; None for none at all."""
    if timing == Timing():
        return None
    escalate = timing.escalate
    return {
        "remind": list(timing.remind_seconds),
        "escalate": None
        if escalate is None
        else {
            "after": escalate.after_seconds,
            "groups": sorted(escalate.groups),
            "people": sorted(escalate.people),
        },
        "deadline": timing.deadline_seconds,
        "on_deadline": timing.on_deadline,
    }


def timing_of(kept: Mapping[str, Any] | None) -> Timing:
    """The timing in that form."""
    if kept is None:
        return Timing()
    to = kept["escalate"]
    escalate = None if to is None else Escalation(to["after"], frozenset(to["groups"]), frozenset(to["people"]))
    return Timing(tuple(kept["remind"]), escalate, kept["deadline"], kept["on_deadline"])


def _first(timing: Timing) -> int | None:
    """After how many seconds further people are asked: when it says so, and at a deadline that does that."""
    given = [] if timing.escalate is None else [timing.escalate.after_seconds]
    given += [timing.deadline_seconds] if timing.on_deadline == "escalate" else []
    return min((each for each in given if each is not None), default=None)
