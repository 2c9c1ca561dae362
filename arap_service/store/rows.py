"""Rows that are written and forgotten: one statement a table, past the session's memory of objects.

For what the same transaction reads no more, which the session would take several times as long to remember, and for
what may be there already. Every column without a default of the database is given. Which rows these are is decided
elsewhere.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from sqlalchemy import Insert, Table, insert
from sqlalchemy.dialects import postgresql, sqlite
from sqlmodel import Session

from arap_service.store.database import WriteSession
from arap_service.store.tables import Row


def table_of(kind: type[Row]) -> Table:
    """The table that rows of this kind are in."""
    return kind.metadata.tables[str(kind.__tablename__)]


@cache
def _insert_of(kind: type[Row]) -> Insert:
    """Made once for each table, since making it takes as long as running it."""
    return insert(table_of(kind))


def inserting(session: Session, kind: type[Row]) -> Any:
    """An insertion that can leave alone or change what is there already, as the engine of `session` writes it."""
    return (sqlite.insert if session.get_bind().dialect.name == "sqlite" else postgresql.insert)(kind)


def add_rows(session: WriteSession, kind: type[Row], rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert `rows`, which have the same columns, at once; what they refer to has been flushed."""
    if rows:
        session.connection().execute(_insert_of(kind), rows)


def add_row(session: WriteSession, row: Row) -> None:
    """Insert what `row` holds; the session never hears of the object."""
    kind = type(row)
    add_rows(session, kind, [{column.key: getattr(row, column.key) for column in table_of(kind).columns}])
