"""How the client stays with a stream of events: broken connections, empty ones, refusals, and what it sends."""

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import httpx2
import pytest
import stamina

from arap_service.client import AsyncResolver, ClientCredentials, Resolver, ResolverError, Unavailable

Handler = Callable[[httpx2.Request], httpx2.Response]
IDENTIFIER = "https://approvals.example"


class Broken(httpx2.SyncByteStream, httpx2.AsyncByteStream):
    """A body that is cut off after some events."""

    def __init__(self, text: str) -> None:
        self._text = text.encode()

    def __iter__(self) -> Iterator[bytes]:
        yield self._text
        raise httpx2.ReadError("cut")

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._text
        raise httpx2.ReadError("cut")


@pytest.fixture(autouse=True)
def _impatient() -> Iterator[None]:
    with stamina.set_testing(True, attempts=3, cap=True):
        yield


def event(position: int, name: str) -> str:
    return f'id: {position}\nevent: {name}\ndata: {{"event": "{name}"}}\n\n'


def answering(*bodies: str | Exception | int, asked: list[str | None]) -> Handler:
    """Gives these in turn: events and then a cut, a fault of the connection, or a bare status."""
    left = list(bodies)

    def handle(request: httpx2.Request) -> httpx2.Response:
        asked.append(request.headers.get("last-event-id"))
        given = left.pop(0)
        if isinstance(given, Exception):
            raise given
        if isinstance(given, int):
            return httpx2.Response(given, json={"type": "urn:x-arap:problem:forbidden"})
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, stream=Broken(given))

    return handle


def heard(handler: Handler, count: int, last: str | None = None) -> list[dict[str, Any]]:
    with Resolver(IDENTIFIER, auth=httpx2.Auth(), transport=httpx2.MockTransport(handler)) as client:
        events = client.events(last)
        return [next(events) for _ in range(count)]


async def heard_too(handler: Handler, count: int, last: str | None = None) -> list[dict[str, Any]]:
    async with AsyncResolver(IDENTIFIER, auth=httpx2.Auth(), transport=httpx2.MockTransport(handler)) as client:
        events = client.events(last)
        return [await anext(events) for _ in range(count)]


BODIES = (
    "retry: 1\nid: 7\n\n" + event(8, "submitted"),
    httpx2.ConnectError("away"),
    503,
    "id: 8\n\nid: 9\n\n",
    "id: 9\n\n" + event(10, "approved") + "data: no json\n\n" + event(11, "reported"),
)
HEARD = [{"event": name, "id": str(number)} for number, name in ((8, "submitted"), (10, "approved"), (11, "reported"))]


def test_broken_stream_goes_on_after_what_was_read_last() -> None:
    """Marks without data move the place too, so that nothing is looked at twice."""
    asked: list[str | None] = []
    assert heard(answering(*BODIES, asked=asked), 3, "5") == HEARD
    assert asked == ["5", "8", "8", "8", "9"]


@pytest.mark.anyio
async def test_asynchronous_client_goes_on_in_the_same_way() -> None:
    asked: list[str | None] = []
    assert await heard_too(answering(*BODIES, asked=asked), 3) == HEARD
    assert asked == [None, "8", "8", "8", "9"]


@pytest.mark.anyio
async def test_service_that_stays_away_or_refuses_is_reported() -> None:
    away = [httpx2.ConnectError("away")] * 9
    with pytest.raises(Unavailable):
        heard(answering(*away, asked=[]), 1)
    with pytest.raises(Unavailable):
        await heard_too(answering(*away, asked=[]), 1)
    with pytest.raises(ResolverError):
        heard(answering(403, asked=[]), 1)
    with pytest.raises(ResolverError):
        await heard_too(answering(403, asked=[]), 1)


@pytest.mark.parametrize("kind", ["text/html", "application/json"])
def test_answer_that_is_no_stream_is_none(kind: str) -> None:
    def handle(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": kind}, text="hello")

    with pytest.raises(Unavailable):
        heard(handle, 1)


@pytest.mark.anyio
async def test_token_source_does_not_wait_for_the_end_of_a_stream() -> None:
    """It reads the token endpoint's answers and nobody else's: a stream has no end to be read to."""

    def handle(request: httpx2.Request) -> httpx2.Response:
        if request.url.path == "/token":
            return httpx2.Response(200, json={"access_token": "t", "expires_in": 60})
        assert request.headers["authorization"] == "Bearer t"
        return answering(event(1, "submitted"), asked=[])(request)

    auth = ClientCredentials("https://issuer.example/token", client_id="c", client_secret="s")
    transport = httpx2.MockTransport(handle)
    with Resolver(IDENTIFIER, auth=auth, transport=transport) as client:
        assert next(client.events())["id"] == "1"
    async with AsyncResolver(IDENTIFIER, auth=auth, transport=transport) as other:
        assert (await anext(other.events()))["id"] == "1"
