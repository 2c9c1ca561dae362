"""When to take a step: wake-ups, due times, the outbox and retention, until told to stop.

Decides nothing about tasks. A wake-up that is lost costs time only, because everything is also due by the clock
(PEP-96). SEP-2848, "the server tracks the approval by polling the backend's status source or receiving its callback".
"""

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Final, Protocol

import anyio
import anyio.abc
import structlog

from mcp_gate.lifecycle import TaskId

log = structlog.get_logger(__name__)

# What is due but already being worked on must not turn the loop into a spin.
LEAST_REST: Final = timedelta(milliseconds=20)
PURGE_EVERY: Final = timedelta(minutes=1)


class Stepper(Protocol):
    """What the poller drives."""

    async def step(self, task_id: TaskId, *, hurried: bool = False) -> datetime | None:
        """One step of one task."""
        ...


class Poller:
    """The loop of one engine. `idle` bounds the rest, because other processes' rows ring no bell here."""

    def __init__(
        self,
        stepper: Stepper,
        *,
        due: Callable[[], Awaitable[list[TaskId]]],
        soonest: Callable[[], Awaitable[datetime | None]],
        deliver: Callable[[], Awaitable[int]],
        purge: Callable[[], Awaitable[None]],
        clock: Callable[[], datetime],
        idle: timedelta = timedelta(seconds=1),
        drain: timedelta = timedelta(seconds=30),
        concurrency: int = 256,
    ) -> None:
        self._stepper = stepper
        self._due = due
        self._soonest = soonest
        self._deliver = deliver
        self._purge = purge
        self._clock = clock
        self._idle = idle
        self._drain = drain
        self._slots = anyio.CapacityLimiter(concurrency)
        self._woken: dict[TaskId, None] = {}
        self._running: set[TaskId] = set()
        self._is_delivering = False
        self._bell = anyio.Event()
        self._purged_at: datetime | None = None

    def wake(self, task_id: TaskId | None = None) -> None:
        """Asks for a step of the task, or for a look around, soon; call it in the loop's own thread."""
        if task_id is not None:
            self._woken[task_id] = None
        self._bell.set()

    async def run(self, stop: anyio.Event) -> None:
        """Steps tasks until `stop`, then gives those under way some time to finish, and ends them."""
        async with anyio.create_task_group() as steps:
            while not stop.is_set():
                self._bell = anyio.Event()
                try:
                    await self._round(steps)
                    wait = await self._wait()
                except Exception:
                    log.exception("poller_round_failed")
                    wait = self._idle
                await self._rest(stop, wait)
            with anyio.move_on_after(self._drain.total_seconds()):
                while self._running:
                    self._bell = anyio.Event()
                    if self._running:
                        await self._bell.wait()
            steps.cancel_scope.cancel()

    async def _round(self, steps: anyio.abc.TaskGroup) -> None:
        woken, self._woken = self._woken, {}
        for task_id in woken:
            self._start(steps, task_id, hurried=True)
        for task_id in await self._due():
            self._start(steps, task_id, hurried=False)
        if not self._is_delivering:  # beside the steps, because a slow backend must not hold them up
            self._is_delivering = True
            steps.start_soon(self._bring)
        now = self._clock()
        if self._purged_at is None or now >= self._purged_at + PURGE_EVERY:
            self._purged_at = now
            await self._purge()

    def _start(self, steps: anyio.abc.TaskGroup, task_id: TaskId, *, hurried: bool) -> None:
        if task_id in self._running:
            if hurried:  # what woke it may be newer than what the running step saw
                self._woken[task_id] = None
            return
        self._running.add(task_id)
        steps.start_soon(self._step, task_id, hurried)

    async def _step(self, task_id: TaskId, hurried: bool) -> None:  # noqa: FBT001 - task groups pass by position
        try:
            async with self._slots:
                await self._stepper.step(task_id, hurried=hurried)
        except Exception:
            log.exception("step_failed", task_id=task_id)
        finally:
            self._running.discard(task_id)
            self._bell.set()

    async def _bring(self) -> None:
        try:
            await self._deliver()
        except Exception:
            log.exception("deliveries_failed")
        finally:
            self._is_delivering = False

    async def _wait(self) -> timedelta:
        soonest = await self._soonest()
        if soonest is None:
            return self._idle
        return max(LEAST_REST, min(self._idle, soonest - self._clock()))

    async def _rest(self, stop: anyio.Event, wait: timedelta) -> None:
        with anyio.move_on_after(wait.total_seconds()):
            async with anyio.create_task_group() as either:

                async def until(event: anyio.Event) -> None:
                    await event.wait()
                    either.cancel_scope.cancel()

                either.start_soon(until, stop)
                either.start_soon(until, self._bell)
