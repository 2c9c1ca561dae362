"""A real server on loopback with the desk on it, in a thread of its own."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx2
import uvicorn
from anyio.from_thread import BlockingPortal, start_blocking_portal

from arap_service.context import Context
from arap_service.store.migrate import upgrade
from tests.clock import FakeClock
from tests.service import app_for, bearer, service_context, settings_for
from tests.web.desk import add_person, ask
from tests.web.policy import POLICY


@dataclass(frozen=True, slots=True)
class RunningDesk:
    """Where it listens, what it stands on, the clock it reads, and the way into its thread."""

    url: str
    context: Context
    clock: FakeClock
    portal: BlockingPortal

    def asked(self, tool: str, arguments: dict[str, object], *, server: str, justification: str | None = None) -> str:
        """A new request by the gate, over HTTP; its id."""

        async def over_http() -> str:
            async with httpx2.AsyncClient(base_url=self.url, headers=bearer(self.context, "gate")) as gate:
                return await ask(gate, tool, arguments, server=server, justification=justification)

        return self.portal.call(over_http)

    def commit(self, message: str = "Fix rounding of the last digit", *, justification: str | None = None) -> str:
        """A request that one maintainer decides."""
        arguments: dict[str, object] = {"repo_path": "/srv/ledger", "message": message}
        return self.asked("git_commit", arguments, server="git", justification=justification)

    def transfer(self) -> str:
        """A request that two people decide."""
        arguments: dict[str, object] = {"amount": 50_000, "to": "acct-991", "token": "hunter2-hunter2"}
        return self.asked("wire_transfer", arguments, server="bank")

    def report(self, task_id: str) -> None:
        """What the gate says after the approved call has run."""
        said = {"disposition": "approved-executed", "at": self.clock().isoformat(), "generation": 1}

        async def over_http() -> httpx2.Response:
            async with httpx2.AsyncClient(base_url=self.url, headers=bearer(self.context, "gate")) as gate:
                return await gate.post(f"/access/v1/request/{task_id}/report", json=said)

        answer = self.portal.call(over_http)
        assert answer.is_success, answer.text


@cache
def _tables() -> bytes:
    """A database with the tables of the service, made once: that takes longer than most visits."""
    with TemporaryDirectory() as name:
        made = Path(name) / "desk.db"
        upgrade(f"sqlite:///{made}")
        return made.read_bytes()


@contextmanager
def running_desk(folder: Path, *, policy: str = POLICY, **changes: Any) -> Iterator[RunningDesk]:
    """Serve the desk until the block ends; the port is whatever the system gives, `changes` go into the settings."""
    database = f"sqlite:///{folder / 'desk.db'}"
    (folder / "desk.db").write_bytes(_tables())
    clock = FakeClock()
    with socket.socket() as listening, start_blocking_portal() as portal:
        listening.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        own = {"identifier": url, "insecure_loopback": True}
        settings = settings_for(folder, database=database, policy=policy, **own, **changes)
        listening.listen()  # from here on connections wait until the server takes them
        with portal.wrap_async_context_manager(service_context(settings, clock=clock)) as context:
            server = uvicorn.Server(uvicorn.Config(app_for(context), lifespan="off", log_level="warning"))
            serving = portal.start_task_soon(server.serve, [listening])
            try:
                for person, name in (("grace", "Grace Hopper"), ("linus", "Linus Example")):
                    add_person(context, person, name=name, groups=("maintainers", "treasurers"))
                yield RunningDesk(url, context, clock, portal)
            finally:
                server.should_exit = True
                serving.result(30)
