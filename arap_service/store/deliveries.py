"""Every statement about deliveries: leases that keep two couriers from sending the same one at the same time.

A lease ends by itself, so a courier that dies holds nothing up for long; what it was sending is then sent again, under
the same id (ARS-97).
"""

from collections.abc import Collection, Sequence
from datetime import datetime

from sqlalchemy import and_, delete, or_, select, update
from sqlmodel import Session, col
from sqlmodel import select as select_rows

from arap_service.store.database import WriteSession
from arap_service.store.log_tables import SilencedEndpoint
from arap_service.store.rows import inserting
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


# Endpoints that want nothing more


def owner_of(delivery: Delivery) -> str:
    """Whose endpoint a delivery goes to: its client's, or the deployment's own."""
    if delivery.subscription is None:
        return delivery.client_id
    return f"urn:x-arap:subscription:{delivery.subscription}"


def is_silenced(session: Session, delivery: Delivery) -> bool:
    """Whether the receiver of this delivery has said that it wants nothing more."""
    return session.get(SilencedEndpoint, (owner_of(delivery), delivery.endpoint)) is not None


def silence(session: WriteSession, delivery: Delivery, *, now: datetime) -> None:
    """Send nothing more to where this delivery went, until somebody enables it again."""
    row = {"client_id": owner_of(delivery), "endpoint": delivery.endpoint, "at": now}
    session.execute(inserting(session, SilencedEndpoint).values(**row).on_conflict_do_nothing())


def silenced_endpoints(session: Session) -> Sequence[SilencedEndpoint]:
    """Every endpoint that nothing is sent to, the latest first."""
    return session.exec(select_rows(SilencedEndpoint).order_by(col(SilencedEndpoint.at).desc())).all()


def enable_endpoint(session: WriteSession, client_id: str, *, endpoint: str) -> bool:
    """Let deliveries go there again; whether they did not."""
    found = and_(col(SilencedEndpoint.client_id) == client_id, col(SilencedEndpoint.endpoint) == endpoint)
    return bool(session.execute(delete(SilencedEndpoint).where(found).returning(col(SilencedEndpoint.at))).all())


# For operators


def find_delivery(session: Session, delivery_id: str) -> Delivery | None:
    """The delivery with this id, as long as its request is kept."""
    return session.get(Delivery, delivery_id)


def attempts_of(session: Session, delivery_id: str) -> Sequence[DeliveryAttempt]:
    """Every attempt of a delivery, the first one first."""
    found = select_rows(DeliveryAttempt).where(DeliveryAttempt.delivery_id == delivery_id)
    return session.exec(found.order_by(col(DeliveryAttempt.number))).all()


def deliveries_page(
    session: Session, *, status: str | None, task_id: str | None, after: tuple[datetime, str] | None, limit: int
) -> Sequence[Delivery]:
    """At most `limit` deliveries, the newest first, after a place in that order."""
    found = select_rows(Delivery)
    if status is not None:
        found = found.where(Delivery.status == status)
    if task_id is not None:
        found = found.where(Delivery.task_id == task_id)
    if after is not None:
        at, delivery_id = after
        beyond = and_(col(Delivery.created_at) == at, col(Delivery.id) < delivery_id)
        found = found.where(or_(col(Delivery.created_at) < at, beyond))
    return session.exec(found.order_by(col(Delivery.created_at).desc(), col(Delivery.id).desc()).limit(limit)).all()


def restart_delivery(session: WriteSession, delivery_id: str, *, now: datetime) -> Delivery | None:
    """Make a delivery due now, its schedule beginning anew; None when there is none or it is just being sent."""
    free = or_(col(Delivery.lease_until).is_(None), col(Delivery.lease_until) <= now)
    return session.scalars(
        update(Delivery)
        .where(col(Delivery.id) == delivery_id, free)
        .values(
            status="pending",
            next_at=now,
            finished_at=None,
            restarted_at=now,
            earlier_attempts=col(Delivery.attempts),
            lease_owner=None,
            lease_until=None,
            version=col(Delivery.version) + 1,
        )
        .returning(Delivery),
        execution_options={"populate_existing": True},
    ).one_or_none()
