"""What stands beside a request: the last one like it, who else may decide, who is away, where a voice counts."""

from datetime import timedelta
from typing import Any

import pytest

from arap_service import requests
from arap_service.domain.callers import Caller
from arap_service.requests.delegations import Wanted, delegate
from arap_service.store.directory import put_groups
from arap_service.views import RequestDetail
from tests.requests.world import READER, RISK_ENGINE, World, person, question

pytestmark = pytest.mark.anyio


async def asked(world: World, resource: str = "wire_transfer", **changes: Any) -> str:
    submitted = await world.submit(await world.body(question(resource, **changes)))
    return str(submitted.task["id"])


async def seen(world: World, task_id: str, who: Caller | None = None) -> RequestDetail:
    return await requests.detail(world.ctx, who or person("ann"), task_id)


async def test_the_last_approved_call_is_compared_member_by_member(world: World) -> None:
    first = await asked(world, arguments={"amount": 100, "to": "DE1", "token": "old"})
    await world.decide(first)
    world.clock.advance(5)
    denied = await asked(world, arguments={"amount": 1, "to": "DE9"})
    await world.decide(denied, decision="deny")
    second = await asked(world, arguments={"amount": 50000, "to": "DE1", "token": "new"})
    earlier = (await seen(world, second)).earlier
    assert earlier is not None
    assert (earlier.id, earlier.equal, earlier.secrets, earlier.is_same) == (first, 1, 1, False)
    [found] = earlier.differences
    assert (found.pointer, found.before, found.after) == ("/amount", "100", "50000")
    assert "old" not in repr(earlier)


async def test_another_subject_and_another_tool_are_no_earlier_call(world: World) -> None:
    for changes in ({"subject": "carol"}, {"resource": "merge"}):
        other = await asked(world, **changes)
        for voice in ("lea", "mo") if "resource" in changes else ("ann",):
            await world.decide(other, voice)
    assert (await seen(world, await asked(world))).earlier is None


async def test_exactly_the_same_values_are_called_so(world: World) -> None:
    first = await asked(world)
    await world.decide(first)
    earlier = (await seen(world, await asked(world))).earlier
    assert earlier is not None
    assert (earlier.id, earlier.is_same, earlier.differences) == (first, True, ())


async def test_what_is_not_kept_any_more_is_not_compared(world: World) -> None:
    first = await asked(world)
    await world.decide(first)
    world.clock.advance(2 * 86400)
    assert (await seen(world, await asked(world))).earlier is None


async def test_who_may_decide_is_told_by_name_with_who_is_barred_and_who_is_away(world: World) -> None:
    task_id = await asked(world, "payroll")
    now = world.clock()
    await delegate(
        world.ctx,
        person("carl"),
        Wanted(person_id="carl", deputy_id="zoe", starts_at=now, ends_at=now + timedelta(days=2)),
    )
    await world.decide(task_id, "bob", reason="ok")
    [step] = (await seen(world, task_id)).deciders
    told = {each.name: (each.standing, each.deputy) for each in step.people}
    assert told == {
        "Alice Requester": ("is_subject", None),
        "Ann Treasurer": ("free", None),
        "Bob Treasurer": ("decided", None),
        "Carl Payroll": ("free", "Zoe Nobody"),
    }
    assert step.people[0].standing == "free"
    assert (step.groups, step.more_people) == (("treasury",), 0)


async def test_nobody_is_named_by_a_group_that_counts_no_longer(world: World) -> None:
    """What a provider said under an older configuration lets nobody decide, so it names nobody either."""
    task_id = await asked(world, "payroll")
    before = [each.name for step in (await seen(world, task_id)).deciders for each in step.people]
    await world.ctx.database.write(
        lambda session: put_groups(session, "zoe", {"treasury"}, source="https://login.example|older")
    )
    after = [each.name for step in (await seen(world, task_id)).deciders for each in step.people]
    assert "Ann Treasurer" in before
    assert after == before


async def test_a_machine_that_decides_is_not_told_the_names_of_people(world: World) -> None:
    task_id = await asked(world)
    assert (await seen(world, task_id, RISK_ENGINE)).deciders == ()
    assert (await seen(world, task_id, READER)).deciders != ()


async def test_where_a_voice_would_count_is_told_and_in_whose_place(world: World) -> None:
    task_id, now = await asked(world), world.clock()
    assert ((await seen(world, task_id)).decides_in, (await seen(world, task_id)).decides_for) == ("treasury", None)
    await delegate(
        world.ctx,
        person("ann"),
        Wanted(person_id="ann", deputy_id="zoe", starts_at=now, ends_at=now + timedelta(days=2)),
    )
    hers = await seen(world, task_id, person("zoe"))
    assert (hers.decides_in, hers.decides_for) == ("treasury", "Ann Treasurer")
    await world.decide(task_id, "bob")
    assert (await seen(world, task_id)).decides_in is None


async def test_the_chain_of_actors_and_the_version_of_the_rules_are_told(world: World) -> None:
    detail = await seen(world, await asked(world))
    assert detail.policy_version == (await world.task(detail.id)).policy_version
    assert detail.actors == ()
