"""No named point of the sources goes untried."""

import re
from pathlib import Path

import pytest

from tests import test_notifier
from tests.crash import faults, test_gate_deaths, test_resubmission, test_service_deaths

ROOT = Path(__file__).parents[2]
POINT = re.compile(r"""checkpoint\(\s*["']([a-z_.]+)["']\s*\)""")


def passed(package: str) -> list[str]:
    """Every place of a package's sources that passes a named point."""
    sources = sorted((ROOT / package).rglob("*.py"))
    return [name for source in sources for name in POINT.findall(source.read_text(encoding="utf-8"))]


@pytest.mark.crash
def test_the_gate_is_killed_at_every_point_that_it_passes() -> None:
    """A point that two places pass is tried at both: the second one is that of a further submission."""
    tried = [*test_gate_deaths.ENDS, *test_resubmission.POINTS]
    assert sorted(passed("mcp_gate")) == sorted(tried)


@pytest.mark.crash
def test_every_fault_is_tried_at_every_point_of_the_gate() -> None:
    assert {*passed("mcp_gate")} == {*faults.FROZEN} == {*faults.WITHOUT_DATABASE}


@pytest.mark.crash
def test_the_service_is_killed_at_every_point_that_it_passes() -> None:
    """Its notifier dies within a process, because the lease of a notice outlasts a story."""
    assert sorted(passed("arap_service")) == sorted([*test_service_deaths.POINTS, *test_notifier.POINTS])
