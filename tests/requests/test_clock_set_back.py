"""A clock that is set back by hours: nothing fails that need not, nothing that ended comes to life."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from arap_service import requests, workers
from arap_service.courier import Courier
from arap_service.domain.errors import InvalidDenialBinding, InvalidTaskState
from arap_service.evaluation import evaluate
from arap_service.outbound import Answer, DeliveryFailed, Outbound
from arap_service.requests import QueueFilter
from tests.requests.world import CALLBACK, GATE, World, person, public, question

pytestmark = pytest.mark.anyio
HOURS = 2 * 3600


class Down(Outbound):
    """A way out that leads nowhere."""

    async def post(self, *_args: Any, **_options: Any) -> Answer:
        """Fails."""
        raise DeliveryFailed("connect")


async def permitted(world: World, approval: Mapping[str, Any]) -> bool:
    """Whether the call that was asked about is let through with this approval."""
    asked = question()
    answer = await evaluate(world.ctx, GATE, {**asked, "context": {**asked["context"], "approval": approval}})
    return answer["decision"] is True


async def result_of(world: World, task_id: str) -> Mapping[str, Any]:
    approval: Mapping[str, Any] = (await requests.status(world.ctx, GATE, task_id))["result"]["approval"]
    return approval


async def test_everything_goes_on_before_the_time_at_which_the_service_began(world: World) -> None:
    """From the question to the report, by keys that are younger than the clock."""
    world.clock.advance(-HOURS)
    assert (await evaluate(world.ctx, GATE, question("open")))["decision"] is True
    task_id = await world.pending(callback={"endpoint": CALLBACK})
    assert (await world.decide(task_id)).status == "approved"
    assert await permitted(world, await result_of(world, task_id))
    report = {"disposition": "approved-executed", "at": "2026-04-30T18:00:00Z", "generation": 0}
    await requests.report(world.ctx, GATE, task_id, report)
    assert await workers.expire_due(world.ctx) == 0
    assert await world.kinds(task_id) == [
        "task_submitted",
        "vote_cast",
        "task_approved",
        "reevaluated",
        "execution_reported",
    ]


async def test_what_was_begun_before_is_ended_after(world: World) -> None:
    """A request and a denial of a time that has not come yet again."""
    task_id, early = await world.pending(), await world.body()
    world.clock.advance(-HOURS)
    page = await requests.queue(world.ctx, person("ann"), QueueFilter(mine=True))
    assert [row.id for row in page.items] == [task_id]
    detail = await world.decide(task_id)
    assert detail.approval is not None
    assert detail.approval.approved_until > world.clock()
    assert await permitted(world, await result_of(world, task_id))
    assert (await world.submit(early)).status_code == 202
    with pytest.raises(InvalidDenialBinding):  # spent once, whatever the time is
        await world.submit({**early, "display": {"title": "again"}})


async def test_what_has_ended_stays_ended(world: World) -> None:
    """Expired, revoked and denied are states, and no comparison with a clock that can be moved."""
    expired, denied, approved = [await world.pending() for _ in range(3)]
    await world.decide(denied, decision="deny")
    approval = (await world.decide(approved)).approval
    assert approval is not None
    shown = await result_of(world, approved)
    await requests.revoke(world.ctx, person("ann"), approval.id, reason="no")
    world.clock.advance(86400)
    assert await workers.expire_due(world.ctx) == 1
    world.clock.advance(-86400 - HOURS)
    assert [await world.status(task_id) for task_id in (expired, denied)] == ["expired", "denied"]
    for task_id in (expired, denied):
        with pytest.raises(InvalidTaskState):
            await world.decide(task_id)
    assert not await permitted(world, shown)


async def test_delivery_is_tried_again_when_its_time_has_come_back(world: World) -> None:
    """The outbox waits; it loses nothing and sends nothing twice."""
    task_id = await world.pending(callback={"endpoint": CALLBACK})
    world.clock.advance(-HOURS)
    await world.decide(task_id)
    courier = Courier(replace(world.ctx, outbound=Down(resolver=public)))
    assert await courier.round() == 1
    world.clock.advance(-HOURS)
    assert await courier.round() == 0
    world.clock.advance(2 * HOURS)
    assert await courier.round() == 1
