"""docs/simulator.md: its tables are those of the code, and every command in it does what the page says."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from arap_service.domain.policy_load import load_policy
from tests.crash.processes import is_held, lasting_port, until_now
from tools import simulator_tables

ROOT = Path(__file__).parents[2]
PAGE = simulator_tables.PAGE.read_text(encoding="utf-8")
CALL = ("--trigger", "./call-the-tool", "--effects", "ran.log")
BLOCK = re.compile(r"^```(\w+)(?: (\w+))?\n(.*?)^```$", re.DOTALL | re.MULTILINE)
BLOCKS = [(kind, flag, text) for kind, flag, text in BLOCK.findall(PAGE)]


def test_the_tables_of_the_page_are_those_of_the_code() -> None:
    assert simulator_tables.render(PAGE) == PAGE, "run python -m tools.simulator_tables"


def test_a_page_without_a_table_is_refused() -> None:
    with pytest.raises(ValueError, match="behaviours"):
        simulator_tables.render("no block here")


def test_the_page_has_no_command_that_no_test_runs() -> None:
    assert {kind for kind, _, _ in BLOCKS} == {"sh", "yaml"}


@contextmanager
def served(command: list[str], folder: Path, *, port: int, environment: dict[str, str]) -> Iterator[None]:
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stderr=log)
    try:
        until_now(lambda: is_held(port) or process.poll() is not None, "the simulator listens")
        assert process.poll() is None, (folder / "log").read_text()
        yield
    finally:
        process.terminate()
        process.wait(30)


@pytest.mark.timeout(180)
def test_every_command_of_the_page_does_what_it_says(tmp_path: Path) -> None:
    port, gate_port = lasting_port(), lasting_port()
    (tmp_path / "call-the-tool").write_text(f"#!/bin/sh\nexec {sys.executable} -m tests.simulator.call_the_tool\n")
    (tmp_path / "call-the-tool").chmod(0o755)
    (policy,) = (text for kind, flag, text in BLOCKS if (kind, flag) == ("yaml", "policy"))
    (tmp_path / "scripted.yaml").write_text(policy)
    environment = os.environ | {
        "PATH": f"{sysconfig.get_path('scripts')}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "SERVICE": f"http://127.0.0.1:{port}",
        "SECRETS": "sim/secrets.json",
        "EFFECTS": "ran.log",
        "NO_PROXY": "127.0.0.1",
    }
    foreground = [text.replace(":8400", f":{port}") for kind, flag, text in BLOCKS if kind == "sh" and not flag]
    (background,) = (text for kind, flag, text in BLOCKS if flag == "background")

    def run(script: str) -> str:
        done = subprocess.run(
            ["sh", "-eu", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    prepared = run(f"{foreground[0].strip()} --port {port} --gate-port {gate_port}")
    assert "simulator" in prepared
    assert shutil.which("curl") is not None, "the page uses curl"
    with served(background.split(), tmp_path, port=port, environment=environment):
        said = [run(script) for script in foreground[1:]]
        wrong = subprocess.run(
            ["arap", "simulate", "approved", "--json", "--config", "sim/arap.yaml", "--settle", "0.2", *CALL],
            cwd=tmp_path, env=environment | {"DEFECT": "runs-twice"}, capture_output=True, text=True, check=False,
        )  # fmt: skip
    verdicts = json.loads(wrong.stdout)[0]["verdicts"]
    assert [each["rule"] for each in verdicts if each["finding"] == "broken"] == ["PEP-66"]
    assert wrong.returncode == 1
    listed, played, _, armed, shown, checked = said
    assert "lost-answer" in listed
    assert "broken" not in played
    assert "kept" in played
    assert (tmp_path / "ran.log").read_text() == "ran\n" * 4
    assert '"behaviour":"approve"' in armed
    catalogue, observed = (json.loads(line) for line in shown.replace("}{", "}\n{").splitlines())
    assert [each["behaviour"] for each in catalogue["armed"]] == ["approve", "cut"]
    assert {"evaluation", "submission", "status", "report"} <= {each["what"] for each in observed["observations"]}
    assert "in order" in checked
    assert "simulator_enabled" in (tmp_path / "log").read_text()


def test_the_scripted_rules_of_the_page_hold_the_script_that_is_shown() -> None:
    (policy,) = (text for kind, flag, text in BLOCKS if (kind, flag) == ("yaml", "policy"))
    script = load_policy(policy).templates["transfer"].script
    assert [(act.name, act.after, act.times, act.retry_after) for act in script] == [
        ("approve", 5, None, 1),
        ("reevaluation-retry", 0, 2, 3),
    ]


def test_make_simulator_prepares_one_and_serves_it() -> None:
    """What make would run, with everything that it needs in place."""
    asked = ["make", "-n", "-o", ".venv/.demo", "simulator", "FOLDER=/nowhere/sim", "PORT=8411"]
    planned = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "init --dev --simulator" in planned
    assert "--port 8411" in planned
    assert "serve --config '/nowhere/sim/arap.yaml'" in planned
