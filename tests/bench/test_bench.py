"""The benchmark works and its lines have the shape that readers rely on; no figure is judged here.

The quick run starts real servers and measures for a moment; the peer takes part only where it is already installed.
"""

import json
import subprocess
import sys

import pytest

from tests.bench.__main__ import PARTS
from tests.bench.figures import ROOT, Figure, Load, in_turns, quantile, summary
from tests.databases import KINDS

COMMON = {"name", "unit", "ours", "ratio", "goal", "reached", "machine"}
NAMES = {
    "evaluation": ["evaluation_permit", "evaluation_deny"],
    "evaluation-bearer": ["evaluation_permit_bearer", "evaluation_deny_bearer"],
    "submission": ["submission"],
    "call": ["permitted_call_embedded", "permitted_call_gateway_http", "permitted_call_gateway_stdio"],
    "handle": ["task_handle"],
    "queue": [
        f"{name}_{kind}"
        for kind in KINDS
        for name in (
            "queue",
            "queue_everything",
            "queue_search_rare",
            "queue_search_common",
            "queue_status",
            "queue_submission",
        )
    ],
}


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.bench", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )


@pytest.mark.parametrize("part", PARTS)
def test_quick_run_prints_a_line_for_every_figure_of_a_part(part: str) -> None:
    done = bench("--quick", "--only", part)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["name"] for line in lines] == NAMES[part]
    for line in lines:
        beside = {"peer", "floor"} & set(line)
        assert set(line) >= COMMON
        assert len(beside) == 1
        assert line["ours"] > 0
        assert line["p50_ms"] > 0
        assert line["p99_ms"] >= line["p50_ms"]
        assert (line[beside.pop()] is None) == (line["ratio"] is None) == (line["reached"] is None)
        assert set(line["machine"]) == {"cores", "load_before", "system", "python", "commit"}


def test_unknown_part_is_refused() -> None:
    done = bench("--only", "everything")
    assert done.returncode == 2
    assert not done.stdout


def test_every_round_begins_with_another_one() -> None:
    order: list[str] = []

    def measure(name: str) -> int:
        order.append(name)
        return len(order)

    assert in_turns(("a", "b", "c"), 3, measure) == {"a": [1, 6, 8], "b": [2, 4, 9], "c": [3, 5, 7]}
    assert "".join(order) == "abcbcacab"


def test_summary_takes_the_middle_of_the_rounds() -> None:
    rounds = [Load(100, 1.0, 1.0, 9.0), Load(300, 1.0, 3.0, 7.0), Load(200, 2.0, 2.0, 8.0)]
    assert summary(rounds) == Load(200, 1.0, 2.0, 8.0)
    assert quantile([4.0, 1.0, 3.0, 2.0], 0.5) == 3.0
    assert quantile([1.0], 0.99) == 1.0


def test_line_without_a_peer_has_no_ratio() -> None:
    figure = Figure(name="n", unit="u", ours=1.23456, beside="peer", other=None, goal="g", reached=None)
    assert json.loads(figure.line({"cores": 2})) == {
        "name": "n",
        "unit": "u",
        "ours": 1.235,
        "peer": None,
        "ratio": None,
        "goal": "g",
        "reached": None,
        "machine": {"cores": 2},
    }
