"""Every statement about how the service fares: what waits, what is stuck, which tables there are.

Counts and ages only; no row of a request and nothing of a person leaves this file. Nothing is decided here.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import Integer, bindparam, column, func, literal_column, or_, select, table, text, union_all
from sqlmodel import Session, col

from arap_service.store.database import connection_of
from arap_service.store.log import last_checkpoint, last_position
from arap_service.store.people import counts
from arap_service.store.people_tables import Account, Identity, Manager, Membership, Person
from arap_service.store.tables import Delivery, SigningKey, Task

_VERSIONS = table("service_version", column("version_num"))
_MORE_OPEN: Final = (  # made once, and the status written out, since either would take longer than running it
    select(col(Task.id))
    .where(col(Task.client_id) == bindparam("client_id"), col(Task.status) == literal_column("'pending'"))
    .offset(bindparam("than", type_=Integer()))
    .limit(1)
)


@dataclass(frozen=True, slots=True)
class OpenTasks:
    """How many requests of one template are pending, and since when the oldest of them is."""

    template_id: str
    count: int
    oldest: datetime


@dataclass(frozen=True, slots=True)
class Backlog:
    """Deliveries that are not done: `waiting` in all, the oldest of them since `oldest`, and given up for good."""

    waiting: int
    oldest: datetime | None
    dead: int
    disabled: int


@dataclass(frozen=True, slots=True)
class AuditLog:
    """How long the log is, how much of it the newest checkpoint covers, and when that was signed."""

    entries: int
    covered: int
    signed_at: datetime | None


def audit_log(session: Session) -> AuditLog:
    """How the audit log stands; an entry that has no place in it yet is not counted."""
    checkpoint = last_checkpoint(session)
    if checkpoint is None:
        return AuditLog(last_position(session), 0, None)
    return AuditLog(last_position(session), checkpoint.size, checkpoint.at)


def open_tasks(session: Session) -> list[OpenTasks]:
    """The pending requests, by template."""
    rows = session.execute(
        select(col(Task.template_id), func.count(), func.min(col(Task.created_at)))
        .where(col(Task.status) == "pending")
        .group_by(col(Task.template_id))
    )
    return [OpenTasks(template_id, count, oldest) for template_id, count, oldest in rows]


def has_more_open(session: Session, client_id: str, *, than: int) -> bool:
    """Whether the client has more pending requests than this; looks at one more than that at most."""
    return connection_of(session).execute(_MORE_OPEN, {"client_id": client_id, "than": than}).first() is not None


def backlog(session: Session) -> Backlog:
    """What the courier still has to do, and what it has given up."""
    rows = session.execute(
        select(col(Delivery.status), func.count(), func.min(col(Delivery.created_at)))
        .where(col(Delivery.status).in_(("pending", "dead", "disabled")))
        .group_by(col(Delivery.status))
    )
    found = {status: (count, oldest) for status, count, oldest in rows}
    waiting, oldest = found.get("pending", (0, None))
    return Backlog(waiting, oldest, found.get("dead", (0, None))[0], found.get("disabled", (0, None))[0])


def revision(session: Session) -> str | None:
    """The revision of the tables, or None where nothing was ever migrated.

    Raises:
        sqlalchemy.exc.SQLAlchemyError: There is no table of revisions.
    """
    return session.execute(select(_VERSIONS.c.version_num)).scalar_one_or_none()


def signing_uses(session: Session, *, now: datetime) -> frozenset[str]:
    """The uses for which a key can sign at this moment."""
    rows = session.execute(
        select(col(SigningKey.use), col(SigningKey.active_from), col(SigningKey.retired_at)).where(
            col(SigningKey.remove_at).is_(None)
        )
    )
    return frozenset(use for use, begins, ends in rows if begins <= now and (ends is None or now < ends))


def database_time(session: Session) -> datetime:
    """What time it is by the clock of the database; on SQLite that is the clock of this machine."""
    if session.get_bind().dialect.name == "sqlite":
        seconds = session.execute(text("SELECT CAST(strftime('%s', 'now') AS INTEGER)")).scalar_one()
        return datetime.fromtimestamp(seconds).astimezone()
    now: datetime = session.execute(text("SELECT clock_timestamp()")).scalar_one()
    return now


def named_people(session: Session, *, names: Collection[str]) -> frozenset[str]:
    """Those of `names` that are the id or a full identity of an active person."""
    mark = col(Identity.iss) + "|" + col(Identity.sub)
    found = union_all(
        select(col(Person.id)).where(col(Person.active).is_(True)),
        select(mark).join(Person, col(Person.id) == col(Identity.person_id)).where(col(Person.active).is_(True)),
    )
    return frozenset(names).intersection(session.execute(found).scalars())


def has_managers(session: Session) -> bool:
    """Whether the directory knows of anybody to whom he reports."""
    return session.execute(select(col(Manager.person_id)).limit(1)).first() is not None


def has_account(session: Session) -> bool:
    """Whether any active person can log in with a local account."""
    found = select(col(Account.login)).join(Person, col(Person.id) == col(Account.person_id))
    return session.execute(found.where(col(Account.active), col(Person.active)).limit(1)).first() is not None


def eligible_people(session: Session, *, groups: Collection[str], people: Collection[str]) -> frozenset[str]:
    """The active people who are named, or in one of the groups."""
    in_groups = select(col(Membership.person_id)).where(col(Membership.group_name).in_(tuple(groups)), counts(session))
    found = select(col(Person.id)).where(
        col(Person.active).is_(True), or_(col(Person.id).in_(tuple(people)), col(Person.id).in_(in_groups))
    )
    return frozenset(session.execute(found).scalars())
