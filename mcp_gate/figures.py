"""What the gate's database tells an operator: what is open and how old, what ended how, what one task went through.

Reads only, and reads no sealed column: arguments, results and handles are not to be had here. Design section 8.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Connection, Select, func, select

from mcp_gate.lifecycle import Phase
from mcp_gate.tables import DeliveryState, audit, outbox, task

_LISTED: Final = 500
_SHOWN: Final = (
    "id",
    "phase",
    "ending",
    "cause",
    "generation",
    "server",
    "tool",
    "iss",
    "sub",
    "client_id",
    "agent",
    "created_at",
    "updated_at",
    "pending_deadline",
    "approved_until",
    "execution_deadline",
    "terminalized_at",
    "next_due",
    "purge_at",
    "attempts",
)


@dataclass(frozen=True, slots=True)
class Open:
    """How many tasks are in a phase, and since when the oldest of them exists."""

    phase: str
    count: int
    oldest: datetime


@dataclass(frozen=True, slots=True)
class Figures:
    """What is stored at one moment; `ended` counts the tasks that are not purged yet, by how they ended."""

    open: tuple[Open, ...]
    ended: dict[str, int]
    waiting: int
    dead: int


def figures(connection: Connection) -> Figures:
    """Everything that `/metrics` shows of the database."""
    is_open, is_done = task.c.phase != Phase.DONE, task.c.phase == Phase.DONE
    by_phase = select(task.c.phase, func.count(), func.min(task.c.created_at)).where(is_open).group_by(task.c.phase)
    ended = _counted(connection, select(task.c.ending, func.count()).where(is_done).group_by(task.c.ending))
    sent = _counted(connection, select(outbox.c.state, func.count()).group_by(outbox.c.state))
    return Figures(
        tuple(Open(*row) for row in connection.execute(by_phase)),
        ended,
        sent.get(DeliveryState.WAITING, 0),
        sent.get(DeliveryState.DEAD, 0),
    )


def _counted(connection: Connection, statement: Select[Any]) -> dict[str, int]:
    return {row[0]: row[1] for row in connection.execute(statement)}


def listed_tasks(connection: Connection, *, phase: Phase | None, tool: str | None) -> Sequence[dict[str, Any]]:
    """Tasks, the newest first, at most 500; without `phase` only those that are open."""
    wanted = select(*(task.c[name] for name in _SHOWN))
    wanted = wanted.where(task.c.phase != Phase.DONE if phase is None else task.c.phase == phase)
    if tool is not None:
        wanted = wanted.where(task.c.tool == tool)
    rows = connection.execute(wanted.order_by(task.c.created_at.desc(), task.c.id).limit(_LISTED))
    return [dict(row) for row in rows.mappings()]


def shown_task(connection: Connection, task_id: str) -> dict[str, Any] | None:
    """One task with its record and its deliveries; None when there is neither the task nor a record of it."""
    row = connection.execute(select(*(task.c[name] for name in _SHOWN)).where(task.c.id == task_id)).mappings().first()
    record = select(audit.c.at, audit.c.kind, audit.c.detail).where(audit.c.task_id == task_id).order_by(audit.c.seq)
    lines = [dict(line) for line in connection.execute(record).mappings()]
    if row is None and not lines:
        return None
    sent = select(outbox.c.kind, outbox.c.state, outbox.c.attempts, outbox.c.due_at, outbox.c.created_at)
    deliveries = connection.execute(sent.where(outbox.c.task_id == task_id).order_by(outbox.c.created_at)).mappings()
    shown: dict[str, Any] = {"id": task_id, "purged": True} if row is None else dict(row)
    return {**shown, "deliveries": [dict(each) for each in deliveries], "record": lines}
