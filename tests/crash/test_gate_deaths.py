"""Kills the gate at each of its named points, starts it again, and expects the story to end as it must."""

from collections.abc import Callable

import pytest

from mcp_gate.client import Disposition, disposition
from tests.crash.conftest import NewStory
from tests.crash.world import begun
from tests.databases import Kind

EXECUTED, UNKNOWN = Disposition.APPROVED_EXECUTED, Disposition.OUTCOME_UNKNOWN
# The point, how often the tool has run in the end, and what the agent is told. Between the claim and the outcome nobody
# can know, so nothing is run again, and the agent hears just that.
ENDS = {
    "intent.committed": (1, EXECUTED),
    "submit.answered": (1, EXECUTED),
    "handle.stored": (1, EXECUTED),
    "grant.stored": (1, EXECUTED),
    "claim.before_commit": (1, EXECUTED),
    "claim.committed": (0, UNKNOWN),
    "invoke.started": (0, UNKNOWN),
    "invoke.returned": (1, UNKNOWN),
    "outcome.stored": (1, EXECUTED),
    "report.before_send": (1, EXECUTED),
}
ON_POSTGRES = ("intent.committed", "submit.answered", "claim.before_commit", "claim.committed", "outcome.stored")
CASES = [("sqlite", point) for point in ENDS] + [("postgres", point) for point in ON_POSTGRES]


@pytest.mark.crash
@pytest.mark.requirement("PEP-57", "PEP-58", "PEP-59", "PEP-66", "PEP-112")
@pytest.mark.anyio
@pytest.mark.parametrize(("kind", "point"), CASES, ids=[f"{point}-{kind}" for kind, point in CASES])
async def test_a_gate_killed_at_a_named_point_runs_the_tool_at_most_once_and_ends_the_task(
    new_story: NewStory, kind: Kind, point: str, record_property: Callable[[str, object], None]
) -> None:
    """Design sections 1 and 8; SEP-2848, "Completion": the claim comes before the tool, and nothing runs twice."""
    record_property("killed", f"gate at {point} on {kind}")
    runs, expected = ENDS[point]
    async with begun(new_story(kind), gate={"MCP_GATE_KILL_AT": point}) as story:
        result = await story.tell(story.gate)
        assert disposition(result) is expected
        assert (await story.state()).status == "completed"
        request = await story.only_request(reported=expected.value)
        assert request["status"] == "approved"
        assert [vote["decision"] for vote in request["votes"]] == ["approve"]
        assert await story.executions() == runs
    assert story.broken_chains() == {}
