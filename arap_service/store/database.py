"""Engines, transactions and wake-ups: every unit of work is one thread hop, and only this file commits.

`read(work)` and `write(work)` run a synchronous function with a session in one worker thread. On SQLite one writer at a
time holds BEGIN IMMEDIATE and readers are read-only snapshots; on PostgreSQL transactions are READ COMMITTED and the
statements compare and set. Topics collected with `WriteSession.on_commit` wake waiters after the commit, in this
process and, on PostgreSQL, in others; a lost wake-up costs time only, since every waiter also polls. No statement of
the domain stands here. See design.md section 2.
"""

import errno
import os
import sqlite3
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Self, TypeVar

import anyio
import anyio.to_thread
import stamina
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DataError, DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlmodel import Session

from arap_service.domain.errors import InvalidRequest
from arap_service.store.wake import Bell, Subscription

Result = TypeVar("Result")
READERS: Final = 8
GROUP_SOURCES: Final = "group_sources"
"""What sessions carry under this name: whose word about groups counts, as the configuration says."""
_PATIENCE: Final = "arap_patience"
_HELD: Final = "connection"


class StoreUnavailable(Exception):
    """The database cannot be used now; `reason` is a code, the text says what an operator can do."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


class ReadSession(Session):
    """A session that sees one snapshot and cannot change anything."""

    def commit(self) -> None:
        """Refused: a read has nothing to commit."""
        raise TypeError("a read session has nothing to commit")


class WriteSession(Session):
    """A session whose changes are committed together when the unit of work returns, or not at all."""

    def commit(self) -> None:
        """Refused: the unit of work commits once, in `Database.write`."""
        raise TypeError("the unit of work is committed by Database.write")

    def on_commit(self, topic: str) -> None:
        """Wake whoever waits for `topic` once this unit of work is committed."""
        self.info.setdefault("topics", {})[topic] = None  # a dict keeps order and drops repetitions

    def after_commit(self, tell: Callable[[], None]) -> None:
        """Call `tell`, which counts something and cannot fail, once this unit of work is committed."""
        self.info.setdefault("tellings", []).append(tell)


def connection_of(session: Session) -> Connection:
    """The connection that `session` works on: for statements past its memory, which is not flushed before them.

    In a unit of work it is the one that the transaction began on; to look for it anew costs a tenth of a statement.
    """
    held: Connection | None = session.info.get(_HELD)
    return session.connection() if held is None else held


class Database:
    """One database, SQLite or PostgreSQL, and the only way to its sessions."""

    def __init__(
        self, writer: Engine, reader: Engine, *, bell: Bell, busy_seconds: float, group_sources: Collection[str] = ()
    ) -> None:
        self.url: Final = writer.url
        self._writer = writer
        self._reader = reader
        self._bell = bell
        self._busy_seconds = busy_seconds
        self._info = {GROUP_SOURCES: frozenset(group_sources)}
        self._is_locked = False  # as far as the last writer found out
        sqlite = writer.dialect.name == "sqlite"
        # A second writer in one SQLite process would only wait inside the busy handler, with a far worse tail.
        self._write_slots = anyio.CapacityLimiter(1 if sqlite else READERS)
        self._read_slots = anyio.CapacityLimiter(READERS)
        self._look_slots = anyio.CapacityLimiter(2)

    @classmethod
    def open(cls, url: str, *, busy_seconds: float = 5.0, group_sources: Collection[str] = ()) -> Self:
        """Connect to `url` (`sqlite:///file` or `postgresql://…`); waits at most `busy_seconds` for a lock.

        Beside what administrators say, only the word of `group_sources` about groups counts.

        Raises:
            StoreUnavailable: The database cannot be opened, reached or written.
        """
        parsed = parse_url(url)
        if parsed.get_backend_name() == "sqlite":
            prepare_file(parsed)
            writer = _sqlite_engine(parsed, begin="BEGIN IMMEDIATE", size=1, busy_seconds=busy_seconds)
            reader = _sqlite_engine(parsed, begin="BEGIN", size=READERS, busy_seconds=busy_seconds)
            bell = Bell()
        else:
            writer = create_engine(
                parsed, pool_size=2 * READERS, max_overflow=0, pool_pre_ping=True, connect_args=patience(parsed)
            )
            # One snapshot for all statements of a read, as on SQLite; a read-only one never fails to serialise.
            reader = writer.execution_options(postgresql_readonly=True, isolation_level="REPEATABLE READ")
            bell = Bell(writer)
        opened = cls(writer, reader, bell=bell, busy_seconds=busy_seconds, group_sources=group_sources)
        try:
            opened.write_now(lambda _: None)
        except StoreUnavailable:
            opened.close()
            raise
        return opened

    @property
    def is_sqlite(self) -> bool:
        """Whether this is one file on this machine rather than a server."""
        return self._writer.dialect.name == "sqlite"

    async def read(self, work: Callable[[ReadSession], Result]) -> Result:
        """Run `work` on a snapshot, in one thread hop; rows that it returns are detached.

        Raises:
            StoreUnavailable: The database is locked or cannot be reached.
        """
        return await anyio.to_thread.run_sync(self.read_now, work, limiter=self._read_slots)

    async def look(self, work: Callable[[ReadSession], Result], *, seconds: float) -> Result:
        """Like `read`, for whoever asks how the database is and does not wait longer than `seconds` for an answer.

        Raises:
            StoreUnavailable: It is locked, cannot be reached or does not answer.
        """
        try:
            with anyio.fail_after(seconds):
                # What hangs is left behind, and holds its slot, so that at most two ever hang.
                return await anyio.to_thread.run_sync(
                    self.read_now, work, limiter=self._look_slots, abandon_on_cancel=True
                )
        except TimeoutError:
            raise StoreUnavailable("timeout", "database: it does not answer; is it overloaded or away?") from None

    async def write(self, work: Callable[[WriteSession], Result]) -> Result:
        """Run `work` and commit, in one thread hop that a cancelled caller does not interrupt.

        Raises:
            StoreUnavailable: The database is locked or cannot be reached; nothing was written.
        """
        return await anyio.to_thread.run_sync(self._write, work, time.monotonic(), limiter=self._write_slots)

    def read_now(self, work: Callable[[ReadSession], Result]) -> Result:
        """Like `read`, in the calling thread, for commands and tests."""
        with unavailable(self.url), ReadSession(self._reader, expire_on_commit=False, info=self._info) as session:
            return work(session)

    def write_now(self, work: Callable[[WriteSession], Result]) -> Result:
        """Like `write`, in the calling thread, for commands and tests."""
        return self._write(work, time.monotonic())

    def _write(self, work: Callable[[WriteSession], Result], asked: float) -> Result:
        # Who stood behind a writer that waited for a lock in vain has waited for that lock as well.
        options = None
        if self._is_locked:
            options = {_PATIENCE: max(self._busy_seconds - (time.monotonic() - asked), 0)}
        try:
            opening = WriteSession(self._writer, expire_on_commit=False, info=self._info)
            with unavailable(self.url), opening as session:
                with session.begin():
                    # It begins, and so waits for its turn, before the rest.
                    session.info[_HELD] = session.connection(execution_options=options)
                    self._is_locked = False
                    result = work(session)
                topics = tuple(session.info.get("topics", ()))
                tellings = tuple(session.info.get("tellings", ()))
        except StoreUnavailable as error:
            self._is_locked = error.reason == "busy"
            raise
        for tell in tellings:
            tell()
        if topics:
            self._bell.ring(topics)
        return result

    def subscribe(self, *topics: str) -> Subscription:
        """A context manager that remembers wake-ups from its beginning, so that none is lost between look and wait."""
        return self._bell.subscribe(topics)

    def wake(self, topic: str) -> None:
        """Wake whoever waits for `topic`, without a unit of work."""
        self._bell.ring((topic,))

    async def wait(self, topics: tuple[str, ...], timeout: float) -> bool:  # noqa: ASYNC109  # a poll interval, not a deadline
        """Wait until one of `topics` is rung or `timeout` seconds have passed; whether it was rung."""
        with self.subscribe(*topics) as subscription:
            return await subscription.wait(timeout)

    async def aclose(self) -> None:
        """Close every connection; waits for nothing but the listener."""
        await anyio.to_thread.run_sync(self.close)

    def close(self) -> None:
        """Like `aclose`, in the calling thread."""
        self._bell.close()
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
    """`url` with the driver that we use.

    Raises:
        StoreUnavailable: The address is none that we can serve.
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):  # the latter for a port, and it repeats what stands there
        raise StoreUnavailable("address", "database: not an address such as sqlite:///arap.db") from None
    match parsed.get_backend_name():
        case "sqlite" if parsed.database and parsed.database != ":memory:":
            return parsed.set(drivername="sqlite+pysqlite")
        case "sqlite":
            raise StoreUnavailable("address", "database: name a file; a database in memory survives nothing")
        case "postgresql" | "postgres":
            return parsed.set(drivername="postgresql+psycopg")
    raise StoreUnavailable("address", "database: only sqlite:///file and postgresql://… are supported")


def prepare_file(url: URL) -> None:
    """Create the SQLite file, readable by its owner only; it holds sealed arguments and sealed keys.

    Raises:
        StoreUnavailable: The folder is missing or cannot be written.
    """
    path = Path(str(url.database)).absolute()
    try:
        _create(path)
    except FileNotFoundError:
        raise StoreUnavailable("missing", f"database: folder {path.parent} does not exist; create it") from None
    except OSError as error:
        why = error.strerror or "it cannot be opened"
        raise StoreUnavailable("unwritable", f"database: cannot write {path}: {why}; check owner and mode") from None
    if not os.access(path.parent, os.W_OK):
        raise StoreUnavailable("unwritable", f"database: cannot write in folder {path.parent}; SQLite needs to")


def _create(path: Path) -> None:
    if path.exists():
        # Closing any descriptor of the file would drop the locks that this process holds on it, so it stays unopened.
        if not os.access(path, os.R_OK | os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


def use_wal(connection: sqlite3.Connection, busy_seconds: float) -> None:
    """Turn the file to write-ahead logging; of two that do so at once, SQLite refuses one without waiting.

    Raises:
        sqlite3.OperationalError: The file stayed locked for `busy_seconds`, or cannot be written.
    """
    for attempt in stamina.retry_context(
        on=_is_busy, attempts=None, timeout=busy_seconds, wait_initial=0.01, wait_max=0.1, wait_jitter=0.02
    ):
        with attempt:
            connection.execute("PRAGMA journal_mode = WAL")


def _is_busy(error: Exception) -> bool:
    return isinstance(error, sqlite3.OperationalError) and error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY


@contextmanager
def unavailable(url: URL) -> Iterator[None]:
    """Turn a driver's complaint into an error of ours: a database that is not there or not free, a formless value."""
    where = url.database if url.get_backend_name() == "sqlite" else f"{url.host or 'local socket'}/{url.database}"
    try:
        yield
    except PoolTimeout:
        raise StoreUnavailable("busy", f"database: {where} has no free connection") from None
    except DataError:
        # PostgreSQL stores no NUL and no number beyond its type; what holds one was somebody's input.
        raise InvalidRequest("A value cannot be stored.") from None
    except (OperationalError, InterfaceError) as error:
        raise _translated(error, str(where)) from error
    except DBAPIError as error:
        if error.connection_invalidated:
            raise StoreUnavailable("unreachable", f"database: the connection to {where} was lost") from error
        raise


def _translated(error: DBAPIError, where: str) -> Exception:
    cause = error.orig
    if str(getattr(cause, "sqlstate", None) or "").startswith("54"):
        # Longer than an index of PostgreSQL holds: no trouble of the server, and trying again would not help.
        return InvalidRequest("A value cannot be stored.")
    if not isinstance(cause, sqlite3.Error):
        return StoreUnavailable("unreachable", f"database: cannot reach {where}; is the server running?")
    code = (cause.sqlite_errorcode or 0) & 0xFF
    if code in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
        return StoreUnavailable("busy", f"database: {where} is locked by another process; stop it or wait")
    if code in {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM}:
        return StoreUnavailable("unwritable", f"database: cannot write {where}; check owner and mode")
    if code in {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR}:
        return StoreUnavailable("disk", f"database: {where}: the disk is full or failing")
    return error


def _sqlite_engine(url: URL, *, begin: str, size: int, busy_seconds: float) -> Engine:
    engine = create_engine(
        url,
        pool_size=size,
        max_overflow=0,
        pool_timeout=max(busy_seconds, 0.01) + 25,
        connect_args={"check_same_thread": False, "timeout": busy_seconds},
    )

    @event.listens_for(engine, "connect")
    def configure(connection: sqlite3.Connection, _record: Any) -> None:
        # The driver's own transactions begin too late (after the first SELECT), so we begin ourselves.
        connection.isolation_level = None
        use_wal(connection, busy_seconds)
        for pragma in ("synchronous = FULL", "foreign_keys = ON", "secure_delete = ON"):
            connection.execute(f"PRAGMA {pragma}")
        if begin == "BEGIN":
            connection.execute("PRAGMA query_only = ON")

    @event.listens_for(engine, "begin")
    def start(connection: Any) -> None:
        patience = connection.get_execution_options().get(_PATIENCE, busy_seconds)
        if patience == busy_seconds:
            connection.exec_driver_sql(begin)
            return
        connection.exec_driver_sql(f"PRAGMA busy_timeout = {int(patience * 1000)}")
        try:
            connection.exec_driver_sql(begin)
        finally:
            connection.exec_driver_sql(f"PRAGMA busy_timeout = {int(busy_seconds * 1000)}")

    return engine
