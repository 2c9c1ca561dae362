"""Deadlines and retention: what ends, what is removed, and what must be left."""

from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlmodel import select

from arap_service import audit, requests, workers
from arap_service.store.database import Database
from arap_service.store.tables import Approval, AuditEntry, Denial, JtiUse, Row, StepState, Task, Tombstone, Vote
from tests.clock import FakeClock
from tests.databases import Databases, Kind
from tests.requests.conftest import prepare
from tests.requests.world import CALLBACK, GATE, World, open_world, question
from tests.store.rows import a_task

pytestmark = pytest.mark.anyio


@pytest.fixture
def world_url(engine_kind: Kind, databases: Databases) -> Iterator[str]:
    """URL of a fresh database with tables and people."""
    url = databases.copy_of(engine_kind, "world", prepare)
    yield url
    databases.drop(url)


@pytest.fixture
async def world(world_url: str, tmp_path: Path, clock: FakeClock) -> AsyncIterator[World]:
    """A service with people, rules and a gate."""
    async with open_world(tmp_path, world_url, clock) as opened:
        yield opened


async def counts(world: World, *tables: type[Any]) -> list[int]:
    def read(session: Any) -> list[int]:
        return [len(session.exec(select(table)).all()) for table in tables]

    return await world.ctx.database.read(read)


@pytest.mark.requirement("ARS-120")
async def test_due_requests_expire_once_and_others_stay(world: World) -> None:
    """Catalogue ARS-120: at the deadline, with one record and one notification each, however many sweepers run."""
    due = [await world.pending(callback={"endpoint": CALLBACK}) for _ in range(3)]
    world.clock.advance(1)
    later = await world.pending()
    world.clock.advance(86399 - 1)
    assert await workers.expire_due(world.ctx) == 0
    world.clock.advance(1)
    assert await workers.expire_due(world.ctx) == 3
    assert await workers.expire_due(world.ctx) == 0
    for task_id in due:
        assert await world.kinds(task_id) == ["task_submitted", "task_expired"]
    assert await world.status(later) == "pending"


@pytest.mark.requirement("ARS-124")
async def test_retention_leaves_a_tombstone_and_the_audit(world: World) -> None:
    """Catalogue ARS-124: afterwards nothing of what was said is in the store."""
    asked = question()
    asked["context"]["business_justification"] = "canary-justification"
    submitted = await world.submit(await world.body(asked))
    task_id = submitted.task["id"]
    await world.decide(task_id, reason="canary-reason")
    chain = await world.audit(task_id)
    world.clock.advance(2 * 86400 + 3600)
    assert await workers.purge_due(world.ctx) == 1
    assert await counts(world, Task, StepState, Vote, Approval, Denial, JtiUse) == [0] * 6
    assert await counts(world, Tombstone) == [1]
    assert [entry.hash for entry in await world.audit(task_id)] == [entry.hash for entry in chain]
    assert "canary" not in repr([entry.model_dump() for entry in await world.audit(task_id)])


@pytest.mark.requirement("ARS-124")
async def test_stored_words_are_sealed_while_they_are_kept(world: World, world_url: str) -> None:
    """Design section 5: arguments, justification, context, callback state and reasons are sealed in the service."""
    arguments = {"amount": 1, "to": "canary-argument"}
    asked = question(arguments=arguments, note="canary-context")
    asked["context"]["business_justification"] = "canary-justification"
    body = await world.body(asked, callback={"endpoint": CALLBACK, "state": "canary-state"})
    submitted = await world.submit(body)
    await world.decide(submitted.task["id"], decision="deny", reason="canary-reason")
    stored = await world.ctx.database.read(_everything)
    assert "canary" not in stored
    if world.ctx.database.is_sqlite:
        path = Path(world_url.removeprefix("sqlite:///"))
        for suffix in ("", "-wal"):
            assert b"canary" not in path.with_name(path.name + suffix).read_bytes()


def _everything(session: Any) -> str:
    return repr([session.execute(table.select()).all() for table in Row.metadata.sorted_tables])


async def test_pending_and_needed_requests_are_never_removed(world: World) -> None:
    """Retention removes what has ended; a pending request is first expired by its own rule."""
    task_id = await world.pending()
    world.clock.advance(3 * 86400)
    assert await workers.purge_due(world.ctx) == 0
    assert await workers.expire_due(world.ctx) == 1
    assert await workers.purge_due(world.ctx) == 1
    assert await counts(world, Task) == [0]
    assert await world.kinds(task_id) == ["task_submitted", "task_expired"]


async def test_more_than_a_batch_is_removed(world: World) -> None:
    """Batches bound a transaction, not the work."""

    def crowd(session: Any) -> None:
        session.add_all(
            a_task(f"task_{n}", now=world.clock(), status="denied", ended_at=world.clock()) for n in range(250)
        )

    await world.ctx.database.write(crowd)
    world.clock.advance(2 * 86400)
    assert await workers.purge_due(world.ctx) == 250
    assert await counts(world, Task, Tombstone) == [0, 250]


async def test_audit_of_all_chains_verifies_after_everything(world: World, world_url: str) -> None:
    """Nothing that the service itself does breaks a chain."""
    for decision in ("approve", "deny"):
        await world.decide(await world.pending(), decision=decision)
    await requests.cancel(world.ctx, GATE, await world.pending(), None)
    world.clock.advance(2 * 86400)
    await workers.expire_due(world.ctx)
    await workers.purge_due(world.ctx)
    database = Database.open(world_url)
    try:
        chains = database.read_now(audit.chains)
        for chain in chains:
            assert isinstance(database.read_now(partial(audit.verify_chain, chain=chain)), audit.Verified)
        total = database.read_now(lambda session: len(session.exec(select(AuditEntry)).all()))
    finally:
        database.close()
    assert len(chains) >= 6
    assert total >= 3 + 3 + 2 + 3
