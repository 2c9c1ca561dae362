"""An approval has an end that is to come, whatever approvers and requesters wished (ARS-59, ARS-108)."""

from datetime import timedelta

import pytest

from arap_service import requests
from arap_service.domain.errors import InputInvalid
from arap_service.protocol.arap import format_instant
from tests.requests.world import GATE, World, person, question

pytestmark = pytest.mark.anyio
PAST = [{"pointer": "/approved_until", "code": "past"}]


@pytest.fixture
def world(shared_world: World) -> World:
    """Every test looks at requests of its own."""
    return shared_world


@pytest.mark.requirement("ARS-59", "ARS-108")
async def test_quorum_that_comes_after_an_approvers_wish_has_lapsed_approves_nothing(world: World) -> None:
    """The first approver's time is over when the second one agrees; he is told, and can still deny."""
    task_id = await world.pending("payroll")
    await world.decide(task_id, "ann", reason="Today only.", approved_until=world.clock() + timedelta(seconds=60))
    world.clock.advance(60)
    with pytest.raises(InputInvalid) as caught:
        await world.decide(task_id, "bob", reason="Yes.")
    assert caught.value.extra["errors"] == PAST
    assert await world.status(task_id) == "pending"
    assert (await world.decide(task_id, "bob", "deny")).status == "pending"
    assert (await world.decide(task_id, "carl", "deny")).status == "denied"


@pytest.mark.requirement("ARS-59", "ARS-108")
async def test_quorum_within_an_approvers_wish_is_bound_by_it(world: World) -> None:
    task_id = await world.pending("payroll")
    until = world.clock() + timedelta(seconds=60)
    await world.decide(task_id, "ann", reason="Today only.", approved_until=until)
    world.clock.advance(59)
    detail = await world.decide(task_id, "bob", reason="Yes.")
    assert detail.approval is not None
    assert (detail.approval.approved_at, detail.approval.approved_until) == (world.clock(), until)


@pytest.mark.requirement("ARS-59", "ARS-108")
async def test_lifetime_of_less_than_a_second_approves_nothing(world: World) -> None:
    """Signed times are whole seconds, so that such a lifetime would end before it began."""
    task_id = await world.pending()
    with pytest.raises(InputInvalid) as caught:
        await world.decide(task_id, "ann", approved_until=world.clock() + timedelta(milliseconds=500))
    assert caught.value.extra["errors"] == PAST
    assert await world.status(task_id) == "pending"
    detail = await world.decide(task_id, "ann", approved_until=world.clock() + timedelta(milliseconds=1500))
    assert detail.approval is not None
    assert detail.approval.approved_until == world.clock() + timedelta(seconds=1)


@pytest.mark.requirement("ARS-59", "ARS-108")
async def test_time_asked_for_that_is_nearly_over_approves_nothing(world: World) -> None:
    """The requester's own limit counts for whoever decides within its last second."""
    until = world.clock() + timedelta(seconds=10, milliseconds=700)
    task_id = await world.pending(requested_access={"requested_until": until.isoformat()})
    world.clock.advance(10.2)
    with pytest.raises(InputInvalid) as caught:
        await world.decide(task_id, "ann")
    assert caught.value.extra["errors"] == PAST
    assert (await requests.detail(world.ctx, person("ann"), task_id)).status == "pending"


@pytest.mark.requirement("ARS-59", "ARS-108")
async def test_rules_approve_nothing_for_less_than_a_second(world: World) -> None:
    """What is approved at once has an end to come as well."""
    asked = question("auto", arguments={"amount": 5, "to": "DE1"})
    for milliseconds in (1, 999):
        until = world.clock() + timedelta(milliseconds=milliseconds)
        with pytest.raises(InputInvalid) as caught:
            await world.submit(await world.body(asked, requested_access={"requested_until": until.isoformat()}))
        assert caught.value.extra["errors"] == [{"pointer": "/requested_access/requested_until", "code": "past"}]
    until = world.clock() + timedelta(milliseconds=1001)
    given = await world.submit(await world.body(asked, requested_access={"requested_until": until.isoformat()}))
    assert given.result is not None
    ends = format_instant(world.clock() + timedelta(seconds=1))
    assert given.result["approval"]["approved_until"] == ends
    assert (await requests.status(world.ctx, GATE, given.task["id"]))["result"]["approval"]["approved_until"] == ends
