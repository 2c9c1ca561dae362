"""Work that outlives the request that asked for it (design section 8; notes on SDK 2.3)."""

from collections.abc import AsyncIterator
from contextvars import ContextVar

import anyio
import pytest

from mcp_gate.detached import Detached
from mcp_gate.errors import Unavailable

pytestmark = pytest.mark.anyio

_credential: ContextVar[str | None] = ContextVar("credential", default=None)


@pytest.fixture
async def detached() -> AsyncIterator[Detached]:
    place = Detached()
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            await group.start(place.serve)
            yield place
            place.close()


async def test_the_requester_gets_the_result(detached: Detached) -> None:
    async def work() -> int:
        return 7

    assert await detached.do(work) == 7


async def test_the_requester_gets_the_error(detached: Detached) -> None:
    async def work() -> None:
        raise KeyError("k")

    with pytest.raises(KeyError):
        await detached.do(work)


async def test_work_goes_on_when_its_requester_is_cancelled(detached: Detached) -> None:
    begun, may_end, ended = anyio.Event(), anyio.Event(), anyio.Event()

    async def work() -> None:
        begun.set()
        await may_end.wait()
        ended.set()

    async with anyio.create_task_group() as group:
        group.start_soon(detached.do, work)
        await begun.wait()
        group.cancel_scope.cancel()
    may_end.set()
    await ended.wait()


async def test_nothing_of_the_requests_context_reaches_the_work(detached: Detached) -> None:
    async def work() -> str | None:
        return _credential.get()

    token = _credential.set("bearer")
    try:
        assert await detached.do(work) is None
    finally:
        _credential.reset(token)


async def test_after_closing_no_work_is_taken(detached: Detached) -> None:
    detached.close()

    async def work() -> None:
        raise AssertionError

    with pytest.raises(Unavailable):
        await detached.do(work)
