"""The state diagrams of the documentation are those of the code."""

import re
from enum import StrEnum

import pytest

from arap_service.protocol.arap import TaskStatus
from tools import diagrams


class Light(StrEnum):
    RED = "red"
    GREEN = "green"
    OFF = "off"


class Wait: ...


class PowerCut: ...


class PressButton: ...


def test_the_page_shows_the_transitions_that_the_code_has() -> None:
    page = diagrams.PAGE.read_text(encoding="utf-8")
    assert diagrams.render(page) == page, "run python -m tools.diagrams"


@pytest.mark.requirement("ARS-64")
def test_the_page_says_what_every_status_means() -> None:
    """Access Request and Approval Profile, "Status Mapping Obligation"."""
    rows = re.findall(r"^\| `([a-z]+)` \|", diagrams.PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(rows) == sorted(status.value for status in TaskStatus)


def test_events_between_the_same_states_share_an_arrow_and_ends_are_marked() -> None:
    table = {
        (Light.RED, Wait): Light.GREEN,
        (Light.RED, PressButton): Light.GREEN,
        (Light.GREEN, PowerCut): Light.OFF,
    }
    drawn = diagrams.mermaid(table.items(), start=Light.RED, terminal=lambda state: state is Light.OFF)
    assert drawn.splitlines() == [
        "stateDiagram-v2",
        "    [*] --> red",
        "    red --> green: press button / wait",
        "    green --> off: power cut",
        "    off --> [*]",
    ]


def test_a_page_without_a_block_is_refused() -> None:
    with pytest.raises(ValueError, match="exactly one block"):
        diagrams.render("no block here")
