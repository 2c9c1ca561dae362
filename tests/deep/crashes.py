"""Kills and freezes real gates, and takes their databases away: at every named point, then by chance under load.

Each run is one fault at one passage of one point on one engine. In the first runs one call is made and its end is
known; in the others several calls are under way, and each must have run at most once for each task that it became, and
once if so it was said.
"""

import sys
import tempfile
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, Final

import anyio
import httpx2

from arap_service.client import Conflict, Unavailable
from arap_service.store.migrate import upgrade
from mcp_gate.client import Disposition
from mcp_gate.migrate import upgrade as upgrade_gate
from tests.crash.claims import claimed_by_call, ran_too_often
from tests.crash.faults import EXECUTED, FAULTS, FROZEN, UNKNOWN, Trouble, befall, end_of, ends_as_it_must, surroundings
from tests.crash.nursery import Nursery, nursery
from tests.crash.world import GATE_DATABASE, Story, explain, invent
from tests.databases import KINDS, Databases, Kind
from tests.patience import pause

KILLED: Final = "killed"
MOST_CALLS: Final = 6
RUN_SECONDS: Final = 240.0
# A service is kept for so many runs, because starting one takes longer than the rest.
SEASON: Final = 12


@dataclass(frozen=True, slots=True)
class Run:
    """What was tried, how many calls were under way, how often they ran, and what went wrong, if something did.

    `again` are calls that were made once more after they had ended unanswered, approved once more, and ran once more.
    """

    engine: Kind
    fault: str
    point: str
    calls: int
    executed: int = 0
    unknown: int = 0
    again: int = 0
    is_exact: bool = True
    trouble: str | None = None


def told(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """The runs by engine, fault and point, with what went wrong."""
    found: dict[tuple[str, str, str], list[Run]] = defaultdict(list)
    for run in runs:
        found[run.engine, run.fault, run.point].append(run)
    rows: list[dict[str, Any]] = []
    for (engine, fault, point), alike in sorted(found.items()):
        totals = Counter[str]()
        for run in alike:
            counts = {"calls": run.calls, "executed": run.executed, "unknown": run.unknown, "again": run.again}
            totals.update(**counts, held=run.trouble is None)
        troubles = [run.trouble for run in alike if run.trouble is not None]
        rows.append({"engine": engine, "fault": fault, "point": point, "runs": len(alike), **totals})
        rows[-1] |= {"troubles": troubles} if troubles else {}
    return rows


def crash_runs(seed: int, *, most: int, minutes: float, jobs: int) -> list[Run]:
    """Make up to `most` runs within some minutes, `jobs` at once."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="arap-crashes-")))
        (folder / "databases").mkdir()
        databases = Databases(folder / "databases")
        stack.callback(databases.close)
        # Most of a run is the start of its servers, and most of that are imports.
        forks = stack.enter_context(nursery(folder)) if sys.platform == "linux" else None
        storm = Storm(seed, databases, folder, nursery=forks, most=most, until=time.monotonic() + 60 * minutes)
        anyio.run(storm.rage, jobs)
        return storm.runs


class Storm:
    """The runs of one seed."""

    def __init__(
        self, seed: int, databases: Databases, folder: Path, *, nursery: Nursery | None, most: int, until: float
    ) -> None:
        self.runs: list[Run] = []
        self._seed = seed
        self._databases = databases
        self._folder = folder
        self._nursery = nursery
        self._most = most
        self._until = until
        self._numbers = count(1)
        self._amounts = count(1)
        self._certain = iter([(kind, fault, point) for point in FROZEN for fault in FAULTS for kind in KINDS])

    async def rage(self, jobs: int) -> None:
        """Make runs until there were enough or the time is over."""
        async with anyio.create_task_group() as group:
            for job in range(jobs):
                group.start_soon(self._work, job)

    def _may_go_on(self) -> bool:
        return time.monotonic() < self._until

    async def _work(self, job: int) -> None:
        for kind, fault, point in self._certain:
            if not (self._may_go_on() and next(self._numbers) <= self._most):
                return
            await self._attempt(Run(kind, fault, point, 1), partial(self._alone, kind, Trouble(fault, point)))
        for season in count():
            kind = KINDS[(job + season) % len(KINDS)]
            if not await self._season(kind):
                return

    async def _attempt(self, run: Run, make: Callable[[], Awaitable[dict[str, Any]]]) -> None:
        found: dict[str, Any] = {}
        try:
            with anyio.fail_after(RUN_SECONDS):
                found = await make()
        except Exception as error:  # noqa: BLE001 - one run that went wrong must not end the others
            traceback.print_exception(error)
            found = {"trouble": _cause(error), "is_exact": False}
        self.runs.append(Run(**{**_fields(run), **found}))
        said = found.get("trouble") or "held"
        print(f"{len(self.runs)}: {run.fault} at {run.point} on {run.engine}, {run.calls} calls: {said}", flush=True)

    def _story(self, kind: Kind) -> Story:
        folder = Path(tempfile.mkdtemp(dir=self._folder))
        service = self._databases.copy_of(kind, "service", upgrade)
        return invent(folder, service_database=service, gate_database=self._gate_database(kind), nursery=self._nursery)

    def _gate_database(self, kind: Kind) -> str:
        return self._databases.copy_of(kind, "gate", upgrade_gate)

    async def _alone(self, kind: Kind, trouble: Trouble) -> dict[str, Any]:
        """One call, whose end is known."""
        is_exact = await ends_as_it_must(self._story(kind), trouble, self._databases)
        runs, end = trouble.end
        return {"is_exact": is_exact, "executed": runs, "unknown": int(end is UNKNOWN)}

    async def _season(self, kind: Kind) -> bool:
        """Several runs before one service; whether there may be more."""
        story = self._story(kind)
        try:
            await story.service.start()
            async with anyio.create_task_group() as group:
                group.start_soon(approve_all, story)
                for _ in range(SEASON):
                    if not (self._may_go_on() and (number := next(self._numbers)) <= self._most):
                        group.cancel_scope.cancel()
                        return False
                    await self._by_chance(story, kind, Random(f"{self._seed}:{number}"))  # noqa: S311 - a storm that can be repeated
                group.cancel_scope.cancel()
        finally:
            for server in (story.gate, story.other, story.service):
                server.kill()
        assert story.broken_chains() == {}
        return True

    async def _by_chance(self, story: Story, kind: Kind, chance: Random) -> None:
        story.gate.environment = {**story.gate.environment, GATE_DATABASE: self._gate_database(kind)}
        story.other.environment = {**story.other.environment, GATE_DATABASE: story.gate.environment[GATE_DATABASE]}
        story.agents.clear()
        crowd = [story.another(next(self._amounts)) for _ in range(chance.randint(2, MOST_CALLS))]
        fault, point = chance.choice([KILLED, *FAULTS]), chance.choice([*FROZEN])
        passage = chance.randint(1, len(crowd))
        run = Run(kind, fault, point, len(crowd))
        tried = partial(self._together, story, crowd, fault=fault, point=point, passage=passage, chance=chance)
        await self._attempt(run, tried)
        for server in (story.gate, story.other):
            server.kill()

    async def _together(
        self, story: Story, crowd: Sequence[Story], *, fault: str, point: str, passage: int, chance: Random
    ) -> dict[str, Any]:
        ends: dict[int, Disposition] = {}

        async def one(agent: Story) -> None:
            ends[agent.call["amount"]] = await end_of(agent)

        async def finish() -> None:
            async with anyio.create_task_group() as group:
                for agent in crowd:
                    group.start_soon(one, agent)

        is_exact = True
        before = await story.executions()
        try:
            if fault == KILLED:
                await _die(story, f"{point}:{passage}", chance, finish)
            else:
                (named,) = [known for known in FAULTS if known == fault]
                is_exact = await befall(story, Trouble(named, point, passage), self._databases, finish)
        except BaseException as error:
            explain(error, story)
            raise
        ran = await story.executions() - before
        own = {agent.call["amount"]: agent.own_executions() for agent in crowd}
        assert ran == sum(own.values()), "the tool ran with what nobody asked for"
        claimed = await anyio.to_thread.run_sync(claimed_by_call, story.gate.environment[GATE_DATABASE])
        assert (wrong := ran_too_often([*own.values()], claimed)) is None, wrong
        for agent in crowd:
            ran_of, end = own[agent.call["amount"]], ends[agent.call["amount"]]
            assert ran_of <= agent.calls, f"{ran_of} executions after {agent.calls} calls"
            assert end is UNKNOWN or (end is EXECUTED and ran_of >= 1), f"{end} after {ran_of} executions"
        unknown, again = sum(end is UNKNOWN for end in ends.values()), sum(many > 1 for many in own.values())
        return {"is_exact": is_exact, "executed": ran, "unknown": unknown, "again": again}


async def _die(story: Story, passage: str, chance: Random, finish: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Kill the gate at its point; it is started again, or another one takes its place."""
    await story.gate.start({**surroundings(story), "MCP_GATE_KILL_AT": passage})
    async with anyio.create_task_group() as group:
        group.start_soon(finish)
        await story.gate.killed_itself()
        await chance.choice((story.gate, story.other)).start(surroundings(story))


async def approve_all(story: Story) -> None:
    """Approve whatever turns up, until cancelled."""
    async with story.resolver() as resolver:
        while True:
            try:
                async for row in resolver.queue(status="pending", mine=True):
                    await resolver.decide(row["id"], "approve", version=row["version"])
            except (Unavailable, Conflict, httpx2.HTTPError) as error:
                story.failures.append(repr(error))
            await pause()


def _fields(run: Run) -> dict[str, Any]:
    return {name: getattr(run, name) for name in Run.__slots__}


def _cause(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}".splitlines()[0]
