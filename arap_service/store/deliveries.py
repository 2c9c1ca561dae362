"""Every statement about deliveries: leases that keep two couriers from sending the same one at the same time.

A lease ends by itself, so a courier that dies holds nothing up for long; what it was sending is then sent again, under
the same id (ARS-97).
"""

from collections.abc import Collection, Sequence
from datetime import datetime

from sqlalchemy import or_, select, update
from sqlmodel import Session, col

from arap_service.store.database import WriteSession
from arap_service.store.tables import Delivery, DeliveryAttempt, Task


def lease_due_deliveries(
    session: WriteSession, *, owner: str, now: datetime, until: datetime, limit: int, not_to: Collection[str] = ()
) -> Sequence[Delivery]:
    """Take at most `limit` due deliveries for `owner`, the longest due first, none to the endpoints in `not_to`."""
    free = or_(col(Delivery.lease_until).is_(None), col(Delivery.lease_until) <= now)
    due = (
        select(col(Delivery.id))
        .where(col(Delivery.status) == "pending", col(Delivery.next_at) <= now, free)
        .where(col(Delivery.endpoint).not_in(list(not_to)))
        .order_by(col(Delivery.next_at), col(Delivery.id))
        .limit(limit)
        .with_for_update(skip_locked=True)
    )
    return session.scalars(
        update(Delivery)
        .where(col(Delivery.id).in_(due))
        .values(lease_owner=owner, lease_until=until, version=col(Delivery.version) + 1)
        .returning(Delivery),
        execution_options={"populate_existing": True},
    ).all()


def task_of_delivery(session: Session, delivery: Delivery) -> Task:
    """The task that a delivery tells about; a foreign key keeps it in place."""
    return session.get_one(Task, delivery.task_id)


def finish_attempt(
    session: WriteSession,
    delivery: Delivery,
    *,
    status: str,
    next_at: datetime,
    finished_at: datetime | None,
    error: str | None,
) -> bool:
    """Record what an attempt came to, if the lease under which it was made is still held; whether it was."""
    changed = session.execute(
        update(Delivery)
        .where(
            col(Delivery.id) == delivery.id,
            col(Delivery.version) == delivery.version,
            col(Delivery.lease_owner) == delivery.lease_owner,
            col(Delivery.status) == "pending",
        )
        .values(
            status=status,
            attempts=delivery.attempts + 1,
            next_at=next_at,
            finished_at=finished_at,
            last_error=error,
            lease_owner=None,
            lease_until=None,
            version=delivery.version + 1,
        )
        .returning(col(Delivery.id))
    ).all()
    return bool(changed)


def add_attempt(session: WriteSession, attempt: DeliveryAttempt) -> None:
    """Keep one attempt for those who look into what happened."""
    session.add(attempt)
