"""The benchmark works and its lines have the shape that readers rely on; no figure is judged here.

The quick run starts real servers and measures for a moment. Cerbos takes part only where it is already installed; the
peers from PyPI always do, in the environments that `make test` sets up.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.__main__ import PARTS
from tests.bench.figures import ROOT, Figure, Load, in_turns, quantile, summary
from tests.bench.handles import check
from tests.bench.load import LoadFailed
from tests.bench.peers import FASTMCP, HANGAR, PeerMissing, program
from tests.databases import KINDS
from tests.locks import FASTMCP_TASKS, MCP_HANGAR, pins

COMMON = {"name", "unit", "ours", "ratio", "goal", "reached", "machine"}
NAMES = {
    "evaluation": ["evaluation_permit", "evaluation_deny"],
    "evaluation-bearer": ["evaluation_permit_bearer", "evaluation_deny_bearer"],
    "submission": ["submission"],
    "call": [
        "permitted_call_embedded",
        "permitted_call_gateway_http",
        "permitted_call_gateway_stdio",
        "permitted_call_beside_hangar",
    ],
    "handle": ["task_handle", "task_handle_beside_fastmcp_tasks"],
    "start": ["decision_to_start"],
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
FROM_PYPI = {
    figure: (lock.name, next(iter(pins((ROOT / lock.path).read_text())[lock.name])))
    for figure, lock in (
        ("permitted_call_beside_hangar", MCP_HANGAR),
        ("task_handle_beside_fastmcp_tasks", FASTMCP_TASKS),
    )
}
"""The peer of a figure and the version that its lock fixes, both of which the line has to name."""


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.bench", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
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
        if line["name"] in FROM_PYPI:
            assert line["peer"] is not None, line["peer_name"]  # which says what is missing
            name, version = FROM_PYPI[line["name"]]
            assert line["peer_name"].startswith(f"{name} {version}, ")
        assert set(line["machine"]) == {"cores", "load_before", "system", "python", "commit"}


@pytest.mark.parametrize("environment", [HANGAR, FASTMCP])
def test_peer_whose_environment_is_missing_or_half_made_names_the_command_that_makes_it(
    tmp_path: Path, environment: str
) -> None:
    wanted = f"make it with: make {environment}/.ready"
    with pytest.raises(PeerMissing, match=wanted):
        program(environment, "python", root=tmp_path)
    python = tmp_path / environment / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    with pytest.raises(PeerMissing, match=wanted):
        program(environment, "python", root=tmp_path)
    (tmp_path / environment / ".ready").touch()
    assert program(environment, "python", root=tmp_path) == str(python)
    assert f"{environment}/.ready:" in (ROOT / "Makefile").read_text()


HANDLE = b'{"jsonrpc": "2.0", "id": 1, "result": {"resultType": "task", "taskId": "t"}}'
RESULT = b'{"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": "done"}]}}'
ERROR = b'{"jsonrpc": "2.0", "id": 1, "error": {"code": -32600, "message": "no"}}'


@pytest.mark.parametrize(
    ("status", "content", "task"),
    [(200, HANDLE, True), (200, b"event: message\r\ndata: " + HANDLE + b"\r\n\r\n", True), (200, RESULT, False)],
)
def test_handle_or_result_is_measured_as_json_and_as_an_event(status: int, content: bytes, task: bool) -> None:  # noqa: FBT001 - a column
    check("there", status, content, task=task)


@pytest.mark.parametrize(
    ("status", "content", "task"),
    [(200, RESULT, True), (200, HANDLE, False), (200, ERROR, True), (500, HANDLE, True), (200, b"", True)],
)
def test_anything_but_what_is_measured_ends_the_run(status: int, content: bytes, task: bool) -> None:  # noqa: FBT001 - a column
    with pytest.raises(LoadFailed, match="there answered"):
        check("there", status, content, task=task)


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
