"""The SDK's own client, with nothing of ours but the claimed result type, drives a gated task from end to end.

SEP-2848, Reference Implementation: "a client built only on io.modelcontextprotocol/tasks". Everything that the client
half needs is written here from the extension's text.
"""

import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import anyio
import anyio.lowlevel
import pytest
from mcp import Client, StdioServerParameters, types
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.client.session import ClientSession
from pydantic import ConfigDict

from mcp_gate.settings import GateSettings
from tests.gate.gateways import ROOT, http_gateway, stdio_upstream
from tests.gate.live import serving
from tests.gate.scripted_service import ScriptedService
from tests.gate.world import World

pytestmark = pytest.mark.anyio


class Task(types.Result):
    """`resultType: task`."""

    model_config = ConfigDict(extra="allow")
    result_type: Literal["task"]


class Answer(types.Result):
    """Whatever a task method answers."""

    model_config = ConfigDict(extra="allow")


class TaskMethod(types.Request[dict[str, Any], str]):
    """Any of the three task methods."""

    name_param = "taskId"


class PlainTasks(ClientExtension):
    """The least that a client must do."""

    identifier = "io.modelcontextprotocol/tasks"

    def claims(self) -> Sequence[ResultClaim[Any]]:
        return (ResultClaim(result_type="task", model=Task, resolve=self.resolve),)

    async def resolve(self, created: Task, context: ClaimContext) -> types.CallToolResult:
        raise AssertionError("these tests poll for themselves")


async def asked(session: ClientSession, method: str, task_id: str, **params: Any) -> dict[str, Any]:
    request = TaskMethod(method=method, params={"taskId": task_id, **params})
    answer = await session.send_request(request, Answer)
    return answer.model_dump(by_alias=True, mode="json", exclude_unset=True)


async def polled(session: ClientSession, task_id: str, *, until: str) -> dict[str, Any]:
    """Poll until the task has a status; without pauses, so that the test is no slower than it must be."""
    while True:
        state = await asked(session, "tasks/get", task_id)
        if state["status"] == until:
            return state
        assert state["status"] in {"working", "input_required"}
        await anyio.lowlevel.checkpoint()


@asynccontextmanager
async def over_http(world: World) -> AsyncIterator[Client]:
    async with http_gateway(world) as gateway, gateway.client(PlainTasks()) as client:
        yield client


@asynccontextmanager
async def over_stdio(world: World) -> AsyncIterator[Client]:
    """`mcp-gate proxy` as a process on stdio, its upstream as another, and the service over a real socket."""
    async with serving(world.service.app()) as base:
        world.service.host = base
        config = world.directory / "gate.yaml"
        config.write_text(yaml_of(world, base))
        gate = StdioServerParameters(
            command=sys.executable,
            args=["-m", "mcp_gate", "proxy", "--config", str(config)],
            env={"PYTHONPATH": str(ROOT)},
        )
        async with Client(gate, extensions=[PlainTasks()]) as client:
            yield client


def yaml_of(world: World, base: str) -> str:
    """The settings of a gateway on stdio as a file; JSON is YAML."""
    settings = world.settings(
        backend={"identifier": base, "idempotency_retention_seconds": 86_400},
        upstream=stdio_upstream(world.directory),
        insecure_loopback=True,
    )
    return GateSettings.model_validate(settings).model_dump_json(exclude_unset=True, exclude={"backend": {"callback"}})


TRANSPORTS = {"http": over_http, "stdio": over_stdio}


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, service=ScriptedService(rules={"wire": "request", "read": "permit"}))


@pytest.mark.requirement("PEP-10")
@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_task_is_created_questioned_approved_and_fetched(world: World, transport: str) -> None:
    with anyio.fail_after(60):
        async with TRANSPORTS[transport](world) as client:
            assert not (await client.call_tool("read", {"account": "a1"})).is_error
            task = await client.session.call_tool("wire", {"to": "acct-991", "amount": 5}, allow_claimed=True)
            assert isinstance(task, Task)
            task_id = str((task.model_extra or {})["taskId"])

            schema = {"type": "object", "properties": {"ticket": {"type": "string"}}, "required": ["ticket"]}
            world.service.ask("Which ticket?", schema)
            state = await polled(client.session, task_id, until="input_required")
            ((key, request),) = state["inputRequests"].items()
            assert request["method"] == "elicitation/create"
            answer = {key: {"action": "accept", "content": {"ticket": "T-1"}}}
            await asked(client.session, "tasks/update", task_id, inputResponses=answer)
            await polled(client.session, task_id, until="working")

            world.service.approve()
            state = await polled(client.session, task_id, until="completed")
    assert state["result"]["content"][0]["text"] == "Transfer of 5 to acct-991 completed."
    assert world.effects == ["acct-991 5"]
    assert [answer["input"] for answer in world.service.answers] == [{"ticket": "T-1"}]


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_task_is_cancelled(world: World, transport: str) -> None:
    with anyio.fail_after(60):
        async with TRANSPORTS[transport](world) as client:
            task = await client.session.call_tool("wire", {"to": "acct-991", "amount": 5}, allow_claimed=True)
            assert isinstance(task, Task)
            task_id = str((task.model_extra or {})["taskId"])
            await asked(client.session, "tasks/cancel", task_id)
            await polled(client.session, task_id, until="cancelled")
    assert world.effects == []
