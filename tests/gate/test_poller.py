"""The loop. Provenance: SEP-2848 (poll or callback); PEP-96: a lost wake-up costs time only."""

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any

import anyio
import pytest

from mcp_gate.lifecycle import TaskId
from mcp_gate.poller import Poller
from tests.clock import START, FakeClock

pytestmark = pytest.mark.anyio
ONE, TWO = TaskId("tsk_1"), TaskId("tsk_2")


class Scene:
    """What the poller drives, scripted: rounds of due tasks, and what a step does."""

    def __init__(self, *rounds: list[TaskId], step: Callable[[TaskId], Awaitable[None]] | None = None) -> None:
        self.rounds = list(rounds)
        self.steps: list[tuple[TaskId, bool]] = []
        self.delivered = 0
        self.purged = 0
        self.enough = anyio.Event()
        self.clock = FakeClock()
        self._step = step

    async def step(self, task_id: TaskId, *, hurried: bool = False) -> datetime | None:
        self.steps.append((task_id, hurried))
        if self._step is not None:
            await self._step(task_id)
        return None

    async def due(self) -> list[TaskId]:
        return self.rounds.pop(0) if self.rounds else []

    async def soonest(self) -> datetime | None:
        return START if self.rounds else None

    async def deliver(self) -> int:
        self.delivered += 1
        if not self.rounds:
            self.enough.set()
        return 0

    async def purge(self) -> None:
        self.purged += 1

    def poller(self, **options: Any) -> Poller:
        return Poller(
            self,
            due=self.due,
            soonest=self.soonest,
            deliver=self.deliver,
            purge=self.purge,
            clock=self.clock,
            **options,
        )


async def run(scene: Scene, poller: Poller, until: anyio.Event) -> None:
    stop = anyio.Event()
    with anyio.fail_after(40):
        async with anyio.create_task_group() as group:
            group.start_soon(poller.run, stop)
            await until.wait()
            stop.set()


@pytest.mark.requirement("PEP-96")
async def test_due_tasks_are_stepped_without_any_wake_up() -> None:
    scene = Scene([ONE], [TWO])
    await run(scene, scene.poller(), scene.enough)
    assert scene.steps == [(ONE, False), (TWO, False)]
    assert scene.delivered >= 2
    assert scene.purged == 1


async def test_a_wake_up_ends_the_rest_and_hurries_the_step() -> None:
    stepped = anyio.Event()

    async def step(_: TaskId) -> None:
        stepped.set()

    scene = Scene(step=step)
    poller = scene.poller(idle=timedelta(hours=1))
    with anyio.fail_after(40):
        async with anyio.create_task_group() as group:
            stop = anyio.Event()
            group.start_soon(poller.run, stop)
            await scene.enough.wait()
            poller.wake(ONE)
            await stepped.wait()
            stop.set()
    assert scene.steps == [(ONE, True)]


async def test_a_task_is_stepped_by_one_step_at_a_time_and_again_if_woken_meanwhile() -> None:
    go, again = anyio.Event(), anyio.Event()
    running: list[TaskId] = []

    async def step(task_id: TaskId) -> None:
        assert task_id not in running
        running.append(task_id)
        if len(scene.steps) == 1:
            poller.wake(ONE)
            await go.wait()
        else:
            again.set()
        running.remove(task_id)

    scene = Scene([ONE], [ONE], [ONE], step=step)
    poller = scene.poller(idle=timedelta(milliseconds=5))
    with anyio.fail_after(40):
        async with anyio.create_task_group() as group:
            stop = anyio.Event()
            group.start_soon(poller.run, stop)
            await scene.enough.wait()
            assert scene.steps == [(ONE, False)]
            go.set()
            await again.wait()
            stop.set()
    assert scene.steps[:2] == [(ONE, False), (ONE, True)]


async def test_a_step_that_breaks_harms_no_other() -> None:
    async def step(task_id: TaskId) -> None:
        if task_id == ONE:
            raise RuntimeError("broken")

    scene = Scene([ONE, TWO], step=step)
    await run(scene, scene.poller(), scene.enough)
    assert sorted(scene.steps) == [(ONE, False), (TWO, False)]


async def test_a_round_that_breaks_is_followed_by_the_next() -> None:
    scene = Scene([ONE])
    failures = iter([True])

    async def due() -> list[TaskId]:
        if next(failures, False):
            raise RuntimeError("the database is away")
        return scene.rounds.pop(0) if scene.rounds else []

    scene.due = due  # type: ignore[method-assign]  # the script of this scene
    await run(scene, scene.poller(idle=timedelta(milliseconds=5)), scene.enough)
    assert scene.steps == [(ONE, False)]


@pytest.mark.parametrize(("drain", "is_finished"), [(timedelta(seconds=8), True), (timedelta(0), False)])
async def test_steps_under_way_get_some_time_to_finish_and_no_more(drain: timedelta, *, is_finished: bool) -> None:
    begun, stop, finished = anyio.Event(), anyio.Event(), []

    async def step(_: TaskId) -> None:
        begun.set()
        await stop.wait()
        if drain == timedelta(0):
            await anyio.Event().wait()
        finished.append(True)

    scene = Scene([ONE], step=step)
    poller = scene.poller(drain=drain)
    with anyio.fail_after(40):
        async with anyio.create_task_group() as group:
            group.start_soon(poller.run, stop)
            await begun.wait()
            stop.set()
    assert bool(finished) is is_finished


async def test_a_courier_that_is_slow_or_breaks_holds_up_nothing() -> None:
    stepped, calls = anyio.Event(), []

    async def step(_: TaskId) -> None:
        stepped.set()

    async def deliver() -> int:
        calls.append(1)
        if len(calls) == 1:
            raise RuntimeError("broken")
        await anyio.Event().wait()
        return 0

    scene = Scene([], [], [ONE], step=step)
    scene.deliver = deliver  # type: ignore[method-assign]  # the script of this scene
    await run(scene, scene.poller(drain=timedelta(0)), stepped)
    assert scene.steps == [(ONE, False)]
    assert len(calls) == 2


async def test_old_results_are_purged_once_a_minute() -> None:
    scene = Scene([], [], [])
    poller = scene.poller()
    await run(scene, poller, scene.enough)
    assert scene.purged == 1
    scene.clock.advance(60)
    scene.rounds, scene.enough = [[]], anyio.Event()
    await run(scene, poller, scene.enough)
    assert scene.purged == 2
