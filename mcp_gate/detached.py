"""Runs work outside of the request that asked for it.

A client that disconnects cancels its request; what the gate has begun for it must go on all the same. And work that
a request started would inherit its context, the caller's bearer token included. So the work is handed to a task that
was started before any request (PEP-56, PEP-58; design section 8).
"""

import math
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import anyio
from anyio.abc import TaskStatus

from mcp_gate.errors import Unavailable

T = TypeVar("T")
Job = Callable[[], Coroutine[Any, Any, None]]


class Detached:
    """A place where work goes on without its requester; run `serve` in the lifespan."""

    def __init__(self) -> None:
        self._send, self._receive = anyio.create_memory_object_stream[Job](math.inf)

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Start every job that arrives, until `close`; then wait for those that are under way."""
        async with self._receive, anyio.create_task_group() as group:
            task_status.started()
            async for job in self._receive:
                group.start_soon(job)

    def close(self) -> None:
        """Take no more work."""
        self._send.close()

    async def do(self, work: Callable[[], Awaitable[T]]) -> T:
        """Have `work` done and wait for it; when the waiting is cancelled, the work is not.

        Raises:
            Unavailable: the gate is shutting down.
        """
        done = anyio.Event()
        results: list[T] = []
        failures: list[Exception] = []

        async def job() -> None:
            try:
                results.append(await work())
            except Exception as error:  # noqa: BLE001 - handed to the requester, who may be gone
                failures.append(error)
            finally:
                done.set()

        try:
            self._send.send_nowait(job)
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            raise Unavailable from None
        await done.wait()
        if failures:
            raise failures[0]
        if not results:
            raise Unavailable
        return results[0]
