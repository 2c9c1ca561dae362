"""Task handles: how soon a call that needs approval has become a task, and beside a server that only makes tasks."""

import asyncio
import http.client
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from tests.bench.figures import Figure, in_turns, quantile
from tests.bench.gates import ANSWER_SECONDS, RULES, gate, nobody, timed, tools_server
from tests.bench.load import LoadFailed
from tests.bench.peers import FASTMCP_NAME, PeerMissing, fastmcp_tasks
from tests.bench.service import service
from tests.bench.size import Size

HANDLE_MS: Final = 8.0
VERSION: Final = "2026-07-28"
_META: Final = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}},
}
_HEADERS: Final = {
    "Accept": "application/json, text/event-stream",
    "Content-Type": "application/json",
    "Mcp-Protocol-Version": VERSION,
    "Mcp-Method": "tools/call",
}
Call = tuple[str, dict[str, Any]]


def task_handles(folder: Path, size: Size) -> Iterator[Figure]:
    """How long a call that needs approval takes to become a task: evaluated, intended, submitted, handle stored."""
    peer_name = f"{FASTMCP_NAME}, in memory, gone with its process; nobody is asked"
    with ExitStack() as stack:
        ours = stack.enter_context(service(folder / "service", rules=RULES))
        urls = {
            "bare": tools_server(stack, folder, "bare"),
            "embedded": tools_server(stack, folder, "embedded", gate(folder / "embedded", ours, **nobody(ours))),
        }
        by_sdk = in_turns(tuple(urls), size.rounds, lambda name: asyncio.run(timed(urls[name], size.calls, _new(size))))
        try:
            urls["fastmcp-tasks"] = fastmcp_tasks(stack, folder)
        except PeerMissing as error:
            peer_name = str(error)
        raw = in_turns(tuple(urls), size.rounds, lambda name: _raw(urls[name], _new(size), task=name != "bare"))
    yield _beside_bare(_flat(by_sdk))
    yield _beside_fastmcp(_flat(raw), peer_name)


def _flat(found: dict[str, list[list[float]]]) -> dict[str, list[float]]:
    return {name: [spent for spents in rounds for spent in spents] for name, rounds in found.items()}


def _beside_bare(times: dict[str, list[float]]) -> Figure:
    handle, floor = quantile(times["embedded"], 0.50), quantile(times["bare"], 0.50)
    return Figure(
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


def _beside_fastmcp(times: dict[str, list[float]], peer_name: str) -> Figure:
    ours, floor, peer = times["embedded"], times["bare"], times.get("fastmcp-tasks")
    handle = quantile(ours, 0.50)
    return Figure(
        name="task_handle_beside_fastmcp_tasks",
        unit="ms at p50",
        ours=handle,
        beside="peer",
        other=None if peer is None else quantile(peer, 0.50),
        goal=f"p50_ms <= {HANDLE_MS}",
        reached=None if peer is None else handle <= HANDLE_MS,
        details={
            "p50_ms": handle,
            "p95_ms": quantile(ours, 0.95),
            "p99_ms": quantile(ours, 0.99),
            "peer_p95_ms": None if peer is None else quantile(peer, 0.95),
            "peer_p99_ms": None if peer is None else quantile(peer, 0.99),
            "peer_name": peer_name,
            "floor_p50_ms": quantile(floor, 0.50),
            "ours_stored": "sealed, in SQLite with synchronous=FULL, by gate and service before the answer",
            "connections": 1,
            "generator": "one POST a call over a connection that is kept open, the same for all",
        },
    )


def _new(size: Size) -> list[Call]:
    """Calls of which none repeats another, since a repetition would join the task that is open."""
    started = time.monotonic_ns()
    return [("transfer", {"amount": 50_000, "to": f"{started}-{number}"}) for number in range(size.calls + 1)]


def _raw(url: str, calls: Sequence[Call], *, task: bool) -> list[float]:
    """How long each of the calls but the first took (ms), without a client of anybody's."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=ANSWER_SECONDS)
    times = []
    try:
        for number, (tool, arguments) in enumerate(calls):
            params = {"name": tool, "arguments": arguments, "_meta": _META}
            body = json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params})
            began = time.perf_counter()
            connection.request("POST", parts.path, body, {**_HEADERS, "Mcp-Name": tool})
            answer = connection.getresponse()
            content = answer.read()
            times.append((time.perf_counter() - began) * 1000)
            check(url, answer.status, content, task=task)
    finally:
        connection.close()
    return times[1:]


def check(url: str, status: int, content: bytes, *, task: bool) -> None:
    """Refuse to measure anything but a handle, or of the bare server a result.

    Raises:
        LoadFailed: It is something else.
    """
    told = [line.removeprefix(b"data: ") for line in content.splitlines() if line.startswith((b"data: {", b"{"))]
    result = json.loads(told[-1]).get("result", {}) if status == 200 and told else {}
    if not (result.get("taskId") if task else result.get("content")):
        raise LoadFailed(f"{url} answered {status} and no {'handle' if task else 'result'}: {content[:500]!r}")
