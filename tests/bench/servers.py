"""Starts what is measured as processes of their own, waits until they answer, and leaves none behind.

Each child's standard input is a pipe that only this process holds, so that our own servers end with us however we end;
a child that does not know about that is bound to us by the operating system where it can be (`setpriv`).
"""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx2

START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 15.0
_LOOK_SECONDS: Final = 0.05


class ServerFailed(Exception):
    """A server ended, or did not answer in time; the text shows the end of what it said."""


def free_port() -> int:
    """A TCP port of the loopback interface that nobody holds at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def python(*arguments: str) -> list[str]:
    """The command that runs `python ARGUMENTS` with this interpreter."""
    return [sys.executable, *arguments]


def bound_to_us(command: Sequence[str]) -> list[str]:
    """The command such that it is killed when this process dies, where the operating system offers that."""
    return ["setpriv", "--pdeathsig", "KILL", *command] if shutil.which("setpriv") else list(command)


@contextmanager
def running(
    command: Sequence[str],
    *,
    ready: str,
    log: Path,
    environment: Mapping[str, str] | None = None,
    within: Path | None = None,
) -> Iterator[None]:
    """A child that runs `command`, in the folder `within`, for as long as the block lasts, from when `ready` answers.

    Raises:
        ServerFailed: It ended before it answered, or never answered.
    """
    with log.open("ab") as sink:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, **(environment or {})},
            cwd=within,
        )
    try:
        _wait(process, ready=ready, log=log)
        yield
    finally:
        _stop(process)


def _wait(process: subprocess.Popen[bytes], *, ready: str, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not _answers(ready):
        try:
            process.wait(_LOOK_SECONDS)
        except subprocess.TimeoutExpired:
            if time.monotonic() < deadline:
                continue
        raise ServerFailed(f"{ready} does not answer; {log.name} ends:\n{log.read_text(errors='replace')[-2000:]}")


def _answers(url: str) -> bool:
    try:
        return httpx2.get(url, timeout=2, trust_env=False).status_code < 500
    except httpx2.HTTPError:
        return False


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        process.stdin.close()
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
