"""Readiness says how each part is, and a balancer gets 503 exactly when requests would fail."""

import threading
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from arap_service.outbound import Outbound
from arap_service.store import migrate
from arap_service.store.database import Database, StoreUnavailable
from tests.clock import FakeClock
from tests.peers import POLICY, Peers, peers
from tests.service import CALLBACK, service_context, settings_for


async def public(_host: str, _port: int) -> list[str]:
    return ["8.8.8.8"]


@pytest.fixture
async def both(service_url: str, tmp_path: Path, clock: FakeClock) -> AsyncIterator[Peers]:
    settings = settings_for(tmp_path, database=service_url, policy=POLICY)
    async with service_context(settings, clock=clock, outbound=Outbound(resolver=public)) as context:
        opened = peers(context)
        yield opened
        await opened.aclose()


async def ready(both: Peers) -> tuple[int, dict[str, Any]]:
    answer = await both.stranger.get("/readyz", headers={"Authorization": ""})
    return answer.status_code, answer.json()


@pytest.mark.anyio
async def test_a_service_in_order_says_so_part_by_part_without_authentication(both: Peers) -> None:
    version = both.context.policy.current().version
    assert await ready(both) == (
        200,
        {
            "status": "ok",
            "policy": version,
            "parts": {
                "database": {"state": "ok"},
                "migrations": {"state": "ok", "version": migrate.head()},
                "keys": {"state": "ok"},
                "courier": {"state": "ok", "waiting": 0, "dead": 0, "oldest_seconds": 0},
                "notices": {"state": "ok", "waiting": 0, "dead": 0},
                "policy": {"state": "ok", "version": version},
            },
        },
    )


@pytest.mark.anyio
async def test_an_absent_database_is_the_reason_and_what_it_would_have_told_is_unknown(
    both: Peers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Database, "look", refusing)
    status, body = await ready(both)
    assert (status, body["status"], body["reason"]) == (503, "unavailable", "database_unreachable")
    states = {name: part["state"] for name, part in body["parts"].items()}
    assert states == {
        "database": "failed",
        "migrations": "unknown",
        "keys": "unknown",
        "courier": "unknown",
        "notices": "unknown",
        "policy": "ok",
    }


async def refusing(_self: Database, _work: Callable[[Any], Any], *, seconds: float) -> None:
    raise StoreUnavailable("unreachable", f"database: nothing within {seconds} seconds")


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("UPDATE service_version SET version_num = 'service_9999'", "migrations_other_release"),
        ("DELETE FROM service_version", "migrations_other_release"),
        ("DROP TABLE service_version", "migrations_missing"),
        ("DELETE FROM signing_key WHERE use = 'approval'", "keys_none_signs_approval"),
    ],
)
async def test_what_would_make_requests_fail_is_503_with_its_name(both: Peers, statement: str, reason: str) -> None:
    both.context.database.write_now(lambda session: session.execute(text(statement)))
    status, body = await ready(both)
    assert (status, body["status"], body["reason"]) == (503, "unavailable", reason)


@pytest.mark.anyio
async def test_late_deliveries_and_refused_rules_degrade_and_turn_nobody_away(both: Peers, clock: FakeClock) -> None:
    task = await both.task(callback={"endpoint": CALLBACK})
    assert (await both.decide(task["id"])).status_code == 200
    clock.advance(timedelta(minutes=5, seconds=1).total_seconds())
    both.context.settings.policy_path.write_text("version: 1\nrules: nonsense\n", encoding="utf-8")
    assert not both.context.policy.refresh()
    status, body = await ready(both)
    assert (status, body["status"]) == (200, "degraded")
    assert "reason" not in body
    assert body["parts"]["courier"] == {
        "state": "degraded",
        "reason": "late",
        "waiting": 1,
        "dead": 0,
        "oldest_seconds": 301,
    }
    assert body["parts"]["policy"]["reason"] == "newer_file_refused"
    both.context.settings.policy_path.write_text(POLICY + "\n", encoding="utf-8")
    assert both.context.policy.refresh()
    assert (await ready(both))[1]["parts"]["policy"]["state"] == "ok"


@pytest.mark.anyio
async def test_a_database_that_does_not_answer_is_not_waited_for(both: Peers) -> None:
    answered = threading.Event()
    with pytest.raises(StoreUnavailable) as refused:
        await both.context.database.look(lambda _session: answered.wait(30), seconds=0.05)
    answered.set()
    assert refused.value.reason == "timeout"
