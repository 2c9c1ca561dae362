"""Our service passes the whole suite over HTTP with bearer tokens, as a process of its own, on each database.

What is served is what `make serve-reviewer` serves; what is run is the command that it prints.
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from arap_service.conformance.catalogue import CHECKS

pytestmark = pytest.mark.timeout(1200)
ROOT = Path(__file__).parents[2]
SURROUNDINGS = {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
PATIENCE = 1000.0
# It listens on plain http here, supports bulk, and takes no evaluation id alone where it has issued a token.
WITHOUT_OBJECT = {
    "arap-endpoints-are-https",
    "arap-unsupported-items-are-refused",
    "arap-id-binds-the-question",
    "arap-id-keeps-its-end",
}
EARLIER_RUNS = 4


@pytest.fixture
def command(service_url: str, tmp_path: Path) -> Iterator[str]:
    """The command that the server prints, for as long as it serves; it ends with its standard input."""
    started = [sys.executable, "-m", "examples.reviewer.service", "--port", "0", "--folder", str(tmp_path)]
    with (
        (tmp_path / "service.log").open("wb") as log,
        subprocess.Popen(
            [*started, "--database", service_url, "--die-with-stdin"],
            cwd=ROOT,
            env=SURROUNDINGS,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        watchdog = threading.Timer(PATIENCE, process.kill)
        watchdog.start()
        try:
            said = next((line for line in process.stdout if line.startswith("Serving ")), None)
            assert said is not None, (tmp_path / "service.log").read_text()
            yield process.stdout.readline().strip()
        finally:
            watchdog.cancel()
            process.stdin.close()
            process.wait(60)


def test_our_service_passes_everything_that_has_an_object(command: str, tmp_path: Path) -> None:
    """Its clock is some minutes ahead, as it is after other runs against the same process."""
    verbs = json.loads((tmp_path / "control.yaml").read_text())["verbs"]
    for _ in range(EARLIER_RUNS):
        httpx2.post(verbs["expire"]["post"].format(task="", item=0)).raise_for_status()
    done = subprocess.run(
        ["sh", "-c", f"{command} --json found.json"],
        cwd=tmp_path,
        env=SURROUNDINGS,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, f"{done.stdout[-6000:]}\n{done.stderr[-3000:]}"
    found: dict[str, Any] = json.loads((tmp_path / "found.json").read_text())
    verdicts = {one["id"]: one["verdict"] for one in found["checks"]}
    assert {check for check, verdict in verdicts.items() if verdict == "skipped"} == WITHOUT_OBJECT
    assert {check for check, verdict in verdicts.items() if verdict == "pass"} == (
        {check.id for check in CHECKS} - WITHOUT_OBJECT
    )
