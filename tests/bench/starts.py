"""How soon an approved call runs: from the decision over the resolver API to the first line of the tool, by callback.

The gate hears of the decision by the service's callback alone, since polls are an hour apart. Every moment is read from
CLOCK_MONOTONIC, which all processes of one machine share; the tool tells its own by a datagram, so nobody polls.
"""

import asyncio
import base64
import secrets
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import httpx2

from tests.bench.figures import Figure, in_turns, quantile
from tests.bench.gates import ANSWER_SECONDS, RULES, gate, nobody, sdk_client, tools_server
from tests.bench.load import LoadFailed
from tests.bench.servers import free_port
from tests.bench.service import Service, service
from tests.bench.size import Size

START_MS: Final = 100.0
QUEUE: Final = "/resolver/v1/requests"


@dataclass(frozen=True, slots=True)
class Start:
    """One call: when it was decided or sent, when that was answered, and when the tool began (ms after the first)."""

    answered_ms: float
    started_ms: float


def starts(folder: Path, size: Size) -> Iterator[Figure]:
    """Calls that are approved one after the other, beside calls that nobody has to approve."""
    decider = {"client_id": "decider", "secret": secrets.token_urlsafe(24)}
    port, key = free_port(), base64.b64encode(secrets.token_bytes(32)).decode()
    callback = f"http://127.0.0.1:{port}/callbacks/arap"
    allowed = {"keys": [key], "endpoints": [callback], "allow_destinations": [f"127.0.0.1:{port}"]}
    with ExitStack() as stack:
        ours = stack.enter_context(
            service(
                folder / "service",
                rules=RULES,
                clients=[{**decider, "scopes": ["approval:read", "approval:resolve"]}],
                callbacks={"gate": allowed},
            )
        )
        config = gate(
            folder / "embedded", ours, backend={"callback": {"endpoint": callback, "key": key}}, **nobody(ours)
        )
        bare = tools_server(stack, folder, "bare")
        gated = tools_server(stack, folder, "embedded", config, port=port)
        tool = stack.enter_context(_Tool())
        found = in_turns(
            ("bare", "gated"),
            size.rounds,
            lambda name: asyncio.run(
                _bare(bare, tool, size.calls // 2)
                if name == "bare"
                else _approved(gated, tool, ours.of(decider), size.calls // 2)
            ),
        )
    yield _figure(*([start for rounds in found[name] for start in rounds] for name in ("gated", "bare")))


def _figure(gated: list[Start], bare: list[Start]) -> Figure:
    started = [start.started_ms for start in gated]
    floor = [start.started_ms for start in bare]
    p95 = quantile(started, 0.95)
    return Figure(
        name="decision_to_start",
        unit="ms at p95",
        ours=p95,
        beside="floor",
        other=quantile(floor, 0.95),
        goal=f"p95_ms <= {START_MS:.0f}",
        reached=p95 <= START_MS,
        details={
            "p50_ms": quantile(started, 0.50),
            "p95_ms": p95,
            "p99_ms": quantile(started, 0.99),
            "decision_answered_p50_ms": quantile([start.answered_ms for start in gated], 0.50),
            "after_the_answer_p95_ms": quantile([start.started_ms - start.answered_ms for start in gated], 0.95),
            "floor_p50_ms": quantile(floor, 0.50),
            "floor_name": "from sending the SDK's call over HTTP to the first line of the tool",
            "measured_from": "sending the decision, which is before it is committed",
            "told_by": "callback; polls are an hour apart",
            "database": "sqlite, synchronous=FULL, both sides",
            "calls_at_once": 1,
        },
    )


class _Tool:
    """Hears from the tool when its calls began."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._numbers = 0

    def __enter__(self) -> Self:
        self._socket.bind(("127.0.0.1", 0))
        self._socket.settimeout(ANSWER_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def arguments(self) -> dict[str, Any]:
        """Those of the next call, which is none that was made before."""
        self._numbers += 1
        return {"port": self._socket.getsockname()[1], "number": self._numbers}

    def began(self, arguments: dict[str, Any]) -> int:
        """When the call with these arguments began.

        Raises:
            LoadFailed: It did not, or another one did.
        """
        try:
            number, at = self._socket.recv(100).split()
        except TimeoutError:
            raise LoadFailed("the tool of an approved call did not start") from None
        if int(number) != arguments["number"]:
            raise LoadFailed(f"call {int(number)} started when {arguments['number']} was decided")
        return int(at)


async def _bare(url: str, tool: _Tool, count: int) -> list[Start]:
    found = []
    async with sdk_client(url) as client:
        for _ in range(count + 1):
            arguments, sent = tool.arguments(), time.monotonic_ns()
            await client.call_tool("start", arguments)
            answered = time.monotonic_ns()
            found.append(_start(sent, answered, tool.began(arguments)))
    return found[1:]


async def _approved(url: str, tool: _Tool, ours: Service, count: int) -> list[Start]:
    found = []
    async with (
        sdk_client(url) as client,
        httpx2.AsyncClient(base_url=ours.url, headers=ours.bearer(), timeout=ANSWER_SECONDS, trust_env=False) as desk,
    ):
        for _ in range(count + 1):
            arguments = tool.arguments()
            await client.call_tool("start", arguments)
            (row,) = (await desk.get(QUEUE, params={"mine": "true"})).raise_for_status().json()["items"]
            decision = {"decision": "approve", "version": row["version"]}
            key = {"Idempotency-Key": secrets.token_urlsafe(16)}
            sent = time.monotonic_ns()
            answer = await desk.post(f"{QUEUE}/{row['id']}/decisions", json=decision, headers=key)
            answered = time.monotonic_ns()
            if answer.status_code != 200:
                raise LoadFailed(f"a decision was answered {answer.status_code}: {answer.text[:500]}")
            found.append(_start(sent, answered, tool.began(arguments)))
    return found[1:]


def _start(sent: int, answered: int, began: int) -> Start:
    return Start((answered - sent) / 1e6, (began - sent) / 1e6)
