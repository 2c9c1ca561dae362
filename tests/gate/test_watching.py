"""Bells for changed tasks. Provenance: design section 8; PEP-97."""

import anyio
import pytest

from mcp_gate.watching import Watchers

pytestmark = pytest.mark.anyio


async def test_a_change_is_heard_by_those_who_watch_the_task_also_when_it_came_before_the_waiting() -> None:
    watchers = Watchers()
    with watchers.watching(["a", "b"]) as one, watchers.watching(["b"]) as two:
        watchers.ring("a")
        with anyio.fail_after(20):
            await one.wait(3600)
        with anyio.move_on_after(0) as waiting:
            await two.wait(3600)
        assert waiting.cancelled_caught
        watchers.ring("b")
        with anyio.fail_after(20):
            await one.wait(3600)
            await two.wait(3600)


async def test_a_bell_rings_once_for_what_happened_since_the_last_waiting() -> None:
    watchers = Watchers()
    with watchers.watching(["a"]) as watch:
        watchers.ring("a")
        watchers.ring("a")
        await watch.wait(3600)
        with anyio.move_on_after(0) as waiting:
            await watch.wait(3600)
        assert waiting.cancelled_caught
        await watch.wait(0)


async def test_nothing_is_kept_of_those_who_have_left() -> None:
    watchers = Watchers()
    with watchers.watching(["a"]), watchers.watching(["a"]):
        pass
    watchers.ring("a")
    assert watchers._watches == {}
