"""Every statement about the requests that somebody made, or that were made in his name."""

from collections.abc import Collection, Sequence
from datetime import datetime
from operator import attrgetter

from sqlalchemy import and_, or_
from sqlmodel import Session, col, select

from arap_service.store.tables import Task


def requests_of(
    session: Session,
    *,
    subjects: Collection[str],
    submitters: Collection[str],
    now: datetime,
    after: tuple[datetime, str] | None,
    limit: int,
) -> Sequence[Task]:
    """At most `limit` requests that are kept and whose subject or submitter is among these, the newest first."""
    at, key = col(Task.created_at), col(Task.id)
    found: dict[str, Task] = {}
    # One after the other, because each of them has its index, and both together have none.
    for column, names in ((col(Task.subject_id), subjects), (col(Task.submitter), submitters)):
        statement = select(Task).where(column.in_(tuple(names)), col(Task.expires_at) > now)
        if after is not None:
            statement = statement.where(or_(at < after[0], and_(at == after[0], key < after[1])))
        if names:
            rows = session.exec(statement.order_by(at.desc(), key.desc()).limit(limit))
            found.update((row.id, row) for row in rows)
    return sorted(found.values(), key=attrgetter("created_at", "id"), reverse=True)[:limit]
