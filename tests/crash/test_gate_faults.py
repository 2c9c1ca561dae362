"""Freezes the gate, or takes its database away, at named points, and expects the story to end as it must.

A selection; `python -m tests.deep crashes` tries every fault at every point on both engines.
"""

from collections.abc import Callable

import pytest

from tests.crash.conftest import NewStory
from tests.crash.faults import Fault, Trouble, ends_as_it_must
from tests.databases import Databases, Kind

SELECTION: tuple[tuple[Kind, Fault, str], ...] = (
    ("sqlite", "frozen", "intent.committed"),
    ("postgres", "frozen", "claim.committed"),
    ("sqlite", "frozen past the lease", "claim.before_commit"),
    ("postgres", "frozen past the lease", "invoke.started"),
    ("sqlite", "without its database", "claim.committed"),
    ("postgres", "without its database", "invoke.returned"),
)


@pytest.mark.crash
@pytest.mark.timeout(240)
@pytest.mark.requirement("PEP-66", "PEP-112", "PEP-113")
@pytest.mark.anyio
@pytest.mark.parametrize("case", SELECTION, ids=[f"{fault}-{point}-{kind}" for kind, fault, point in SELECTION])
async def test_a_gate_that_comes_late_or_loses_its_database_runs_the_tool_at_most_once_and_ends_the_task(
    new_story: NewStory,
    databases: Databases,
    case: tuple[Kind, Fault, str],
    record_property: Callable[[str, object], None],
) -> None:
    """Design sections 1 and 8: whoever held a claim that is over neither runs the tool nor changes what was told."""
    kind, fault, point = case
    record_property("befallen", f"{fault} at {point} on {kind}")
    await ends_as_it_must(new_story(kind), Trouble(fault, point), databases)
