"""Every statement about the reviews of emergencies: opened once by the first use, closed once."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import func, update
from sqlmodel import Session, col, select

from arap_service.store.database import WriteSession
from arap_service.store.review_tables import EmergencyReview
from arap_service.store.rows import inserting
from arap_service.store.tables import Task
from arap_service.store.tasks import is_storable


def open_review(
    session: WriteSession, *, approval_id: str, task_id: str, item: int, now: datetime, due_at: datetime
) -> bool:
    """Open the review of an approval unless it has one; whether it is new."""
    made = inserting(session, EmergencyReview).values(
        approval_id=approval_id, task_id=task_id, item=item, opened_at=now, due_at=due_at
    )
    stored = made.on_conflict_do_nothing(index_elements=["approval_id"]).returning(col(EmergencyReview.approval_id))
    return session.execute(stored).first() is not None


def find_review(session: Session, approval_id: str) -> tuple[EmergencyReview, Task] | None:
    """The review of an approval with the request that it belongs to."""
    if not is_storable(approval_id):
        return None
    found = session.exec(
        select(EmergencyReview, Task)
        .join(Task, col(Task.id) == col(EmergencyReview.task_id))
        .where(EmergencyReview.approval_id == approval_id)
    ).first()
    return None if found is None else (found[0], found[1])


def reviews_page(
    session: Session,
    *,
    is_open: bool | None,
    due_before: datetime | None,
    after: tuple[datetime, str] | None,
    limit: int,
) -> Sequence[tuple[EmergencyReview, Task]]:
    """Reviews with their requests, the one that is due first before the others, after a place in that order."""
    wanted = select(EmergencyReview, Task).join(Task, col(Task.id) == col(EmergencyReview.task_id))
    if is_open is not None:
        closed_at = col(EmergencyReview.closed_at)
        wanted = wanted.where(closed_at.is_(None) if is_open else closed_at.is_not(None))
    if due_before is not None:
        wanted = wanted.where(col(EmergencyReview.due_at) < due_before)
    place = (col(EmergencyReview.due_at), col(EmergencyReview.approval_id))
    if after is not None:
        at, approval_id = after
        wanted = wanted.where((place[0] > at) | ((place[0] == at) & (place[1] > approval_id)))
    return [(review, task) for review, task in session.exec(wanted.order_by(*place).limit(limit))]


def overdue(session: Session, *, now: datetime, limit: int) -> Sequence[tuple[EmergencyReview, Task]]:
    """Open reviews that should be done by now, the longest overdue first."""
    return reviews_page(session, is_open=True, due_before=now, after=None, limit=limit)


def overdue_count(session: Session, *, now: datetime) -> int:
    """How many open reviews should be done by now."""
    is_late = (col(EmergencyReview.closed_at).is_(None), col(EmergencyReview.due_at) < now)
    return session.exec(select(func.count()).select_from(EmergencyReview).where(*is_late)).one()


def close_review(session: WriteSession, approval_id: str, *, at: datetime, by: str, outcome: str, note: bytes) -> bool:
    """Open → closed; whether it was still open."""
    done = session.execute(
        update(EmergencyReview)
        .where(col(EmergencyReview.approval_id) == approval_id, col(EmergencyReview.closed_at).is_(None))
        .values(closed_at=at, closed_by=by, outcome=outcome, note_sealed=note)
        .returning(col(EmergencyReview.approval_id))
    )
    return done.first() is not None
