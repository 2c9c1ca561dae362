"""Bad days that have no named point: one side is away while the other goes on, or dies in the middle of a wait."""

import anyio
import pytest
from mcp import types

from mcp_gate.client import Disposition, disposition
from tests.crash.conftest import NewStory
from tests.crash.processes import locked, until
from tests.crash.world import GATE_DATABASE, begun

EXECUTED = Disposition.APPROVED_EXECUTED


@pytest.mark.crash
@pytest.mark.anyio
async def test_a_decision_made_while_the_gate_is_down_is_carried_out_when_it_is_back(new_story: NewStory) -> None:
    """Design section 2: what must survive is in the database, and a lost wake-up costs time only."""
    async with begun(new_story("sqlite")) as story:
        await story.begin()
        story.gate.kill()
        await story.approve()
        assert await story.executions() == 0
        await story.gate.start()
        assert disposition(await story.ask()) is EXECUTED
        await story.only_request(reported="approved-executed")
        assert await story.executions() == 1


@pytest.mark.crash
@pytest.mark.anyio
async def test_a_denial_made_while_the_gate_is_down_stays_a_denial(new_story: NewStory) -> None:
    """Design section 1: a denial stays a denial."""
    async with begun(new_story("sqlite")) as story:
        await story.begin()
        story.gate.kill()
        async with story.resolver() as resolver:
            (row,) = [row async for row in resolver.queue(mine=True)]
            await resolver.decide(row["id"], "deny", version=row["version"], reason="not today")
        await story.gate.start()
        assert disposition(await story.ask()) is Disposition.DENIED_NOT_EXECUTED
        assert await story.executions() == 0


@pytest.mark.crash
@pytest.mark.anyio
@pytest.mark.requirement("PEP-13", "PEP-57", "PEP-63")
async def test_a_call_while_the_service_is_down_fails_closed_and_its_repetition_joins_what_was_begun(
    new_story: NewStory,
) -> None:
    """SEP-2848: without a decision nothing runs; an intent whose answer was lost is kept for the repetition."""
    async with begun(new_story("sqlite"), service={"ARAP_KILL_AT": "submit.after_commit"}) as story:
        error = await story.refusal()
        assert error.code == types.INTERNAL_ERROR
        assert "did not run" in error.message
        assert "repeat the call" in error.message
        await story.service.killed_itself()
        refused = await story.refusal()
        assert refused.code == types.INTERNAL_ERROR
        assert "did not run" in refused.message
        assert not story.has_run()
        await story.service.start()
        async with anyio.create_task_group() as group:
            group.start_soon(story.approve)
            result = await story.ask()
        assert disposition(result) is EXECUTED
        await story.only_request(reported="approved-executed")
        assert await story.executions() == 1


@pytest.mark.crash
@pytest.mark.anyio
async def test_a_service_killed_while_everybody_waits_keeps_the_request(new_story: NewStory) -> None:
    """PEP-47: an unreachable status source ends no task before its deadline."""
    async with begun(new_story("sqlite")) as story:
        await story.begin()
        story.service.kill()
        assert (await story.state()).status == "working"
        await story.service.start()
        async with anyio.create_task_group() as group:
            group.start_soon(story.approve)
            result = await story.ask()
        assert disposition(result) is EXECUTED
        assert await story.executions() == 1


@pytest.mark.crash
@pytest.mark.anyio
@pytest.mark.requirement("PEP-66", "PEP-112")
async def test_a_gate_killed_while_the_tool_runs_calls_the_outcome_unknown_and_never_runs_it_again(
    new_story: NewStory,
) -> None:
    """SEP-2848, "Completion": the tool outlives the gate and has its effect, of which nobody was told."""
    async with begun(new_story("sqlite")) as story:
        story.hold()
        await story.begin()
        await story.approve()
        await until(story.has_begun, "the tool was started")
        story.gate.kill()
        await story.gate.start()
        result = await story.ask()
        assert disposition(result) is Disposition.OUTCOME_UNKNOWN
        assert "may have run" in _text(result)
        story.release()
        await story.only_request(reported="outcome-unknown")
        assert await story.executions() == 1


@pytest.mark.crash
@pytest.mark.anyio
async def test_a_call_while_the_gates_database_is_locked_fails_closed_and_may_be_repeated(new_story: NewStory) -> None:
    """Design section 1: nothing is acknowledged that is not stored."""
    async with begun(new_story("sqlite")) as story:
        with locked(story.gate.environment[GATE_DATABASE]):
            error = await story.refusal()
        assert error.code == types.INTERNAL_ERROR
        assert "did not run" in error.message
        async with anyio.create_task_group() as group:
            group.start_soon(story.approve)
            result = await story.ask()
        assert disposition(result) is EXECUTED
        assert await story.executions() == 1


def _text(result: types.CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, types.TextContent))
