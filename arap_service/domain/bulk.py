"""The life of a request for several things: each item lives like a task of its own, and the whole follows its items.

Decides what an event does to one item and what status the whole has then. An item is never `partial`; the whole is so
when its items have ended differently. Nobody is told about a single item: notifications are about the whole, whose
handle lists the items. Access Request and Approval Profile, "Access Request Response", "Cancellation".
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from arap_service.domain.task import Effect, Event, Notify, Record, Refused, TaskState, Transition, decide
from arap_service.protocol.arap import TERMINAL, TaskStatus

ENDED: Final = frozenset(TERMINAL - {TaskStatus.PARTIAL})
"""The statuses that an item ends in."""


def aggregate(statuses: Sequence[str]) -> TaskStatus:
    """The status of the whole; a status that nobody defines is one that has not ended (ARS-82, ARS-83)."""
    if not statuses or not ENDED.issuperset(statuses):
        return TaskStatus.PENDING
    return TaskStatus(statuses[0]) if len(set(statuses)) == 1 else TaskStatus.PARTIAL


def decide_item(item: TaskState, event: Event, *, now: datetime) -> Transition | Refused:
    """What `event` does to one item of a bundle. Pure: same input, same answer, nothing written."""
    found = decide(item, event, now=now)
    if isinstance(found, Refused):
        return found
    kept: tuple[Effect, ...] = tuple(
        Record(f"item_{found.to.value}") if isinstance(effect, Record) else effect
        for effect in found.effects
        if not isinstance(effect, Notify)
    )
    return Transition(found.from_, found.to, kept)


def settle(statuses: Sequence[str]) -> Transition | None:
    """The end of the whole, once every item has ended; None before that."""
    target = aggregate(statuses)
    if target is TaskStatus.PENDING:
        return None
    return Transition(TaskStatus.PENDING, target, (Record(f"task_{target.value}"), Notify(target)))
