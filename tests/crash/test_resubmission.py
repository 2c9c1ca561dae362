"""Kills the gate while it asks for a second approval, because the first was revoked before it was used."""

from collections.abc import Callable

import pytest

from mcp_gate.client import Disposition, disposition
from tests.crash.conftest import NewStory
from tests.crash.processes import until
from tests.crash.world import Story, begun

POINTS = ("submit.answered", "handle.stored")


@pytest.mark.crash
@pytest.mark.requirement("PEP-57", "PEP-58")
@pytest.mark.anyio
@pytest.mark.parametrize("point", POINTS)
async def test_a_gate_killed_while_it_asks_again_asks_once_and_runs_the_tool_once(
    new_story: NewStory, point: str, record_property: Callable[[str, object], None]
) -> None:
    """SEP-2848, "Completion": what was revoked is not used, and a further submission is as durable as the first."""
    record_property("killed", f"gate at {point} of a further submission on sqlite")
    async with begun(new_story("sqlite"), gate={"MCP_GATE_KILL_AT": "grant.stored"}) as story:
        await story.begin()
        await story.approve()
        await story.gate.killed_itself()
        await _revoke(story)
        story.gate.launch({"MCP_GATE_KILL_AT": point})
        result = await story.tell(story.gate, approvals=2)
        assert disposition(result) is Disposition.APPROVED_EXECUTED
        await until(lambda: _is_as_expected(story), "two requests, and a report on the second alone")
        assert await story.executions() == 1
    assert story.broken_chains() == {}


async def _revoke(story: Story) -> None:
    async with story.resolver() as resolver:
        (row,) = [row async for row in resolver.queue(status="approved")]
        await resolver.revoke((await resolver.get(row["id"]))["approval"]["id"], reason="second thoughts")


async def _is_as_expected(story: Story) -> bool:
    found = sorted(await story.requests(), key=lambda request: str(request["created_at"]))
    assert len(found) <= 2
    reports = [[made["disposition"] for made in request["executions"]] for request in found]
    states = [request["approval"]["status"] for request in found if request["approval"] is not None]
    return reports == [[], ["approved-executed"]] and states == ["revoked", "active"]
