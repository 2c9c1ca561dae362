"""Signed checkpoints: what they say, that they go on from each other, and that one instance signs for all."""

import asyncio
from pathlib import Path

import anyio
import pytest
from sqlalchemy import delete
from sqlmodel import col

from arap_service.auditing.checkpoints import CHECKPOINTS, LEASE_FOR, Checkpointer, LogBroken, Notary
from arap_service.auditing.export import static_issuers
from arap_service.auditing.places import leaf, place_some
from arap_service.auditing.stored import read_with
from arap_service.background import run_background
from arap_service.domain.merkle import Tree
from arap_service.keys import APPROVAL_TYP, CHECKPOINT_TYP, TokenInvalid, verify
from arap_service.store import log
from arap_service.store.database import Database
from arap_service.store.log_tables import AuditCheckpoint, AuditPlace
from arap_service.store.tables import AuditHead
from tests.auditing.conftest import ISSUER, append
from tests.clock import FakeClock
from tests.peers import POLICY
from tests.service import service_context, settings_for


def all_leaves(database: Database, size: int) -> list[bytes]:
    rows = database.read_now(lambda session: log.leaves(session, after=0, until=size, limit=10_000))
    return [leaf(row) for row in rows]


@pytest.mark.anyio
async def test_checkpoint_signs_the_root_over_every_head_and_the_next_one_goes_on(
    notary: Notary, database: Database, clock: FakeClock
) -> None:
    """Each is the head of RFC 6962 over all places so far, computed here from the beginning."""
    append(database, clock, "task_1", "one", "two")
    first = await notary.sign()
    assert first is not None
    append(database, clock, "task_2", "three")
    append(database, clock, "task_1", "four")
    second = await notary.sign()
    assert second is not None
    assert [(each.number, each.size) for each in (first, second)] == [(1, 5), (2, 7)]
    read = read_with(static_issuers(ISSUER, notary.keys.log_jwks()))
    for each in (first, second):
        assert each.root == Tree().grown(all_leaves(database, each.size)).root.hex()
        assert read(each.signature) == {
            "iss": ISSUER,
            "iat": int(each.at.timestamp()),
            "number": each.number,
            "size": each.size,
            "root": each.root,
        }
    heads = database.read_now(lambda session: log.heads(session, after="", limit=10))
    assert {(head.chain, head.placed) for head in heads} == {("keys", 3), ("task_1", 3), ("task_2", 1)}


@pytest.mark.anyio
async def test_nothing_new_is_not_signed_again(notary: Notary, database: Database, clock: FakeClock) -> None:
    first = await notary.sign()
    clock.advance(60)
    assert await notary.sign() == first
    stored = database.read_now(lambda session: list(log.checkpoints(session)))
    assert [each.number for each in stored] == [1]


@pytest.mark.anyio
async def test_empty_log_has_no_checkpoint(database: Database, notary: Notary) -> None:
    database.write_now(lambda session: session.execute(delete(AuditHead)))
    assert await notary.sign() is None


@pytest.mark.anyio
async def test_checkpoint_is_no_token_of_another_kind(notary: Notary) -> None:
    """Its type is its own, so it opens nothing, and an approval's state passes for no checkpoint."""
    made = await notary.sign()
    assert made is not None
    issuers = static_issuers(ISSUER, notary.keys.log_jwks())
    assert verify(made.signature, typ=CHECKPOINT_TYP, issuers=issuers)["number"] == 1
    with pytest.raises(TokenInvalid, match="typ"):
        verify(made.signature, typ=APPROVAL_TYP, issuers=issuers)
    other = notary.keys.sign("approval", {"iss": ISSUER}, APPROVAL_TYP)
    assert read_with(issuers)(other) is None
    assert read_with(issuers)("nonsense") is None


@pytest.mark.anyio
async def test_one_instance_signs_until_its_lease_ends(notary: Notary, database: Database, clock: FakeClock) -> None:
    one, two = Checkpointer(notary, owner="one"), Checkpointer(notary, owner="two")
    assert await one.round() is not None
    append(database, clock, "a", "one")
    assert await two.round() is None
    made = await one.round()
    assert made is not None
    assert made.number == 2
    clock.advance(LEASE_FOR.total_seconds())
    append(database, clock, "a", "two")
    made = await two.round()
    assert made is not None
    assert made.number == 3


@pytest.mark.anyio
async def test_two_that_sign_at_once_make_one_line_of_checkpoints(
    notary: Notary, database: Database, clock: FakeClock
) -> None:
    """The lease only spares work: without it the numbers keep two from signing the same place in the line."""
    append(database, clock, "a", *"123456")
    with anyio.fail_after(55):
        async with anyio.create_task_group() as group:
            for _ in range(4):
                group.start_soon(notary.sign)
    stored = database.read_now(lambda session: list(log.checkpoints(session)))
    assert [each.number for each in stored] == list(range(1, len(stored) + 1))
    assert sorted({each.size for each in stored}) == [each.size for each in stored]
    assert stored[-1].size == 9


@pytest.mark.anyio
async def test_nothing_is_signed_over_a_hole(notary: Notary, database: Database, clock: FakeClock) -> None:
    """Otherwise the next checkpoint would vouch for what somebody has removed."""
    await notary.sign()
    append(database, clock, "a", *"123")
    while database.write_now(place_some):
        pass
    database.write_now(lambda session: session.execute(delete(AuditPlace).where(col(AuditPlace.position) == 5)))
    with pytest.raises(LogBroken, match="place 5"):
        await notary.sign()
    assert len(database.read_now(lambda session: list(log.checkpoints(session)))) == 1


def test_work_goes_on_after_a_checkpoint_that_was_lost_with_its_process(
    notary: Notary, database: Database, clock: FakeClock
) -> None:
    """The newest checkpoint is gone, as after a crash before its commit: the next one has its number and covers all."""
    made = asyncio.run(notary.sign())
    database.write_now(lambda session: session.execute(delete(AuditCheckpoint)))
    append(database, clock, "a", "one")
    again = asyncio.run(notary.sign())
    assert made is not None
    assert again is not None
    assert (again.number, again.size) == (made.number, made.size + 1)


@pytest.mark.anyio
async def test_running_service_signs_by_itself(service_url: str, tmp_path: Path, clock: FakeClock) -> None:
    """The loop looks at once when it begins; the key of an approval or a person's login need not come first."""
    settings = settings_for(tmp_path, database=service_url, policy=POLICY)
    async with service_context(settings, clock=clock) as context:
        with anyio.fail_after(55), context.database.subscribe(CHECKPOINTS) as signed:
            async with anyio.create_task_group() as group:
                group.start_soon(run_background, context)
                while not await context.database.read(log.last_checkpoint):
                    await signed.wait(5)
                group.cancel_scope.cancel()
        made = await context.database.read(log.last_checkpoint)
        assert made is not None
        assert made.size >= 4
