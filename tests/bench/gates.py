"""Tools to call and gates in front of them, each a process of its own, and the SDK's client that calls them."""

import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final, Literal

import httpx2
import yaml
from mcp import Client, types
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.client.streamable_http import streamable_http_client
from pydantic import ConfigDict

from tests.bench.figures import ROOT
from tests.bench.load import LoadFailed
from tests.bench.servers import free_port, python, running
from tests.bench.service import POLL_SECONDS, Service

RULES: Final = "gate_rules.yaml"
GATE: Final = python("-c", "from mcp_gate.cli import main; main()")
ANSWER_SECONDS: Final = 30.0
_NO_LIMIT: Final = 1_000_000_000


def gate(folder: Path, ours: Service, *, backend: Mapping[str, Any] | None = None, **more: Any) -> Path:
    """The configuration of a gate in front of one of the tools' servers, in a folder of its own."""
    folder.mkdir()
    settings = {
        "server_name": "bench",
        "insecure_loopback": True,
        "backend": {
            "identifier": ours.url,
            "client_id": ours.client_id,
            "client_secret": ours.client_secret,
            "idempotency_retention_seconds": 86_400,
            **(backend or {}),
        },
        "database": f"sqlite:///{folder / 'gate.db'}",
        "key_file": str(folder / "keys.yaml"),
        "limits": {
            "open_tasks": _NO_LIMIT,
            "submissions_per_minute": _NO_LIMIT,
            "poll_interval_seconds": POLL_SECONDS,
        },
        **more,
    }
    path = folder / "gate.yaml"
    path.write_text(yaml.safe_dump(settings), encoding="utf-8")
    return path


def nobody(ours: Service) -> dict[str, Any]:
    """The setting of a gate that asks for no token: whoever calls is this one."""
    return {"anonymous": {"iss": ours.url, "sub": "priya", "client": "assistant"}}


def tools_server(stack: ExitStack, folder: Path, name: str, config: Path | None = None, *, port: int = 0) -> str:
    """The address of the SDK's server with its tools, behind the embedded gate of `config`, if any."""
    port = port or free_port()
    command = python("-m", "tests.bench.serve", "mcp", str(port), *([] if config is None else [str(config)]))
    base = f"http://127.0.0.1:{port}"
    stack.enter_context(running(command, ready=base, log=folder / f"{name}.log"))
    return f"{base}/mcp"


def gateway(stack: ExitStack, folder: Path, ours: Service, upstream: Mapping[str, Any], **more: Any) -> str:
    """The address of a gateway before `upstream`, over HTTP."""
    port = free_port()
    config = gate(folder, ours, upstream=dict(upstream), front={"http": f"127.0.0.1:{port}"}, **more)
    command = [*GATE, "proxy", "--config", str(config), "--die-with-stdin"]
    base = f"http://127.0.0.1:{port}"
    stack.enter_context(running(command, ready=f"{base}/healthz", log=folder / "gateway.log"))
    return f"{base}/mcp"


def over_stdio() -> dict[str, Any]:
    """The tools' server as an upstream that a gateway starts by itself."""
    command, *args = python("-m", "tests.bench.serve", "tools")
    return {"command": command, "args": args, "cwd": str(ROOT)}


async def timed(
    url: str, count: int, calls: Sequence[tuple[str, Mapping[str, Any]]], headers: Mapping[str, str] | None = None
) -> list[float]:
    """How long each of `count` calls took (ms); one more before them is not counted."""
    times = []
    async with sdk_client(url, headers) as client:
        for number in range(count + 1):
            tool, arguments = calls[number % len(calls)]
            began = time.perf_counter()
            result = await client.call_tool(tool, dict(arguments))
            times.append((time.perf_counter() - began) * 1000)
            if result.is_error:
                raise LoadFailed(f"{tool} at {url} failed: {result.content}")
    return times[1:]


@asynccontextmanager
async def sdk_client(url: str, headers: Mapping[str, str] | None = None) -> AsyncIterator[Client]:
    """The SDK's client, which takes a task for the result."""
    async with (
        httpx2.AsyncClient(headers=dict(headers or {}), timeout=ANSWER_SECONDS, trust_env=False) as http,
        Client(streamable_http_client(url, http_client=http), extensions=[_Tasks()]) as client,
    ):
        yield client


class _Task(types.Result):
    model_config = ConfigDict(extra="allow")
    result_type: Literal["task"]


class _Tasks(ClientExtension):
    """Takes a task for the result, so that the time until it is there can be measured."""

    identifier = "io.modelcontextprotocol/tasks"

    def claims(self) -> Sequence[ResultClaim[Any]]:
        return (ResultClaim(result_type="task", model=_Task, resolve=self._resolve),)

    async def _resolve(self, _task: _Task, _context: ClaimContext) -> types.CallToolResult:
        return types.CallToolResult(content=[], structured_content={"result": ""})  # as the tool's schema wants it
