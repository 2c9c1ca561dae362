"""The traceability file of SEP-2848 and what a run of our suite emits, judged by the public suite's own command.

The checks come from a run against the hand-written gate and a client; `traceability --strict` of the version that
`package-lock.json` names reads both.
"""

import json
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_gate.conformance import rules
from mcp_gate.conformance.catalogue import CHECKS
from mcp_gate.conformance.model import Report
from mcp_gate.conformance.report import as_checks
from mcp_gate.conformance.running import Run, client_player
from tests.node.programs import CONFORMANCE, PATIENCE_SECONDS, node, plain_environment
from tests.sep2848.plain_gate import PlainGate
from tests.sep2848.subjects import QUICK, PlainHands, PlainSubject, control
from tests.sep2848.test_clients import SCRIPT

pytestmark = [pytest.mark.node, pytest.mark.anyio, pytest.mark.timeout(300), pytest.mark.usefixtures("programs")]
STAMP = datetime(2026, 1, 1, tzinfo=UTC)


def trace(folder: Path) -> subprocess.CompletedProcess[str]:
    """The public suite's command over what lies in the folder."""
    seps = folder / "src" / "seps"
    seps.mkdir(parents=True, exist_ok=True)
    shutil.copy(Path(rules.__file__).with_name(rules.FILE), seps)
    return subprocess.run(
        [node(), str(CONFORMANCE), "traceability", "--results", "results", "--strict"],
        cwd=folder,
        env=plain_environment(folder),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )


async def emitted(folder: Path) -> list[dict[str, Any]]:
    """What the suite writes about the hand-written gate and a client that waits."""
    (folder / "client.py").write_text(SCRIPT)
    gate, seconds = PlainGate(), {**QUICK, "check": 120}
    play = client_player(f"{sys.executable} {folder / 'client.py'} {{url}} waits", seconds=60)
    run = Run(PlainHands(gate, control(seconds=seconds)), PlainSubject(gate), tokens=("alice", "bob"), client=play)
    with anyio.fail_after(200):
        outcomes = await run.all(CHECKS, lambda _: None)
    rows: list[dict[str, Any]] = json.loads(as_checks(Report("plain", "memory", outcomes, rules.rules()), at=STAMP))
    return rows


def put(folder: Path, rows: list[dict[str, Any]]) -> None:
    target = folder / "results" / "server-sep-2848"
    target.mkdir(parents=True, exist_ok=True)
    (target / "checks.json").write_text(json.dumps(rows))


async def test_the_public_suite_finds_every_declared_requirement_tested(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = await emitted(tmp_path)
    put(tmp_path, rows)
    done = trace(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "src" / "seps" / "traceability.json").read_text())["seps"]["2848"]
    declared = rules.traceability()["requirements"]
    assert found["summary"] == {
        "tested": sum("check" in row for row in declared),
        "untested": 0,
        "excluded": sum("excluded" in row for row in declared),
        "untracked": 0,
        "unkeyed": 0,
    }
    with capsys.disabled():
        sys.stdout.write(f" SEP-2848 {found['summary']}\n")


async def test_the_public_suite_notices_a_check_that_was_not_run(tmp_path: Path) -> None:
    rows = [
        {"id": check.id, "name": "x", "description": "x", "status": "SUCCESS", "timestamp": "", "specReferences": []}
        for check in CHECKS
    ]
    put(tmp_path, rows[1:])
    done = trace(tmp_path)
    assert done.returncode == 1
    assert f"untested: {CHECKS[0].id}" in done.stdout + done.stderr
