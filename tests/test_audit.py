"""The audit chains: what was appended can be proven, and what was done to it afterwards shows."""

import hashlib
import threading
from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import delete, update
from sqlalchemy.exc import IntegrityError
from sqlmodel import col, select

from arap_service import audit
from arap_service.audit import Broken, Verified
from arap_service.store import migrate
from arap_service.store.database import Database, WriteSession
from arap_service.store.tables import AuditEntry, AuditHead
from tests.clock import FakeClock
from tests.databases import Databases, Kind


@pytest.fixture
def database(engine_kind: Kind, databases: Databases) -> Iterator[Database]:
    """A fresh database with the tables of the service."""
    url = databases.copy_of(engine_kind, "service", migrate.upgrade)
    opened = Database.open(url)
    yield opened
    opened.close()
    databases.drop(url)


def write_three(database: Database, clock: FakeClock) -> None:
    def work(session: WriteSession) -> None:
        for number, kind in enumerate(("task_submitted", "vote_cast", "task_approved"), start=1):
            audit.append(
                session,
                "task_1",
                kind=kind,
                actor="https://issuer.example|gate",
                detail={"number": number, "subject": {"type": "user", "id": "ålice"}},
                now=clock.advance(1),
                evaluation_id="ev_1",
            )

    database.write_now(work)


@pytest.mark.requirement("ARS-123")
def test_untouched_chain_verifies(database: Database, clock: FakeClock) -> None:
    """Catalogue ARS-123: numbers without gaps, each link on the one before it."""
    write_three(database, clock)
    entries = database.read_now(lambda session: audit.entries_of(session, "task_1"))
    assert [entry.seq for entry in entries] == [1, 2, 3]
    assert [entry.previous for entry in entries] == [audit.GENESIS, entries[0].hash, entries[1].hash]
    assert entries[0].at == clock.now().replace(second=1)
    whole = Verified(3, entries[-1].hash)
    assert audit.verify(entries) == whole
    assert database.read_now(lambda session: audit.verify_chain(session, "task_1")) == whole


def test_hash_covers_a_known_form(clock: FakeClock) -> None:
    """Fixed by a value computed once, so that a release cannot change the form without noticing."""
    entry = AuditEntry(
        chain="task_1",
        seq=1,
        at=clock(),
        kind="task_submitted",
        actor="a",
        evaluation_id=None,
        detail='{"n":1}',
        previous=audit.GENESIS,
        hash="",
    )
    form = (
        '{"actor":"a","at":"2026-04-30T20:00:00Z","chain":"task_1","detail":"{\\"n\\":1}","evaluation_id":null,'
        f'"kind":"task_submitted","previous":"{"0" * 64}","seq":1}}'
    )
    assert audit.link(entry) == hashlib.sha256(form.encode()).hexdigest()


def alter(**columns: object) -> Callable[[WriteSession], None]:
    def tamper(session: WriteSession) -> None:
        session.execute(update(AuditEntry).where(col(AuditEntry.seq) == 2).values(**columns))

    return tamper


def cut_tail(session: WriteSession) -> None:
    session.execute(delete(AuditEntry).where(col(AuditEntry.seq) == 3))


def remove_middle(session: WriteSession) -> None:
    session.execute(delete(AuditEntry).where(col(AuditEntry.seq) == 2))


def remove_head(session: WriteSession) -> None:
    session.execute(delete(AuditHead))


def rewrite_with_a_fresh_hash(session: WriteSession) -> None:
    entry = session.exec(select(AuditEntry).where(AuditEntry.seq == 2)).one()
    entry.actor = "somebody else"
    entry.hash = audit.link(entry)
    session.add(entry)


@pytest.mark.requirement("ARS-123")
@pytest.mark.parametrize(
    ("tamper", "broken_at"),
    [
        (alter(actor="somebody else"), 2),
        (alter(kind="vote_withdrawn"), 2),
        (alter(detail="{}"), 2),
        (alter(evaluation_id=None), 2),
        (alter(hash="f" * 64), 2),
        (alter(previous="f" * 64), 2),
        (remove_middle, 2),
        (rewrite_with_a_fresh_hash, 3),
        (cut_tail, 3),
        (remove_head, 1),
    ],
    ids=["actor", "kind", "detail", "evaluation", "hash", "previous", "removed", "rewritten", "tail", "head"],
)
def test_tampering_shows_where(
    database: Database, clock: FakeClock, tamper: Callable[[WriteSession], None], broken_at: int
) -> None:
    """Tamper-evident: change, removal, insertion and a cut-off tail are found."""
    write_three(database, clock)
    database.write_now(tamper)
    assert database.read_now(lambda session: audit.verify_chain(session, "task_1")) == Broken(broken_at)


def test_concurrent_appends_to_one_chain_wait_for_each_other(database: Database, clock: FakeClock) -> None:
    """A gap or a fork would look like tampering."""
    start = threading.Barrier(4)

    def one(session: WriteSession) -> None:
        audit.append(session, "login", kind="login_failed", actor="a", detail={}, now=clock())

    def run() -> None:
        start.wait(60)
        for _ in range(10):
            database.write_now(one)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    verified = database.read_now(lambda session: audit.verify_chain(session, "login"))
    assert isinstance(verified, Verified)
    assert verified.length == 40


def test_everything_about_an_evaluation_is_found_from_its_id(database: Database, clock: FakeClock) -> None:
    """Catalogue PDP-78: denial and request have chains of their own and are joined by the evaluation id."""
    database.write_now(
        lambda session: audit.append(
            session, "ev_1", kind="denial_issued", actor="gate", detail={}, now=clock(), evaluation_id="ev_1"
        )
    )
    write_three(database, clock)
    database.write_now(
        lambda session: audit.append(
            session, "task_1", kind="execution_reported", actor="gate", detail={}, now=clock.advance(1)
        )
    )
    database.write_now(
        lambda session: audit.append(session, "task_2", kind="task_submitted", actor="g", detail={}, now=clock())
    )
    found = database.read_now(lambda session: audit.entries_of_evaluation(session, "ev_1"))
    assert [entry.kind for entry in found] == [
        "denial_issued",
        "task_submitted",
        "vote_cast",
        "task_approved",
        "execution_reported",
    ]
    assert database.read_now(audit.chains) == ["ev_1", "task_1", "task_2"]


def test_entry_of_failed_work_is_not_kept(database: Database, clock: FakeClock) -> None:
    """The audit says what happened; what was rolled back did not."""

    def work(session: WriteSession) -> None:
        audit.append(session, "task_1", kind="task_submitted", actor="a", detail={}, now=clock())
        raise LookupError

    with pytest.raises(LookupError):
        database.write_now(work)
    assert database.read_now(audit.chains) == []
    write_three(database, clock)
    assert isinstance(database.read_now(lambda session: audit.verify_chain(session, "task_1")), Verified)


def test_chain_that_is_opened_without_a_look_goes_on_like_any_other(database: Database, clock: FakeClock) -> None:
    """Sparing the look changes nothing about the links, and a chain cannot be opened twice."""

    def work(session: WriteSession) -> None:
        for number in range(3):
            audit.append(
                session, "task_1", kind="k", actor="a", detail={"n": number}, now=clock(), opens_chain=number == 0
            )

    database.write_now(work)
    verified = database.read_now(lambda session: audit.verify_chain(session, "task_1"))
    assert isinstance(verified, Verified)
    assert verified.length == 3
    with pytest.raises(IntegrityError):
        database.write_now(work)
    assert database.read_now(lambda session: audit.verify_chain(session, "task_1")) == verified
