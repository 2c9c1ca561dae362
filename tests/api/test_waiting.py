"""Long polling over real HTTP: an answer that comes when something has happened, and not much later than asked for."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import httpx2
import pytest

from arap_service.api import events as stream
from arap_service.client import AsyncResolver, Resolver
from tests.live import Live, serving
from tests.peers import POLICY, RESOLVER, Peers, peers, question

pytestmark = pytest.mark.anyio
QUEUE = f"{RESOLVER}/requests"


@pytest.fixture
async def live(service_url: str, tmp_path: Path) -> AsyncIterator[Live]:
    async with serving(tmp_path, database=service_url, policy=POLICY, background=False) as opened:
        yield opened


@pytest.fixture
async def both(live: Live) -> AsyncIterator[Peers]:
    opened = peers(live.context)
    yield opened
    await opened.aclose()


@pytest.fixture
async def caller(live: Live, both: Peers) -> AsyncIterator[httpx2.AsyncClient]:
    headers = both.authenticated("resolver")
    async with httpx2.AsyncClient(base_url=live.url, headers=headers, timeout=60) as client:
        yield client


async def mark(caller: httpx2.AsyncClient) -> str:
    first = (await caller.get(QUEUE, params={"mine": "true", "wait": 30})).json()
    return str(first["after"])


async def test_first_answer_comes_at_once_with_a_mark_to_wait_from(caller: httpx2.AsyncClient, both: Peers) -> None:
    task = await both.task()
    with anyio.fail_after(40):
        answer = (await caller.get(QUEUE, params={"mine": "true", "wait": 30})).json()
    assert [each["id"] for each in answer["items"]] == [task["id"]]
    assert answer["after"].isdigit()
    assert "after" not in (await caller.get(QUEUE)).json()


async def test_answer_waits_for_something_new_and_holds_it(caller: httpx2.AsyncClient, both: Peers, live: Live) -> None:
    """The call is under way, which the service says itself, before anything happens."""
    known = await mark(caller)
    found: list[dict[str, Any]] = []

    async def wait() -> None:
        found.append((await caller.get(QUEUE, params={"mine": "true", "wait": 30, "after": known})).json())

    with anyio.fail_after(55):
        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            while not live.streams.count:
                await anyio.lowlevel.checkpoint()
            assert found == []
            task = await both.task(question(7))
    [answer] = found
    assert [each["id"] for each in answer["items"]] == [task["id"]]
    assert int(answer["after"]) > int(known)
    assert live.streams.count == 0


async def test_what_happened_between_two_calls_is_answered_at_once(caller: httpx2.AsyncClient, both: Peers) -> None:
    known = await mark(caller)
    task = await both.task()
    with anyio.fail_after(40):
        answer = (await caller.get(QUEUE, params={"wait": 30, "after": known})).json()
    assert [each["id"] for each in answer["items"]] == [task["id"]]


async def test_nothing_new_is_an_answer_too(caller: httpx2.AsyncClient) -> None:
    known = await mark(caller)
    with anyio.fail_after(55):
        answer = (await caller.get(QUEUE, params={"mine": "true", "wait": 1, "after": known})).json()
    assert (answer["items"], answer["after"]) == ([], known)


@pytest.mark.parametrize("params", [{"wait": "31"}, {"wait": "-1"}, {"after": "x"}, {"after": "999999"}])
async def test_what_cannot_be_waited_for_is_refused(caller: httpx2.AsyncClient, params: dict[str, str]) -> None:
    answer = await caller.get(QUEUE, params=params)
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/problem+json"


async def test_nobody_waits_in_more_calls_than_he_may_have_streams(
    caller: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = await mark(caller)
    monkeypatch.setattr(stream, "MOST_OF_ONE", 0)
    answer = await caller.get(QUEUE, params={"wait": 5, "after": known})
    assert answer.status_code == 429
    assert answer.headers["retry-after"] == "5"


async def test_who_hangs_up_leaves_nothing_behind(caller: httpx2.AsyncClient, live: Live) -> None:
    known = await mark(caller)
    with anyio.fail_after(55):
        async with anyio.create_task_group() as group:
            group.start_soon(caller.get, f"{QUEUE}?wait=30&after={known}")
            while not live.streams.count:
                await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
        while live.streams.count:
            await anyio.lowlevel.checkpoint()


async def test_client_library_waits_with_patience_and_goes_on_from_its_mark(live: Live, both: Peers) -> None:
    async with AsyncResolver(live.url, auth=live.credentials("resolver")) as resolver:
        first = await resolver.wait()
        task = await both.task()
        with anyio.fail_after(40):
            second = await resolver.wait(first["after"])
    with Resolver(live.url, auth=live.credentials("resolver")) as blocking:
        third = await anyio.to_thread.run_sync(lambda: blocking.wait(second["after"], seconds=0))
    assert (first["items"], [each["id"] for each in second["items"]]) == ([], [task["id"]])
    assert [each["id"] for each in third["items"]] == [task["id"]]
