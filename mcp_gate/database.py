"""The gate's connection to its database: engines and units of work, SQLite or PostgreSQL.

`read` and `write` run one synchronous function in one worker thread and are the only way to a connection; only `write`
commits. A SQLite file has one writer at a time, which begins IMMEDIATE, so that what it read still holds when it
writes; PostgreSQL runs READ COMMITTED and relies on compare-and-set. No statement stands here.
"""

import errno
import os
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Self, TypeVar

import anyio
import anyio.to_thread
import stamina
from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, InterfaceError, InternalError, NoSuchModuleError, OperationalError

Result = TypeVar("Result")

READERS: Final = 8
# SQLSTATE: lock_not_available, idle_in_transaction_session_timeout.
_LOCKED: Final = "55P03"
_FROZEN: Final = "25P03"
_PRAGMAS: Final = ("synchronous = FULL", "foreign_keys = ON", "secure_delete = ON")


class StoreUnavailable(Exception):
    """The gate's database can't be used; the text says what an operator can do, and holds no data."""


class Database:
    """One database; close it with `aclose`."""

    def __init__(self, writer: Engine, reader: Engine) -> None:
        self._writer = writer
        self._reader = reader
        self.is_sqlite: Final = writer.dialect.name == "sqlite"
        # A second SQLite writer would only wait inside the busy handler, with a far worse tail.
        self._writing = anyio.CapacityLimiter(1 if self.is_sqlite else READERS)
        self._reading = anyio.CapacityLimiter(READERS)

    @classmethod
    def open(cls, url: str, *, busy_seconds: float = 10.0, frozen_seconds: float = 30.0) -> Self:
        """Connects to `sqlite:///file` or `postgresql://…`.

        Whoever waits for another's transaction gives up after `busy_seconds`; PostgreSQL ends the transaction of a
        process that does nothing for `frozen_seconds`, because nobody else could go on.

        Raises:
            StoreUnavailable: The database can't be opened, reached or written.
        """
        parsed = parse_url(url)
        if parsed.get_backend_name() == "sqlite":
            prepare_file(parsed)
            writer = sqlite_engine(parsed, begin="BEGIN IMMEDIATE", size=1, busy_seconds=busy_seconds)
            reader = sqlite_engine(parsed, begin="BEGIN", size=READERS, busy_seconds=busy_seconds)
        else:
            writer = create_engine(
                parsed,
                pool_size=2 * READERS,
                max_overflow=0,
                pool_pre_ping=True,
                hide_parameters=True,
                connect_args=patience(parsed),
            )
            bound_transactions(writer, busy_seconds=busy_seconds, frozen_seconds=frozen_seconds)
            reader = writer.execution_options(postgresql_readonly=True)
        with translated(), writer.begin():
            pass
        return cls(writer, reader)

    @property
    def path(self) -> Path | None:
        """The SQLite file, if it is one."""
        return Path(str(self._writer.url.database)).absolute() if self.is_sqlite else None

    async def read(self, work: Callable[[Connection], Result]) -> Result:
        """Runs `work` on one snapshot.

        Raises:
            StoreUnavailable: The database is locked or can't be reached.
        """
        return await anyio.to_thread.run_sync(self._read, work, limiter=self._reading)

    async def write(self, work: Callable[[Connection], Result]) -> Result:
        """Runs `work` and commits; a cancelled caller interrupts neither.

        Raises:
            StoreUnavailable: The database is locked or can't be reached; nothing was written.
        """
        return await anyio.to_thread.run_sync(self._write, work, limiter=self._writing)

    def _read(self, work: Callable[[Connection], Result]) -> Result:
        with translated(), self._reader.connect() as connection:
            return work(connection)

    def _write(self, work: Callable[[Connection], Result]) -> Result:
        with translated(), self._writer.begin() as connection:
            return work(connection)

    async def aclose(self) -> None:
        """Closes every connection."""
        await anyio.to_thread.run_sync(self._close)

    def _close(self) -> None:
        self._reader.dispose()
        self._writer.dispose()


def patience(url: URL) -> dict[str, int]:
    """How long libpq waits for a PostgreSQL that is away, as far as `url` does not say; by itself it waits for ever."""
    bounds = {
        "connect_timeout": 5,
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": 20_000,
    }
    return {name: value for name, value in bounds.items() if name not in url.query}


def parse_url(url: str) -> URL:
    """The address with the driver that we use.

    Raises:
        StoreUnavailable: It is none that the gate can serve.
    """
    try:
        parsed = make_url(url)
        backend = parsed.get_backend_name()
    except (ArgumentError, NoSuchModuleError, ValueError):  # the last for a port, and it repeats what stands there
        raise StoreUnavailable("database: not an address such as sqlite:///mcp-gate.sqlite") from None
    if backend == "sqlite" and parsed.database and parsed.database != ":memory:":
        if not re.fullmatch(r"\d{1,3}(\.\d{1,3})?", str(parsed.query.get("timeout", 0))):
            raise StoreUnavailable("database: timeout is a number of seconds, up to 999")
        return parsed.set(drivername="sqlite+pysqlite")
    if backend == "sqlite":
        raise StoreUnavailable("database: name a file; a database in memory survives no restart")
    if backend in {"postgresql", "postgres"}:
        return parsed.set(drivername="postgresql+psycopg")
    raise StoreUnavailable("database: only sqlite:///file and postgresql://… are supported")


def prepare_file(url: URL) -> None:
    """Creates the SQLite file for its owner's eyes only.

    Raises:
        StoreUnavailable: The folder is missing or can't be written.
    """
    path = Path(str(url.database)).absolute()
    try:
        _create(path)
    except OSError as error:
        why = error.strerror or "it can't be opened"
        raise StoreUnavailable(f"database: can't write {path}: {why}; check the folder, its owner and mode") from None


def _create(path: Path) -> None:
    if path.exists():
        # Closing any descriptor of the file would drop the locks that this process holds on it, so it stays unopened.
        if not os.access(path, os.R_OK | os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


def use_wal(connection: sqlite3.Connection, busy_seconds: float) -> None:
    """Turns the file to write-ahead logging; of two that do so at once, SQLite refuses one without waiting.

    Raises:
        sqlite3.OperationalError: The file stayed locked for `busy_seconds`, or can't be written.
    """
    for attempt in stamina.retry_context(
        on=_is_busy, attempts=None, timeout=busy_seconds, wait_initial=0.01, wait_max=0.1, wait_jitter=0.02
    ):
        with attempt:
            connection.execute("PRAGMA journal_mode = WAL")


def _is_busy(error: Exception) -> bool:
    return isinstance(error, sqlite3.OperationalError) and error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY


@contextmanager
def translated() -> Iterator[None]:
    """Turns a driver's complaint that the database isn't there or isn't free into `StoreUnavailable`."""
    try:
        yield
    except InternalError as error:
        if getattr(error.orig, "sqlstate", None) != _FROZEN:
            raise
        raise StoreUnavailable("database: this process did nothing for too long, and lost its transaction") from error
    except (OperationalError, InterfaceError) as error:
        if getattr(error.orig, "sqlstate", None) == _LOCKED:
            raise StoreUnavailable("database: locked by another process; stop it or wait") from error
        code = error.orig.sqlite_errorcode & 0xFF if isinstance(error.orig, sqlite3.Error) else None
        if code in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
            raise StoreUnavailable("database: locked by another process; stop it or wait") from error
        if code in {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM}:
            raise StoreUnavailable("database: can't be written; check owner and mode") from error
        if code in {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR}:
            raise StoreUnavailable("database: the disk is full or failing") from error
        if code is not None:
            raise
        raise StoreUnavailable("database: can't be reached; is the server running?") from error


def bound_transactions(engine: Engine, *, busy_seconds: float, frozen_seconds: float) -> None:
    """Has a PostgreSQL server bound how long locks are waited for, and how long they are held by who does nothing."""
    bounds = {"lock_timeout": busy_seconds, "idle_in_transaction_session_timeout": frozen_seconds}

    @event.listens_for(engine, "connect")
    def configure(connection: Any, _record: Any) -> None:
        connection.autocommit = True  # for the whole session, so in no transaction
        for name, seconds in bounds.items():
            connection.execute(f"SET {name} = {int(seconds * 1000)}")
        connection.autocommit = False


def sqlite_engine(url: URL, *, begin: str, size: int, busy_seconds: float, foreign_keys: bool = True) -> Engine:
    """An engine whose transactions begin with `begin`; `?timeout=…` of `url` wins over `busy_seconds`."""
    busy_seconds = float(str(url.query.get("timeout", busy_seconds)))
    engine = create_engine(
        url,
        pool_size=size,
        max_overflow=0,
        hide_parameters=True,  # an error must not carry what was being written
        connect_args={"check_same_thread": False, "timeout": busy_seconds},
    )

    @event.listens_for(engine, "connect")
    def configure(connection: sqlite3.Connection, _record: Any) -> None:
        connection.isolation_level = None  # the driver itself would begin too late, after the first SELECT
        use_wal(connection, busy_seconds)
        for pragma in _PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")
        if not foreign_keys:
            connection.execute("PRAGMA foreign_keys = OFF")

    @event.listens_for(engine, "begin")
    def start(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    return engine
