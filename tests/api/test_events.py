"""Server-sent events over real HTTP: design.md section 6, read with the client library and by hand."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import httpx2
import pytest

from arap_service.api import events as stream
from arap_service.client import AsyncResolver, Resolver, ResolverError
from tests.live import Live, serving
from tests.peers import POLICY, RESOLVER, Peers, peers, question

LEGAL = """
  - {id: internal-rule-3, when: resource.id == "merger", request: merger}
templates:
  merger:
    title: Merger
    explanation: The company changes.
    steps: [{id: other, title: Other engine, resolvers: [second-resolver]}]
"""


@pytest.fixture
async def live(service_url: str, tmp_path: Path) -> AsyncIterator[Live]:
    """A service that listens; the clock is the real one, whose hands the tests don't look at."""
    policy = POLICY.replace("\ntemplates:\n", LEGAL, 1)
    async with serving(tmp_path, database=service_url, policy=policy, background=False) as opened:
        yield opened


@pytest.fixture
async def both(live: Live) -> AsyncIterator[Peers]:
    """Both sides of the same service, in this process: their changes have to reach the streams all the same."""
    opened = peers(live.context)
    yield opened
    await opened.aclose()


def reader(live: Live, client_id: str = "reader") -> AsyncResolver:
    return AsyncResolver(live.url, auth=live.credentials(client_id))


async def take(events: AsyncIterator[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    with anyio.fail_after(55):
        return [await anext(events) for _ in range(count)]


async def begun(live: Live, client_id: str = "reader") -> str:
    """The id that a stream of this client would begin at now."""
    headers = peers(live.context).authenticated(client_id)
    async with (
        httpx2.AsyncClient(base_url=live.url, headers=headers) as client,
        client.stream("GET", f"{RESOLVER}/events") as response,
    ):
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["cache-control"] == "no-store"
        async for sent in httpx2.EventSource(response):
            return str(sent.id)
    raise AssertionError


@pytest.mark.anyio
async def test_events_arrive_as_they_happen_and_go_on_after_the_last_one_seen(live: Live, both: Peers) -> None:
    """Submitted, voted and approved, in this order; whoever comes back misses nothing and hears nothing twice."""
    start = await begun(live)
    task = await both.task()
    async with reader(live) as client:
        events = client.events(start)
        [first] = await take(events, 1)
        assert (first["event"], first["request"]) == ("submitted", task["id"])
        await both.decide(task["id"])
        rest = await take(events, 2)
        assert {each["event"] for each in rest} == {"voted", "approved"}
        await events.aclose()  # type: ignore[attr-defined]
        again = client.events(first["id"])
        assert await take(again, 2) == rest
        await again.aclose()  # type: ignore[attr-defined]


@pytest.mark.anyio
async def test_stream_that_begins_now_tells_of_nothing_before(live: Live, both: Peers) -> None:
    await both.task(question(1))
    async with reader(live) as client:
        heard: list[dict[str, Any]] = []
        enough = anyio.Event()

        async def listen() -> None:
            events = client.events()
            async for event in events:
                heard.append(event)
                enough.set()
                return

        with anyio.fail_after(55):
            async with anyio.create_task_group() as group:
                group.start_soon(listen)
                while not stream_count(live):
                    await anyio.lowlevel.checkpoint()
                later = await both.task(question(2))
                await enough.wait()
        assert [each["request"] for each in heard] == [later["id"]]


def stream_count(live: Live) -> int:
    return int(live.streams.count)


@pytest.mark.anyio
@pytest.mark.requirement("ARS-63")
async def test_resolver_hears_only_of_requests_that_name_him(live: Live, both: Peers) -> None:
    """By the right to decide alone; the right to read shows all."""
    start = await begun(live)
    merger = await both.task(question(3, tool="merger"))
    transfer = await both.task(question(4))
    only = "approval:resolve"
    async with AsyncResolver(live.url, auth=live.credentials("resolver", scope=only)) as client:
        events = client.events(start)
        [first] = await take(events, 1)
        assert first["request"] == transfer["id"]
        await events.aclose()  # type: ignore[attr-defined]
    async with reader(live) as client:
        events = client.events(start)
        assert {each["request"] for each in await take(events, 2)} == {merger["id"], transfer["id"]}
        await events.aclose()  # type: ignore[attr-defined]


@pytest.mark.anyio
async def test_event_names_what_happened_and_nothing_that_was_said(live: Live, both: Peers) -> None:
    start = await begun(live)
    task = await both.task()
    async with reader(live) as client:
        events = client.events(start)
        [event] = await take(events, 1)
        await events.aclose()  # type: ignore[attr-defined]
    assert event.keys() == {"id", "event", "request", "evaluation_id", "at"}
    assert event["request"] == task["id"]
    assert event["evaluation_id"].startswith("ev_")


@pytest.mark.anyio
async def test_another_instance_goes_on_where_the_first_one_stopped(live: Live, both: Peers, tmp_path: Path) -> None:
    """What happens at one is heard at the other: by notice on PostgreSQL, by the next look on SQLite."""
    start = await begun(live)
    task = await both.task()
    settings = live.context.settings
    async with serving(
        tmp_path, database=settings.database, policy=POLICY, background=False, identifier=settings.identifier
    ) as other:
        credentials = live.credentials("reader")
        async with AsyncResolver(other.url, auth=credentials) as client:
            events = client.events(start)
            assert [each["request"] for each in await take(events, 1)] == [task["id"]]
            await events.aclose()  # type: ignore[attr-defined]


@pytest.mark.anyio
async def test_silence_is_broken_by_signs_of_life(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    """And by the place that has been reached, so that coming back costs no second look at what was not for him."""
    monkeypatch.setattr(stream, "HEARTBEAT_SECONDS", 0.01)
    headers = peers(live.context).authenticated("reader")
    async with (
        httpx2.AsyncClient(base_url=live.url, headers=headers) as client,
        client.stream("GET", f"{RESOLVER}/events") as response,
    ):
        seen = []
        with anyio.fail_after(40):
            async for sent in httpx2.EventSource(response):
                seen.append(sent)
                if len(seen) == 3:
                    break
    assert [each.data for each in seen] == ["", "", ""]
    assert {each.id for each in seen} == {seen[0].id}
    assert seen[0].retry == 1000


@pytest.mark.anyio
async def test_stream_ends_after_its_time_and_when_the_service_stops(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The token was proved when it began; whoever comes back proves it again."""
    headers = peers(live.context).authenticated("reader")

    async def whole() -> str:
        async with httpx2.AsyncClient(base_url=live.url, headers=headers) as client:
            with anyio.fail_after(40):
                return (await client.get(f"{RESOLVER}/events")).text

    async with anyio.create_task_group() as group:
        group.start_soon(whole)
        with anyio.fail_after(40):
            while not stream_count(live):
                await anyio.lowlevel.checkpoint()
        live.streams.close()
    assert stream_count(live) == 0
    live.streams.is_closing = False
    monkeypatch.setattr(stream, "STREAM_FOR", stream.STREAM_FOR * 0)
    text = await whole()
    assert text.startswith("retry: 1000\nid: ")
    assert text.count("\n\n") == 1


@pytest.mark.anyio
async def test_too_many_streams_are_told_to_come_back(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "MOST_STREAMS", 0)
    headers = peers(live.context).authenticated("reader")
    async with httpx2.AsyncClient(base_url=live.url, headers=headers) as client:
        refused = await client.get(f"{RESOLVER}/events")
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "5")


@pytest.mark.anyio
async def test_streams_of_one_caller_leave_room_for_those_of_others() -> None:
    streams = stream.Streams()
    held: list[Any] = [object() for _ in range(stream.MOST_OF_ONE)]
    for subscription in held:
        streams.add(subscription, "iss|one")
    assert streams.is_full("iss|one")
    assert not streams.is_full("iss|other")
    streams.remove(held[0])
    assert not streams.is_full("iss|one")
    for number in range(stream.MOST_STREAMS):
        streams.add(held[0] if number == 0 else object(), f"iss|{number}")  # type: ignore[arg-type]
    assert streams.is_full("iss|other")


@pytest.mark.anyio
@pytest.mark.parametrize("given", ["x", "-1", "999999", "1e3", "٣", "9" * 30, ""])
async def test_event_that_never_was_is_no_place_to_go_on_from(live: Live, given: str) -> None:
    headers = {**peers(live.context).authenticated("reader"), "Last-Event-ID": given.encode()}
    async with httpx2.AsyncClient(base_url=live.url) as client:
        refused = await client.get(f"{RESOLVER}/events", headers=headers)  # type: ignore[arg-type]
    assert (refused.status_code, refused.json()["pointer"]) == (400, "/Last-Event-ID")


@pytest.mark.anyio
async def test_who_may_not_see_requests_hears_of_none(live: Live) -> None:
    async with reader(live, "auditor") as client:
        with pytest.raises(ResolverError) as refused:
            await take(client.events(), 1)
    assert (refused.value.status, refused.value.type) == (403, "urn:x-arap:problem:forbidden")


@pytest.mark.anyio
async def test_synchronous_client_hears_the_same(live: Live, both: Peers) -> None:
    start = await begun(live)
    task = await both.task()

    def listen() -> dict[str, Any]:
        with Resolver(live.url, auth=live.credentials("reader")) as client:
            return next(client.events(start))

    with anyio.fail_after(55):
        event = await anyio.to_thread.run_sync(listen)
    assert (event["event"], event["request"]) == ("submitted", task["id"])
