"""What `arap requests show` says of a request before somebody decides it at a terminal."""

import pytest

from arap_service import requests
from arap_service.commands_requests import decide_shown, told
from arap_service.domain.errors import StaleVersion
from arap_service.store.tasks import touch_task
from tests.requests.bundles import body_of, submit
from tests.requests.world import World, person, question

pytestmark = pytest.mark.anyio


async def lines(world: World, task_id: str) -> list[str]:
    return list(told(await requests.detail(world.ctx, person("ann"), task_id)))


async def test_whoever_decides_reads_what_an_approval_allows_beyond_what_was_asked(terms: World) -> None:
    wide, exact = await lines(terms, await terms.pending("pay")), await lines(terms, await terms.pending("plain"))
    assert "  an approval allows more than this: Any payment up to 50000, from any cost centre." in wide
    assert any("what may be different: " in line for line in wide)
    assert not any("allows more" in line for line in exact)


async def test_an_emergency_is_told_as_one(terms: World) -> None:
    urgent = {"emergency": True, "business_justification": "The vault is on fire."}
    submitted = await terms.submit(await terms.body(question("unlock"), requested_access=urgent))
    assert any("an emergency" in line for line in await lines(terms, str(submitted.task["id"])))


async def test_caution_and_values_are_told_of_each_thing_of_several(world: World) -> None:
    submitted = await submit(world, await body_of(world, "wire_transfer", "payroll", context={"rate": 7}))
    found = await lines(world, str(submitted.task["id"]))
    first, second = (next(n for n, line in enumerate(found) if line.startswith(f"thing {item}:")) for item in (1, 2))
    assert "  caution: Cannot be undone." in found[first:second]
    assert [line for line in found[first:second] if "rate: 7" in line]
    assert [line for line in found[second:] if "rate: 7" in line]
    assert not [line for line in found[:first] if "rate: 7" in line]


async def test_without_a_version_what_is_decided_is_shown_first(world: World) -> None:
    task_id, said = await world.pending(), list[str]()
    await decide_shown(world.ctx, person("ann"), task_id, "approve", (None, None, None), say=said.append)
    assert said[0].startswith(f"{task_id}  pending  version 1")
    assert "  /amount: 50000" in said
    assert said[-2:] == ["approving this, version 1", f"{task_id}  approved  version 2"]


async def test_what_changes_between_showing_and_deciding_is_not_decided(world: World) -> None:
    task_id = await world.pending()

    def meanwhile(line: str) -> None:
        if line.startswith("approving"):
            world.ctx.database.write_now(lambda session: touch_task(session, task_id, seen=1))

    with pytest.raises(StaleVersion):
        await decide_shown(world.ctx, person("ann"), task_id, "approve", (None, None, None), say=meanwhile)
    assert (await world.task(task_id)).status == "pending"
