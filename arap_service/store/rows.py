"""Rows that are made and written past what a session does for its objects, which takes several times as long.

What the same transaction reads no more is written and forgotten, one statement a table; what it goes on working with
is inserted and then known to the session as if it had been read; and something may be there already. Every column
without a default of the database is given. Which rows these are is decided elsewhere.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, TypeVar

from sqlalchemy import Insert, Table, insert, inspect
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import make_transient_to_detached
from sqlalchemy.orm.attributes import instance_dict
from sqlmodel import Session

from arap_service.store.database import WriteSession, connection_of
from arap_service.store.tables import Row

Kind = TypeVar("Kind", bound=Row)


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


@cache
def _defaults_of(kind: type[Row]) -> Mapping[str, Any]:
    """What a column holds that nobody names; what is made anew for each row has to be given."""
    fields = kind.model_fields.items()
    return {name: field.default for name, field in fields if not field.is_required() and field.default_factory is None}


@cache
def _names_of(kind: type[Row]) -> frozenset[str]:
    return frozenset(table_of(kind).columns.keys())


def new_row(kind: type[Kind], **columns: Any) -> Kind:
    """A row of these `columns`, taken as they are, as one that was read would be; in no session yet.

    Raises:
        TypeError: A column is missing, or there is none of a name.
    """
    held = {**_defaults_of(kind), **columns}
    if wrong := held.keys() ^ _names_of(kind):
        raise TypeError(f"missing or no columns of {kind.__name__}: {', '.join(sorted(wrong))}")
    row: Kind = inspect(kind).class_manager.new_instance()
    instance_dict(row).update(held)
    return row


def insert_row(session: WriteSession, row: Row) -> None:
    """Insert what `row` holds, which is in no session; from then on the session knows it."""
    add_row(session, row)
    make_transient_to_detached(row)
    session.add(row)


def add_rows(session: WriteSession, kind: type[Row], rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert `rows`, which have the same columns, at once; what they refer to has been flushed."""
    if rows:
        connection_of(session).execute(_insert_of(kind), rows)


def add_row(session: WriteSession, row: Row) -> None:
    """Insert what `row` holds; the session never hears of the object."""
    kind = type(row)
    add_rows(session, kind, [{column.key: getattr(row, column.key) for column in table_of(kind).columns}])
