"""Starts servers as forks of a process that has their modules already, so that most of a start is paid for once.

Each server is a process of its own all the same, in a session of its own, with its own environment and log; it dies by
a signal and freezes like any other. It becomes a child of whoever opened the nursery, which therefore sees how it ends.
Linux only, since only there a process can adopt the children of its children.
"""

import ctypes
import gc
import importlib
import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from tests.patience import pause_now

# What a command calls, by its name; and what it imports only once it runs.
PROGRAMS: Final[Mapping[str, tuple[str, str]]] = {
    "arap": ("arap_service.cli", "main"),
    "mcp-gate": ("mcp_gate.cli", "main"),
    "counting": ("tests.crash.counting_server", "main"),
}
LATE: Final = ("mcp_gate.proxy", "arap_service.serving", "uvicorn.lifespan.on", "psycopg", "alembic.command")
STUB: Final = Path(__file__).with_name("stub.py")
_SET_CHILD_SUBREAPER: Final = 36
_MOST_BYTES: Final = 2**17


@dataclass
class Nursed:
    """A server that the nursery started, with what is needed here of `subprocess.Popen`."""

    pid: int
    stdin: BinaryIO
    returncode: int | None = None

    def poll(self) -> int | None:
        """How it ended; None while it has not."""
        return self._await(os.WNOHANG)

    def wait(self) -> int:
        """Wait until it has ended."""
        ended = self._await(0)
        assert ended is not None
        return ended

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it still is."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Send it SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def _await(self, options: int) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, options)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


@dataclass(frozen=True)
class Nursery:
    """Where it listens."""

    address: Path

    def start(self, command: Sequence[str], *, environment: Mapping[str, str], log: BinaryIO) -> Nursed:
        """Start one of the `PROGRAMS`; its stdin is held here, its words go to the log."""
        theirs, ours = os.pipe()
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as visitor:
                visitor.connect(str(self.address))
                asked = {"command": [Path(command[0]).name, *command[1:]], "environment": {**environment}}
                socket.send_fds(visitor, [json.dumps(asked).encode()], [theirs, log.fileno(), log.fileno()])
                return Nursed(int(visitor.recv(64)), os.fdopen(ours, "wb"))
        finally:
            os.close(theirs)

    def behind(self, folder: Path) -> dict[str, Any]:
        """How a gateway starts the server behind it: a program that hands its pipes over to the nursery."""
        return {"command": sys.executable, "args": ["-I", "-S", str(STUB), str(self.address), "counting", str(folder)]}


@contextmanager
def nursery(folder: Path) -> Iterator[Nursery]:
    """A nursery as long as the context lasts; what it started is from now on a child of this process."""
    if ctypes.CDLL(None, use_errno=True).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "cannot adopt the children of a child")
    address = folder / "door"
    process = subprocess.Popen([sys.executable, "-m", __name__, str(address)], stdin=subprocess.PIPE)
    try:
        while not address.exists():
            assert process.poll() is None, "the nursery has ended"
            pause_now()
        yield Nursery(address)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait()


def serve(address: str) -> None:
    """Fork a child for whoever comes, until stdin ends."""
    for name in (*(module for module, _ in PROGRAMS.values()), *LATE):
        importlib.import_module(name)
    gc.freeze()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as door:
        door.bind(f"{address}.new")
        door.listen(64)
        Path(f"{address}.new").rename(address)
        while 0 not in select.select([0, door.fileno()], [], [])[0]:
            visitor, _ = door.accept()
            with visitor:
                _deliver(door, visitor)


def _deliver(door: socket.socket, visitor: socket.socket) -> None:
    asked, given, _, _ = socket.recv_fds(visitor, _MOST_BYTES, 3)
    told, telling = os.pipe()
    between = os.fork()
    if between == 0:
        born = os.fork()
        if born == 0:
            for target, descriptor in enumerate(given):
                os.dup2(descriptor, target)
            for descriptor in (*given, told, telling):
                os.close(descriptor)
            door.close()
            _live(json.loads(asked))
        os.write(telling, str(born).encode())
        os._exit(0)
    # Only when the one between is gone, the child has the parent that is to see it end.
    os.waitpid(between, 0)
    pid = os.read(told, 64)
    for descriptor in (*given, told, telling):
        os.close(descriptor)
    # A server may well have come and gone by now, and its visitor with it.
    with suppress(OSError):
        visitor.send(pid)


def _live(asked: Mapping[str, Any]) -> None:
    """Be the program that was asked for, to its end."""
    os.setsid()
    random.seed()
    os.environ.clear()
    os.environ.update(asked["environment"])
    sys.argv[:] = asked["command"]
    module, function = PROGRAMS[sys.argv[0]]
    status = 1
    try:
        getattr(importlib.import_module(module), function)()
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001 - whatever it is, it belongs in the log of the server, and nothing outlives it
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(status)


if __name__ == "__main__":
    serve(sys.argv[1])
