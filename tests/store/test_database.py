"""Transactions, wake-ups and what an operator reads when the database is not there."""

import hashlib
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import anyio
import pytest
from sqlalchemy import make_url
from sqlalchemy.exc import DBAPIError
from sqlmodel import Session, col, select

from arap_service.domain.errors import InvalidRequest
from arap_service.store import migrate
from arap_service.store.database import Database, StoreUnavailable, WriteSession, patience, prepare_file, use_wal
from arap_service.store.people_tables import Person
from arap_service.store.tables import Task
from tests.clock import START, FakeClock
from tests.databases import Databases
from tests.store.rows import a_task


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


def count(session: Session) -> int:
    return len(session.exec(select(Task)).all())


def test_unit_of_work_that_fails_leaves_nothing(database: Database, clock: FakeClock) -> None:
    """Design section 5: one transaction writes everything or nothing."""

    def work(session: WriteSession) -> None:
        session.add(a_task(now=clock()))
        session.flush()
        raise LookupError("after the first statement")

    with pytest.raises(LookupError):
        database.write_now(work)
    assert database.read_now(count) == 0


def test_rows_outlive_their_session_and_keep_their_zone(database: Database, clock: FakeClock) -> None:
    """All datetimes are aware and in UTC on both engines."""
    database.write_now(lambda session: session.add(a_task(now=clock())))
    task = database.read_now(lambda session: session.get(Task, "task_1"))
    assert task is not None
    assert task.created_at == clock()
    assert task.created_at.tzinfo is not None
    assert task.ended_at is None


def test_reading_cannot_write(database: Database, clock: FakeClock) -> None:
    """A read session is read-only at the database, not by convention."""

    def work(session: Session) -> None:
        session.add(a_task(now=clock()))
        session.flush()

    with pytest.raises((StoreUnavailable, DBAPIError)):
        database.read_now(work)
    assert database.read_now(count) == 0


def test_nobody_but_the_database_commits(database: Database) -> None:
    """Style section 1: commit in one place."""
    with pytest.raises(TypeError, match=r"committed by Database\.write"):
        database.write_now(lambda session: session.commit())
    with pytest.raises(TypeError, match="nothing to commit"):
        database.read_now(lambda session: session.commit())


def test_reader_sees_the_state_before_an_open_write(database: Database, clock: FakeClock) -> None:
    """Readers go on beside a writer and never see half of its work."""
    written, looked = threading.Event(), threading.Event()

    def work(session: WriteSession) -> None:
        session.add(a_task(now=clock()))
        session.flush()
        written.set()
        assert looked.wait(5)

    writer = threading.Thread(target=database.write_now, args=(work,))
    writer.start()
    assert written.wait(5)
    seen = database.read_now(count)
    looked.set()
    writer.join(5)
    assert (seen, database.read_now(count)) == (0, 1)


def test_increments_from_many_threads_are_not_lost(database: Database, clock: FakeClock) -> None:
    """Notes on dependencies: the driver's own transactions lose updates, BEGIN IMMEDIATE and compare-and-set do not."""
    database.write_now(lambda session: session.add(a_task(now=clock())))
    start = threading.Barrier(4)

    def increment(session: WriteSession) -> None:
        task = session.exec(select(Task).with_for_update()).one()
        task.version += 1
        session.add(task)

    def run() -> None:
        start.wait(5)
        for _ in range(10):
            database.write_now(increment)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert database.read_now(lambda session: session.exec(select(Task)).one().version) == 41


@pytest.mark.anyio
async def test_commit_wakes_who_waits_for_the_topic(database: Database) -> None:
    """Design section 2: wake-ups follow the commit."""
    with anyio.fail_after(20), database.subscribe("task:1") as mine, database.subscribe("task:2") as other:
        await database.write(lambda session: session.on_commit("task:1"))
        assert await mine.wait(5)
        assert not await other.wait(0)


@pytest.mark.anyio
async def test_failed_work_wakes_nobody(database: Database) -> None:
    """Nothing happened, so there is nothing to look at."""

    def work(session: WriteSession) -> None:
        session.on_commit("task:1")
        raise LookupError

    with anyio.fail_after(20), database.subscribe("task:1") as subscription:
        with pytest.raises(LookupError):
            await database.write(work)
        assert not await subscription.wait(0)


@pytest.mark.anyio
async def test_wake_up_between_look_and_wait_is_not_lost(database: Database) -> None:
    """A subscription remembers from its beginning; waiting once consumes what was remembered."""
    with anyio.fail_after(20), database.subscribe("outbox") as subscription:
        database.wake("outbox")
        assert await subscription.wait(5)
        assert not await subscription.wait(0)
    assert not await database.wait(("outbox",), 0)


@pytest.mark.anyio
async def test_wake_up_reaches_another_process_on_postgresql(databases: Databases, clock: FakeClock) -> None:
    """Design section 2: with PostgreSQL any instance serves any request."""
    url = databases.empty("postgres")
    one, two = Database.open(url), Database.open(url)
    try:
        with anyio.fail_after(55), two.subscribe("task:1") as subscription:
            while not await subscription.wait(0.1):  # the first rings may come before the listener listens
                await one.write(lambda session: session.on_commit("task:1"))
    finally:
        await one.aclose()
        await two.aclose()
        databases.drop(url)


@pytest.mark.anyio
async def test_cancelled_caller_does_not_tear_a_unit_of_work(database: Database, clock: FakeClock) -> None:
    """A client that hangs up in the middle leaves a whole transaction behind."""
    entered, go_on = threading.Event(), threading.Event()

    def work(session: WriteSession) -> None:
        session.add(a_task(now=clock()))
        session.flush()
        entered.set()
        assert go_on.wait(5)

    with anyio.fail_after(40):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(database.write, work)
            await anyio.to_thread.run_sync(entered.wait)
            tasks.cancel_scope.cancel()
            go_on.set()
    assert database.read_now(count) == 1


@pytest.mark.parametrize(
    "url",
    [
        "sqlite://",
        "sqlite:///:memory:",
        "mysql://localhost/arap",
        "not an address",
        "postgresql://arap:canary@host:notaport/arap",
        "postgresql://arap:pass:can@ary@host:canary/arap",
        "postgresql://[::1/arap",
    ],
)
def test_address_that_cannot_be_served_is_refused(url: str) -> None:
    """A database in memory would lose what was acknowledged; nothing of an address is repeated."""
    with pytest.raises(StoreUnavailable) as refused:
        Database.open(url)
    assert refused.value.reason == "address"
    assert "canary" not in str(refused.value)
    assert refused.value.__cause__ is None


def test_missing_folder_is_named(tmp_path: Path) -> None:
    """One clear line instead of a traceback."""
    with pytest.raises(StoreUnavailable, match="does not exist; create it") as refused:
        Database.open(f"sqlite:///{tmp_path}/absent/arap.db")
    assert refused.value.reason == "missing"


AS_NOBODY = """
import os, sys
from arap_service.domain.errors import InvalidRequest
from arap_service.store.database import Database, StoreUnavailable
if os.geteuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
try:
    Database.open(sys.argv[1])
except StoreUnavailable as refused:
    print(refused.reason, refused)
"""


def test_unwritable_folder_is_named() -> None:
    """Root may write anywhere, so the folder belongs to somebody else and the process to nobody."""
    folder = Path(tempfile.mkdtemp(prefix="arap-unwritable-"))
    try:
        folder.chmod(0o555)
        told = subprocess.run(
            [sys.executable, "-c", AS_NOBODY, f"sqlite:///{folder}/arap.db"], capture_output=True, text=True, check=True
        )
    finally:
        folder.rmdir()
    assert told.stdout.startswith(f"unwritable database: cannot write {folder}/arap.db")
    assert "check owner and mode" in told.stdout
    assert told.stderr == ""


def test_file_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    """It holds sealed arguments and sealed keys."""
    path = tmp_path / "arap.db"
    Database.open(f"sqlite:///{path}").close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_of_two_that_turn_a_new_file_to_write_ahead_logging_none_fails(tmp_path: Path) -> None:
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


def test_opening_keeps_the_locks_that_the_process_already_holds(tmp_path: Path) -> None:
    """POSIX drops all locks of a process on a file as soon as it closes any descriptor of that file."""
    path = tmp_path / "held.db"
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    prepare_file(make_url(f"sqlite:///{path}"))
    other = [sys.executable, "-c", INTRUDER, str(path)]
    assert subprocess.run(other, capture_output=True, text=True, check=True).stdout == "database is locked\n"
    holder.close()


INTRUDER = """
import sqlite3, sys
try:
    sqlite3.connect(sys.argv[1], timeout=0.01, isolation_level=None).execute("BEGIN IMMEDIATE")
    print("let in")
except sqlite3.OperationalError as error:
    print(error)
"""


HOLDER = """
import sqlite3, sys
held = sqlite3.connect(sys.argv[1], isolation_level=None)
held.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
"""


def test_file_locked_by_another_process_is_named(tmp_path: Path) -> None:
    """One clear line instead of a traceback, both at the start and in the middle."""
    path = tmp_path / "arap.db"
    open_before = Database.open(f"sqlite:///{path}", busy_seconds=0.05)
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            HOLDER,
            str(path),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        for attempt in (
            lambda: Database.open(f"sqlite:///{path}", busy_seconds=0.05),
            lambda: open_before.write_now(lambda session: session.add(Person(id="p", name="P", created_at=START))),
        ):
            with pytest.raises(StoreUnavailable, match="locked by another process") as refused:
                attempt()
            assert refused.value.reason == "busy"
    finally:
        holder.communicate()
        open_before.close()


@pytest.mark.anyio
async def test_whoever_waits_behind_others_for_a_lock_waits_no_longer_than_alone(
    tmp_path: Path, databases: Databases, clock: FakeClock
) -> None:
    """Twenty in a row, each with its own patience, would keep the last one for twenty times as long."""
    url = databases.copy_of("sqlite", "service", migrate.upgrade)
    patience, refusals = 1.0, []
    opened = Database.open(url, busy_seconds=patience)
    other = sqlite3.connect(str(opened.url.database), isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")

    async def refused() -> None:
        with pytest.raises(StoreUnavailable) as caught:
            await opened.write(lambda session: session.add(a_task(now=clock())))
        refusals.append(caught.value.reason)

    with anyio.fail_after(10 * patience):
        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(refused)
    assert refusals == ["busy"] * 20
    asked = threading.Event()

    def release() -> None:
        assert asked.wait(5)
        other.execute("ROLLBACK")

    async with anyio.create_task_group() as group:
        group.start_soon(anyio.to_thread.run_sync, release)
        group.start_soon(opened.write, lambda session: session.add(a_task(now=clock())))
        await anyio.lowlevel.checkpoint()
        asked.set()
    assert opened.read_now(count) == 1
    other.close()
    await opened.aclose()


def test_unreachable_server_is_named_without_its_password(clock: FakeClock) -> None:
    """No secret in an error message."""
    with pytest.raises(StoreUnavailable, match="is the server running") as refused:
        Database.open("postgresql://arap:canary-password@127.0.0.1:9/arap?connect_timeout=2")
    assert refused.value.reason == "unreachable"
    assert "canary" not in str(refused.value)


def test_file_that_is_no_database_is_not_overwritten(tmp_path: Path) -> None:
    """A wrong path in the configuration must not cost somebody a file."""
    path = tmp_path / "letter.txt"
    path.write_text("dear reader, this is no database at all" * 20)
    before = path.read_bytes()
    with pytest.raises((StoreUnavailable, DBAPIError, sqlite3.Error)):
        Database.open(f"sqlite:///{path}")
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "changes",
    [
        {"status": "approved"},
        {"status": "bogus"},
        {"status": "pending", "ended": True},
        {"version": 0},
        {"binding": "none"},
    ],
    ids=["ended-without-time", "unknown-status", "pending-with-end", "version", "binding"],
)
def test_impossible_task_is_unstorable(database: Database, clock: FakeClock, changes: dict[str, Any]) -> None:
    """The schema defends the state machine."""
    changes = dict(changes)
    if changes.pop("ended", False):
        changes["ended_at"] = clock()
    with pytest.raises(DBAPIError):
        database.write_now(lambda session: session.add(a_task(now=clock(), **changes)))
    assert database.read_now(count) == 0


def test_value_without_a_form_is_a_fault_of_the_input(database: Database, clock: FakeClock) -> None:
    """PostgreSQL stores no NUL: whoever sent one is told so, and nothing else of the unit of work is kept."""

    def work(session: WriteSession) -> None:
        session.add(a_task("task_1", now=clock()))
        session.flush()
        session.add(a_task("task_2", now=clock(), subject_id="a\x00b"))

    if database.is_sqlite:
        database.write_now(work)
        stored = database.read_now(lambda session: session.get_one(Task, "task_2").subject_id)
        assert stored == "a\x00b"
    else:
        with pytest.raises(InvalidRequest):
            database.write_now(work)
        assert database.read_now(count) == 0


def test_value_beyond_what_an_index_holds_is_a_fault_of_the_input(database: Database, clock: FakeClock) -> None:
    """PostgreSQL indexes no text of some kilobytes; it would be no better the next time, so nobody is told to wait."""
    text = "".join(hashlib.sha256(bytes([number])).hexdigest() for number in range(256))
    task = a_task("task_1", now=clock(), subject_id=text)
    if database.is_sqlite:
        database.write_now(lambda session: session.add(task))
    else:
        with pytest.raises(InvalidRequest):
            database.write_now(lambda session: session.add(task))
    assert database.read_now(count) == (1 if database.is_sqlite else 0)


@pytest.mark.requirement("ARS-37")
@pytest.mark.parametrize("proof", [{"binding": "id"}, {"binding": "token", "binding_iss": "https://pdp.example"}])
def test_second_open_task_of_one_denial_is_unstorable(
    database: Database, clock: FakeClock, proof: dict[str, str]
) -> None:
    """X-28: one open task per evaluation, requester and client; an ended one does not count, nor one of elsewhere."""
    denial = {"evaluation_id": "ev_1", **proof}
    elsewhere = {"evaluation_id": "ev_1", "binding": "token", "binding_iss": "https://other.example"}
    ended = a_task("task_0", now=clock(), status="denied", ended_at=clock(), **denial)
    database.write_now(lambda session: session.add(ended))
    database.write_now(lambda session: session.add(a_task("task_1", now=clock(), **denial)))
    with pytest.raises(DBAPIError):
        database.write_now(lambda session: session.add(a_task("task_2", now=clock(), **denial)))
    database.write_now(lambda session: session.add(a_task("task_3", now=clock(), **elsewhere)))
    ids = database.read_now(lambda session: session.exec(select(Task.id).order_by(col(Task.id))).all())
    assert list(ids) == ["task_0", "task_1", "task_3"]


def test_a_postgresql_that_is_away_is_not_waited_for_without_end_unless_the_address_says_so() -> None:
    found = patience(make_url("postgresql://db.example/arap?connect_timeout=60"))
    assert "connect_timeout" not in found
    assert patience(make_url("postgresql://db.example/arap"))["connect_timeout"] == 5
    assert found["tcp_user_timeout"] == 20_000
