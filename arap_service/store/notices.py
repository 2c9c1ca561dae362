"""Every statement about announcements and notices: each announcement once, each person once, one sender at a time."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy.dialects import postgresql, sqlite
from sqlmodel import Session, col

from arap_service.store.database import WriteSession
from arap_service.store.notice_tables import Announcement
from arap_service.store.tables import Row


def add_announcement(session: WriteSession, row: Mapping[str, Any]) -> bool:
    """Keep an announcement unless there is one with its key; whether it is new."""
    made = _insert(session, Announcement).values(**row).on_conflict_do_nothing(index_elements=["key"])
    return session.execute(made.returning(col(Announcement.id))).first() is not None


def _insert(session: Session, kind: type[Row]) -> Any:
    return (sqlite.insert if session.get_bind().dialect.name == "sqlite" else postgresql.insert)(kind)
