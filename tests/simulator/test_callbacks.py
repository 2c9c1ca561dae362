"""Callbacks that go wrong, as a real receiver gets them."""

import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from arap_service.courier import Courier
from arap_service.protocol.callback import CallbackRejected, verify
from tests.clock import FakeClock
from tests.receiver import Received, Receiver, receiving
from tests.simulator.world import Rehearsal, rehearsing

pytestmark = pytest.mark.anyio
KEY = b"a key that both sides know: 32 by"
STATE = "opaque to the service"


@asynccontextmanager
async def called_back(folder: Path, database: str, **changes: Any) -> AsyncIterator[tuple[Rehearsal, Receiver]]:
    """A simulator that may call a receiver back."""
    async with receiving() as receiver:
        destination = f"127.0.0.1:{receiver.port}"
        callbacks = {
            "gate": {
                "endpoints": [f"http://{destination}/callbacks"],
                "keys": [base64.b64encode(KEY).decode()],
                "allow_destinations": [destination],
            }
        }
        async with rehearsing(folder, database=database, callbacks=callbacks, **changes) as world:
            yield world, receiver


async def opened(world: Rehearsal, receiver: Receiver) -> dict[str, Any]:
    """A task that asks to be called back."""
    return await world.open(callback={"endpoint": f"http://127.0.0.1:{receiver.port}/callbacks", "state": STATE})


async def ended(world: Rehearsal, receiver: Receiver) -> dict[str, Any]:
    """The same, approved, with its callback given to the courier."""
    task = await opened(world, receiver)
    await world.simulator.round()
    await Courier(world.live.context, jitter=lambda: 0.0).round()
    return task


def says(received: Received) -> tuple[str, str]:
    """Task and status of a callback."""
    task = json.loads(received.body)["task"]
    return task["id"], task["status"]


async def test_twice_is_the_same_delivery_twice(service_url: str, tmp_path: Path) -> None:
    async with called_back(tmp_path, service_url) as (world, receiver):
        await world.arm("approve")
        await world.arm("callback-twice")
        task = await ended(world, receiver)
        noted = await world.seen("callback")
    first, second = receiver.received
    assert says(first) == says(second) == (task["id"], "approved")
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert [each["status"] for each in noted] == [204, 204]


async def test_late_comes_at_its_time_with_a_proof_of_that_time(
    sqlite_service_url: str, tmp_path: Path, clock: FakeClock
) -> None:
    async with called_back(tmp_path, sqlite_service_url, clock=clock) as (world, receiver):
        await world.arm("approve")
        await world.arm("callback-late", after=900)
        await ended(world, receiver)
        clock.advance(899)
        await world.simulator.round()
        assert receiver.received == []
        clock.advance(1)
        await world.simulator.round()
        (received,) = receiver.received
        verify(received.body, received.headers, keys=[KEY], now=clock.now(), tolerance_seconds=0)
        await world.simulator.round()
        assert len(receiver.received) == 1


async def test_lost_never_comes(sqlite_service_url: str, tmp_path: Path) -> None:
    async with called_back(tmp_path, sqlite_service_url) as (world, receiver):
        await world.arm("approve")
        await world.arm("callback-lost", times=1)
        await ended(world, receiver)
        assert receiver.received == []
        second = await ended(world, receiver)
        assert [says(each) for each in receiver.received] == [(second["id"], "approved")]


async def test_out_of_order_comes_after_the_next_one(sqlite_service_url: str, tmp_path: Path) -> None:
    async with called_back(tmp_path, sqlite_service_url) as (world, receiver):
        await world.arm("approve")
        await world.arm("callback-out-of-order", times=1)
        first = await ended(world, receiver)
        assert receiver.received == []
        second = await ended(world, receiver)
    assert [says(each)[0] for each in receiver.received] == [second["id"], first["id"]]


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        ("callback-forged", "signature"),
        ("callback-wrong-key", "signature"),
        ("callback-stale", "timestamp"),
    ],
)
async def test_what_nobody_should_believe_can_be_told_by_nothing_but_its_proof(
    sqlite_service_url: str, tmp_path: Path, clock: FakeClock, behaviour: str, reason: str
) -> None:
    async with called_back(tmp_path, sqlite_service_url, clock=clock) as (world, receiver):
        await world.arm(behaviour)
        task = await opened(world, receiver)
        for _ in range(2):
            await world.simulator.round()
        assert (await world.status(task))["task"]["status"] == "pending"
    (received,) = receiver.received
    claimed = json.loads(received.body)
    assert (claimed["task"]["status"], claimed["state"]) == ("approved", STATE)
    assert claimed["task"]["status_endpoint"] == task["status_endpoint"]
    with pytest.raises(CallbackRejected) as rejected:
        verify(received.body, received.headers, keys=[KEY], now=clock.now())
    assert rejected.value.reason == reason
    if behaviour == "callback-stale":
        verify(received.body, received.headers, keys=[KEY], now=clock.now() - timedelta(hours=1))


async def test_a_misleading_callback_is_authentic_and_names_another_endpoint_whose_visitors_are_noted(
    sqlite_service_url: str, tmp_path: Path, clock: FakeClock
) -> None:
    async with called_back(tmp_path, sqlite_service_url, clock=clock) as (world, receiver):
        await world.arm("callback-misleading")
        task = await opened(world, receiver)
        await world.simulator.round()
        (received,) = receiver.received
        verify(received.body, received.headers, keys=[KEY], now=clock.now())
        named = json.loads(received.body)["task"]["status_endpoint"]
        assert named != task["status_endpoint"]
        assert (await world.point.get(named)).status_code == 404
        (visit,) = await world.seen("decoy")
    assert visit["task"] == task["id"]


async def test_a_receiver_that_cannot_be_reached_is_noted_and_holds_nothing_up(
    sqlite_service_url: str, tmp_path: Path
) -> None:
    async with called_back(tmp_path, sqlite_service_url) as (world, receiver):
        receiver.answer(b"")
        await world.arm("callback-forged")
        await world.arm("approve")
        task = await opened(world, receiver)
        await world.simulator.round()
        (noted,) = await world.seen("callback")
        assert (await world.status(task))["task"]["status"] == "approved"
    assert "status" not in noted
