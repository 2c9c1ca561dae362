"""`make demo` leaves no process and no held port, however it is ended while a person is being waited for."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.crash.processes import is_held, until_now

ROOT = Path(__file__).parents[2]
PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Demo:
    """`make demo` in a session of its own, as at a terminal of its own."""

    make: subprocess.Popen[bytes]
    folder: Path
    output: Path

    def processes(self) -> dict[int, str]:
        """Every process of this machine that has the demonstration's folder on its command line."""
        return {pid: command for pid, command in _commands() if str(self.folder) in command}

    def teller(self) -> int:
        """The process that tells the story and owns the servers; make is not it."""
        (found,) = [pid for pid, text in self.processes().items() if "examples.demo" in text and pid != self.make.pid]
        return found

    def ports(self) -> list[int]:
        """Where service and gate listen."""
        service = json.loads((self.folder / "git" / "service.yaml").read_text(encoding="utf-8"))
        gate = json.loads((self.folder / "git" / "gate.yaml").read_text(encoding="utf-8"))
        return [int(bind.rpartition(":")[2]) for bind in (service["bind"], gate["front"]["http"])]

    def is_waiting(self) -> bool:
        """Whether it has come to the point at which somebody must decide."""
        said = self.output.read_text(encoding="utf-8", errors="replace")
        assert self.make.poll() is None, said
        return "Your turn" in said


def _commands() -> Iterator[tuple[int, str]]:
    if not PROC.is_dir():
        listed = subprocess.run(["ps", "-axww", "-o", "pid=,command="], capture_output=True, text=True, check=True)
        for line in listed.stdout.splitlines():
            pid, _, text = line.strip().partition(" ")
            yield int(pid), text
        return
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:  # it ended while we looked
                continue
            yield int(entry.name), text


INTERRUPTIBLE = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execvp(sys.argv[1], sys.argv[1:])
"""


@contextmanager
def waiting_demo(folder: Path) -> Iterator[Demo]:
    """A demonstration that waits for a person; its environments are taken as they are."""
    output = folder / "output"
    # A shell starts its background jobs with Ctrl-C switched off, which make and all below it would inherit.
    command = [
        sys.executable,
        "-c",
        INTERRUPTIBLE,
        "make",
        "-o",
        ".venv/.demo",
        "-o",
        ".venv-git/.ready",
        "demo",
        f"FOLDER={folder / 'demo'}",
    ]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with output.open("wb") as sink:
        make = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    demo = Demo(make, folder / "demo", output)
    try:
        until_now(demo.is_waiting, "the demonstration waits for a person", seconds=90)
        yield demo
    finally:
        for pid in demo.processes():
            os.kill(pid, signal.SIGKILL)
        make.wait()


def interrupt(demo: Demo) -> None:
    """What Ctrl-C does: the terminal tells the whole foreground group."""
    os.killpg(demo.make.pid, signal.SIGINT)


def kill_teller(demo: Demo) -> None:
    """Kill -9 of the process that owns the servers."""
    os.kill(demo.teller(), signal.SIGKILL)


def kill_make(demo: Demo) -> None:
    """Kill -9 of what the user started."""
    demo.make.kill()


@pytest.mark.crash
@pytest.mark.timeout(240)
@pytest.mark.parametrize("end", [interrupt, kill_teller, kill_make])
def test_an_ended_demonstration_leaves_no_process_and_no_held_port(end: Callable[[Demo], None], tmp_path: Path) -> None:
    """Issue 2, "What must be shown"; design section 9: the supervisor leaves nothing behind, however it dies."""
    with waiting_demo(tmp_path) as demo:
        ports = demo.ports()
        assert all(map(is_held, ports))
        assert len(demo.processes()) >= 4  # make or its teller, the service, the gate, the git server
        end(demo)
        assert demo.make.wait(30) != 0
        until_now(lambda: not demo.processes(), f"no process of {demo.folder} is left")
        assert not any(map(is_held, ports))
