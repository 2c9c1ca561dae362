"""Every statement about delegations."""

from collections.abc import Collection, Sequence
from datetime import datetime

from sqlalchemy import func, or_, update
from sqlmodel import Session, col, select

from arap_service.store.database import WriteSession
from arap_service.store.delegation_tables import Delegation


def in_force_for(session: Session, deputy_id: str, *, now: datetime) -> Sequence[Delegation]:
    """The delegations by which this person decides in the place of others at this moment."""
    return session.exec(
        select(Delegation)
        .where(
            Delegation.deputy_id == deputy_id,
            col(Delegation.ends_at) > now,
            col(Delegation.starts_at) <= now,
            col(Delegation.ended_at).is_(None),
        )
        .order_by(col(Delegation.id))
    ).all()


def deputies_of(session: Session, person_ids: Collection[str], *, now: datetime) -> frozenset[str]:
    """Everybody who decides in the place of one of these people at this moment."""
    found = select(Delegation.deputy_id).where(
        col(Delegation.person_id).in_(tuple(person_ids)),
        col(Delegation.ends_at) > now,
        col(Delegation.starts_at) <= now,
        col(Delegation.ended_at).is_(None),
    )
    return frozenset(session.exec(found))


def away(session: Session, person_ids: Collection[str], *, now: datetime) -> Sequence[Delegation]:
    """What lets others decide in the place of these people at this moment, the one that ends last being the last."""
    return session.exec(
        select(Delegation)
        .where(
            col(Delegation.person_id).in_(tuple(person_ids)),
            col(Delegation.ends_at) > now,
            col(Delegation.starts_at) <= now,
            col(Delegation.ended_at).is_(None),
        )
        .order_by(col(Delegation.ends_at), col(Delegation.id))
    ).all()


def listed(
    session: Session, *, person_id: str | None, now: datetime, with_past: bool, limit: int
) -> Sequence[Delegation]:
    """Delegations of or to this person, or everybody's; the latest first, without those that are over unless wanted."""
    statement = select(Delegation)
    if person_id is not None:
        statement = statement.where(or_(col(Delegation.person_id) == person_id, col(Delegation.deputy_id) == person_id))
    if not with_past:
        statement = statement.where(col(Delegation.ends_at) > now, col(Delegation.ended_at).is_(None))
    order = (col(Delegation.starts_at).desc(), col(Delegation.id))
    return session.exec(statement.order_by(*order).limit(limit)).all()


def open_count(session: Session, person_id: str, *, now: datetime) -> int:
    """How many delegations of this person are in force or to come."""
    return session.exec(
        select(func.count())
        .select_from(Delegation)
        .where(Delegation.person_id == person_id, col(Delegation.ends_at) > now, col(Delegation.ended_at).is_(None))
    ).one()


def find(session: Session, delegation_id: str) -> Delegation | None:
    """The delegation with this id."""
    return session.get(Delegation, delegation_id)


def end(session: WriteSession, delegation_id: str, *, at: datetime, by: str) -> Delegation | None:
    """End what is not over yet; the new row, or None when it was over."""
    return session.scalars(
        update(Delegation)
        .where(col(Delegation.id) == delegation_id, col(Delegation.ended_at).is_(None), col(Delegation.ends_at) > at)
        .values(ended_at=at, ended_by=by)
        .returning(Delegation),
        execution_options={"populate_existing": True},
    ).one_or_none()
