"""The evidence is about the checks that there are, and says of ours what the tests say."""

import json
from typing import Any

from mcp_gate.conformance.catalogue import CHECKS
from tests.sep2848.evidence import EVIDENCE, document

KEPT: dict[str, Any] = json.loads(EVIDENCE.read_text(encoding="utf-8"))
IDS = {check.id.removeprefix("sep-2848-") for check in CHECKS}


def test_the_numbers_are_those_of_the_catalogue() -> None:
    assert document({}) == {**KEPT, "runs": {}}


def test_every_run_gave_every_check_a_verdict() -> None:
    for name, run in KEPT["runs"].items():
        assert {check for found in run["verdicts"].values() for check in found} == IDS, name
        assert sum(run["summary"].values()) == len(CHECKS), name


def test_ours_failed_nothing() -> None:
    ours = {name: run["summary"] for name, run in KEPT["runs"].items() if name.startswith("ours")}
    assert len(ours) == 2
    assert all(summary["fail"] == 0 and summary["error"] == 0 for summary in ours.values())
