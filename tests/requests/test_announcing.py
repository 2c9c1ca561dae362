"""What people are to be told is kept with what causes it, once, and only where somebody can be told."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic import ValidationError
from sqlmodel import col, select

from arap_service import requests
from arap_service.domain.notices import NoticeKind
from arap_service.requests.announcing import announce
from arap_service.requests.conversation import answer, ask
from arap_service.store.notice_tables import Announcement
from arap_service.store.tables import Approval
from tests.clock import FakeClock
from tests.requests.world import GATE, POLICY, World, open_world, person, question, seed
from tests.service import settings_for

CHANNELS = {"channels": {"mail": {"url": "json://127.0.0.1/"}}}


@pytest.fixture
async def telling(service_url: str, tmp_path: Path, clock: FakeClock) -> AsyncIterator[World]:
    """A world in which people can be told."""
    async with open_world(tmp_path, service_url, clock, notifications=CHANNELS) as world:
        await world.ctx.database.write(lambda session: seed(session, clock()))
        yield world


async def announced(world: World, task_id: str) -> list[Announcement]:
    def read(session: Any) -> list[Announcement]:
        found = select(Announcement).where(Announcement.task_id == task_id)
        return list(session.exec(found.order_by(col(Announcement.at), col(Announcement.kind))).all())

    return await world.ctx.database.read(read)


async def kinds(world: World, task_id: str) -> list[str]:
    return [each.kind for each in await announced(world, task_id)]


@pytest.mark.anyio
async def test_course_of_a_request_is_announced_step_by_step(telling: World) -> None:
    task_id = await telling.pending()
    assert await kinds(telling, task_id) == ["request_waiting"]
    await ask(telling.ctx, person("ann"), task_id, message="Why so much?")
    telling.clock.advance(1)
    await answer(telling.ctx, GATE, task_id, version=1, given={"answer": "Because."})
    telling.clock.advance(1)
    await telling.decide(task_id, "ann")
    telling.clock.advance(1)
    approval = await telling.ctx.database.read(
        lambda session: session.exec(select(Approval).where(Approval.task_id == task_id)).one()
    )
    await requests.revoke(telling.ctx, person("ann"), approval.id, reason="Too much.")
    found = await announced(telling, task_id)
    assert [(each.kind, each.actor, each.people) for each in found] == [
        ("question_asked", "person:ann", []),
        ("request_waiting", None, []),
        ("question_answered", None, ["ann"]),
        ("decided", "person:ann", []),
        ("revoked", "person:ann", []),
    ]


@pytest.mark.anyio
async def test_vote_that_leaves_a_request_open_has_those_told_whose_turn_it_is_now(telling: World) -> None:
    task_id = await telling.pending("payroll")
    telling.clock.advance(1)
    await telling.decide(task_id, "ann", reason="Fine.")
    assert await kinds(telling, task_id) == ["request_waiting", "request_waiting"]


@pytest.mark.anyio
async def test_request_that_rules_decide_at_once_waits_for_nobody(telling: World) -> None:
    submitted = await telling.submit(await telling.body(question("auto", arguments={"amount": 5, "to": "DE1"})))
    assert await kinds(telling, str(submitted.task["id"])) == ["decided"]


@pytest.mark.anyio
async def test_announcement_names_nothing_of_what_was_asked_for(telling: World) -> None:
    task_id = await telling.pending()
    [found] = await announced(telling, task_id)
    told = repr(found.model_dump())
    assert not any(word in told for word in ("50000", "DE1", "alice", "bank"))


@pytest.mark.anyio
async def test_same_thing_is_announced_once_however_many_announce_it(telling: World) -> None:
    task_id = await telling.pending()
    task, now = await telling.task(task_id), telling.clock()
    new: list[bool] = []

    async def once(about: str) -> None:
        made = await telling.ctx.database.write(
            lambda session: announce(telling.ctx, session, NoticeKind.REMINDER, task, now=now, about=about, step="s")
        )
        new.append(made)

    async with anyio.create_task_group() as group:
        for _ in range(6):
            group.start_soon(once, "1")
    await once("2")
    assert sorted(new) == [False] * 5 + [True] * 2
    assert (await kinds(telling, task_id)).count("reminder") == 2


@pytest.mark.anyio
async def test_transaction_that_fails_announces_nothing(telling: World) -> None:
    task_id = await telling.pending()
    task, now = await telling.task(task_id), telling.clock()

    def work(session: Any) -> None:
        announce(telling.ctx, session, NoticeKind.REVIEW_DUE, task, now=now, groups=["treasury"])
        raise LookupError

    with pytest.raises(LookupError):
        await telling.ctx.database.write(work)
    assert await kinds(telling, task_id) == ["request_waiting"]


@pytest.mark.anyio
async def test_nothing_is_kept_where_nobody_can_be_told(service_url: str, tmp_path: Path, clock: FakeClock) -> None:
    async with open_world(tmp_path, service_url, clock) as world:
        await world.ctx.database.write(lambda session: seed(session, clock()))
        assert await announced(world, await world.pending()) == []


@pytest.mark.parametrize(
    ("channel", "said"),
    [
        ({}, "needs either url or url_file"),
        ({"url": "json://127.0.0.1", "url_file": "mail.txt"}, "needs either url or url_file"),
        ({"url": "json://127.0.0.1", "kinds": ["exploded"]}, "request_waiting"),
        ({"url": "json://127.0.0.1", "colour": "blue"}, "Extra inputs"),
    ],
)
def test_channel_that_cannot_work_is_refused_and_its_address_not_shown(
    tmp_path: Path, channel: dict[str, object], said: str
) -> None:
    given = {"channels": {"mail": channel}}
    with pytest.raises(ValidationError, match=said) as refused:
        settings_for(tmp_path, database="sqlite:///x.db", policy=POLICY, notifications=given)
    assert "127.0.0.1" not in str(refused.value)
