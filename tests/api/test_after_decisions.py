"""Standing rules and the reviews of emergencies over REST: design.md section 4, ARS-119."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from arap_service import requests
from arap_service.protocol.arap import format_instant
from arap_service.requests.standing_rules import propose_rule
from tests.clock import FakeClock
from tests.requests.terms import open_terms
from tests.requests.world import GATE, World, person, question
from tests.service import app_for, bearer, http
from tests.web.desk import add_person

pytestmark = pytest.mark.anyio
BASE = "/resolver/v1"
URGENT = {"emergency": True, "business_justification": "The vault is on fire."}


@pytest.fixture
async def world(service_url: str, tmp_path: Path, clock: FakeClock) -> AsyncIterator[World]:
    """The rules of `terms.py`, with two people."""
    async with open_terms(tmp_path, service_url, clock) as opened:
        add_person(opened.ctx, "ann", name="Ann", groups=("treasury",))
        add_person(opened.ctx, "lea", name="Lea", groups=("legal",))
        yield opened


def caller(world: World, client_id: str) -> httpx2.AsyncClient:
    return http(app_for(world.ctx), headers=bearer(world.ctx, client_id))


def fault(response: httpx2.Response) -> tuple[int, str]:
    assert response.headers["content-type"] == "application/problem+json"
    return response.status_code, response.json()["type"].rpartition(":")[2]


async def test_rule_is_listed_confirmed_and_ended(world: World) -> None:
    task_id = str((await world.submit(await world.body(question("plain")))).task["id"])
    await world.decide(task_id, person("ann"))
    proposal = f"{BASE}/requests/{task_id}/standing-rules"
    async with caller(world, "resolver") as resolver, caller(world, "operator") as operator:
        assert fault(await resolver.post(proposal, json={}))[0] == 403  # no step names it
        assert fault(await resolver.post(proposal, json={"days": 0}))[0] == 400
        assert fault(await resolver.post(f"{BASE}/requests/task_unknown/standing-rules", json={}))[0] == 404
        rule = (await propose_rule(world.ctx, person("ann"), task_id)).id
        [listed] = (await resolver.get(f"{BASE}/standing-rules", params={"status": "proposed"})).json()["items"]
        assert (listed["id"], listed["days"], listed["uses"]) == (rule, 10, 0)
        assert fault(await resolver.post(f"{BASE}/standing-rules/{rule}/confirm"))[0] == 403
        confirmed = await operator.post(f"{BASE}/standing-rules/{rule}/confirm")
        assert (confirmed.status_code, confirmed.json()["status"]) == (200, "active")
        assert confirmed.headers["cache-control"] == "no-store"
        assert fault(await operator.post(f"{BASE}/standing-rules/{rule}/confirm"))[0] == 409
        assert fault(await resolver.post(f"{BASE}/standing-rules/{rule}/end"))[0] == 404
        assert (await operator.post(f"{BASE}/standing-rules/{rule}/end")).json()["status"] == "ended"
        assert fault(await operator.post(f"{BASE}/standing-rules/rule_unknown/end"))[0] == 404
        assert (await operator.get(f"{BASE}/standing-rules", params={"status": "active"})).json()["items"] == []
        assert fault(await resolver.get(f"{BASE}/standing-rules", params={"status": "odd"}))[0] == 400


async def test_review_is_listed_and_closed_by_whom_it_may_be(world: World) -> None:
    body = await world.body(question("unlock"), requested_access=URGENT)
    task_id = str((await world.submit(body)).task["id"])
    await world.decide(task_id, person("lea"))
    said = {"disposition": "approved-executed", "at": format_instant(world.clock()), "generation": 1}
    await requests.report(world.ctx, GATE, task_id, said)
    async with caller(world, "reader") as reader, caller(world, "operator") as operator, caller(world, "gate") as gate:
        [review] = (await reader.get(f"{BASE}/emergency-reviews", params={"state": "open"})).json()["items"]
        assert (review["request_id"], review["approved_by"], review["is_overdue"]) == (task_id, ["Lea"], False)
        path = f"{BASE}/emergency-reviews/{review['approval_id']}/close"
        found = {"outcome": "justified", "note": "It was on fire."}
        assert fault(await gate.get(f"{BASE}/emergency-reviews"))[0] == 403
        assert fault(await gate.post(path, json=found))[0] == 404
        assert fault(await reader.post(path, json=found)) == (403, "ineligible-approver")
        assert fault(await operator.post(path, json={"outcome": "fine", "note": "x"}))[0] == 400
        closed = await operator.post(path, json=found)
        assert (closed.status_code, closed.json()["outcome"], closed.json()["note"]) == (200, *found.values())
        assert fault(await operator.post(path, json=found))[0] == 409
        assert (await reader.get(f"{BASE}/emergency-reviews", params={"state": "open"})).json()["items"] == []
