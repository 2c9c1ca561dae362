"""What an operator reads of the database, on both engines. Provenance: design section 8; PEP-131."""

from typing import Any

import pytest

from mcp_gate.figures import figures, listed_tasks, shown_task
from mcp_gate.lifecycle import Phase
from tests.gate.kit import BOB, Kit

pytestmark = pytest.mark.anyio


async def read(kit: Kit, work: Any) -> Any:
    """One read of the gate's database."""
    return await kit.store.database.read(work)


async def test_open_tasks_are_counted_by_phase_and_ended_ones_by_ending(kit: Kit) -> None:
    first = await kit.open({"amount": 1})
    began = kit.clock()
    kit.clock.advance(60)
    await kit.open({"amount": 2})
    found = await read(kit, figures)
    assert [(each.phase, each.count, each.oldest) for each in found.open] == [("pending", 2, began)]
    assert found.ended == {}
    kit.backend.end("denied", kit.backend.last)
    kit.backend.approve(next(iter(kit.backend.tasks)))
    for row in await read(kit, lambda connection: listed_tasks(connection, phase=None, tool=None)):
        await kit.step(row["id"])
    found = await read(kit, figures)
    assert found.open == ()
    assert found.ended == {"approved-executed": 1, "denied-not-executed": 1}
    assert (found.waiting, found.dead) == (1, 0)
    assert (await kit.task(first)).phase is Phase.DONE


async def test_tasks_are_listed_newest_first_and_by_phase_and_tool(kit: Kit) -> None:
    first = await kit.open({"amount": 1})
    kit.clock.advance(1)
    second = await kit.open({"amount": 2}, principal=BOB)

    def ids(**wanted: Any) -> Any:
        plain: dict[str, Any] = {"phase": None, "tool": None}
        return lambda connection: [row["id"] for row in listed_tasks(connection, **(plain | wanted))]

    assert await read(kit, ids()) == [second, first]
    assert await read(kit, ids(phase=Phase.DONE)) == []
    assert await read(kit, ids(tool="no_such_tool")) == []
    await kit.engine.cancel(first, (await kit.stored(first)).owner)
    assert await read(kit, ids(phase=Phase.DONE)) == [first]


@pytest.mark.requirement("PEP-131")
async def test_a_task_is_shown_with_its_record_and_without_what_is_sealed(kit: Kit) -> None:
    task_id = await kit.open({"memo": "canary-argument"})
    kit.backend.end("denied", decision_text="canary-words")
    await kit.step(task_id)
    shown = await read(kit, lambda connection: shown_task(connection, task_id))
    assert (shown["phase"], shown["ending"]) == ("done", "denied-not-executed")
    assert shown["record"]
    assert "canary" not in str(shown)
    assert not {"binding", "data_key", "approval"} & shown.keys()


async def test_the_record_of_a_purged_task_is_still_shown(kit: Kit) -> None:
    """PEP-136: the record outlives the task."""
    task_id = await kit.open()
    kit.backend.end("denied")
    await kit.step(task_id)
    kit.clock.advance(400 * 86_400)
    await kit.engine.purge()
    shown = await read(kit, lambda connection: shown_task(connection, task_id))
    assert shown["purged"] is True
    assert shown["record"]
    assert await read(kit, lambda connection: shown_task(connection, "tsk_unknown")) is None
