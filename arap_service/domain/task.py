"""The life of an access request task: states, events, one table, one function.

Decides what an event does to a task. It does not decide who may cause the event (`reviewers.py`), whether the workflow
is complete (`workflow.py`) or how the outcome is stored (compare-and-set in `store/`). Access Request and Approval
Profile, "Task Status Values" and "State Transitions". `partial` is an aggregate of items; no single task enters it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Final

from arap_service.protocol.arap import TaskStatus


@dataclass(frozen=True, slots=True)
class Approve:
    """The workflow has completed in favour."""


@dataclass(frozen=True, slots=True)
class Deny:
    """A veto or an evaluator has ended the workflow."""


@dataclass(frozen=True, slots=True)
class Cancel:
    """Somebody entitled to do so has withdrawn the request."""


@dataclass(frozen=True, slots=True)
class Expire:
    """The pending deadline has passed."""


@dataclass(frozen=True, slots=True)
class Fail:
    """The workflow cannot be carried out."""


Event = Approve | Deny | Cancel | Expire | Fail

TRANSITIONS: Final[Mapping[tuple[TaskStatus, type[Event]], TaskStatus]] = MappingProxyType(
    {
        (TaskStatus.PENDING, Approve): TaskStatus.APPROVED,
        (TaskStatus.PENDING, Deny): TaskStatus.DENIED,
        (TaskStatus.PENDING, Cancel): TaskStatus.CANCELLED,
        (TaskStatus.PENDING, Expire): TaskStatus.EXPIRED,
        (TaskStatus.PENDING, Fail): TaskStatus.FAILED,
    }
)


@dataclass(frozen=True, slots=True)
class TaskState:
    """What the decision rests on; `deadline` is the pending deadline, an instant that no longer belongs to the task."""

    id: str
    status: TaskStatus
    version: int
    deadline: datetime


@dataclass(frozen=True, slots=True)
class Grant:
    """Record an approval in the same transaction."""


@dataclass(frozen=True, slots=True)
class Record:
    """Append an entry of this kind to the task's audit chain in the same transaction."""

    kind: str


@dataclass(frozen=True, slots=True)
class Notify:
    """Queue a notification of this terminal status for the enforcement point, if it asked for one."""

    status: TaskStatus


Effect = Grant | Record | Notify


@dataclass(frozen=True, slots=True)
class Transition:
    """The task goes from one status to another; the caller turns the effects into rows in the same transaction."""

    from_: TaskStatus
    to: TaskStatus
    effects: tuple[Effect, ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """The event changes nothing; `reason` is `terminal`, `deadline_passed` or `deadline_not_reached`."""

    reason: str
    current: TaskStatus


def decide(task: TaskState, event: Event, *, now: datetime) -> Transition | Refused:
    """What `event` does to `task`. Pure: same input, same answer, nothing written."""
    target = TRANSITIONS.get((task.status, type(event)))
    if target is None:
        return Refused("terminal", task.status)  # ARS-55: terminal states are frozen
    overdue = now >= task.deadline
    if isinstance(event, Approve | Deny | Cancel) and overdue:
        # ARS-120: no sweeper need have run; the deadline itself ends the task, and the caller expires it.
        return Refused("deadline_passed", task.status)
    if isinstance(event, Expire) and not overdue:
        return Refused("deadline_not_reached", task.status)
    grants: tuple[Effect, ...] = (Grant(),) if target is TaskStatus.APPROVED else ()
    return Transition(task.status, target, (*grants, Record(f"task_{target.value}"), Notify(target)))
