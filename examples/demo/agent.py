"""The agent of the story: an MCP client with the tasks extension and a bearer token, and what it remembers on disk.

The only thing that it knows of approvals is that a call can become a task. With a transcript, every message on its wire
is written down as it was sent and received.
"""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import httpx2
from mcp import Client, types
from mcp.client.streamable_http import streamable_http_client

from examples.demo.world import World
from mcp_gate.client import CreatedTask, TaskRecord, TaskRecords, TasksExtension, TaskState

READ_SECONDS: Final = 300.0
Answer = types.CallToolResult | CreatedTask


@dataclass(frozen=True, slots=True)
class Agent:
    """A connected agent; `records` is where its task ids are."""

    client: Client
    extension: TasksExtension
    records: TaskRecords
    server: str

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> Answer:
        """Call a tool; a task's id is on disk before this returns."""
        answer = await self.client.session.call_tool(tool, dict(arguments), allow_claimed=True)
        if isinstance(answer, CreatedTask):
            now = datetime.now(UTC).isoformat()
            self.records.remember(TaskRecord(answer.task_id, self.server, tool, created_at=now, status=answer.status))
            return answer
        return types.CallToolResult.model_validate(answer.model_dump(by_alias=True), by_name=False)

    async def wait(self, task_id: str) -> types.CallToolResult:
        """Wait for a task's end, as an agent would that knows its id only."""
        return await self.extension.resume(self.client.session, task_id)


@asynccontextmanager
async def connected(
    world: World, *, hear: Callable[[TaskState | CreatedTask], None], transcript: Path | None = None
) -> AsyncIterator[Agent]:
    """The agent of `world`, connected to the gate; `hear` is told of every state of its tasks."""

    async def progress(state: TaskState | CreatedTask) -> None:
        hear(state)

    records = TaskRecords(world.path("tasks"))
    extension = TasksExtension(records=records, server=world.mcp, progress=progress)
    hooks = Recorder(transcript).hooks() if transcript else {}
    async with (
        httpx2.AsyncClient(
            auth=world.credentials(world.cast.agent),
            timeout=httpx2.Timeout(30, read=READ_SECONDS),
            trust_env=False,
            event_hooks=hooks,
        ) as http,
        Client(streamable_http_client(world.mcp, http_client=http), extensions=[extension]) as client,
    ):
        yield Agent(client, extension, records, world.mcp)


class Recorder:
    """Writes JSON-RPC messages to a file, one a line, with their direction; headers, hence tokens, stay out."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.write_text("", encoding="utf-8")

    def hooks(self) -> dict[str, list[Callable[..., Any]]]:
        """What an HTTP client calls for each message."""
        return {"request": [self._sent], "response": [self._received]}

    async def _sent(self, request: httpx2.Request) -> None:
        if request.method == "POST" and request.headers.get("content-type", "").startswith("application/json"):
            self._write("client to gate", await request.aread())

    async def _received(self, response: httpx2.Response) -> None:
        if response.request.method != "POST" or not response.request.url.path.endswith("/mcp"):
            return
        body = await response.aread()
        if response.headers.get("content-type", "").startswith("text/event-stream"):
            for line in body.decode().splitlines():
                if line.startswith("data:") and line[5:].strip():
                    self._write("gate to client", line[5:].encode())
        elif body:
            self._write("gate to client", body)

    def _write(self, direction: str, body: bytes) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"direction": direction, "message": json.loads(body)}, ensure_ascii=False) + "\n")
