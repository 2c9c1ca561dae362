"""A world whose rules the test writes: steps of its own, with the people of `world.py`."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from arap_service import requests
from arap_service.domain.policy_load import load_policy
from arap_service.outbound import Outbound
from arap_service.views import QueueFilter
from tests.clock import FakeClock
from tests.requests.world import World, person, public
from tests.service import service_context, settings_for

OpenWorkflow = Callable[..., AbstractAsyncContextManager[World]]


def rules_of(*steps: str, more: str = "", template: str = "") -> str:
    """Rules in which every access may be requested, by these steps; `template` and `more` are further lines."""
    listed = "\n".join(f"      - {step}" for step in steps)
    return (
        "version: 1\nclients: [{client: gate, may: 'true'}]\n"
        "rules: [{id: ask, when: 'true', request: work}]\n"
        "templates:\n  work:\n    title: Work\n    explanation: Somebody has to agree.\n"
        f"    steps:\n{listed}\n{template}{more}"
    )


@asynccontextmanager
async def open_workflow(
    folder: Path, database: str, clock: FakeClock, rules: str, *, channels: bool = False
) -> AsyncIterator[World]:
    """A world on a migrated database with these rules; with `channels` people can be told."""
    load_policy(rules)
    told = {"notifications": {"channels": {"room": {"url": "json://127.0.0.1"}}}} if channels else {}
    given = settings_for(folder, database=database, policy=rules, **told)
    async with service_context(given, clock=clock, outbound=Outbound(resolver=public)) as ctx:
        yield World(ctx, clock)


async def mine(world: World, who: str) -> Sequence[str]:
    """The requests that this person may decide now, as his queue has them."""
    page = await requests.queue(world.ctx, person(who), QueueFilter(mine=True))
    return [row.id for row in page.items]
