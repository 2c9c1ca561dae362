"""The figures tell what happened, in bounded labels, and nothing about anybody."""

import re
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from arap_service.courier import Courier
from arap_service.metrics import InForce, Metrics, Stored
from arap_service.outbound import Outbound
from arap_service.store.database import Database, StoreUnavailable
from arap_service.store.operation import AuditLog, Backlog, OpenTasks
from tests.clock import START, FakeClock
from tests.peers import EVALUATION, POLICY, REQUEST, RESOLVER, Peers, peers, question
from tests.service import CALLBACK, CLIENTS, client, service_context, settings_for

CALLER = {"enabled": True, "clients": (*CLIENTS, client("monitor", "admin"))}
_LINE = re.compile(r"^(?P<name>[a-z_]+(?:\{.*\})?) (?P<value>\S+)$")


def read(text: str) -> dict[str, float]:
    """Every sample of an exposition by its name and labels."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return {found["name"]: float(found["value"]) for line in lines if (found := _LINE.match(line))}


@pytest.fixture
def names() -> list[str]:
    """The addresses that every name leads to."""
    return ["8.8.8.8"]


@pytest.fixture
async def both(service_url: str, tmp_path: Path, clock: FakeClock, names: list[str]) -> AsyncIterator[Peers]:
    settings = settings_for(
        tmp_path,
        database=service_url,
        policy=POLICY,
        builtin_issuer=CALLER,
        limits={"polls_per_minute": 2},
    )

    async def resolve(_host: str, _port: int) -> list[str]:
        return names

    async with service_context(settings, clock=clock, outbound=Outbound(resolver=resolve)) as context:
        opened = peers(context)
        yield opened
        await opened.aclose()


async def figures(both: Peers) -> dict[str, float]:
    answer = await both.gate.get("/metrics", headers=both.authenticated("monitor"))
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert answer.headers["cache-control"] == "no-store"
    return read(answer.text)


@pytest.mark.anyio
async def test_figures_are_for_administrators_only(both: Peers) -> None:
    assert (await both.gate.get("/metrics")).status_code == 403
    assert (await both.gate.get("/metrics", headers={"Authorization": "Bearer x"})).status_code == 401


@pytest.mark.anyio
async def test_a_story_is_told_by_the_figures(both: Peers, clock: FakeClock) -> None:
    """Asked, requested, decided, asked again; one request stays open, one is approved by the rules alone."""
    task = await both.task()
    assert (await both.decide(task["id"])).status_code == 200
    result = (await both.gate.get(f"{REQUEST}/{task['id']}")).json()["result"]
    approved = question()
    approved["context"]["approval"] = result["approval"]
    assert (await both.gate.post(EVALUATION, json=approved)).json()["decision"] is True
    await both.gate.post(EVALUATION, json=question(tool="other"))
    assert (await both.submit(question(1, tool="small_transfer"))).json()["task"]["status"] == "approved"
    await both.task(question(60_000))
    clock.advance(30)
    found = await figures(both)
    assert {name: value for name, value in found.items() if name.startswith("arap_evaluations_total")} == {
        'arap_evaluations_total{outcome="request",presented="nothing"}': 3,
        'arap_evaluations_total{outcome="deny",presented="nothing"}': 1,
        'arap_evaluations_total{outcome="permit",presented="approval"}': 1,
    }
    assert found['arap_decisions_total{channel="api",decision="approve"}'] == 1
    assert found['arap_requests_ended_total{by="quorum",status="approved"}'] == 1
    assert found['arap_requests_ended_total{by="evaluator",status="approved"}'] == 1
    assert found['arap_open_requests{template="transfer"}'] == 1
    assert found['arap_open_requests{template="small"}'] == 0
    assert found["arap_oldest_open_request_seconds"] == 30
    assert found["arap_database_up"] == 1
    assert found[f'arap_policy_info{{version="{both.context.policy.current().version[:12]}"}}'] == 1
    assert found['arap_http_requests_total{method="POST",route="/access/v1/evaluation",status="2xx"}'] == 5
    assert found['arap_http_request_seconds_count{route="/access/v1/evaluation"}'] == 5


@pytest.mark.anyio
async def test_what_is_refused_for_haste_is_counted_beside_its_limit(both: Peers) -> None:
    for _ in range(4):
        await both.gate.get(f"{REQUEST}/task_x")
    found = await figures(both)
    assert found['arap_rate_limited_total{kind="poll"}'] == 2
    assert found['arap_rate_limit_per_minute{kind="poll"}'] == 2


@pytest.mark.anyio
async def test_a_delivery_that_fails_shows_as_backlog_and_one_that_is_given_up_as_dead(
    both: Peers, clock: FakeClock, names: list[str]
) -> None:
    """The name of the endpoint leads to an internal address once the request is made, so the courier does not dial."""
    task = await both.task(callback={"endpoint": CALLBACK})
    assert (await both.decide(task["id"])).status_code == 200
    clock.advance(7)
    names[:] = ["10.0.0.1"]
    found = await figures(both)
    assert found['arap_deliveries{state="waiting"}'] == 1
    assert found["arap_oldest_delivery_seconds"] == 7
    await Courier(both.context, jitter=lambda: 0.5).round()
    found = await figures(both)
    assert found['arap_callback_attempts_total{outcome="dead"}'] == 1
    assert found['arap_deliveries{state="waiting"}'] == 0
    assert found['arap_deliveries{state="dead"}'] == 1


@pytest.mark.anyio
async def test_invented_paths_and_methods_make_no_labels(both: Peers) -> None:
    for number in range(20):
        await both.gate.get(f"/invented/{number}")
        await both.gate.request(f"INVENTED{number}", RESOLVER)
        await both.gate.get(f"{REQUEST}/task_{number}")
    names = [name for name in await figures(both) if name.startswith("arap_http_requests_total")]
    assert not any(re.search(r"invented|INVENTED|task_\d", name) for name in names)
    assert len(names) < 10
    assert any('route="/access/v1/request/{task_id}"' in name for name in names)


@pytest.mark.anyio
async def test_figures_of_the_process_are_there_while_the_database_is_away(
    both: Peers, monkeypatch: pytest.MonkeyPatch
) -> None:
    await both.gate.post(EVALUATION, json=question(tool="other"))

    async def away(_work: object, *, seconds: float) -> None:
        raise StoreUnavailable("unreachable", "database: away")

    monkeypatch.setattr(Database, "look", lambda _self, work, *, seconds: away(work, seconds=seconds))
    found = await figures(both)
    assert found["arap_database_up"] == 0
    assert found['arap_evaluations_total{outcome="deny",presented="nothing"}'] == 1
    assert not any(name.startswith(("arap_open_requests", "arap_deliveries")) for name in found)


def test_templates_that_no_rule_names_any_more_are_one_label() -> None:
    stored = Stored(
        tuple(OpenTasks(name, 2, START) for name in ("kept", "gone", "long-gone")),
        Backlog(0, None, 0, 0),
        AuditLog(7, 5, START),
        START + timedelta(seconds=9),
        overdue_reviews=3,
    )
    text = Metrics({}).exposition(InForce("v", is_newer_refused=False, templates={"kept", "new"}), stored).decode()
    found = read(text)
    assert {name: value for name, value in found.items() if name.startswith("arap_open_requests")} == {
        'arap_open_requests{template="kept"}': 2,
        'arap_open_requests{template="new"}': 0,
        'arap_open_requests{template="other"}': 4,
    }
    assert found["arap_oldest_open_request_seconds"] == 9
    assert found["arap_audit_entries"] == 7
    assert found["arap_overdue_reviews"] == 3
    assert found["arap_audit_signed_entries"] == 5
    assert found["arap_audit_checkpoint_age_seconds"] == 9
