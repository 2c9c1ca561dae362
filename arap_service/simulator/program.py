"""What the simulator has been told to do and has not done yet: armed behaviours, and which of them applies now.

Kept in memory, because a rehearsal ends with its process. What is addressed to a task goes before what is addressed to
its template, that before the template's own script; within each, the order in which things were armed. Nothing is
carried out here. Transactions ask from threads of their own, hence the lock.
"""

import threading
from collections.abc import Callable, Collection, Hashable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from arap_service.domain.behaviours import Act, Endpoint, Group

MOST_ARMED: Final = 1000
PER_CALL: Final = frozenset({"reevaluation-retry", "reevaluation-request", "reevaluation-deny"})
"""Behaviours whose `times` counts answers about one call, and starts anew with its next permit."""
_MOST_CALLS: Final = 10_000
_ALWAYS: Final = datetime.min.replace(tzinfo=UTC)
Script = Callable[[str], tuple[Act, ...]]
"""The acts that the script of a template holds now, by its id."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a behaviour is addressed to: one task, all of a template, or an endpoint; None for the clock."""

    task: str | None = None
    template: str | None = None
    endpoint: Endpoint | None = None

    def said(self) -> dict[str, str]:
        """The target as it would be written down."""
        members = {"task": self.task, "template": self.template, "endpoint": self.endpoint}
        return {name: str(value) for name, value in members.items() if value is not None}


@dataclass(slots=True)
class Armed:
    """An act that waits for its occasion; `uses` are the occasions that it has been chosen for."""

    id: str
    act: Act
    target: Target
    at: datetime
    uses: dict[Hashable, int] = field(default_factory=dict)

    @property
    def left(self) -> int | None:
        """How many occasions it is still good for; None for any number."""
        if self.act.times is None or self.act.name in PER_CALL:
            return None
        return max(0, self.act.times - sum(self.uses.values()))

    def said(self) -> dict[str, Any]:
        """The entry as the control API shows it."""
        return {"id": self.id, **self.target.said(), **self.act.said(), "left": self.left}


@dataclass(frozen=True, slots=True)
class Occasion:
    """Something about one task; `subject` tells occasions of one kind apart, and each uses an act up once."""

    task: str
    template: str
    subject: Hashable


class Program:
    """The armed behaviours of one process."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._armed: list[Armed] = []
        self._scripted: dict[tuple[str, int, Act], Armed] = {}
        self._lock = threading.Lock()

    def arm(self, armed: Armed) -> bool:
        """Take `armed` in; false when there are too many."""
        with self._lock:
            self._armed = [each for each in self._armed if each.left != 0]
            if len(self._armed) >= MOST_ARMED:
                return False
            self._armed.append(armed)
            return True

    def clear(self) -> None:
        """Forget everything that was armed, and how often scripts have been followed."""
        with self._lock:
            self._armed.clear()
            self._scripted.clear()

    def listed(self) -> list[dict[str, Any]]:
        """What is armed, in the order in which it applies."""
        with self._lock:
            return [armed.said() for armed in self._armed if armed.left != 0]

    def choose(self, occasion: Occasion, group: Group, *, names: Collection[str] = ()) -> Armed | None:
        """The first act of this group (and of these names, if any) that applies, used up by one for this occasion.

        An act that was chosen for the same occasion before is chosen again at no cost.
        """
        with self._lock:
            for armed in self._of(occasion):
                if armed.act.behaviour.group is not group or (names and armed.act.name not in names):
                    continue
                if armed.left is None or occasion.subject in armed.uses:
                    return armed
                if armed.left:
                    armed.uses[occasion.subject] = 1
                    return armed
            return None

    def answer(self, occasion: Occasion) -> Act | None:
        """How to answer this re-evaluation instead of permitting it, one act after the other, each `times` times.

        After the last one it is None, and the counts of this call start anew.
        """
        with self._lock:
            about_calls = [armed for armed in self._of(occasion) if armed.act.name in PER_CALL]
            for armed in about_calls:
                done = armed.uses.get(occasion.subject, 0)
                if done < (armed.act.times or 1):
                    armed.uses[occasion.subject] = done + 1
                    if len(armed.uses) > _MOST_CALLS:
                        del armed.uses[next(iter(armed.uses))]
                    return armed.act
            for armed in about_calls:
                armed.uses.pop(occasion.subject, None)
            return None

    def fault_of(self, endpoint: Endpoint) -> Act | None:
        """What goes wrong at `endpoint` this time, used up by one."""
        with self._lock:
            for armed in self._armed:
                if armed.target.endpoint is endpoint and armed.left != 0:
                    # One occasion after the other, none like the one before: only their number matters.
                    armed.uses[endpoint] = armed.uses.get(endpoint, 0) + 1
                    return armed.act
            return None

    def _of(self, occasion: Occasion) -> Iterator[Armed]:
        yield from (armed for armed in self._armed if armed.target.task == occasion.task)
        yield from (armed for armed in self._armed if armed.target.template == occasion.template)
        for index, act in enumerate(self._script(occasion.template)):
            place = (occasion.template, index, act)
            if place not in self._scripted:
                # A script has always been there, so its delays count from the beginning of each task.
                self._scripted[place] = Armed("script", act, Target(template=occasion.template), _ALWAYS)
            yield self._scripted[place]
