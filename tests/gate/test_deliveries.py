"""The outbox. Provenance: design section 8 (cancellations, execution reports, answers); PEP-115, PEP-136."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from mcp_gate.backend import Refused
from mcp_gate.lifecycle import Phase
from mcp_gate.limits import Limits
from mcp_gate.statements import deliveries_of
from tests.gate.kit import ALICE, Killed, Kit

pytestmark = pytest.mark.anyio


async def states(kit: Kit, task_id: str) -> list[tuple[str, str, int]]:
    rows = await kit.store.database.read(lambda connection: deliveries_of(connection, task_id))
    return [(row.kind, row.state, row.attempts) for row in rows]


async def executed(kit: Kit) -> str:
    task_id = await kit.open()
    kit.backend.approve()
    await kit.step(task_id)
    return task_id


async def test_an_execution_is_reported_once_with_its_disposition_and_generation(kit: Kit) -> None:
    task_id = await executed(kit)
    assert await kit.engine.deliver() == 1
    assert await kit.engine.deliver() == 0
    body = {"disposition": "approved-executed", "at": "2026-04-30T20:00:00Z", "generation": 1}
    assert kit.backend.reports == [(kit.backend.last, body)]
    assert await states(kit, task_id) == [("report", "sent", 1)]


async def test_a_denied_request_is_not_reported(kit: Kit) -> None:
    task_id = await kit.open()
    kit.backend.end("denied")
    await kit.step(task_id)
    assert await states(kit, task_id) == []


async def test_a_report_is_tried_again_later_and_in_the_end_given_up(make_kit: Callable[..., Kit]) -> None:
    kit = make_kit(limits=Limits(delivery=timedelta(hours=1)))
    task_id = await executed(kit)
    kit.backend.is_down = True
    await kit.engine.deliver()
    assert await states(kit, task_id) == [("report", "waiting", 1)]
    kit.clock.advance(4)
    assert await kit.engine.deliver() == 0
    kit.clock.advance(1)
    assert await kit.engine.deliver() == 1
    kit.clock.advance(3600)
    await kit.engine.deliver()
    assert await states(kit, task_id) == [("report", "dead", 3)]
    kit.backend.is_down = False
    kit.clock.advance(3600)
    await kit.engine.deliver()
    assert kit.backend.reports == []


@pytest.mark.requirement("PEP-136")
async def test_a_death_before_the_report_only_delays_it(kit: Kit) -> None:
    task_id = await executed(kit)
    kit.crash_at = "report.before_send"
    with pytest.raises(Killed):
        await kit.engine.deliver()
    again = await kit.restarted()
    await again.engine.deliver()
    assert kit.backend.reports == []
    kit.clock.advance(90)
    await again.engine.deliver()
    assert len(kit.backend.reports) == 1
    assert await states(again, task_id) == [("report", "sent", 1)]
    await again.aclose()


async def test_a_cancellation_is_told_once(kit: Kit) -> None:
    task_id = await kit.open()
    await kit.engine.cancel(task_id, ALICE)
    for _ in range(2):
        await kit.engine.deliver()
    assert kit.backend.cancels == [kit.backend.last]
    assert await states(kit, task_id) == [("cancel", "sent", 1)]


async def test_an_orphan_that_the_backend_refuses_is_settled(kit: Kit) -> None:
    kit.crash_at = "intent.committed"
    with pytest.raises(Killed):
        await kit.call()
    again = await kit.restarted()
    ((task_id, _),) = await _open_tasks(again)
    kit.backend.is_down = True
    kit.clock.advance(600)
    await again.engine.step(task_id)
    assert await again.phase(task_id) is Phase.DONE
    kit.backend.is_down = False
    kit.backend.refusal = Refused("about:blank", 410)
    await again.engine.deliver()
    assert await states(again, task_id) == [("cancel", "sent", 1)]
    assert kit.backend.cancels == []
    await again.aclose()


async def _open_tasks(kit: Kit) -> list[tuple[str, None]]:
    due = await kit.engine._core.duty.due(kit.clock() + timedelta(days=1))
    return [(task_id, None) for task_id in due]


@pytest.mark.requirement("PEP-85")
async def test_an_answer_that_the_backend_refuses_is_asked_for_once_more(kit: Kit) -> None:
    """It is not sent again, and the client is told, because its question is open under a new key."""
    task_id = await kit.open()
    kit.backend.ask(1)
    await kit.step(task_id)
    kit.backend.refuses_answers = True
    await kit.engine.update(task_id, ALICE, {"input-1-1": {"action": "accept", "content": {"ticket": "INC-7"}}})
    await kit.engine.deliver()
    assert await states(kit, task_id) == [("answer", "dead", 1)]
    await kit.step(task_id)
    assert list((await kit.get(task_id))["inputRequests"]) == ["input-1-1-2"]
    kit.backend.refuses_answers = False
    await kit.engine.update(task_id, ALICE, {"input-1-1-2": {"action": "accept", "content": {"ticket": "INC-8"}}})
    await kit.engine.deliver()
    await kit.step(task_id)
    assert (await kit.get(task_id))["status"] == "working"
    assert [answer for _, _, answer in kit.backend.answers] == [{"ticket": "INC-7"}, {"ticket": "INC-8"}]


async def test_a_refused_answer_to_what_is_no_longer_asked_troubles_nobody(kit: Kit) -> None:
    task_id = await kit.open()
    kit.backend.ask(1)
    await kit.step(task_id)
    kit.backend.refuses_answers = True
    await kit.engine.update(task_id, ALICE, {"input-1-1": {"action": "accept", "content": {"ticket": "INC-7"}}})
    kit.backend.tasks[kit.backend.last]["input"] = None
    await kit.engine.deliver()
    await kit.step(task_id)
    assert (await kit.get(task_id))["status"] == "working"
