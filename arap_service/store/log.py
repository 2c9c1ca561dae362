"""Every statement about the one log over all audit chains: places, checkpoints, leases and followers.

Whoever gives places holds the log alone until the end of its transaction; whoever appends to a chain never waits for
that. Nothing is decided here.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import ColumnElement, and_, func, or_, select, text
from sqlmodel import Session, col
from sqlmodel import select as select_rows

from arap_service.store.database import WriteSession
from arap_service.store.log_tables import AuditCheckpoint, AuditPlace, Follower, Lease
from arap_service.store.rows import inserting
from arap_service.store.tables import AuditEntry, AuditHead

_LOCK: Final = 0x61726C67  # whoever gives places holds this advisory lock
BATCH: Final = 500

Placed = tuple[AuditPlace, AuditEntry | None]


def hold_log(session: WriteSession) -> None:
    """Keep others from giving places and signing until this unit of work ends; on SQLite it is the only writer."""
    if session.get_bind().dialect.name == "postgresql":
        session.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})


def has_open_heads(session: Session) -> bool:
    """Whether any chain has an entry without a place."""
    return session.execute(select(col(AuditHead.chain)).where(_OPEN).limit(1)).first() is not None


def open_heads(session: WriteSession, *, limit: int) -> Sequence[AuditHead]:
    """Chains with entries that have no place, without those that somebody is appending to just now."""
    found = select_rows(AuditHead).where(_OPEN).order_by(col(AuditHead.chain)).limit(limit)
    return session.exec(found.with_for_update(skip_locked=True)).all()


_OPEN: Final = col(AuditHead.placed) < col(AuditHead.seq)


def unplaced(session: Session, heads: Sequence[AuditHead], *, limit: int) -> Sequence[AuditEntry]:
    """Entries of these chains that have no place, chain by chain in their order."""
    return session.exec(
        select_rows(AuditEntry)
        .join(AuditHead, col(AuditHead.chain) == col(AuditEntry.chain))
        .where(col(AuditEntry.chain).in_([head.chain for head in heads]))
        .where(col(AuditEntry.seq) > col(AuditHead.placed))
        .order_by(col(AuditEntry.chain), col(AuditEntry.seq))
        .limit(limit)
    ).all()


def last_position(session: Session) -> int:
    """The last place of the log, 0 when it is empty."""
    return session.execute(select(func.max(col(AuditPlace.position)))).scalar() or 0


def leaves(session: Session, *, after: int, until: int, limit: int) -> Sequence[AuditPlace]:
    """At most `limit` places after one and until another, in their order."""
    return session.exec(
        select_rows(AuditPlace)
        .where(col(AuditPlace.position) > after, col(AuditPlace.position) <= until)
        .order_by(col(AuditPlace.position))
        .limit(limit)
    ).all()


def placed_entries(
    session: Session, *, after: int, until: int, limit: int, conditions: Sequence[ColumnElement[bool]] = ()
) -> Sequence[Placed]:
    """Places in their order, each with its entry, or None where the entry is gone; conditions on the entry or place."""
    same = and_(col(AuditEntry.chain) == col(AuditPlace.chain), col(AuditEntry.seq) == col(AuditPlace.seq))
    rows: Sequence[Any] = session.execute(
        select(AuditPlace, AuditEntry)
        .join(AuditEntry, same, isouter=True)
        .where(col(AuditPlace.position) > after, col(AuditPlace.position) <= until, *conditions)
        .order_by(col(AuditPlace.position))
        .limit(limit)
    ).all()
    return [(row[0], row[1]) for row in rows]


def placed_entries_down(
    session: Session, *, after: int, until: int, limit: int, conditions: Sequence[ColumnElement[bool]] = ()
) -> Sequence[tuple[int, AuditEntry]]:
    """Entries that are there, with their places, the last place first; `conditions` are on the entry."""
    same = and_(col(AuditEntry.chain) == col(AuditPlace.chain), col(AuditEntry.seq) == col(AuditPlace.seq))
    rows: Sequence[Any] = session.execute(
        select(col(AuditPlace.position), AuditEntry)
        .join(AuditEntry, same)
        .where(col(AuditPlace.position) > after, col(AuditPlace.position) <= until, *conditions)
        .order_by(col(AuditPlace.position).desc())
        .limit(limit)
    ).all()
    return [(row[0], row[1]) for row in rows]


def time_at(session: Session, position: int) -> datetime | None:
    """When the entry at this place was made; None when it is gone."""
    same = and_(col(AuditEntry.chain) == col(AuditPlace.chain), col(AuditEntry.seq) == col(AuditPlace.seq))
    return session.execute(
        select(col(AuditEntry.at)).join(AuditPlace, same).where(col(AuditPlace.position) == position)
    ).scalar_one_or_none()


# Checkpoints


def last_checkpoint(session: Session) -> AuditCheckpoint | None:
    """The newest checkpoint."""
    return session.exec(select_rows(AuditCheckpoint).order_by(col(AuditCheckpoint.number).desc()).limit(1)).first()


def checkpoints(session: Session) -> Iterator[AuditCheckpoint]:
    """All checkpoints, the oldest first."""
    return iter(session.exec(select_rows(AuditCheckpoint).order_by(col(AuditCheckpoint.number))))


# What no place shows


def heads(session: Session, *, after: str, limit: int) -> Sequence[AuditHead]:
    """At most `limit` heads of chains in the order of their names."""
    found = select_rows(AuditHead).where(col(AuditHead.chain) > after)
    return session.exec(found.order_by(col(AuditHead.chain)).limit(limit)).all()


def stray_entries(session: Session, *, limit: int) -> Sequence[tuple[str, int]]:
    """Entries that no head knows of: of a chain without a head, or after the chain's last."""
    beyond = or_(col(AuditHead.chain).is_(None), col(AuditEntry.seq) > col(AuditHead.seq))
    found = (
        select(col(AuditEntry.chain), col(AuditEntry.seq))
        .join(AuditHead, col(AuditHead.chain) == col(AuditEntry.chain), isouter=True)
        .where(beyond)
    )
    rows = session.execute(found.order_by(col(AuditEntry.chain), col(AuditEntry.seq)).limit(limit)).all()
    return [(chain, seq) for chain, seq in rows]


# Reading one part of it


def entries_of_chain(session: Session, chain: str, *, after: int, limit: int) -> Sequence[AuditEntry]:
    """At most `limit` entries of one chain after one of them."""
    found = select_rows(AuditEntry).where(AuditEntry.chain == chain, col(AuditEntry.seq) > after)
    return session.exec(found.order_by(col(AuditEntry.seq)).limit(limit)).all()


# Leases and followers


def take_lease(session: WriteSession, name: str, *, owner: str, now: datetime, until: datetime) -> bool:
    """Take or keep the lease of this name until then, unless somebody else holds it; whether it is the owner's now."""
    held = session.execute(
        inserting(session, Lease)
        .values(name=name, owner=owner, until=until)
        .on_conflict_do_update(
            index_elements=["name"],
            set_={"owner": owner, "until": until},
            where=or_(col(Lease.owner) == owner, col(Lease.until) <= now),
        )
        .returning(col(Lease.owner))
    ).first()
    return held is not None


def position_of_follower(session: Session, name: str) -> int | None:
    """How far this reader has come, None before it has begun."""
    return session.execute(select(col(Follower.position)).where(col(Follower.name) == name)).scalar()


def follower(session: WriteSession, name: str) -> Follower | None:
    """How far this reader has come; others of its name wait until the transaction ends. None if it begins here."""
    row = {"name": name, "position": last_position(session)}
    begun = inserting(session, Follower).values(**row).on_conflict_do_nothing().returning(col(Follower.name))
    if session.execute(begun).first() is not None:
        return None
    return session.get(Follower, name, with_for_update=True)
