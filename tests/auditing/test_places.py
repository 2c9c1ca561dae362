"""The order of the log: every entry gets one place, no place is given twice, none is left out."""

import threading
from datetime import timedelta
from functools import partial

import pytest
from sqlmodel import col, select

from arap_service import audit
from arap_service.auditing.places import place_entries, place_some
from arap_service.store import log
from arap_service.store.database import Database, WriteSession
from arap_service.store.log_tables import AuditPlace
from tests.auditing.conftest import append
from tests.clock import FakeClock


def places(database: Database) -> list[tuple[int, str, int]]:
    """Position, chain and number of every place."""
    found = select(AuditPlace).order_by(col(AuditPlace.position))
    rows = database.read_now(lambda session: session.exec(found).all())
    return [(row.position, row.chain, row.seq) for row in rows]


@pytest.mark.anyio
async def test_entries_are_placed_by_their_time_and_later_ones_after_them(database: Database, clock: FakeClock) -> None:
    """Chains interleave as things happened; what comes later never moves what has a place."""
    append(database, clock, "b", "one")
    append(database, clock, "a", "two")
    append(database, clock, "b", "three")
    assert await place_entries(database) == 3
    assert places(database) == [(1, "b", 1), (2, "a", 1), (3, "b", 2)]
    append(database, clock, "a", "four")
    assert await place_entries(database) == 1
    assert places(database)[3:] == [(4, "a", 2)]
    assert await place_entries(database) == 0


@pytest.mark.anyio
async def test_chain_keeps_its_order_when_the_clock_is_set_back(database: Database, clock: FakeClock) -> None:
    append(database, clock, "a", "one")
    clock.advance(-3600)
    append(database, clock, "a", "two")
    append(database, clock, "b", "three")
    await place_entries(database)
    assert [(chain, seq) for _, chain, seq in places(database) if chain == "a"] == [("a", 1), ("a", 2)]


@pytest.mark.anyio
async def test_long_chains_are_placed_in_batches(
    database: Database, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "BATCH", 2)
    append(database, clock, "a", *"12345")
    append(database, clock, "b", *"123")
    assert await place_entries(database) == 8
    assert [position for position, *_ in places(database)] == list(range(1, 9))
    for chain, length in (("a", 5), ("b", 3)):
        assert [seq for _, name, seq in places(database) if name == chain] == list(range(1, length + 1))


def test_several_instances_that_place_at_once_leave_no_gap_and_no_double(database: Database, clock: FakeClock) -> None:
    """While others go on appending to the same chains."""
    start = threading.Barrier(4)
    failures: list[BaseException] = []

    def add_one(session: WriteSession, *, step: int, number: int) -> None:
        audit.append(session, f"chain-{step % 3}", kind="k", actor="a", detail={"by": number}, now=clock())

    def run(number: int) -> None:
        start.wait(5)
        try:
            for step in range(8):
                database.write_now(partial(add_one, step=step, number=number))
                database.write_now(place_some)
        except BaseException as error:  # noqa: BLE001  # whatever it is, the test shows it
            failures.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert failures == []
    while database.write_now(place_some):
        pass
    found = places(database)
    assert [position for position, *_ in found] == list(range(1, 33))
    assert len({(chain, seq) for _, chain, seq in found}) == 32


def test_work_that_fails_leaves_no_place(database: Database, clock: FakeClock) -> None:
    append(database, clock, "a", "one")

    def failing(session: object) -> None:
        place_some(session)  # type: ignore[arg-type]
        raise LookupError

    with pytest.raises(LookupError):
        database.write_now(failing)
    assert places(database) == []
    assert database.write_now(place_some) == 1


def test_lease_is_one_owners_until_it_ends(database: Database, clock: FakeClock) -> None:
    def take(owner: str) -> bool:
        now = clock()
        return database.write_now(
            lambda session: log.take_lease(session, "work", owner=owner, now=now, until=now + timedelta(seconds=10))
        )

    assert take("one")
    assert not take("two")
    clock.advance(9)
    assert take("one")
    clock.advance(9)
    assert not take("two")
    clock.advance(1)
    assert take("two")
    assert not take("one")
