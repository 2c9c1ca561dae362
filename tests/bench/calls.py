"""Tool calls through the gate: what a permitted one costs beside the SDK's bare call, and how soon a task is there."""

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, Literal

import yaml
from mcp import Client, types
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from pydantic import ConfigDict

from tests.bench.figures import ROOT, Figure, in_turns, quantile
from tests.bench.load import LoadFailed
from tests.bench.servers import free_port, python, running
from tests.bench.service import POLL_SECONDS, Service, service
from tests.bench.size import Size

RULES: Final = "gate_rules.yaml"
ECHO: Final = ("echo", {"text": "hello"})
TRANSFER: Final = ("transfer", {"amount": 50_000, "to": "4711"})
GATE: Final = python("-c", "from mcp_gate.cli import main; main()")
PERMITTED_MS: Final = {"embedded": 1.5, "gateway": 3.0}
HANDLE_MS: Final = 8.0
_NO_LIMIT: Final = 1_000_000_000


def permitted_calls(folder: Path, size: Size) -> Iterator[Figure]:
    """The same tool bare, behind the embedded gate, and behind a gateway over HTTP and over stdio."""
    with ExitStack() as stack:
        ours = stack.enter_context(service(folder / "service", rules=RULES))
        bare = _start(stack, folder, "bare")
        urls = {
            "bare": bare,
            "embedded": _start(stack, folder, "embedded", _gate(folder / "embedded", ours)),
            "gateway-http": _gateway(stack, folder / "gateway-http", ours, {"url": bare}),
            "gateway-stdio": _gateway(stack, folder / "gateway-stdio", ours, _stdio_upstream()),
        }
        found = in_turns(tuple(urls), size.rounds, lambda name: asyncio.run(_timed(urls[name], size.calls, [ECHO])))
    times = {name: [spent for spents in rounds for spent in spents] for name, rounds in found.items()}
    floor = quantile(times["bare"], 0.50)
    for name in ("embedded", "gateway-http", "gateway-stdio"):
        added = quantile(times[name], 0.50) - floor
        most = PERMITTED_MS[name.partition("-")[0]]
        yield Figure(
            name=f"permitted_call_{name.replace('-', '_')}",
            unit="ms at p50",
            ours=quantile(times[name], 0.50),
            beside="floor",
            other=floor,
            goal=f"added_ms <= {most}",
            reached=added <= most,
            details={
                "added_ms": added,
                "p50_ms": quantile(times[name], 0.50),
                "p99_ms": quantile(times[name], 0.99),
                "floor_p99_ms": quantile(times["bare"], 0.99),
                "floor_name": "the SDK's call over HTTP, with nothing of ours",
                "connections": 1,
                "generator": "the SDK's client",
            },
        )


def task_handles(folder: Path, size: Size) -> Iterator[Figure]:
    """How long a call that needs approval takes to become a task: evaluated, intended, submitted, handle stored."""
    with ExitStack() as stack:
        ours = stack.enter_context(service(folder / "service", rules=RULES))
        urls = {
            "bare": _start(stack, folder, "bare"),
            "embedded": _start(stack, folder, "embedded", _gate(folder / "embedded", ours)),
        }
        found = in_turns(
            tuple(urls), size.rounds, lambda name: asyncio.run(_timed(urls[name], size.calls, _transfers(size)))
        )
    times = {name: [spent for spents in rounds for spent in spents] for name, rounds in found.items()}
    handle, floor = quantile(times["embedded"], 0.50), quantile(times["bare"], 0.50)
    yield Figure(
        name="task_handle",
        unit="ms at p50",
        ours=handle,
        beside="floor",
        other=floor,
        goal=f"p50_ms <= {HANDLE_MS}",
        reached=handle <= HANDLE_MS,
        details={
            "p50_ms": handle,
            "p99_ms": quantile(times["embedded"], 0.99),
            "floor_name": "the SDK's call over HTTP, with nothing of ours",
            "database": "sqlite, synchronous=FULL, both sides",
            "connections": 1,
            "generator": "the SDK's client",
        },
    )


def _transfers(size: Size) -> list[tuple[str, dict[str, Any]]]:
    """Calls of which none repeats another, since a repetition would join the task that is open."""
    started = time.monotonic_ns()
    return [(TRANSFER[0], {**TRANSFER[1], "to": f"{started}-{number}"}) for number in range(size.calls + 1)]


async def _timed(url: str, count: int, calls: Sequence[tuple[str, Mapping[str, Any]]]) -> list[float]:
    """How long each of `count` calls took (ms); one more before them is not counted."""
    times = []
    async with Client(url, extensions=[_Tasks()]) as client:
        for number in range(count + 1):
            tool, arguments = calls[number % len(calls)]
            began = time.perf_counter()
            result = await client.call_tool(tool, dict(arguments))
            times.append((time.perf_counter() - began) * 1000)
            if result.is_error:
                raise LoadFailed(f"{tool} at {url} failed: {result.content}")
    return times[1:]


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


def _gate(folder: Path, ours: Service, **more: Any) -> Path:
    """The configuration of a gate in front of one of the tools' servers."""
    folder.mkdir()
    settings = {
        "server_name": "bench",
        "insecure_loopback": True,
        "backend": {
            "identifier": ours.url,
            "client_id": ours.client_id,
            "client_secret": ours.client_secret,
            "idempotency_retention_seconds": 86_400,
        },
        "anonymous": {"iss": ours.url, "sub": "priya", "client": "assistant"},
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


def _start(stack: ExitStack, folder: Path, name: str, config: Path | None = None) -> str:
    port = free_port()
    command = python("-m", "tests.bench.serve", "mcp", str(port), *([] if config is None else [str(config)]))
    base = f"http://127.0.0.1:{port}"
    stack.enter_context(running(command, ready=base, log=folder / f"{name}.log"))
    return f"{base}/mcp"


def _gateway(stack: ExitStack, folder: Path, ours: Service, upstream: dict[str, Any]) -> str:
    port = free_port()
    config = _gate(folder, ours, upstream=upstream, front={"http": f"127.0.0.1:{port}"})
    command = [*GATE, "proxy", "--config", str(config), "--die-with-stdin"]
    base = f"http://127.0.0.1:{port}"
    stack.enter_context(running(command, ready=f"{base}/healthz", log=folder / "gateway.log"))
    return f"{base}/mcp"


def _stdio_upstream() -> dict[str, Any]:
    command, *args = python("-m", "tests.bench.serve", "tools")
    return {"command": command, "args": args, "cwd": str(ROOT)}
