"""The fixture of the AuthZEN certification scenario, as `make serve-certification` serves it."""

import os
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx2

ROOT: Final = Path(__file__).parent.parent
PATIENCE_SECONDS: Final = 100.0


class PortTaken(Exception):
    """Somebody else took the port between our look and the start."""


@dataclass(frozen=True, slots=True)
class Served:
    """A running decision point: its identifier, and a client that trusts it."""

    identifier: str
    client: httpx2.Client


@contextmanager
def serving(*, tls: bool) -> Iterator[Served]:
    """Serve as long as the context lasts."""
    for _ in range(3):
        port = _free_port()
        try:
            with _process(port, tls=tls) as certificate:
                verify = ssl.create_default_context(cafile=certificate) if tls else True
                identifier = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
                with httpx2.Client(base_url=identifier, verify=verify, trust_env=False, timeout=30) as client:
                    yield Served(identifier, client)
                    return
        except PortTaken:
            continue
    raise AssertionError("every port that was free was taken at once")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
        return port


@contextmanager
def _process(port: int, *, tls: bool) -> Iterator[str | None]:
    """The command, until it listens; the certificate that it made. It ends with its standard input."""
    # The environment is there already, and of what the outer make says nothing is meant for this one.
    command = ["make", "-s", "-o", ".venv/.demo", "serve-certification", f"PORT={port}", "DIE_WITH_STDIN=1"]
    command += [f"RUN={sys.executable}", f"TLS={int(tls)}"]
    environment = {name: value for name, value in os.environ.items() if name not in {"MAKEFLAGS", "MAKELEVEL"}}
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            said = _until_listening(process)
            yield next((line.rpartition(": ")[2] for line in said if "certificate" in line), None)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(PATIENCE_SECONDS)


def _until_listening(process: subprocess.Popen[str]) -> list[str]:
    said: list[str] = []
    assert process.stdout is not None
    patience = threading.Timer(PATIENCE_SECONDS, process.kill)
    patience.start()
    try:
        for line in process.stdout:
            said.append(line.strip())
            if line.startswith("arap: listening on "):
                return said
            if "cannot listen" in line:
                raise PortTaken
    finally:
        patience.cancel()
    raise AssertionError("it ended before it listened:\n" + "\n".join(said))
