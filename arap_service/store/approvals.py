"""Every statement about the approvals that are in force, and what has run with them."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Final

from sqlalchemy import ColumnElement, and_, exists, or_
from sqlmodel import Session, col, select

from arap_service.store.tables import Approval, Execution, Task

USES: Final = ("approved-executed", "execution-error", "outcome-unknown")
"""Reports that say that something was started."""

Place = tuple[datetime, str]


def was_used() -> ColumnElement[bool]:
    """A condition: something was started with the approval."""
    return exists().where(
        col(Execution.task_id) == col(Approval.task_id),
        col(Execution.approval_id) == col(Approval.id),
        col(Execution.disposition).in_(USES),
    )


def approvals_in_force(
    session: Session, *, now: datetime, conditions: Sequence[ColumnElement[bool]], after: Place | None, limit: int
) -> Sequence[tuple[Approval, Task]]:
    """At most `limit` approvals that have neither ended nor run out, the one that runs out next first."""
    until, key = col(Approval.approved_until), col(Approval.id)
    found = (
        select(Approval, Task)
        .join(Task, col(Task.id) == col(Approval.task_id))
        .where(Approval.status == "active", until > now, *conditions)
    )
    if after is not None:
        found = found.where(or_(until > after[0], and_(until == after[0], key > after[1])))
    return [(row[0], row[1]) for row in session.exec(found.order_by(until, key).limit(limit))]


def reports_on(session: Session, approvals: Collection[Approval]) -> Sequence[Execution]:
    """What was reported about these approvals, the oldest report first."""
    found = select(Execution).where(
        col(Execution.task_id).in_([each.task_id for each in approvals]),
        col(Execution.approval_id).in_([each.id for each in approvals]),
    )
    return session.exec(found.order_by(col(Execution.received_at), col(Execution.id))).all()
