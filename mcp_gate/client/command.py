"""What `mcp-gate call` and `mcp-gate task` do: one connection, one purpose, and what to print about it.

Prints states and results; keeps the task id on disk before it waits. It repeats no call.
"""

import json
import shlex
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import httpx2
from mcp import Client, StdioServerParameters, types
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from mcp_gate.client.records import TaskRecord, TaskRecords
from mcp_gate.client.tasks import CreatedTask, TaskEnded, TasksExtension, TaskState, disposition, possibly_executed

OK: Final = 0
TOOL_FAILED: Final = 1
FAULT: Final = 2
PENDING: Final = 3
REFUSALS: Final = {401: "did not accept the token", 403: "does not permit this with the token"}


@dataclass(frozen=True, slots=True)
class Target:
    """Where to connect: an http(s) URL with an optional bearer token, or the command of a stdio server."""

    server: str
    token: str | None = None

    @property
    def over_http(self) -> bool:
        """Whether `server` is a URL, and no command."""
        return self.server.startswith(("http://", "https://"))

    @asynccontextmanager
    async def connect(self, extension: TasksExtension, refused: list[int]) -> AsyncIterator[Client]:
        """A client with the tasks extension; the HTTP status of every refusal of the token goes to `refused`."""
        if not self.over_http:
            command, *arguments = shlex.split(self.server)
            async with Client(StdioServerParameters(command=command, args=arguments), extensions=[extension]) as client:
                yield client
            return
        headers = {} if self.token is None else {"authorization": f"Bearer {self.token}"}
        timeout = httpx2.Timeout(30, read=300)

        async def note(response: httpx2.Response) -> None:
            if response.status_code in REFUSALS:
                refused.append(response.status_code)

        async with (
            httpx2.AsyncClient(
                headers=headers, timeout=timeout, trust_env=False, event_hooks={"response": [note]}
            ) as http,
            Client(streamable_http_client(self.server, http_client=http), extensions=[extension]) as client,
        ):
            yield client


class TaskCommands:
    """The commands over one target; `say` prints progress and `show` prints results. Each returns an exit status."""

    def __init__(
        self, target: Target, records: TaskRecords, *, say: Callable[[str], None], show: Callable[[str], None]
    ) -> None:
        self._target = target
        self._records = records
        self._say = say
        self._show = show
        self._extension = TasksExtension(records=records, server=target.server, progress=self._progress)

    async def call(self, tool: str, arguments: Sequence[str], *, wait: bool) -> int:
        """Call a tool, and with `wait` stay until the end of the task that it may become."""

        async def work(client: Client) -> int:
            given = await _arguments(client, tool, arguments)
            if wait:
                return self._result(await client.call_tool(tool, given))
            answer = await client.session.call_tool(tool, given, allow_claimed=True)
            if isinstance(answer, CreatedTask):
                return self._created(answer, tool)
            return self._result(types.CallToolResult.model_validate(answer.model_dump(by_alias=True), by_name=False))

        return await self._connected(work)

    async def get(self, task_id: str, *, wait: bool) -> int:
        """Show a task as it is, or with `wait` its end."""

        async def work(client: Client) -> int:
            if wait:
                return self._result(await self._extension.resume(client.session, task_id))
            state = await self._extension.get(client.session, task_id)
            await self._progress(state)
            if state.status == "completed" and state.result is not None:
                return self._result(types.CallToolResult.model_validate(state.result, by_name=False))
            return TOOL_FAILED if state.status in {"failed", "cancelled"} else PENDING

        return await self._connected(work)

    async def cancel(self, task_id: str) -> int:
        """Ask for cancellation and show what the task is then."""

        async def work(client: Client) -> int:
            await self._extension.cancel(client.session, task_id)
            await self._progress(await self._extension.get(client.session, task_id))
            return OK

        return await self._connected(work)

    async def _connected(self, work: Callable[[Client], Awaitable[int]]) -> int:
        refused: list[int] = []
        try:
            async with self._target.connect(self._extension, refused) as client:
                return await work(client)
        except* ArgumentInvalid as group:
            self._say(f"mcp-gate: {_first(group)}")
        except* TaskEnded as group:
            ended = _first(group)
            self._say(f"mcp-gate: {ended}; the tool did not run" if _is_without_effect(ended) else f"mcp-gate: {ended}")
        except* (MCPError, OSError, httpx2.HTTPError) as group:
            self._say(f"mcp-gate: {self._fault(_first(group), refused)}")
        return FAULT

    def _fault(self, error: BaseException, refused: Sequence[int]) -> str:
        """What went wrong between us and the server, and what to do."""
        if refused:
            given = "give another" if self._target.token else "there was none; give one"
            return f"the server {REFUSALS[refused[-1]]} ({refused[-1]}); {given} with --token-env or --token-file"
        if isinstance(error, MCPError):
            return f"the server answered with an error: {error}"
        what = type(error).__name__
        if isinstance(error, FileNotFoundError | PermissionError) and not self._target.over_http:
            return f"cannot start the server {self._target.server!r} ({what}); give a URL, or a command that can be run"
        return f"cannot talk to the server at {self._target.server} ({what}); is it running, and the address right?"

    def _created(self, created: CreatedTask, tool: str) -> int:
        self._records.remember(
            TaskRecord(created.task_id, self._target.server, tool, created_at=created.created_at, status=created.status)
        )
        self._say(f"{created.status}: {created.status_message or ''}")
        self._show(created.task_id)
        return PENDING

    async def _progress(self, state: TaskState | CreatedTask) -> None:
        self._say(f"{state.status}: {state.status_message or ''} (task {state.task_id})")

    def _result(self, result: types.CallToolResult) -> int:
        for block in result.content:
            if isinstance(block, types.TextContent):
                self._show(block.text)
            else:
                self._show(json.dumps(block.model_dump(by_alias=True, mode="json", exclude_none=True)))
        # A tool's own error, without an approval, speaks for itself.
        if result.is_error and disposition(result) is not None and possibly_executed(result):
            self._say("The tool may have run; do not repeat the call without looking.")
        return TOOL_FAILED if result.is_error else OK


class ArgumentInvalid(ValueError):
    """An argument of the command line is not key=value, or names no such tool."""


async def _arguments(client: Client, tool: str, given: Sequence[str]) -> dict[str, Any]:
    """Arguments by the tool's schema: text stays text where the schema says string, else it is read as JSON."""
    listed = {found.name: found for found in (await client.list_tools()).tools}
    properties: Mapping[str, Any] = listed[tool].input_schema.get("properties", {}) if tool in listed else {}
    arguments: dict[str, Any] = {}
    for item in given:
        key, equals, value = item.partition("=")
        if not equals or not key:
            raise ArgumentInvalid(f"{item!r} is not key=value")
        arguments[key] = _value(value, properties.get(key))
    return arguments


def _value(text: str, schema: Any) -> Any:
    if isinstance(schema, dict) and schema.get("type") == "string":
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _is_without_effect(error: BaseException) -> bool:
    return isinstance(error, TaskEnded) and error.status in {"failed", "cancelled"}
