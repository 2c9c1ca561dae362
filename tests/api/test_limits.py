"""How often one caller may submit and poll: ARS-06, PDP-13."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from arap_service.rates import Rates
from tests.clock import FakeClock
from tests.peers import POLICY, REQUEST, Peers, peers, question
from tests.service import service_context, settings_for


@pytest.fixture
async def both(tmp_path: Path, service_url: str, clock: FakeClock) -> AsyncIterator[Peers]:
    limits = {"submissions_per_minute": 2, "polls_per_minute": 3}
    settings = settings_for(tmp_path, database=service_url, policy=POLICY, limits=limits)
    async with service_context(settings, clock=clock) as context:
        opened = peers(context)
        yield opened
        await opened.aclose()


@pytest.mark.anyio
@pytest.mark.requirement("ARS-06")
async def test_burst_is_told_to_wait_and_others_are_not(both: Peers, clock: FakeClock) -> None:
    for name, method, path, allowed in (("submissions", "POST", REQUEST, 2), ("polls", "GET", f"{REQUEST}/x", 3)):
        codes = [(await both.gate.request(method, path, json={})).status_code for _ in range(allowed)]
        assert 429 not in codes, name
        refused = await both.gate.request(method, path, json={})
        assert refused.status_code == 429
        assert refused.json()["type"] == "urn:x-arap:problem:rate-limited"
        assert refused.headers["retry-after"] == str(60 // allowed)
        assert (await both.stranger.request(method, path, json={})).status_code in {400, 404}
    clock.advance(30)
    assert (await both.gate.post(REQUEST, json={})).status_code == 400
    assert (await both.gate.post(REQUEST, json={})).status_code == 429


def test_steady_rate_is_never_refused_and_idle_time_is_not_saved_up(clock: FakeClock) -> None:
    rates = Rates({"poll": 60}, clock=clock)
    for _ in range(200):
        assert rates.take("poll", "gate") is None
        clock.advance(1)
    clock.advance(3600)
    assert [rates.take("poll", "gate") for _ in range(61)].count(None) == 60


def test_clock_that_is_set_back_locks_nobody_out(clock: FakeClock) -> None:
    rates = Rates({"poll": 60}, clock=clock)
    for _ in range(30):
        assert rates.take("poll", "gate") is None
    clock.advance(-7200)
    assert [rates.take("poll", "gate") for _ in range(61)].count(None) == 60
    clock.advance(-1)
    assert [rates.take("poll", "gate") for _ in range(61)].count(None) == 60


def test_memory_of_callers_is_bounded(clock: FakeClock) -> None:
    rates = Rates({"poll": 60}, clock=clock)
    for number in range(20_000):
        rates.take("poll", str(number))
    clock.advance(2)
    rates.take("poll", "one more")
    assert len(rates._due) == 1
    for number in range(20_000):
        rates.take("poll", str(number))
    clock.advance(-7200)
    rates.take("poll", "one more")
    assert len(rates._due) == 1


@pytest.mark.anyio
@pytest.mark.requirement("ARS-06")
async def test_a_client_with_as_many_open_requests_as_it_may_have_waits_for_decisions_whatever_instance_it_asks(
    tmp_path: Path, service_url: str, clock: FakeClock
) -> None:
    """Counted in the database: a second instance refuses as well, a repetition is no new request, others go on."""
    settings = settings_for(tmp_path, database=service_url, policy=POLICY, limits={"open_requests_per_client": 2})
    async with service_context(settings, clock=clock) as one, service_context(settings, clock=clock) as other:
        here, there = peers(one), peers(other)
        body = await here.denied(question(1))
        first = await here.gate.post(REQUEST, json=body, headers={"Idempotency-Key": "first"})
        assert (await there.submit(question(2))).status_code == 202
        third = await there.denied(question(3))
        refused = await there.gate.post(REQUEST, json=third)
        assert (refused.status_code, refused.json()["type"]) == (429, "urn:x-arap:problem:rate-limited")
        assert refused.headers["retry-after"] == "60"
        repeated = await there.gate.post(REQUEST, json=body, headers={"Idempotency-Key": "first"})
        assert repeated.json() == first.json()
        assert (await here.submit(question(1, tool="small_transfer"))).status_code == 201  # it is not left open
        stranger = replace(here, gate=here.stranger)
        assert (await stranger.submit(question(4))).status_code == 202
        assert (await here.decide(first.json()["task"]["id"])).status_code == 200
        assert (await there.gate.post(REQUEST, json=third)).status_code == 202, "the refusal has spent nothing"
        await here.aclose()
        await there.aclose()
