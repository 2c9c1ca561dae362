"""What a nursery starts is a process of its own that whoever asked for it sees end, however it ends."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.nursery import Nursery, nursery
from tests.crash.processes import Server, until_now

pytestmark = pytest.mark.crash


@pytest.fixture(scope="module")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    """A nursery for the tests of this module."""
    with nursery(tmp_path_factory.mktemp("n")) as opened:
        yield opened


def server(folder: Path, forks: Nursery, *, program: str = "counting") -> Server:
    """A server that lives until its stdin ends."""
    return Server("counting", [program, str(folder)], folder / "counting.yaml", 1, "/", nursery=forks)


def test_a_server_is_a_process_of_its_own_and_ends_when_its_input_does(tmp_path: Path, forks: Nursery) -> None:
    started = server(tmp_path, forks)
    started.launch()
    process = started.process
    assert process is not None
    assert process.poll() is None
    assert os.getsid(process.pid) == process.pid != os.getpid()
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait() == 0


def test_it_is_seen_to_freeze_and_to_die_by_a_signal(tmp_path: Path, forks: Nursery) -> None:
    started = server(tmp_path, forks)
    started.launch()
    process = started.process
    assert process is not None
    started.freeze()
    assert Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "T"
    started.thaw()
    started.kill()
    assert process.returncode == -signal.SIGKILL


def test_what_goes_wrong_at_its_start_is_in_its_log(tmp_path: Path, forks: Nursery) -> None:
    """It has the environment and the arguments that it was given, and the status says that it failed."""
    started = Server(
        "gate", ["mcp-gate", "proxy", "--config", "nowhere.yaml"], tmp_path / "g.yaml", 1, "/", nursery=forks
    )
    started.launch()
    assert started.process is not None
    assert started.process.wait() != 0
    started.kill()
    assert "nowhere.yaml" in started.tail()


def test_the_server_behind_a_gateway_has_the_pipes_of_its_stub(tmp_path: Path, forks: Nursery) -> None:
    """What a gateway starts ends for the gateway just when the server behind it has ended."""
    behind = forks.behind(tmp_path)
    stub = Server("stub", [behind["command"], *behind["args"]], tmp_path / "stub.yaml", 1, "/")
    assert behind["command"] == sys.executable
    stub.launch()
    until_now((tmp_path / "alive").exists, "the server has begun")
    process = stub.process
    assert process is not None
    assert process.poll() is None
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait() == 0
