"""Brings the gate's database to the tables of this release, and says whether it is there.

The versions are in `alembic/gate`. Any number of processes may upgrade at once: one works while the others wait.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.pool import NullPool

from alembic import command
from mcp_gate.database import StoreUnavailable, parse_url, prepare_file, sqlite_engine, translated
from mcp_gate.tables import metadata

VERSION_TABLE: Final = "gate_version"
_LOCK: Final = 0x6D637067  # one number for all releases: whoever migrates holds this advisory lock


class SchemaOutdated(Exception):
    """The database isn't at the tables of this release; the text names the command that helps."""


def upgrade(url: str, *, busy_seconds: float = 10.0) -> None:
    """Applies what is missing.

    Raises:
        StoreUnavailable: The database can't be opened, reached or written.
        SchemaOutdated: Rows refer to rows that don't exist; nothing was changed.
    """
    with _locked(url, busy_seconds=busy_seconds) as connection:
        command.upgrade(config(connection), "head")


def check(url: str) -> None:
    """Returns if the database is at the tables of this release.

    Raises:
        StoreUnavailable: The database can't be opened or reached.
        SchemaOutdated: It is older or newer, was changed by hand, or is not there, and none is made.
    """
    parsed = parse_url(url)
    if parsed.get_backend_name() == "sqlite" and not Path(str(parsed.database)).exists():
        raise SchemaOutdated(f"database: {parsed.database} does not exist; run `mcp-gate migrate`")
    with _locked(url, busy_seconds=5.0) as connection:
        ours: dict[str, Any] = {
            "version_table": VERSION_TABLE,
            "include_name": lambda name, kind, _: kind != "table" or name in metadata.tables,
        }
        context = MigrationContext.configure(connection, opts=ours)
        head = ScriptDirectory.from_config(config(connection)).get_current_head()
        if context.get_current_revision() != head:
            raise SchemaOutdated("database: its tables are of another release; run `mcp-gate migrate`")
        if compare_metadata(context, metadata):
            raise SchemaOutdated("database: its tables were changed by hand; restore them from a backup")


def config(connection: Connection) -> Config:
    """Alembic's configuration for the gate's side, working on `connection`."""
    folder = _folder()
    made = Config()
    made.set_main_option("script_location", str(folder).replace("%", "%%"))
    made.set_main_option("version_locations", str(folder / "gate").replace("%", "%%"))
    made.set_main_option("path_separator", "newline")
    made.attributes.update(side="gate", metadata=metadata, connection=connection)
    return made


def _folder() -> Path:
    root = Path(__file__).parent.parent
    for folder in (root / "arap_service" / "_migrations", root / "alembic"):  # a wheel, or a checkout
        if (folder / "gate").is_dir():
            return folder
    raise StoreUnavailable("database: this installation carries no migrations; install it again")


@contextmanager
def _locked(url: str, *, busy_seconds: float) -> Iterator[Connection]:
    parsed = parse_url(url)
    if parsed.get_backend_name() != "sqlite":
        server = create_engine(parsed, poolclass=NullPool)
        with translated(), server.begin() as connection:
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
            yield connection
        return
    prepare_file(parsed)
    # Recreating a table drops its children's rows while foreign keys are on; they are checked at the end instead.
    file = sqlite_engine(parsed, begin="BEGIN IMMEDIATE", size=1, busy_seconds=busy_seconds, foreign_keys=False)
    try:
        with translated(), file.begin() as connection:
            yield connection
            if connection.exec_driver_sql("PRAGMA foreign_key_check").first() is not None:
                raise SchemaOutdated("database: rows refer to rows that don't exist; nothing was changed")
    finally:
        file.dispose()
