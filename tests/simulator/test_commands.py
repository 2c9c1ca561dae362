"""`arap simulate` as a person or a program meets it: lists, mistakes in one line, and the exit status."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from arap_service import dev
from arap_service.cli import app
from arap_service.commands_simulator import _said, _show, _status
from arap_service.simulator.driving import Played
from arap_service.simulator.evidence import Finding, Verdict
from arap_service.simulator.scenarios import SCENARIOS
from arap_service.surroundings import utc_now

SEEN = {finding: Verdict("PEP-66", "runs the tool at most once", finding, "ran twice") for finding in Finding}


def played(*findings: Finding, is_over: bool = True) -> Played:
    return Played("approved", tuple(SEEN[finding] for finding in findings), is_over, 7)


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["simulate", *arguments])
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.parametrize(
    ("results", "status"),
    [
        ([played(Finding.KEPT)], 0),
        ([played(Finding.KEPT), played(Finding.KEPT, Finding.UNSEEN)], 3),
        ([played(Finding.KEPT, is_over=False)], 3),
        ([played(Finding.UNSEEN), played(Finding.KEPT, Finding.BROKEN)], 1),
        ([played(Finding.BROKEN, is_over=False)], 1),
    ],
)
def test_the_status_is_that_of_the_worst_finding(results: list[Played], status: int) -> None:
    assert _status(results) == status


def test_json_says_what_the_table_says(capsys: pytest.CaptureFixture[str]) -> None:
    result = played(Finding.BROKEN, is_over=False)
    assert _said(result) == {
        "scenario": "approved",
        "over": False,
        "observations": 7,
        "verdicts": [{"rule": "PEP-66", "asks": "runs the tool at most once", "finding": "broken", "saw": "ran twice"}],
    }
    _show([result], as_json=False)
    table = capsys.readouterr().out
    assert all(word in table for word in ("approved", "PEP-66", "at most once", "broken", "ran twice", "time ran out"))


def test_without_a_name_the_scenarios_are_listed() -> None:
    status, table, _ = run()
    assert status == 0
    assert all(name in table for name in SCENARIOS)
    assert [each["name"] for each in json.loads(run("--json")[1])] == list(SCENARIOS)


def test_unknown_scenarios_are_named_each(tmp_path: Path) -> None:
    status, out, err = run("approved", "applauded", "booed", "--config", str(tmp_path / "arap.yaml"))
    assert (status, out) == (1, "")
    assert [line.partition(";")[0] for line in err.splitlines()] == [
        "arap: simulate: there is no scenario applauded",
        "arap: simulate: there is no scenario booed",
    ]


def test_a_service_that_is_no_simulator_or_does_not_run_is_one_line(tmp_path: Path) -> None:
    dev.prepare(tmp_path / "plain", port=9, gate_port=10, now=utc_now())
    status, _, err = run("approved", "--config", str(tmp_path / "plain" / "arap.yaml"), "--trigger", "true")
    assert status == 1
    assert "names no secret of the client simulator" in err
    dev.prepare(tmp_path / "sim", port=9, gate_port=10, now=utc_now(), simulator=True)
    status, _, err = run("approved", "--config", str(tmp_path / "sim" / "arap.yaml"), "--trigger", "true")
    assert status == 1
    assert err.splitlines() == ["arap: simulate: http://127.0.0.1:9: does not answer; is the simulator running?"]
