"""Starts the demonstration's servers and leaves nothing behind, however the demonstration ends.

Each child has its own session, so Ctrl-C reaches the supervisor alone, and its standard input is a pipe that only the
supervisor holds: when the supervisor closes it, or dies in any way at all, the child reads the end and stops by itself.
"""

import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Final, Self

START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 10.0
POLL_SECONDS: Final = 0.05


class StartFailed(RuntimeError):
    """A server did not come up; the message names its log and shows its end."""


@dataclass(frozen=True, slots=True)
class Child:
    """A server that the supervisor started."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    def log_tail(self, lines: int = 12) -> str:
        """The last lines that the server wrote."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


def free_port() -> int:
    """A TCP port of the loopback interface that nobody holds at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Supervisor:
    """Owns the children; as a context manager it stops them in reverse order of their start."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._children: list[Child] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(
        self,
        name: str,
        command: list[str],
        *,
        ready: Callable[[], bool],
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> Child:
        """Start a server and wait until `ready()`.

        Raises:
            StartFailed: the server ended, or was not ready within 60 seconds.
        """
        log = self._logs / f"{name}.log"
        with log.open("ab") as sink:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, **environment},
            )
        child = Child(name, process, log)
        self._children.append(child)
        deadline = time.monotonic() + START_SECONDS
        while not ready():
            if process.poll() is not None:
                raise StartFailed(f"{name} ended with status {process.returncode}; its log ends:\n{child.log_tail()}")
            if time.monotonic() > deadline:
                raise StartFailed(
                    f"{name} was not ready after {START_SECONDS:.0f} s; its log ends:\n{child.log_tail()}"
                )
            time.sleep(POLL_SECONDS)
        return child

    def stop(self) -> None:
        """Close the children's pipes, the last started first, and wait; whoever stays longer than 10 s is killed."""
        for child in reversed(self._children):
            stop_child(child)
        self._children.clear()


def stop_child(child: Child) -> None:
    """End one server: its pipe is closed, then it is waited for, then it is killed."""
    if child.process.stdin is not None:
        child.process.stdin.close()
    try:
        child.process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        child.process.kill()
        child.process.wait()


def end_with_parent(parent: int, *, end: Callable[[], None]) -> None:
    """Call `end` from a daemon thread once process `parent` is no longer our parent (make was killed)."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.25)
        end()

    threading.Thread(target=watch, name="end-with-parent", daemon=True).start()
