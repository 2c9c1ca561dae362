"""Durable submissions per second at 32 clients, beside the bare unit of work over HTTP on the same store code."""

import asyncio
import secrets
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import httpx2

from arap_service.protocol.canonical import TOOL_CALL, arguments_hash
from arap_service.store.database import Database
from arap_service.store.migrate import upgrade
from tests.bench.figures import Figure, in_turns, rate, summary
from tests.bench.load import LoadFailed, Post, drive
from tests.bench.servers import free_port, python, running
from tests.bench.service import EVALUATION, SUBMISSION, Service, as_json, service
from tests.bench.size import Size
from tests.store.rows import a_task

CLIENTS: Final = 32
RULES: Final = "gate_rules.yaml"
WORST_P99_MS: Final = 60.0
PREPARE_SECONDS: Final = 45.0
"""Well within the life of a denial, and enough for all of them on a machine that does nothing else."""


def submissions(folder: Path, size: Size) -> Iterator[Figure]:
    """Submissions of denials that were issued before, each with its own binding token and idempotency key."""
    url, port = f"sqlite:///{folder / 'unit.db'}", free_port()
    floor = f"http://127.0.0.1:{port}"
    upgrade(url)
    rounds = size.rounds + 1  # the first one warms up
    ids = [f"task_{secrets.token_urlsafe(16)}" for _ in range(rounds * size.submissions)]
    _fill(url, ids)
    command = python("-m", "tests.bench.serve", "unit", str(port), url)
    with (
        service(folder / "ours", rules=RULES) as ours,
        running(command, ready=floor, log=folder / "unit.log"),
    ):
        prepared = asyncio.run(_requestable(ours, len(ids)))
        units = [Post(f"{floor}/{task_id}", b"") for task_id in ids]
        count = len(prepared) // rounds
        batches = {"ours": _batches(prepared, count), "floor": _batches(units, count)}
        for batch in batches.values():
            drive(next(batch), connections=CLIENTS)
        found = in_turns(tuple(batches), size.rounds, lambda name: drive(next(batches[name]), connections=CLIENTS))
    load, unit = summary(found["ours"]), summary(found["floor"])
    ratio = rate(found["ours"]) / rate(found["floor"])
    yield Figure(
        name="submission",
        unit="submissions/s",
        ours=rate(found["ours"]),
        beside="floor",
        other=rate(found["floor"]),
        goal=f"ratio >= 0.7 and p99_ms <= {WORST_P99_MS:.0f}",
        reached=ratio >= 0.7 and load.p99_ms <= WORST_P99_MS,
        details={
            "p50_ms": load.p50_ms,
            "p99_ms": load.p99_ms,
            "floor_p50_ms": unit.p50_ms,
            "floor_p99_ms": unit.p99_ms,
            "floor_name": "compare and set, audit entry, outbox row, commit over HTTP",
            "database": "sqlite, synchronous=FULL",
            "connections": CLIENTS,
            "generator": "own client",
        },
    )


def _fill(url: str, ids: list[str]) -> None:
    database = Database.open(url)
    try:
        now = datetime.now(UTC)
        database.write_now(lambda session: session.add_all(a_task(task_id, now=now) for task_id in ids))
    finally:
        database.close()


def _batches(posts: list[Post], size: int) -> Iterator[list[Post]]:
    return (posts[start : start + size] for start in range(0, len(posts), size))


def asked() -> dict[str, Any]:
    """An evaluation of a tool call that needs approval, as a gate sends it."""
    arguments = {"amount": 50_000, "to": "4711", "memo": secrets.token_urlsafe(8)}
    return {
        "subject": {"type": "user", "id": "priya@treasury.example"},
        "resource": {"type": "tool", "id": "transfer"},
        "action": {"name": "tools/call"},
        "context": {
            "server": "treasury",
            "agent": "assistant",
            "arguments_hash": arguments_hash(arguments),
            TOOL_CALL: {"server": "treasury", "tool": "transfer", "title": "Transfer", "arguments": arguments},
        },
    }


async def _requestable(ours: Service, most: int) -> list[Post]:
    """The submissions that follow requestable denials, which are obtained here: `most`, or what can be had in time."""
    headers = ours.bearer()
    found: list[Post] = []
    end = time.monotonic() + PREPARE_SECONDS
    async with httpx2.AsyncClient(base_url=ours.url, headers=headers, trust_env=False) as http:

        async def some() -> None:
            while len(found) < most and (time.monotonic() < end or len(found) < CLIENTS):
                found.append(await _submission(http, ours, headers))

        await asyncio.gather(*(some() for _ in range(8)))
    return found[:most]


async def _submission(http: httpx2.AsyncClient, ours: Service, headers: dict[str, str]) -> Post:
    question = asked()
    answer = await http.post(EVALUATION, json=question)
    offered = answer.json().get("context", {})
    if "access_request" not in offered:
        raise LoadFailed(f"an evaluation that should be requestable was answered {answer.status_code}")
    denial = {name: offered[name] for name in ("evaluation_id", "evaluated_at", "reason")}
    denial |= {name: offered["access_request"][name] for name in ("expires_at", "binding_token", "template")}
    return Post(
        ours.url + SUBMISSION,
        as_json({**question, "denial": denial}),
        {**headers, "Idempotency-Key": secrets.token_urlsafe(16)},
    )
