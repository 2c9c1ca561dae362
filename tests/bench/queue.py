"""What the desk and the gates ask for all day, with a thousand requests stored and with a million, on both engines.

Queue page, search for a rare and for a common word, poll of a status, a new request: in one process, in turns between
both databases, so that drift falls on both alike. `ARAP_BENCH_ROWS` stores fewer, for a trial.
"""

import asyncio
import logging
import os
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import httpx2
import structlog

from arap_service.app import create_app
from arap_service.context import Context
from arap_service.store.migrate import upgrade
from tests.bench.figures import Figure, quantile
from tests.bench.size import Size
from tests.bench.stored import multiply, store
from tests.databases import KINDS, Databases, Kind
from tests.requests.workflows import rules_of
from tests.service import bearer, service_context, settings_for
from tests.web.desk import Browser, add_person, ask

FEW: Final = 1_000
WAITING: Final = 500
MANY: Final = int(os.environ.get("ARAP_BENCH_ROWS", "1000000"))
WORST: Final = 1.3
_VOICES: Final = {"group": "maintainers"}
Call = Callable[[], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Desk:
    """A service with so many requests, a reviewer who is logged in, a gate, and one request of the gate's own."""

    browser: Browser
    gate: httpx2.AsyncClient
    task_id: str

    def calls(self) -> Mapping[str, Call]:
        """What is measured, by name."""
        return {
            "queue": lambda: self._page("/desk"),
            "everything": lambda: self._page("/desk?show=all"),
            "search_rare": lambda: self._page(f"/desk?show=all&q={self.task_id}"),
            "search_common": lambda: self._page("/desk?show=all&q=bank"),
            "status": self._status,
            "submission": lambda: ask(self.gate, "wire_transfer", {"amount": time.perf_counter()}, server="bank"),
        }

    async def _page(self, path: str) -> None:
        answer = await self.browser.get(path)
        assert answer.status_code == 200, answer.status_code

    async def _status(self) -> None:
        answer = await self.gate.get(f"/access/v1/request/{self.task_id}")
        assert answer.status_code == 200, answer.status_code


def queues(folder: Path, size: Size) -> Iterator[Figure]:
    """A figure for each call and engine."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    many = MANY if size.install else min(MANY, 2 * FEW)  # the quick run stores little
    with tempfile.TemporaryDirectory(prefix="arap-queue-", dir=folder) as place:
        databases = Databases(Path(place))
        try:
            for kind in KINDS:
                yield from asyncio.run(_engine(databases, kind, Path(place), many=many, size=size))
        finally:
            databases.close()


async def _engine(databases: Databases, kind: Kind, folder: Path, *, many: int, size: Size) -> Sequence[Figure]:
    async with AsyncExitStack() as stack:
        filled = {}
        for name, stored in (("few", FEW), ("many", many)):
            own = folder / f"{kind}-{name}"
            own.mkdir()
            filled[name] = await _filled(stack, databases.empty(kind), own, stored=stored)
        # Only now, since tokens and log-ins end while a million requests are stored.
        desks = {name: await _desk(stack, ctx) for name, ctx in filled.items()}
        rounds = max(5, size.calls // 4)
        return [
            _figure(
                call, kind, await _in_turns({name: desk.calls()[call] for name, desk in desks.items()}, rounds), many
            )
            for call in desks["few"].calls()
        ]


async def _filled(stack: AsyncExitStack, url: str, folder: Path, *, stored: int) -> Context:
    upgrade(url)
    rules = rules_of("{id: review, title: Review, groups: [maintainers]}")
    settings = settings_for(folder, database=url, policy=rules, log_level="error", limits=_NO_LIMITS)
    ctx: Context = await stack.enter_async_context(service_context(settings, clock=lambda: datetime.now(UTC)))
    add_person(ctx, "grace", name="Grace Hopper", groups=("maintainers",))
    store(ctx.database, ctx.ring, many=FEW, waiting=WAITING, now=ctx.clock(), voices=_VOICES)
    multiply(ctx.database, copies=max(0, stored - FEW) // (FEW - WAITING), now=ctx.clock())
    return ctx


async def _desk(stack: AsyncExitStack, ctx: Context) -> Desk:
    app = create_app(ctx)
    browser = Browser(app)
    stack.push_async_callback(browser.client.aclose)
    assert (await browser.log_in("grace")).status_code == 303
    transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
    gate = httpx2.AsyncClient(transport=transport, base_url=ctx.settings.identifier, headers=bearer(ctx, "gate"))
    await stack.enter_async_context(gate)
    return Desk(browser, gate, await ask(gate, "wire_transfer", {"amount": 1}, server="bank"))


async def _in_turns(calls: Mapping[str, Call], rounds: int) -> Mapping[str, Sequence[float]]:
    times: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(rounds + 2):
        for name, call in calls.items():
            began = time.perf_counter()
            await call()
            if number > 1:  # the first ones warm up
                times[name].append((time.perf_counter() - began) * 1000)
    return times


def _figure(call: str, kind: Kind, times: Mapping[str, Sequence[float]], many: int) -> Figure:
    ours, floor = quantile(times["many"], 0.5), quantile(times["few"], 0.5)
    return Figure(
        name=f"queue_{call}_{kind}" if call != "queue" else f"queue_{kind}",
        unit="ms",
        ours=ours,
        beside="floor",
        other=floor,
        goal=f"ratio <= {WORST}",
        reached=ours / floor <= WORST,
        details={
            "p50_ms": ours,
            "p99_ms": quantile(times["many"], 0.99),
            "floor_p50_ms": floor,
            "floor_name": f"the same with {FEW} requests stored",
            "stored": many,
            "waiting": WAITING,
            "database": kind,
            "generator": "in process",
        },
    )


_NO_LIMITS: Final = dict.fromkeys(
    (
        "evaluations_per_minute",
        "submissions_per_minute",
        "requestable_denials_per_minute",
        "open_requests_per_client",
    ),
    1_000_000_000,
)
