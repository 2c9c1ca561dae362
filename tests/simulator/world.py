"""What the tests of the simulator share: rules, a simulator that listens, and an enforcement point's plain calls."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from arap_service.simulator.core import Simulator
from tests.live import Live, serving
from tests.pdp import question, submission
from tests.service import CLIENTS, client

POLICY = """
version: 1
clients: [{client: gate, may: 'true'}]
rules:
  - {id: transfers, when: resource.id == "wire_transfer", request: transfer}
  - {id: accounts, when: resource.type == "account", request: transfer}
  - {id: scripted, when: resource.id == "scripted", request: scripted}
templates:
  transfer:
    title: Wire transfer
    explanation: Money leaves the company.
    steps: [{id: risk, title: Risk engine, resolvers: [resolver]}]
  scripted:
    title: Scripted
    explanation: A template with a script.
    steps: [{id: risk, title: Risk engine, resolvers: [resolver]}]
    script:
      - {behaviour: approve}
      - {behaviour: reevaluation-retry, times: 1, retry_after: 3}
"""
CONTROL = "/simulator/v1/behaviours"
OBSERVATIONS = "/simulator/v1/observations"


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """A simulator, the client that tells it what to do, and an enforcement point."""

    live: Live
    control: httpx2.AsyncClient
    point: httpx2.AsyncClient

    @property
    def simulator(self) -> Simulator:
        """The running simulator."""
        found = self.live.context.rehearsal
        assert isinstance(found, Simulator)
        return found

    async def arm(self, behaviour: str, **members: Any) -> dict[str, Any]:
        """Arm a behaviour, for the template `transfer` unless another target is named."""
        named = {"task", "template", "endpoint", "seconds"} & members.keys()
        target = {} if named else {"template": "transfer"}
        answer = await self.control.post(CONTROL, json={"behaviour": behaviour, **target, **members})
        assert answer.status_code == 201, answer.text
        armed: dict[str, Any] = answer.json()
        return armed

    async def seen(self, what: str | None = None) -> list[dict[str, Any]]:
        """What was observed."""
        found = (await self.control.get(OBSERVATIONS)).json()["observations"]
        return [each for each in found if what is None or each["what"] == what]

    async def ask(self, asked: dict[str, Any], approval: object = None) -> dict[str, Any]:
        """One evaluation."""
        if approval is not None:
            asked = asked | {"context": asked["context"] | {"approval": approval}}
        answer = await self.point.post("/access/v1/evaluation", json=asked)
        assert answer.status_code == 200, answer.text
        said: dict[str, Any] = answer.json()
        return said

    async def body(self, tool: str = "wire_transfer", **more: Any) -> dict[str, Any]:
        """A submission that rests on a fresh denial."""
        return submission(question(tool), (await self.ask(question(tool)))["context"]) | more

    async def submit(self, body: dict[str, Any], key: str = "key-1") -> httpx2.Response:
        """One submission."""
        return await self.point.post("/access/v1/request", json=body, headers={"Idempotency-Key": key})

    async def open(self, tool: str = "wire_transfer", **more: Any) -> dict[str, Any]:
        """A new task, right after its submission; the simulator's loop may be at work on it."""
        body = await self.body(tool, **more)
        answer = await self.submit(body, key=f"key-{body['denial']['evaluation_id'][-12:]}")
        assert answer.status_code in {201, 202}, answer.text
        task: dict[str, Any] = answer.json()["task"]
        return task

    async def status(self, task: dict[str, Any]) -> dict[str, Any]:
        """The task now."""
        answer = await self.point.get(task["status_endpoint"])
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found


@asynccontextmanager
async def rehearsing(folder: Path, *, database: str, **changes: Any) -> AsyncIterator[Rehearsal]:
    """A simulator that listens; its loop is left to the test unless `background` is asked for."""
    clients = [*CLIENTS, client("director", "admin")]
    given: dict[str, Any] = {
        "policy": POLICY,
        "simulator": True,
        "background": False,
        "builtin_issuer": {"enabled": True, "clients": clients},
    }
    async with (
        serving(folder, database=database, **(given | changes)) as live,
        httpx2.AsyncClient(base_url=live.url, auth=live.credentials("director")) as control,
        httpx2.AsyncClient(base_url=live.url, auth=live.credentials("gate")) as point,
    ):
        yield Rehearsal(live, control, point)
