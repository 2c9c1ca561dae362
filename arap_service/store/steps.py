"""Every statement about what becomes due with the steps of requests, and about further people who are asked."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import update
from sqlmodel import Session, col, select

from arap_service.store.database import WriteSession
from arap_service.store.step_tables import StepDue
from arap_service.store.tables import StepState, StepVoice, Task


def tasks_with_due(session: Session, *, now: datetime, limit: int) -> Sequence[str]:
    """The requests with something to be done now, the longest overdue first; at most that many things are looked at."""
    found = session.exec(
        select(StepDue.task_id)
        .where(col(StepDue.done_at).is_(None), col(StepDue.due_at) <= now)
        .order_by(col(StepDue.due_at))
        .limit(limit)
    )
    return list(dict.fromkeys(found))


def take_due(session: WriteSession, task: Task, *, now: datetime) -> Sequence[StepDue]:
    """What is to be done now with this request and nobody has done yet, in order of time; it counts as done."""
    found = session.scalars(
        update(StepDue)
        .where(col(StepDue.task_id) == task.id, col(StepDue.done_at).is_(None), col(StepDue.due_at) <= now)
        .values(done_at=now)
        .returning(StepDue)
    ).all()
    order = {"remind": 0, "escalate": 1, "deadline": 2}
    return sorted(found, key=lambda due: (due.due_at, due.item, due.step_id, order[due.kind], due.number))


def find_step(session: Session, due: StepDue) -> StepState | None:
    """The step that something is due with, as it stands now."""
    return session.get(StepState, (due.task_id, due.item, due.step_id), populate_existing=True)


def add_voice(session: WriteSession, state: StepState, *, kind: str, name: str) -> bool:
    """Let somebody speak in the step as well; whether he could not before."""
    if session.get(StepVoice, (state.task_id, state.item, state.step_id, kind, name)) is not None:
        return False
    session.add(StepVoice(task_id=state.task_id, item=state.item, step_id=state.step_id, kind=kind, name=name))
    return True


def mark_escalated(session: WriteSession, state: StepState, *, at: datetime) -> None:
    """Record that further people have been asked."""
    session.execute(
        update(StepState)
        .where(
            col(StepState.task_id) == state.task_id,
            col(StepState.item) == state.item,
            col(StepState.step_id) == state.step_id,
        )
        .values(escalated_at=at)
    )
