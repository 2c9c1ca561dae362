"""The queue over many requests: how many statements it takes and how many expressions it asks, whatever is stored."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import event

from arap_service import requests
from arap_service.domain import appointing
from arap_service.domain.callers import Caller
from arap_service.requests import QueueFilter
from tests.bench.stored import store
from tests.requests.workflows import OpenWorkflow, rules_of
from tests.requests.world import World, person

pytestmark = pytest.mark.anyio
WHO = 'person.id == "zoe" && call.arguments.amount % 100 == 0'
STEP = f"{{id: review, title: Review, who: '{WHO}'}}"


@contextmanager
def counted(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, int]]:
    """How many statements are sent, and how many expressions are evaluated."""
    seen = {"statements": 0, "asked": 0}
    holds = appointing.Appointing._holds

    def count(*_: Any) -> None:
        seen["statements"] += 1

    def asked(self: appointing.Appointing, *given: Any) -> bool:
        seen["asked"] += 1
        return holds(self, *given)

    monkeypatch.setattr(appointing.Appointing, "_holds", asked)
    target = getattr(world.ctx.database._reader, "_proxied", world.ctx.database._reader)
    event.listen(target, "before_cursor_execute", count)
    yield seen
    event.remove(target, "before_cursor_execute", count)


async def mine(world: World, who: Caller, **wanted: Any) -> list[str]:
    page = await requests.queue(world.ctx, who, QueueFilter(mine=True, **wanted))
    return [row.id for row in page.items]


async def test_whoever_only_an_expression_names_is_found_in_one_batch_and_remembered(
    workflow: OpenWorkflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """600 wait, 6 are his: the first look asks each expression once, the next asks none, a new request costs one."""
    async with workflow(rules_of(STEP)) as world:
        given: dict[str, Any] = {"now": world.clock(), "voices": {"anybody": "*"}, "who": WHO}
        store(world.ctx.database, world.ctx.ring, many=600, waiting=600, **given)
        with counted(world, monkeypatch) as seen:
            first = await mine(world, person("zoe"))
            assert len(first) == 6
            assert seen["asked"] == 600
            seen.update(statements=0, asked=0)
            assert await mine(world, person("zoe")) == first
            few = seen["statements"]
            assert seen["asked"] == 0
            store(world.ctx.database, world.ctx.ring, many=300, waiting=300, first=600, **given)
            seen.update(statements=0, asked=0)
            assert len(await mine(world, person("zoe"))) == 9
            assert seen["asked"] == 300
            seen.update(statements=0, asked=0)
            await mine(world, person("zoe"))
            assert seen == {"statements": few, "asked": 0}, "as many statements for 900 as for 600"
            assert few <= 20


async def test_a_group_with_very_many_requests_costs_a_page_and_no_more(
    workflow: OpenWorkflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the rows of the page are read, although each of 700 is his."""
    async with workflow(rules_of("{id: review, title: Review, groups: [treasury]}")) as world:
        store(
            world.ctx.database, world.ctx.ring, many=900, waiting=700, now=world.clock(), voices={"group": "treasury"}
        )
        with counted(world, monkeypatch) as seen:
            page = await requests.queue(world.ctx, person("ann"), QueueFilter(mine=True))
            assert len(page.items) == 50
            assert seen["statements"] <= 16
            seen.update(statements=0)
            assert await mine(world, person("zoe")) == []
            assert seen["statements"] <= 14
            seen.update(statements=0)
            found = await requests.queue(world.ctx, person("ann"), QueueFilter(mine=True, q="person-7 git_commit"))
            assert {row.subject["id"].startswith("person-7") for row in found.items} == {True}
            assert seen["statements"] <= 22
