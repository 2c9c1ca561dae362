"""A gate in front of real tools with a scripted service behind it, for tests of the MCP side."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import anyio
import anyio.lowlevel
import httpx2
from mcp import Client, types
from mcp.client.extension import advertise
from mcp.server.mcpserver import MCPServer
from pydantic import ConfigDict

from mcp_gate.arap import ArapBackend
from mcp_gate.arap_channel import Channel
from mcp_gate.client import CreatedTask, TaskEnded, TasksExtension
from mcp_gate.client.tasks import CancelTask, GetTask, UpdateTask
from mcp_gate.extension import Gate
from mcp_gate.runtime import Parts
from mcp_gate.settings import GateSettings, parse_settings
from tests.gate.scripted_service import HOST, ScriptedService
from tests.gate.upstream_server import add_tools

TASKS = "io.modelcontextprotocol/tasks"
TOOL_APPROVAL = "io.modelcontextprotocol/tool-approval"
DISPOSITION = "io.modelcontextprotocol/tool-approval-disposition"
ENVELOPE = "io.modelcontextprotocol/authorization"
META = "io.modelcontextprotocol/"
VERSION = "2026-07-28"
SCHEMA: dict[str, Any] = json.loads((Path(__file__).parent.parent / "vectors" / "ext-tasks.schema.json").read_text())


class Raw(types.Result):
    """A result as it came, unknown members included."""

    model_config = ConfigDict(extra="allow")
    result_type: Any = None


class AnyMethod(types.Request[dict[str, Any], str]):
    """Any request at all."""


@dataclass
class World:
    """One gate over one database; `gate` makes further gates over the same one, as a restart would."""

    directory: Path
    service: ScriptedService = field(
        default_factory=lambda: ScriptedService(rules={"wire": "request", "read": "permit", "sees": "permit"})
    )
    changes: dict[str, Any] = field(default_factory=dict)

    @property
    def effects(self) -> list[str]:
        """What `wire` did, one line each."""
        file = self.directory / "effects"
        return file.read_text().splitlines() if file.exists() else []

    def settings(self, **changes: Any) -> GateSettings:
        """The settings of a gate with fast polling and a principal for stdio."""
        document: dict[str, Any] = {
            "server_name": "treasury",
            "backend": {"identifier": HOST, "idempotency_retention_seconds": 86_400},
            "database": f"sqlite:///{self.directory}/gate.sqlite",
            "key_file": str(self.directory / "keys.yaml"),
            "stdio": {"principal": {"iss": "https://issuer.example", "sub": "alice", "client": "agent-7"}},
            "limits": {"poll_interval_seconds": 0.05},
        }
        return parse_settings({**document, **self.changes, **changes})

    def parts(self, settings: GateSettings, **changes: Any) -> Parts:
        """Parts whose backend is the scripted service."""
        http = httpx2.AsyncClient(transport=self.service.transport())
        assert settings.backend is not None
        channel = Channel(settings.backend, http=http, clock=lambda: datetime.now(UTC))
        callback = settings.backend.callback
        backend = ArapBackend(channel, callback_endpoint=None if callback is None else callback.endpoint)
        return Parts(backend=backend, **changes)

    def server(self, settings: GateSettings | None = None, **options: Any) -> MCPServer[Any]:
        """An MCP server with tools and a gate, as an author would write it."""
        settings = settings or self.settings()
        gate = Gate(settings, parts=self.parts(settings))
        server: MCPServer[Any] = MCPServer("treasury", extensions=[gate], lifespan=gate.lifespan(), **options)
        add_tools(server, self.directory / "effects")
        gate.bind(server)
        return server


@asynccontextmanager
async def connected(server: Any, *extensions: Any, **options: Any) -> AsyncIterator[Client]:
    """The SDK's client over `server`, bounded in time."""
    with anyio.fail_after(60):
        async with Client(server, extensions=list(extensions), **options) as client:
            yield client


def tasks_client() -> Any:
    """Our extension for the SDK's client, for tests that drive the task by hand."""
    return TasksExtension()


def only_advertised() -> Any:
    """The capability without the means: the server may answer with tasks, the client resolves none."""
    return advertise(TASKS)


async def create(client: Client, tool: str, **arguments: Any) -> CreatedTask:
    """Call a tool and expect a task."""
    created = await client.session.call_tool(tool, arguments, allow_claimed=True)
    assert isinstance(created, CreatedTask)
    return created


async def get_raw(client: Client, task_id: str) -> dict[str, Any]:
    """`tasks/get` as it is on the wire, the server's own stamp aside."""
    return wire(await client.session.send_request(GetTask.model_validate(_named("tasks/get", task_id)), Raw))


async def cancel(client: Client, task_id: str) -> dict[str, Any]:
    """`tasks/cancel` and its answer."""
    return wire(await client.session.send_request(CancelTask.model_validate(_named("tasks/cancel", task_id)), Raw))


async def update(client: Client, task_id: str, responses: dict[str, Any]) -> dict[str, Any]:
    """`tasks/update` and its answer."""
    named = _named("tasks/update", task_id)
    named["params"]["inputResponses"] = responses
    return wire(await client.session.send_request(UpdateTask.model_validate(named), Raw))


def wire(result: types.Result) -> dict[str, Any]:
    """A result's members as they were on the wire, without the stamp of the server's identity."""
    shown = result.model_dump(by_alias=True, mode="json", exclude_unset=True)
    meta = {name: value for name, value in (shown.get("_meta") or {}).items() if name != META + "serverInfo"}
    shown.pop("_meta", None)
    return {**shown, **({"_meta": meta} if meta else {})}


def _named(method: Literal["tasks/get", "tasks/cancel", "tasks/update"], task_id: str) -> dict[str, Any]:
    return {"method": method, "params": {"taskId": task_id}}


async def ended(client: Client, task_id: str) -> dict[str, Any]:
    """The task once it is terminal, waited for as our client does."""
    with suppress(TaskEnded):
        await TasksExtension().resume(client.session, task_id)
    return await get_raw(client, task_id)


async def at_once(client: Client, task_id: str) -> dict[str, Any]:
    """The task once it is terminal, without pauses; for tests whose poll interval outlasts them."""
    while (state := await get_raw(client, task_id))["status"] == "working":
        await anyio.lowlevel.checkpoint()
    return state
