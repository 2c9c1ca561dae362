"""Guarded transitions and what becomes due, on the real tables."""

import threading
from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest
from sqlmodel import col, select

from arap_service import audit
from arap_service.store import queueing, tasks
from arap_service.store.database import Database, ReadSession, WriteSession
from arap_service.store.tables import (
    Approval,
    AuditEntry,
    Delivery,
    IdempotencyKey,
    JtiUse,
    StepState,
    Task,
    Tombstone,
)
from tests.clock import FakeClock
from tests.store.rows import a_step, a_task, a_voice

ENDS = {"approve": "approved", "deny": "denied", "cancel": "cancelled", "expire": "expired"}
RACES = 200


@pytest.mark.requirement("ARS-56")
def test_four_way_race_has_one_winner_and_one_record(database: Database, clock: FakeClock) -> None:
    """Catalogue ARS-56: approve, deny, cancel and expire at once, 200 times, all having seen the same version."""
    everybody = threading.Barrier(len(ENDS))
    won: list[tuple[str, str]] = []

    def contend(event: str) -> None:
        for number in range(RACES):
            task_id = f"task_{number}"

            def work(session: WriteSession, task_id: str = task_id) -> bool:
                row = tasks.end_task(session, task_id, seen=1, to=ENDS[event], at=clock(), by=event)
                if row is None:
                    return False
                audit.append(session, task_id, kind=f"task_{row.status}", actor=event, detail={}, now=clock())
                return row.version == 2

            everybody.wait(30)
            if database.write_now(work):
                won.append((task_id, ENDS[event]))

    database.write_now(lambda session: session.add_all(a_task(f"task_{n}", now=clock()) for n in range(RACES)))
    threads = [threading.Thread(target=contend, args=(event,)) for event in ENDS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)

    def outcome(session: ReadSession) -> tuple[dict[str, str], list[str]]:
        stored = session.exec(select(Task.id, Task.status)).all()
        return dict(stored), [entry.chain for entry in session.exec(select(AuditEntry))]

    statuses, chains = database.read_now(outcome)
    assert sorted(won) == sorted(statuses.items())
    assert sorted(chains) == sorted(statuses)


def test_transition_needs_the_version_that_was_seen(database: Database, clock: FakeClock) -> None:
    """Compare-and-set: the row as it is comes from a second look, never from the refused write."""

    def work(session: WriteSession) -> tuple[object, object, object]:
        session.add(a_task(now=clock()))
        session.flush()
        stale = tasks.end_task(session, "task_1", seen=2, to="approved", at=clock(), by="quorum")
        touched = tasks.touch_task(session, "task_1", seen=1)
        late = tasks.touch_task(session, "task_1", seen=1)
        return stale, touched.version if touched else None, late

    assert database.write_now(work) == (None, 2, None)


def test_ended_task_is_frozen(database: Database, clock: FakeClock) -> None:
    """No statement leads out of a terminal status."""

    def work(session: WriteSession) -> list[object]:
        session.add(a_task(now=clock()))
        session.flush()
        tasks.end_task(session, "task_1", seen=1, to="denied", at=clock(), by="veto", decision=b"sealed")
        return [
            tasks.end_task(session, "task_1", seen=2, to="approved", at=clock(), by="quorum"),
            tasks.touch_task(session, "task_1", seen=2),
        ]

    assert database.write_now(work) == [None, None]
    task = database.read_now(lambda session: tasks.find_task(session, "task_1"))
    assert task is not None
    assert (task.status, task.version, task.ended_by, task.decision_sealed) == ("denied", 2, "veto", b"sealed")


def test_due_tasks_are_those_whose_deadline_has_come(database: Database, clock: FakeClock) -> None:
    """The deadline itself no longer belongs to the task."""
    soon, later = clock() + timedelta(seconds=10), clock() + timedelta(seconds=20)

    def work(session: WriteSession) -> None:
        session.add(a_task("later", now=clock(), pending_until=later))
        session.add(a_task("soon", now=clock(), pending_until=soon))
        session.add(a_task("ended", now=clock(), pending_until=soon, status="denied", ended_at=clock()))

    database.write_now(work)

    def due(at: int) -> list[tuple[str, int]]:
        now = clock() + timedelta(seconds=at)
        return database.read_now(lambda session: tasks.due_tasks(session, now=now, limit=10))

    assert due(9) == []
    assert due(10) == [("soon", 1)]
    assert due(20) == [("soon", 1), ("later", 1)]


def an_approval(task_id: str, clock: FakeClock, seconds: int) -> Approval:
    now = clock()
    return Approval(
        id=f"apr_{task_id}",
        task_id=task_id,
        approved_at=now,
        approved_until=now + timedelta(seconds=seconds),
        state="jws",
    )


def test_removal_waits_for_what_still_needs_the_task(database: Database, clock: FakeClock) -> None:
    """An approval in force and an open delivery keep a task whose retention is over; a pending one is never removed."""
    now = clock()

    def work(session: WriteSession) -> None:
        over = {"created_at": now - timedelta(days=2), "pending_until": now, "expires_at": now}
        for task_id in ("plain", "in_force", "sending"):
            session.add(a_task(task_id, now=now, status="approved", ended_at=now, **over))
        session.add(a_task("open", now=now, **over))
        session.flush()
        session.add(an_approval("in_force", clock, 60))
        session.add(an_approval("plain", clock, 60))
        tasks.end_approval(session, "apr_plain", to="revoked", at=now, by="p", reason=None)
        session.add(
            Delivery(
                id="msg_1",
                task_id="sending",
                client_id="gate",
                endpoint="https://gate.example/cb",
                event="approved",
                created_at=now,
                next_at=now,
                body_sealed=b"b",
            )
        )

    database.write_now(work)
    found = database.read_now(lambda session: tasks.purgeable_tasks(session, now=now, limit=10))
    assert [task.id for task in found] == ["plain"]
    clock.advance(60)
    found = database.read_now(lambda session: tasks.purgeable_tasks(session, now=clock(), limit=10))
    assert sorted(task.id for task in found) == ["in_force", "plain"]


def test_approval_ends_once(database: Database, clock: FakeClock) -> None:
    """A second revocation changes nothing, and a second active approval of one task cannot be stored."""

    def work(session: WriteSession) -> list[object]:
        session.add(a_task(now=clock()))
        session.flush()
        session.add(an_approval("task_1", clock, 60))
        session.flush()
        first = tasks.end_approval(session, "apr_task_1", to="revoked", at=clock(), by="p1", reason=b"r")
        second = tasks.end_approval(session, "apr_task_1", to="superseded", at=clock(), by="p2", reason=None)
        return [first.status if first else None, first.ended_by if first else None, second]

    assert database.write_now(work) == ["revoked", "p1", None]


def test_removal_takes_everything_that_hangs_on_the_task(database: Database, clock: FakeClock) -> None:
    """Foreign keys cascade; the audit stays."""

    def work(session: WriteSession) -> tuple[bool, bool]:
        session.add(a_task(now=clock()))
        session.flush()
        session.add(a_step())
        session.flush()
        session.add(a_voice(name="treasury"))
        audit.append(session, "task_1", kind="task_submitted", actor="gate", detail={}, now=clock())
        session.flush()
        return tasks.remove_task(session, "task_1"), tasks.remove_task(session, "task_1")

    assert database.write_now(work) == (True, False)
    left = database.read_now(
        lambda session: (len(session.exec(select(StepState)).all()), len(session.exec(select(AuditEntry)).all()))
    )
    assert left == (0, 1)


def test_forgetting_keeps_what_is_still_needed(database: Database, clock: FakeClock) -> None:
    """Keys, spent tokens and tombstones go exactly when their time is over."""
    now = clock()

    def work(session: WriteSession) -> None:
        for name, seconds in (("old", 0), ("new", 1)):
            until = now + timedelta(seconds=seconds)
            session.add(
                IdempotencyKey(
                    caller="c",
                    key=name,
                    body_digest="d",
                    task_id=name,
                    status_code=202,
                    created_at=now,
                    keep_until=until,
                )
            )
            session.add(JtiUse(iss="i", jti=name, task_id=name, keep_until=until))
            session.add(Tombstone(task_id=name, submitter="s", client_id="c", removed_at=now, keep_until=until))

    def names(session: ReadSession) -> list[list[str]]:
        return [
            sorted(session.exec(select(IdempotencyKey.key))),
            sorted(session.exec(select(JtiUse.jti))),
            sorted(session.exec(select(Tombstone.task_id))),
        ]

    def forget(session: WriteSession) -> None:
        tasks.forget_old(session, now=clock(), denials_before=clock())

    database.write_now(work)
    database.write_now(forget)
    assert database.read_now(names) == [["new"], ["new"], ["new"]]
    clock.advance(1)
    database.write_now(forget)
    assert database.read_now(names) == [[], [], []]


@pytest.mark.parametrize("oldest_deadline_first", [True, False])
def test_pages_of_the_queue_meet_without_gap_or_repetition(
    database: Database, clock: FakeClock, *, oldest_deadline_first: bool
) -> None:
    """Equal instants are ordered by id, so that a page break between them loses nothing."""
    now = clock()

    def work(session: WriteSession) -> None:
        for number in range(10):
            session.add(a_task(f"task_{number}", now=now + timedelta(seconds=number // 3)))

    database.write_now(work)

    def place(task: Task) -> tuple[datetime, str]:
        return (task.pending_until if oldest_deadline_first else task.created_at, task.id)

    seen: list[Task] = []
    while True:
        after = place(seen[-1]) if seen else None

        def work_page(session: ReadSession, after: tuple[datetime, str] | None = after) -> Sequence[Task]:
            return tasks.queue_page(
                session,
                conditions=[col(Task.status) == "pending"],
                oldest_deadline_first=oldest_deadline_first,
                after=after,
                limit=4,
            )

        page = database.read_now(work_page)
        if not page:
            break
        seen += page
    assert [place(task) for task in seen] == sorted(map(place, seen), reverse=not oldest_deadline_first)
    assert len({task.id for task in seen}) == 10


def test_voices_select_the_tasks_that_somebody_may_speak_on(database: Database, clock: FakeClock) -> None:
    """By group, by person and by resolver; nobody's voices select nothing."""

    def work(session: WriteSession) -> None:
        for task_id, kind, name in (
            ("task_g", "group", "treasury"),
            ("task_p", "person", "p1"),
            ("task_r", "resolver", "risk"),
        ):
            session.add(a_task(task_id, now=clock()))
            session.flush()
            session.add(a_step(task_id))
            session.flush()
            session.add(a_voice(task_id, kind=kind, name=name))

    database.write_now(work)

    def chosen(**voices: list[str]) -> list[str]:
        return database.read_now(
            lambda session: sorted(session.exec(select(Task.id).where(queueing.is_voiced(voices))))
        )

    assert chosen(group=["treasury", "other"], person=["p2"]) == ["task_g"]
    assert chosen(group=["treasury"], person=["p1"]) == ["task_g", "task_p"]
    assert chosen(resolver=["risk"]) == ["task_r"]
    assert chosen(group=["risk"], person=["treasury"]) == []
    assert chosen(group=[]) == []
