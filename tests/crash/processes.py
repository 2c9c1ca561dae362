"""Real child processes of a test: started, killed, started again, and gone when the test is over.

Each has its own session and a stdin that only the test holds, so that it ends by itself should the test run be killed.
"""

import os
import random
import signal
import socket
import sqlite3
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import anyio
import httpx2

from tests.crash.nursery import Nursed, Nursery
from tests.patience import pause, pause_now

PATIENCE_SECONDS = 90.0
NO_CHANGES: Mapping[str, str] = MappingProxyType({})


async def until(
    probe: Callable[[], bool] | Callable[[], Awaitable[bool]], what: str, *, seconds: float = PATIENCE_SECONDS
) -> None:
    """Look until `probe()` holds; the time is a bound for a test that went wrong, and proves nothing."""
    with anyio.move_on_after(seconds):
        while True:
            found = probe()
            if found if isinstance(found, bool) else await found:
                return
            await pause()
    raise AssertionError(f"after {seconds:.0f} s still not so: {what}")


def until_now(probe: Callable[[], bool], what: str, *, seconds: float = PATIENCE_SECONDS) -> None:
    """Like `until`, for tests without an event loop."""
    deadline = time.monotonic() + seconds
    while not probe():
        assert time.monotonic() < deadline, f"after {seconds:.0f} s still not so: {what}"
        pause_now()


def lasting_port() -> int:
    """A loopback port that stays free while its owner is dead: the kernel never gives it to an outgoing connection."""
    for _ in range(100):
        port = random.randrange(20_000, 32_000)  # noqa: S311 - nobody is kept from guessing a port
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("no free port")


def is_held(port: int) -> bool:
    """Whether somebody listens on a loopback port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def listening_on(port: int) -> Iterator[None]:
    """Somebody else has the port."""
    with socket.create_server(("127.0.0.1", port)):
        yield


@contextmanager
def locked(url: str) -> Iterator[None]:
    """Somebody else is writing to the SQLite file, and doesn't come to an end."""
    holder = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
    try:
        holder.execute("PRAGMA journal_mode = WAL")
        holder.execute("BEGIN IMMEDIATE")
        yield
    finally:
        holder.close()


@dataclass
class Server:
    """One server of the story; its log grows over all its lives. With a nursery a life begins as a fork."""

    name: str
    command: Sequence[str]
    config: Path
    port: int
    ready_path: str
    environment: Mapping[str, str] = field(default_factory=dict)
    nursery: Nursery | None = None
    process: subprocess.Popen[bytes] | Nursed | None = field(default=None, init=False)
    is_frozen: bool = field(default=False, init=False)

    @property
    def log(self) -> Path:
        """Everything that it wrote."""
        return self.config.with_suffix(".log")

    def surroundings(self, changes: Mapping[str, str] = NO_CHANGES) -> dict[str, str]:
        """Its environment variables."""
        return {**os.environ, **self.environment, **changes}

    def launch(self, changes: Mapping[str, str] = NO_CHANGES) -> None:
        """Start it; `changes` are more environment variables for this life."""
        assert self.process is None, f"{self.name} runs already"
        with self.log.open("ab") as sink:
            if self.nursery is not None:
                self.process = self.nursery.start(self.command, environment=self.surroundings(changes), log=sink)
                return
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=self.surroundings(changes),
            )

    async def start(self, changes: Mapping[str, str] = NO_CHANGES) -> None:
        """Start it and wait until it is ready."""
        self.launch(changes)
        async with httpx2.AsyncClient(timeout=2, trust_env=False) as http:

            async def is_ready() -> bool:
                assert self.process is not None
                assert self.process.poll() is None, f"{self.name} ended with {self.process.returncode}: {self.tail()}"
                try:
                    return (await http.get(f"http://127.0.0.1:{self.port}{self.ready_path}")).status_code == 200
                except httpx2.HTTPError:
                    return False

            await until(is_ready, f"{self.name} is ready")

    async def killed_itself(self) -> None:
        """Wait until it has died by SIGKILL at the point that its environment named."""
        process = self.process
        assert process is not None
        await until(lambda: process.poll() is not None, f"{self.name} has reached the point at which it dies")
        assert process.returncode == -signal.SIGKILL, f"{self.name} ended with {process.returncode}: {self.tail()}"
        self._bury()

    async def stopped_itself(self) -> None:
        """Wait until it has frozen at the point that its environment named."""
        process = self.process
        assert process is not None

        def has_stopped() -> bool:
            assert process is not None
            pid, status = os.waitpid(process.pid, os.WUNTRACED | os.WNOHANG)
            assert pid == 0 or os.WIFSTOPPED(status), f"{self.name} ended with {status}: {self.tail()}"
            return pid != 0

        await until(has_stopped, f"{self.name} has reached the point at which it freezes")
        self.is_frozen = True

    def freeze(self) -> None:
        """Let it do nothing until `thaw`, whatever it is doing; when this returns, it has stopped."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)
        # On a busy machine it goes on for a moment, in which it may well take a lock.
        _, status = os.waitpid(self.process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), f"{self.name} ended with {status}: {self.tail()}"
        self.is_frozen = True

    def thaw(self) -> None:
        """Let it go on."""
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)
        self.is_frozen = False

    async def end(self) -> None:
        """Tell it to stop, and wait until it has done what was under way."""
        process = self.process
        assert process is not None
        process.send_signal(signal.SIGTERM)
        await until(lambda: process.poll() is not None, f"{self.name} has stopped")
        assert process.returncode == 0, self.tail()
        self._bury()

    def kill(self) -> None:
        """Kill -9, whatever it is doing."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self._bury()

    def tail(self) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:])

    def _bury(self) -> None:
        assert self.process is not None
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process = None
        self.is_frozen = False
