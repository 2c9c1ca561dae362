"""How another decision point is asked: where, with what, for how long, and over which connections."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
import pytest

from arap_service.domain.upstream import Allowed, Silent
from arap_service.protocol.canonical import Tuple4
from arap_service.settings_parts import UpstreamSettings
from arap_service.upstream import Upstream
from tests.clock import FakeClock
from tests.foreign.decision_point import IDENTIFIER, ForeignDecisionPoint
from tests.gate.live import serving

pytestmark = pytest.mark.anyio
ABOUT = Tuple4({"type": "user", "id": "alice"}, {"type": "tool", "id": "open"}, {"name": "tools/call"}, {})
WELL_KNOWN = "https://decisions.example/.well-known/authzen-configuration/tenant"


@pytest.fixture
def other() -> ForeignDecisionPoint:
    made = ForeignDecisionPoint()
    made.permit("open")
    return made


@asynccontextmanager
async def asking(other: ForeignDecisionPoint, clock: FakeClock, **settings: Any) -> AsyncIterator[Upstream]:
    upstream = Upstream(
        UpstreamSettings(identifier=other.identifier, **settings), clock=clock, transport=other.transport()
    )
    try:
        yield upstream
    finally:
        await upstream.aclose()


def saying(**members: Any) -> Callable[[httpx2.Request], httpx2.Response | None]:
    """Metadata with other members."""
    said = {**ForeignDecisionPoint().metadata(), **members}
    return lambda request: httpx2.Response(200, json=said) if ".well-known" in str(request.url) else None


async def test_the_endpoint_is_discovered_once_in_a_while(other: ForeignDecisionPoint, clock: FakeClock) -> None:
    async with asking(other, clock) as upstream:
        for _ in range(3):
            assert await upstream.ask(ABOUT) == Allowed()
        clock.advance(660)
        assert await upstream.ask(ABOUT) == Allowed()
    urls = [str(request.url) for request in other.received]
    assert urls.count(WELL_KNOWN) == 2
    assert urls.count(f"{IDENTIFIER}/decide") == 4


async def test_what_was_discovered_is_used_on_while_the_metadata_is_away(
    other: ForeignDecisionPoint, clock: FakeClock
) -> None:
    async with asking(other, clock) as upstream:
        assert await upstream.ask(ABOUT) == Allowed()
        other.script = lambda request: httpx2.Response(503) if ".well-known" in str(request.url) else None
        other.received.clear()
        clock.advance(660)
        for _ in range(3):
            assert await upstream.ask(ABOUT) == Allowed()
    assert [".well-known" in str(request.url) for request in other.received].count(True) == 1


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ({"policy_decision_point": "https://other.example"}, "identifier"),
        ({"access_evaluation_endpoint": "https://evil.example/decide"}, "no_endpoint"),
        ({"access_evaluation_endpoint": "http://decisions.example/decide"}, "no_endpoint"),
        ({"access_evaluation_endpoint": "https://decisions.example:8443/decide"}, "no_endpoint"),
        ({"access_evaluation_endpoint": "https://evil@decisions.example/decide"}, "no_endpoint"),
        ({"access_evaluation_endpoint": "https://decisions.example:x/decide"}, "no_endpoint"),
        ({"access_evaluation_endpoint": 7}, "no_endpoint"),
    ],
)
async def test_metadata_that_leads_elsewhere_is_not_followed(
    other: ForeignDecisionPoint, clock: FakeClock, said: dict[str, Any], code: str
) -> None:
    other.script = saying(**said)
    async with asking(other, clock, bearer="a-secret-token") as upstream:
        assert await upstream.ask(ABOUT) == Silent(code)
    assert {request.url.host for request in other.received} == {"decisions.example"}
    assert other.asked == []


async def test_an_endpoint_can_be_configured_for_one_without_metadata(
    other: ForeignDecisionPoint, clock: FakeClock
) -> None:
    async with asking(other, clock, evaluation_endpoint=f"{IDENTIFIER}/decide") as upstream:
        assert await upstream.ask(ABOUT) == Allowed()
    assert [str(request.url) for request in other.received] == [f"{IDENTIFIER}/decide"]


async def test_it_is_asked_with_a_fixed_bearer_token(other: ForeignDecisionPoint, clock: FakeClock) -> None:
    other.token = "a-secret-token"
    async with asking(other, clock, bearer="a-secret-token") as upstream:
        assert await upstream.ask(ABOUT) == Allowed()
    async with asking(other, clock, bearer="another-token") as upstream:
        assert await upstream.ask(ABOUT) == Silent("status_401")


async def test_it_is_asked_with_a_token_by_client_credentials_and_a_new_one_when_that_is_refused(
    other: ForeignDecisionPoint, clock: FakeClock
) -> None:
    other.token = "first"
    client = {"token_endpoint": f"{IDENTIFIER}/token", "client_id": "us", "client_secret": "s3cret"}
    async with asking(other, clock, client=client, evaluation_endpoint=f"{IDENTIFIER}/decide") as upstream:
        assert await upstream.ask(ABOUT) == Allowed()
        other.token = "second"
        assert await upstream.ask(ABOUT) == Allowed()
        other.script = lambda request: (
            httpx2.Response(400, json={"error": "no"}) if request.url.path.endswith("/token") else None
        )
        other.token = "third"
        assert await upstream.ask(ABOUT) == Silent("exchange")


@pytest.mark.parametrize("token", ['"a\\nb"', '"t", "expires_in": 1' + "0" * 400, '"\\u00fc"', "[" * 100_000])
async def test_whatever_its_token_endpoint_says_is_no_error_of_ours(
    other: ForeignDecisionPoint, clock: FakeClock, token: str
) -> None:
    other.script = lambda request: (
        httpx2.Response(200, text=f'{{"access_token": {token}}}') if request.url.path.endswith("/token") else None
    )
    client = {"token_endpoint": f"{IDENTIFIER}/token", "client_id": "us", "client_secret": "s3cret"}
    async with asking(other, clock, client=client, evaluation_endpoint=f"{IDENTIFIER}/decide") as upstream:
        answer = await upstream.ask(ABOUT)
    assert answer == (Allowed() if token.startswith('"t"') else Silent("exchange"))


async def test_no_secret_shows_where_settings_are_printed() -> None:
    client = {"token_endpoint": f"{IDENTIFIER}/token", "client_id": "us", "client_secret": "canary-secret"}
    for part in ({"bearer": "canary-secret"}, {"client": client}):
        assert "canary-secret" not in repr(UpstreamSettings(identifier=IDENTIFIER, **part))


class Breaking(httpx2.AsyncBaseTransport):
    """Fails so many times, then answers."""

    def __init__(self, error: Exception, times: int) -> None:
        self.error, self.times, self.tries = error, times, 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        del request
        self.tries += 1
        if self.tries <= self.times:
            raise self.error
        return httpx2.Response(200, json={"decision": True})


@pytest.mark.parametrize(
    ("error", "times", "answer", "tries"),
    [
        (httpx2.RemoteProtocolError("gone"), 1, Allowed(), 2),
        (httpx2.RemoteProtocolError("gone"), 2, Silent("exchange"), 2),
        (httpx2.ConnectError("refused"), 2, Silent("connect"), 2),
        (httpx2.ReadTimeout("slow"), 1, Silent("timeout"), 1),
        (httpx2.PoolTimeout("busy"), 1, Silent("timeout"), 1),
        (httpx2.UnsupportedProtocol("odd"), 1, Silent("exchange"), 1),
    ],
)
async def test_a_broken_connection_is_tried_once_more_and_a_slow_one_is_not(
    clock: FakeClock, error: Exception, times: int, answer: object, tries: int
) -> None:
    transport = Breaking(error, times)
    settings = UpstreamSettings(identifier=IDENTIFIER, evaluation_endpoint=f"{IDENTIFIER}/decide")
    upstream = Upstream(settings, clock=clock, transport=transport)
    assert await upstream.ask(ABOUT) == answer
    assert transport.tries == tries
    await upstream.aclose()


class Stuck(httpx2.AsyncBaseTransport):
    """Never answers."""

    def __init__(self) -> None:
        self.waiting = 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        del request
        self.waiting += 1
        await anyio.Event().wait()
        raise AssertionError


async def test_time_for_an_answer_is_bounded_with_discovery_and_within_a_batch(clock: FakeClock) -> None:
    transport = Stuck()
    upstream = Upstream(UpstreamSettings(identifier=IDENTIFIER, timeout_seconds=0.02), clock=clock, transport=transport)
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            for _ in range(10):
                group.start_soon(upstream.ask, ABOUT)
        assert await upstream.ask(ABOUT) == Silent("timeout")
        before = transport.waiting
        assert await upstream.ask(ABOUT, deadline=anyio.current_time() - 1) == Silent("timeout")
    assert transport.waiting == before
    await upstream.aclose()


async def test_connections_are_kept_and_used_again(clock: FakeClock) -> None:
    peers: set[tuple[str, int]] = set()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        peers.add(tuple(scope["client"]))
        while (await receive()).get("more_body"):
            pass
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": json.dumps({"decision": True}).encode()})

    async with serving(app) as base:
        settings = UpstreamSettings(identifier=base, evaluation_endpoint=f"{base}/decide", timeout_seconds=10)
        upstream = Upstream(settings, clock=clock)
        for _ in range(5):
            assert await upstream.ask(ABOUT) == Allowed()
        await upstream.aclose()
    assert len(peers) == 1
