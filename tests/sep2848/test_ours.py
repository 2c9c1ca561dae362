"""Our gate passes the whole suite, as a process of its own that is killed and started, over HTTP and over stdio.

What is served is `make serve-reviewer`; what is run are the commands that it prints.
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcp_gate.conformance.catalogue import CHECKS

pytestmark = pytest.mark.timeout(1500)
ROOT = Path(__file__).parents[2]
SURROUNDINGS = {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
PATIENCE = 1200.0
NEEDS_ANOTHER_PRINCIPAL = {
    "sep-2848-changed-principal",
    "sep-2848-other-principal-cannot-get",
    "sep-2848-other-principal-cannot-update",
    "sep-2848-other-principal-cannot-cancel",
}


@pytest.fixture
def commands(tmp_path: Path) -> Iterator[list[str]]:
    """The commands that the server prints, for as long as it serves; it ends with its standard input."""
    command = [sys.executable, "-m", "examples.reviewer", "--port", "0", "--folder", str(tmp_path), "--die-with-stdin"]
    with subprocess.Popen(
        command, cwd=ROOT, env=SURROUNDINGS, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        watchdog = threading.Timer(PATIENCE, process.kill)
        watchdog.start()
        try:
            said = [process.stdout.readline().strip() for _ in range(3)]
            assert said[0].startswith("Serving http://127.0.0.1:"), said
            yield said[1:]
        finally:
            watchdog.cancel()
            process.stdin.close()
            process.wait(60)


def run(command: str, folder: Path, *more: str) -> dict[str, Any]:
    """What the suite found."""
    line = f"{command} --json found.json {' '.join(more)}"
    done = subprocess.run(
        ["sh", "-c", line], cwd=folder, env=SURROUNDINGS, capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr}"
    found: dict[str, Any] = json.loads((folder / "found.json").read_text())
    return found


def verdicts(found: dict[str, Any], verdict: str) -> set[str]:
    return {one["id"] for one in found["checks"] if one["verdict"] == verdict}


def test_our_gate_and_our_client_pass_everything_over_http(commands: list[str], tmp_path: Path) -> None:
    call = f"{sys.executable} -m mcp_gate call {{url}} {{tool}} to=acct-1 --records {tmp_path / 'records'}"
    found = run(commands[0], tmp_path, "--client", f"'{call}'")
    assert verdicts(found, "pass") == {check.id for check in CHECKS}


def test_our_gate_passes_over_stdio_whatever_one_principal_can_show(commands: list[str], tmp_path: Path) -> None:
    found = run(commands[1], tmp_path)
    of_clients = {check.id for check in CHECKS if check.of_client}
    assert verdicts(found, "skipped") == NEEDS_ANOTHER_PRINCIPAL | of_clients
    assert verdicts(found, "pass") == {check.id for check in CHECKS} - NEEDS_ANOTHER_PRINCIPAL - of_clients
