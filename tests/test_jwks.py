"""Fetching other issuers' keys: PDP-35, with a counting transport instead of a network."""

import json
from contextlib import suppress
from datetime import timedelta

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream

from arap_service.jwks import FRESH_FOR, REFETCH_AFTER, STALE_AFTER, KeysUnavailable, RemoteKeys, fetch_keys
from tests.clock import FakeClock
from tests.tokens import key

URL = "https://issuer.example/jwks.json"


class Published:
    """A key set that an issuer publishes; counts how often it is asked."""

    def __init__(self, *kids: str) -> None:
        self.asked = 0
        self.body = b""
        self.publish(*kids)

    def publish(self, *kids: str) -> None:
        self.body = json.dumps({"keys": [key(kid).as_dict(private=False) for kid in kids]}).encode()

    async def fetch(self, url: str) -> bytes:
        assert url == URL
        self.asked += 1
        await anyio.lowlevel.checkpoint()
        if not self.body:
            raise KeysUnavailable("connect")
        return self.body


@pytest.fixture
def published() -> Published:
    return Published("one")


@pytest.fixture
def remote(published: Published, clock: FakeClock) -> RemoteKeys:
    return RemoteKeys(URL, fetch=published.fetch, clock=clock)


@pytest.mark.anyio
@pytest.mark.requirement("PDP-35")
async def test_new_key_id_causes_exactly_one_fetch(remote: RemoteKeys, published: Published, clock: FakeClock) -> None:
    await remote.prepare("one")
    assert (remote.find("one") is not None, published.asked) == (True, 1)
    published.publish("one", "two")
    clock.advance(REFETCH_AFTER.total_seconds())
    async with anyio.create_task_group() as group:
        for _ in range(20):
            group.start_soon(remote.prepare, "two")
    assert (remote.find("two") is not None, published.asked) == (True, 2)


@pytest.mark.anyio
@pytest.mark.requirement("PDP-35")
async def test_hundred_unknown_key_ids_cause_few_fetches(
    remote: RemoteKeys, published: Published, clock: FakeClock
) -> None:
    await remote.prepare("one")
    for number in range(100):
        await remote.prepare(f"made-up-{number}")
        clock.advance(0.5)
    assert published.asked <= 1 + timedelta(seconds=50) / REFETCH_AFTER + 1
    assert remote.find("made-up-1") is None


@pytest.mark.anyio
async def test_known_keys_stay_known_while_the_issuer_is_down_but_not_for_ever(
    remote: RemoteKeys, published: Published, clock: FakeClock
) -> None:
    await remote.prepare("one")
    published.body = b""
    clock.advance(FRESH_FOR.total_seconds() + 1)
    await remote.prepare("one")
    assert (remote.find("one") is not None, published.asked) == (True, 2)
    clock.advance(STALE_AFTER.total_seconds())
    assert remote.find("one") is None


@pytest.mark.anyio
async def test_withdrawn_key_is_forgotten_with_the_next_fetch(
    remote: RemoteKeys, published: Published, clock: FakeClock
) -> None:
    await remote.prepare("one")
    published.publish("two")
    clock.advance(FRESH_FOR.total_seconds() + 1)
    await remote.prepare("one")
    assert remote.find("one") is None


@pytest.mark.parametrize(
    "body",
    [
        b"not json",
        b"[]",
        b'{"keys": {}}',
        b'{"keys": [7, {}, {"kid": 1}, {"kid": "one", "use": "enc"}, {"kid": "one", "kty": "oct", "k": "AA"}]}',
    ],
)
@pytest.mark.anyio
async def test_answer_that_holds_no_usable_key_gives_none(
    body: bytes, remote: RemoteKeys, published: Published
) -> None:
    published.body = body
    await remote.prepare("one")
    assert remote.find("one") is None


@pytest.mark.anyio
async def test_clock_that_is_set_back_makes_no_key_set_fresher_and_stops_no_fetch(
    remote: RemoteKeys, published: Published, clock: FakeClock
) -> None:
    await remote.prepare("one")
    clock.advance(-STALE_AFTER.total_seconds() - 1)
    assert remote.find("one") is None
    published.publish("one", "two")
    await remote.prepare("two")
    assert (remote.find("two") is not None, published.asked) == (True, 2)
    clock.advance(-FRESH_FOR.total_seconds() - 1)
    published.publish("two")
    await remote.prepare("one")
    assert (remote.find("one"), published.asked) == (None, 3)


@pytest.mark.anyio
async def test_answer_that_comes_bit_by_bit_is_not_waited_for_longer_than_one_that_does_not_come() -> None:
    """Everybody who needs a key of this issuer waits for one fetch."""

    async def trickle(stream: SocketStream) -> None:
        async with stream:
            with suppress(anyio.BrokenResourceError, anyio.EndOfStream):
                await stream.receive()
                await stream.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                while True:
                    await stream.send(b"1\r\n \r\n")
                    await anyio.lowlevel.checkpoint()

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(SocketAttribute.local_port)  # noqa: S610  # no Django here
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, trickle)
        with anyio.fail_after(20), pytest.raises(KeysUnavailable) as caught:
            await fetch_keys(f"http://127.0.0.1:{port}/", seconds=0.5)
        assert caught.value.code == "timeout"
        group.cancel_scope.cancel()
