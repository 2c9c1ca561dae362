"""The evidence is about the checks that there are, and says of ours what the tests say."""

import json
from typing import Any

from arap_service.conformance.catalogue import CHECKS
from tests.arap_conformance.evidence import EVIDENCE, document

KEPT: dict[str, Any] = json.loads(EVIDENCE.read_text(encoding="utf-8"))


def test_the_numbers_are_those_of_the_catalogue() -> None:
    assert document({}) == {**KEPT, "runs": {}}


def test_every_run_gave_every_check_a_verdict() -> None:
    assert {name: sum(run["summary"].values()) for name, run in KEPT["runs"].items()} == dict.fromkeys(
        KEPT["runs"], len(CHECKS)
    )


def test_ours_and_the_second_service_failed_nothing() -> None:
    runs = KEPT["runs"]
    assert {name for name in runs if name.startswith("ours")} == {"ours, PostgreSQL", "ours, SQLite"}
    assert "hand-written service" in runs
    assert {(run["summary"]["fail"], run["summary"]["error"]) for run in runs.values()} == {(0, 0)}
