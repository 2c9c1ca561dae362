"""Whatever keeps service or gate from starting is one clear line and a status other than 0, never a traceback."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.crash.conftest import NewStory
from tests.crash.processes import Server, listening_on, locked
from tests.crash.world import GATE_DATABASE, SERVICE_DATABASE

SIDES = ("service", "gate")
LIMIT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Side:
    """A server that has not started, the variable that names its database, and a folder of the test."""

    server: Server
    database: str
    folder: Path


@pytest.fixture(params=SIDES)
def side(request: pytest.FixtureRequest, new_story: NewStory) -> Side:
    """Service and gate in turn."""
    story = new_story("sqlite")
    if request.param == "service":
        return Side(story.service, SERVICE_DATABASE, story.world.folder)
    return Side(story.gate, GATE_DATABASE, story.world.folder)


def refusals(server: Server, *, unprivileged: bool = False, **changes: str) -> list[str]:
    """What the server says on stderr when it refuses to start."""
    wrapper = [sys.executable, "-m", "tests.crash.unprivileged"] if unprivileged else []
    with subprocess.Popen(
        [*wrapper, *server.command],
        stdin=subprocess.PIPE,  # kept open: its end would be an order to stop
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=server.surroundings(changes),
    ) as process:
        try:
            status = process.wait(LIMIT_SECONDS)
        finally:
            process.kill()
        assert process.stdout is not None
        assert process.stderr is not None
        said, complained = process.stdout.read(), process.stderr.read()
    assert status > 0, status
    assert not said
    assert "Traceback" not in complained
    return [line for line in complained.splitlines() if not line.startswith("{")]  # the rest is the log


def refused(server: Server, *, unprivileged: bool = False, **changes: str) -> str:
    """The one line with which the server refuses to start."""
    lines = refusals(server, unprivileged=unprivileged, **changes)
    assert len(lines) == 1, lines
    return lines[0]


@pytest.mark.crash
def test_a_locked_database_is_named(side: Side) -> None:
    """Whoever starts a server on a file that another program holds reads that, soon."""
    with locked(side.server.environment[side.database]):
        assert "locked by another process" in refused(side.server)


@pytest.mark.crash
def test_an_unwritable_folder_is_named(side: Side) -> None:
    """The line names the path and what the system said."""
    folder = side.folder / "unwritable"
    folder.mkdir(mode=0o500)
    line = refused(side.server, unprivileged=True, **{side.database: f"sqlite:///{folder}/data.db"})
    assert "Permission denied" in line
    assert str(folder) in line


@pytest.mark.crash
def test_a_taken_port_is_named(side: Side) -> None:
    """A second start of the same server, or another program's port."""
    with listening_on(side.server.port):
        line = refused(side.server)
    assert f"127.0.0.1:{side.server.port}" in line
    assert "in use" in line


@pytest.mark.crash
def test_a_misspelt_setting_is_named(side: Side) -> None:
    """A misspelt restriction would be no restriction."""
    config = side.server.config
    settings = json.loads(config.read_text(encoding="utf-8"))
    settings["databse"] = settings.pop("database", "sqlite:///elsewhere.db")
    config.write_text(json.dumps(settings), encoding="utf-8")
    assert "databse" in refused(side.server)


@pytest.mark.crash
def test_a_missing_configuration_is_named(side: Side) -> None:
    """The path that was given is in the line."""
    side.server.config.unlink()
    assert str(side.server.config) in refused(side.server)


@pytest.mark.crash
def test_every_fault_of_a_rules_file_is_named_by_line(new_story: NewStory) -> None:
    """The service does not start with rules of which any part is wrong (design section 4)."""
    story = new_story("sqlite")
    rules = story.world.path("rules.yaml")
    rules.write_text(rules.read_text(encoding="utf-8").replace("permit: true", "permitt: true"), encoding="utf-8")
    lines = refusals(story.service)
    assert lines
    assert all(line.startswith("arap: policy: line 10: /rules/0") for line in lines), lines


@pytest.mark.crash
def test_an_upstream_that_cannot_be_run_is_named(new_story: NewStory) -> None:
    """A gateway before nothing is of no use."""
    story = new_story("sqlite")
    line = refused(story.gate, MCP_GATE_UPSTREAM__COMMAND="no-such-program")
    assert "no-such-program" in line


@pytest.mark.crash
@pytest.mark.requirement("PEP-62")
def test_a_retention_that_is_not_declared_keeps_the_gate_from_starting(new_story: NewStory) -> None:
    """PEP-62: a backend that forgets keys before the gate stops asking could create a request twice."""
    story = new_story("sqlite")
    line = refused(story.gate, MCP_GATE_BACKEND__IDEMPOTENCY_RETENTION_SECONDS="60")
    assert "idempotency_retention_seconds" in line
