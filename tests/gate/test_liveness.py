"""Proof of death. Provenance: design section 8, Executor: terminalise at once only what is proved dead."""

from collections.abc import Callable

import pytest

from mcp_gate import liveness
from mcp_gate.duty import Duty
from mcp_gate.liveness import Liveness
from tests.gate.kit import Kit

pytestmark = pytest.mark.anyio


async def test_a_process_is_alive_as_long_as_it_holds_its_mark(make_kit: Callable[..., Kit]) -> None:
    kit = make_kit()
    duty = Duty(kit.store.database)
    one, other = (
        Liveness(duty, epoch=epoch, instance=None, database_file=kit.store.database.path)
        for epoch in ("wrk_1", "wrk_2")
    )
    one.mark()
    one.mark()
    other.mark()
    assert not await other.is_dead("wrk_1")
    assert not await one.is_dead("wrk_1")
    assert not await other.is_dead("wrk_never_seen")
    other.sweep()
    assert not await other.is_dead("wrk_1")
    die(one)
    assert await other.is_dead("wrk_1")
    other.sweep()
    assert not await other.is_dead("wrk_1")
    other.release()
    other.release()
    assert not await one.is_dead("wrk_2")


def die(process: Liveness) -> None:
    """What the operating system does when a process ends."""
    assert process._mark is not None
    process._mark.close()


async def test_an_instance_name_speaks_for_its_earlier_processes_only(kit: Kit) -> None:
    duty = Duty(kit.store.database)
    await duty.register("wrk_1", instance="gate-1", now=kit.clock())
    await duty.register("wrk_2", instance="gate-2", now=kit.clock())
    mine = Liveness(duty, epoch="wrk_3", instance="gate-1", database_file=None)
    mine.mark()
    assert await mine.is_dead("wrk_1")
    assert not await mine.is_dead("wrk_2")
    assert not await mine.is_dead("wrk_3")
    assert not await Liveness(duty, epoch="wrk_4", instance=None, database_file=None).is_dead("wrk_1")
    mine.forget("wrk_1")
    mine.sweep()


async def test_without_locks_of_the_system_nothing_is_proved(
    make_kit: Callable[..., Kit], monkeypatch: pytest.MonkeyPatch
) -> None:
    kit = make_kit()
    duty = Duty(kit.store.database)
    first = Liveness(duty, epoch="wrk_1", instance=None, database_file=kit.store.database.path)
    first.mark()
    die(first)
    monkeypatch.setattr(liveness, "fcntl", None)
    assert not await Liveness(duty, epoch="wrk_2", instance=None, database_file=kit.store.database.path).is_dead(
        "wrk_1"
    )
