"""Kills the service at each of its named points, starts it again, and expects the story to end as it must."""

from collections.abc import Callable

import pytest

from mcp_gate.client import Disposition, disposition
from tests.crash.conftest import NewStory
from tests.crash.world import begun
from tests.databases import Kind

POINTS = (
    "submit.before_commit",
    "submit.after_commit",
    "decide.before_commit",
    "decide.after_commit",
    "courier.before_send",
    "courier.after_send",
)
ON_POSTGRES = ("submit.after_commit", "decide.after_commit")
CASES = [("sqlite", point) for point in POINTS] + [("postgres", point) for point in ON_POSTGRES]


@pytest.mark.crash
@pytest.mark.requirement("ARS-47", "PEP-57")
@pytest.mark.anyio
@pytest.mark.parametrize(("kind", "point"), CASES, ids=[f"{point}-{kind}" for kind, point in CASES])
async def test_a_service_killed_at_a_named_point_forgets_nothing_and_counts_nothing_twice(
    new_story: NewStory, kind: Kind, point: str, record_property: Callable[[str, object], None]
) -> None:
    """Design sections 1 and 5: one transaction per step, retries under one key, callbacks at least once."""
    record_property("killed", f"service at {point} on {kind}")
    async with begun(new_story(kind), service={"ARAP_KILL_AT": point}) as story:
        result = await story.tell(story.service)
        assert disposition(result) is Disposition.APPROVED_EXECUTED
        assert (await story.state()).status == "completed"
        request = await story.only_request(reported="approved-executed")
        assert request["status"] == "approved"
        assert [vote["decision"] for vote in request["votes"]] == ["approve"]
        assert await story.executions() == 1
    assert story.broken_chains() == {}
