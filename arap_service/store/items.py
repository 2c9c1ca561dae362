"""Every statement about the items of bundled requests: what is there, the guarded transitions, who holds an evaluation.

Whoever changes an item holds the row of its task first (`tasks.find_task` with `for_update`), so that the status of the
whole is always computed over items that nobody else is changing. Nothing is decided here.
"""

from collections.abc import Collection, Sequence
from datetime import datetime

from sqlalchemy import ColumnElement, update
from sqlmodel import Session, col, select

from arap_service.store.database import WriteSession
from arap_service.store.item_tables import TaskItem
from arap_service.store.tables import Task


def items_of(session: Session, task_ids: Collection[str]) -> Sequence[TaskItem]:
    """The items of these tasks, of each in their order."""
    if not task_ids:
        return ()
    return session.exec(
        select(TaskItem)
        .where(col(TaskItem.task_id).in_(task_ids))
        .order_by(col(TaskItem.task_id), col(TaskItem.item))
        .execution_options(populate_existing=True)
    ).all()


def find_item(session: Session, task_id: str, item: int) -> TaskItem | None:
    """One item of a task."""
    return session.get(TaskItem, (task_id, item))


def find_open_task(
    session: Session, *, evaluation_id: str, issuer: str | None, submitter: str, client_id: str
) -> Task | None:
    """The bundled request of this requester with an open item about this evaluation; as `tasks.find_open_task`."""
    return session.exec(
        select(Task)
        .join(TaskItem, col(TaskItem.task_id) == col(Task.id))
        .where(
            col(TaskItem.evaluation_id) == evaluation_id,
            col(TaskItem.binding_iss).is_not_distinct_from(issuer),
            col(TaskItem.status) == "pending",
            Task.submitter == submitter,
            Task.client_id == client_id,
        )
    ).first()


def end_item(
    session: WriteSession, task_id: str, item: int, *, seen: int, to: str, at: datetime, by: str, decision: bytes | None
) -> TaskItem | None:
    """Pending → `to`, if the item still is what the decider has seen; the new row, or None for a lost race."""
    return session.scalars(
        update(TaskItem)
        .where(
            col(TaskItem.task_id) == task_id,
            col(TaskItem.item) == item,
            col(TaskItem.version) == seen,
            col(TaskItem.status) == "pending",
        )
        .values(status=to, version=seen + 1, ended_at=at, ended_by=by, decision_sealed=decision)
        .returning(TaskItem),
        execution_options={"populate_existing": True},
    ).one_or_none()


def touch_item(session: WriteSession, task_id: str, item: int, *, seen: int) -> TaskItem | None:
    """Pending → pending with the next version, for a vote that ends nothing; None for a lost race."""
    return session.scalars(
        update(TaskItem)
        .where(
            col(TaskItem.task_id) == task_id,
            col(TaskItem.item) == item,
            col(TaskItem.version) == seen,
            col(TaskItem.status) == "pending",
        )
        .values(version=seen + 1)
        .returning(TaskItem),
        execution_options={"populate_existing": True},
    ).one_or_none()


def advance_bundle(session: WriteSession, task_id: str, *, pending_until: datetime) -> None:
    """Give an open bundle its next version and the deadline of the items that are still open."""
    session.execute(
        update(Task)
        .where(col(Task.id) == task_id, col(Task.status) == "pending")
        .values(version=col(Task.version) + 1, pending_until=pending_until)
    )


def has_item_of(template: str) -> ColumnElement[bool]:
    """A condition on tasks: one of its items is of this template."""
    return col(Task.id).in_(select(col(TaskItem.task_id)).where(TaskItem.template_id == template))


def has_item_named(text: str) -> ColumnElement[bool]:
    """A condition on tasks: the resource of one of its items has `text` in its name."""
    named = col(TaskItem.resource_id).icontains(text, autoescape=True)
    return col(Task.id).in_(select(col(TaskItem.task_id)).where(named))
