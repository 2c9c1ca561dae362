"""Bring a database to the tables of this release, and say whether it is there; the versions are in `alembic/service`.

Any number of processes may call `upgrade` at once: the first one works while the others wait. A database is never
migrated by serving it. See notes on Alembic in docs and design.md section 2.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final

from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, event, text
from sqlalchemy.engine import URL
from sqlalchemy.pool import NullPool

import arap_service
import arap_service.store.conversation_tables  # tables that are not known are not compared
import arap_service.store.delegation_tables
import arap_service.store.form_tables
import arap_service.store.item_tables
import arap_service.store.log_tables
import arap_service.store.notice_tables
import arap_service.store.people_tables
import arap_service.store.review_tables
import arap_service.store.rule_tables
import arap_service.store.search_tables
import arap_service.store.step_tables
from alembic import command
from arap_service.store.database import StoreUnavailable, parse_url, patience, prepare_file, unavailable, use_wal
from arap_service.store.tables import ONLY_ON, Row

VERSION_TABLE: Final = "service_version"
_LOCK: Final = 0x61726170  # one number for all releases: whoever migrates holds this advisory lock


class SchemaOutdated(Exception):
    """The database is not at the tables of this release; the text names the command that helps."""


def upgrade(url: str, *, busy_seconds: float = 60.0) -> None:
    """Apply what is missing; waits for another process that does the same.

    Raises:
        StoreUnavailable: The database cannot be opened, reached or written.
        SchemaOutdated: Rows refer to rows that do not exist; nothing was changed.
    """
    with migrating(url, busy_seconds=busy_seconds) as connection:
        command.upgrade(config(connection), "head")


def check(url: str) -> None:
    """Return if the database is at the tables of this release.

    Raises:
        StoreUnavailable: The database cannot be opened or reached.
        SchemaOutdated: It is older or newer, or was changed by hand.
    """
    with migrating(url, busy_seconds=5.0) as connection:
        context = _context(connection)
        if context.get_current_revision() != head():
            raise SchemaOutdated("database: its tables are of another release; run `arap migrate`")
        if compare_metadata(context, Row.metadata):
            raise SchemaOutdated("database: its tables were changed by hand; restore them from a backup")


@cache
def head() -> str | None:
    """The revision of the tables of this release."""
    return ScriptDirectory.from_config(config(None)).get_current_head()


def config(connection: Connection | None) -> Config:
    """Alembic's configuration for our side, working on `connection`."""
    folder = _folder()
    made = Config()
    made.set_main_option("script_location", str(folder).replace("%", "%%"))
    made.set_main_option("version_locations", str(folder / "service").replace("%", "%%"))
    made.set_main_option("path_separator", "newline")
    made.attributes.update(side="service", metadata=Row.metadata, connection=connection)
    return made


def _context(connection: Connection) -> MigrationContext:
    ours: dict[str, Any] = {
        "version_table": VERSION_TABLE,
        "include_name": lambda name, kind, _: kind != "table" or name in Row.metadata.tables,
        "include_object": lambda item, _name, kind, *_: (
            kind != "index" or item.info.get(ONLY_ON, connection.dialect.name) == connection.dialect.name
        ),
    }
    return MigrationContext.configure(connection, opts=ours)


def _folder() -> Path:
    package = Path(arap_service.__file__).parent
    for folder in (package / "_migrations", package.parent / "alembic"):  # a wheel, or a checkout
        if (folder / "service").is_dir():
            return folder
    raise StoreUnavailable("migrations", "database: this installation carries no migrations; install it again")


@contextmanager
def migrating(url: str, *, busy_seconds: float) -> Iterator[Connection]:
    """A connection in one transaction that no other process migrates beside; committed at the end.

    Raises:
        StoreUnavailable: The database cannot be opened, reached or written.
        SchemaOutdated: Rows refer to rows that do not exist; nothing was changed.
    """
    parsed = parse_url(url)
    with unavailable(parsed), _locked(parsed, busy_seconds=busy_seconds) as connection:
        yield connection


@contextmanager
def _locked(url: URL, *, busy_seconds: float) -> Iterator[Connection]:
    if url.get_backend_name() != "sqlite":
        engine = create_engine(url, poolclass=NullPool, connect_args=patience(url))
        with engine.begin() as connection:
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
            yield connection
        return
    prepare_file(url)
    engine = create_engine(url, poolclass=NullPool, connect_args={"timeout": busy_seconds})

    @event.listens_for(engine, "connect")
    def configure(connection: Any, _record: Any) -> None:
        connection.isolation_level = None
        use_wal(connection, busy_seconds)
        # Recreating a table drops its children's rows while this is on, so the check is made at the end.
        connection.execute("PRAGMA foreign_keys = OFF")

    @event.listens_for(engine, "begin")
    def start(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    with engine.begin() as connection:
        yield connection
        if connection.exec_driver_sql("PRAGMA foreign_key_check").first() is not None:
            raise SchemaOutdated("database: rows refer to rows that do not exist; nothing was changed")
