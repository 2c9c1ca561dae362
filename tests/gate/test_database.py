"""Connections and their failures. Provenance: notes on dependencies, SQLite settings; design section 2."""

import os
import sqlite3
import sys
import threading
from pathlib import Path
from typing import Any

import anyio
import pytest
from sqlalchemy import make_url, text
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from mcp_gate.database import Database, StoreUnavailable, patience, prepare_file, translated, use_wal
from tests import legs
from tests.databases import Databases


class Contended(sqlite3.Connection):
    """Lets go of the lock that another connection holds, but only after it has been refused once."""

    holder: sqlite3.Connection
    refused = 0

    def execute(self, sql: str, *given: Any) -> sqlite3.Cursor:
        try:
            return super().execute(sql, *given)
        except sqlite3.OperationalError:
            self.refused += 1
            self.holder.execute("COMMIT")
            raise


pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    "address",
    [
        "nonsense",
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:///gate.db?timeout=soon",
        "mysql://x/y",
        "strange+driver://x",
        "postgresql://u:p@h:port/x",
    ],
)
async def test_an_address_that_cannot_be_served_is_refused_in_plain_words(address: str) -> None:
    with pytest.raises(StoreUnavailable, match=r"^database: "):
        Database.open(address)


async def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="check the folder"):
        Database.open(f"sqlite:///{tmp_path / 'missing' / 'gate.db'}")


async def test_a_server_that_is_not_there_is_said_so() -> None:
    with pytest.raises(StoreUnavailable, match="is the server running"):
        Database.open("postgresql://nobody@127.0.0.1:1/none?connect_timeout=1")


async def test_a_file_that_another_process_holds_is_said_to_be_locked(tmp_path: Path) -> None:
    path = tmp_path / "gate.db"
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("PRAGMA journal_mode = WAL")
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable, match="locked"):
        Database.open(f"sqlite:///{path}", busy_seconds=0.01)
    with pytest.raises(StoreUnavailable, match="locked"):
        Database.open(f"sqlite:///{path}?timeout=0.01", busy_seconds=3600)
    holder.close()


async def test_the_file_is_for_its_owner_only(tmp_path: Path) -> None:
    database = Database.open(f"sqlite:///{tmp_path / 'gate.db'}")
    mode = await anyio.to_thread.run_sync(os.stat, tmp_path / "gate.db")
    assert mode.st_mode & 0o777 == 0o600
    assert database.path == tmp_path / "gate.db"
    await database.aclose()


INTRUDER = """
import sqlite3, sys
try:
    sqlite3.connect(sys.argv[1], timeout=0.01, isolation_level=None).execute("BEGIN IMMEDIATE")
    print("let in")
except sqlite3.OperationalError as error:
    print(error)
"""


async def test_of_two_that_turn_a_new_file_to_write_ahead_logging_none_fails(tmp_path: Path) -> None:
    """SQLite refuses the second without waiting for it, whatever its time limit says."""
    path = tmp_path / "new.db"
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    late = sqlite3.connect(path, isolation_level=None, timeout=0.01, factory=Contended)
    late.holder = holder
    use_wal(late, 30)
    assert late.refused == 1
    assert late.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    late.close()
    holder.close()


async def test_opening_keeps_the_locks_that_the_process_already_holds(tmp_path: Path) -> None:
    """POSIX drops all locks of a process on a file as soon as it closes any descriptor of that file."""
    path = tmp_path / "held.db"
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    prepare_file(make_url(f"sqlite:///{path}"))
    other = [sys.executable, "-c", INTRUDER, str(path)]
    assert (await anyio.run_process(other)).stdout == b"database is locked\n"
    holder.close()


async def test_a_unit_of_work_is_written_whole_or_not_at_all(engine_url: str) -> None:
    database = Database.open(engine_url)
    await database.write(lambda connection: connection.execute(text("CREATE TABLE x (id INTEGER PRIMARY KEY)")))

    def broken(connection: Any) -> None:
        connection.execute(text("INSERT INTO x VALUES (1)"))
        raise LookupError

    with pytest.raises(LookupError):
        await database.write(broken)
    assert await database.read(lambda connection: connection.execute(text("SELECT count(*) FROM x")).scalar()) == 0
    await database.aclose()


async def test_a_write_goes_through_although_its_caller_is_cancelled(engine_url: str) -> None:
    database = Database.open(engine_url)
    await database.write(lambda connection: connection.execute(text("CREATE TABLE x (id INTEGER PRIMARY KEY)")))
    with anyio.CancelScope() as scope:

        def work(connection: Any) -> None:
            anyio.from_thread.run_sync(scope.cancel)
            connection.execute(text("INSERT INTO x VALUES (1)"))

        await database.write(work)
    assert await database.read(lambda connection: connection.execute(text("SELECT count(*) FROM x")).scalar()) == 1
    await database.aclose()


async def _held(database: Database, let_go: threading.Event, held: anyio.Event) -> None:
    """Hold the row until told otherwise, as a process does that freezes in the middle of a transaction."""

    def work(connection: Any) -> None:
        connection.execute(text("UPDATE x SET id = 2"))
        anyio.from_thread.run_sync(held.set)
        let_go.wait(30)

    await database.write(work)


async def _with_a_row(url: str, **bounds: float) -> Database:
    database = Database.open(url, **bounds)
    await database.write(lambda connection: connection.execute(text("CREATE TABLE x (id INTEGER PRIMARY KEY)")))
    await database.write(lambda connection: connection.execute(text("INSERT INTO x VALUES (1)")))
    return database


def _change(connection: Any) -> None:
    connection.execute(text("UPDATE x SET id = 3"))


async def test_whoever_waits_for_a_row_of_another_process_gives_up_and_says_why(engine_url: str) -> None:
    holder = await _with_a_row(engine_url)
    waiter = Database.open(engine_url, busy_seconds=0.05)
    let_go, held = threading.Event(), anyio.Event()
    with anyio.fail_after(55):
        async with anyio.create_task_group() as group:
            group.start_soon(_held, holder, let_go, held)
            await held.wait()
            try:
                with pytest.raises(StoreUnavailable, match="locked by another process"):
                    await waiter.write(_change)
            finally:
                let_go.set()
        await waiter.write(_change)
    await holder.aclose()
    await waiter.aclose()


async def test_a_process_that_freezes_in_a_transaction_on_postgresql_keeps_nobody_from_going_on(
    databases: Databases,
) -> None:
    """SQLite has no server that could end it; there the lock lasts as long as the process is frozen."""
    legs.need(legs.POSTGRES)
    url = databases.empty("postgres")
    frozen = await _with_a_row(url, frozen_seconds=0.05)
    other = Database.open(url)
    let_go, held = threading.Event(), anyio.Event()

    async def go_on() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(_held, frozen, let_go, held)
            await held.wait()
            await other.write(_change)
            let_go.set()

    with anyio.fail_after(55):
        with pytest.raises(ExceptionGroup) as lost:
            await go_on()
        assert lost.group_contains(StoreUnavailable)
        assert await other.read(lambda connection: connection.execute(text("SELECT id FROM x")).scalar()) == 3
        await frozen.write(_change)  # on a new connection
    await frozen.aclose()
    await other.aclose()
    databases.drop(url)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (sqlite3.SQLITE_READONLY, "check owner"),
        (sqlite3.SQLITE_FULL, "disk"),
        (sqlite3.SQLITE_BUSY, "locked"),
    ],
)
async def test_a_drivers_complaint_becomes_advice_without_data(code: int, words: str) -> None:
    fault = sqlite3.OperationalError("secret")
    fault.sqlite_errorcode = code
    with pytest.raises(StoreUnavailable, match=words) as refused, translated():
        raise OperationalError("INSERT secret", {"x": "secret"}, fault)
    assert "secret" not in str(refused.value)


async def test_a_fault_of_ours_is_not_taken_for_an_outage() -> None:
    fault = sqlite3.OperationalError("no such table")
    fault.sqlite_errorcode = sqlite3.SQLITE_ERROR
    with pytest.raises(SQLAlchemyError), translated():
        raise OperationalError("SELECT", {}, fault)


def test_a_postgresql_that_is_away_is_not_waited_for_without_end_unless_the_address_says_so() -> None:
    found = patience(make_url("postgresql://db.example/arap?connect_timeout=60"))
    assert "connect_timeout" not in found
    assert patience(make_url("postgresql://db.example/arap"))["connect_timeout"] == 5
    assert found["tcp_user_timeout"] == 20_000
