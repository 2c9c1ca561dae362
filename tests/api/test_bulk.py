"""Several things in one request over HTTP: submit, decide item by item, re-evaluate, report; ARS-H on the wire."""

from typing import Any

import httpx2
import pytest

from arap_service.protocol.arap import TaskResponse
from arap_service.protocol.authzen import parse
from tests.peers import EVALUATION, REQUEST, RESOLVER, Peers

PROFILE = "urn:openid:authzen:access-request:error:"
OURS = "urn:x-arap:problem:"
SUBJECT = {"type": "user", "id": "alice@example.com"}


def asked(name: str, action: str = "open") -> dict[str, Any]:
    return {
        "subject": SUBJECT,
        "resource": {"type": "account", "id": name},
        "action": {"name": action},
        "context": {"tenant": "acme"},
    }


async def denied(both: Peers, question: dict[str, Any]) -> dict[str, Any]:
    body = await both.denied(question)
    return {name: body[name] for name in ("resource", "action", "denial")}


async def body_of(both: Peers, *actions: str) -> dict[str, Any]:
    """A submission of several actions on the account that a resolver decides about."""
    items = [await denied(both, asked("wire_transfer", action)) for action in actions]
    return {"subject": SUBJECT, "context": {"tenant": "acme"}, "items": items}


async def submitted(both: Peers, *actions: str) -> dict[str, Any]:
    answer = await both.gate.post(REQUEST, json=await body_of(both, *actions))
    assert answer.status_code == 202, answer.text
    assert answer.headers["location"] == answer.json()["task"]["status_endpoint"]
    task: dict[str, Any] = answer.json()["task"]
    return task


async def decide(both: Peers, task_id: str, item: int, decision: str = "approve", **more: Any) -> httpx2.Response:
    shown = (await both.resolver.get(f"{RESOLVER}/requests/{task_id}")).json()
    version = shown["items"][item - 1]["version"]
    said = {"decision": decision, "version": version, "item": item, "reason": "because", **more}
    return await both.resolver.post(f"{RESOLVER}/requests/{task_id}/decisions", json=said)


@pytest.mark.anyio
@pytest.mark.requirement("ARS-50", "ARS-57", "ARS-82", "ARS-85")
async def test_items_are_decided_one_by_one_and_each_approval_opens_its_own_thing_only(both: Peers) -> None:
    task = await submitted(both, "open", "close", "audit")
    assert [item["status"] for item in task["items"]] == ["pending"] * 3
    first = await decide(both, task["id"], 1)
    assert (first.status_code, first.json()["status"]) == (200, "pending")
    assert [item["status"] for item in first.json()["items"]] == ["approved", "pending", "pending"]
    await decide(both, task["id"], 2)
    await decide(both, task["id"], 3, "deny")

    answer = await both.gate.get(task["status_endpoint"].removeprefix("https://approvals.example"))
    parse(TaskResponse, answer.json())
    handle = answer.json()["task"]
    assert handle["status"] == "partial"
    assert "result" not in answer.json()
    assert [(item["action"]["name"], item["status"]) for item in handle["items"]] == [
        ("open", "approved"),
        ("close", "approved"),
        ("audit", "denied"),
    ]
    approval = handle["items"][0]["result"]["approval"]
    decisions = {}
    for action in ("open", "close", "audit"):
        again = asked("wire_transfer", action)
        again["context"] |= {"approval": approval}
        decisions[action] = (await both.gate.post(EVALUATION, json=again)).json()
    assert decisions["open"]["decision"] is True
    for action in ("close", "audit"):
        assert decisions[action]["decision"] is False
        assert decisions[action]["context"]["reason"] == "out_of_scope"
        assert decisions[action]["context"]["access_request"]


@pytest.mark.anyio
@pytest.mark.requirement("ARS-84")
async def test_withdrawing_a_bundle_answers_with_all_its_items(both: Peers) -> None:
    task = await submitted(both, "open", "close")
    await decide(both, task["id"], 1)
    cancelled = await both.gate.post(f"{REQUEST}/{task['id']}/cancel", json={"reason": "done"})
    assert cancelled.status_code == 200
    assert (cancelled.json()["task"]["status"], [item["status"] for item in cancelled.json()["task"]["items"]]) == (
        "partial",
        ["approved", "cancelled"],
    )
    again = await both.gate.post(f"{REQUEST}/{task['id']}/cancel")
    assert (again.status_code, again.json()["type"]) == (409, PROFILE + "invalid_task_state")


@pytest.mark.anyio
async def test_each_approved_item_says_where_to_report_what_became_of_it(both: Peers) -> None:
    task = await submitted(both, "open", "close")
    await decide(both, task["id"], 2)
    handle = (await both.gate.get(f"{REQUEST}/{task['id']}")).json()["task"]
    link = handle["items"][1]["links"]["urn:x-arap:report"].removeprefix("https://approvals.example")
    assert "links" not in handle["items"][0]
    said = {"disposition": "approved-executed", "at": "2026-04-30T20:01:00Z", "generation": 1}
    assert (await both.gate.post(link, json=said)).status_code == 204
    shown = (await both.resolver.get(f"{RESOLVER}/requests/{task['id']}")).json()
    assert [len(item["executions"]) for item in shown["items"]] == [0, 1]
    for wrong, status in (("1", 409), ("9", 409), ("0", 400), ("x", 400)):
        refused = await both.gate.post(link.replace("/2/", f"/{wrong}/"), json=said)
        assert refused.status_code == status, wrong
    assert (await both.stranger.post(link, json=said)).status_code == 404


@pytest.mark.anyio
async def test_a_decision_on_a_bundle_without_its_item_is_refused_and_changes_nothing(both: Peers) -> None:
    task = await submitted(both, "open", "close")
    url = f"{RESOLVER}/requests/{task['id']}/decisions"
    for item in ({}, {"item": None}, {"item": 0}, {"item": 3}, {"item": "1"}):
        refused = await both.resolver.post(url, json={"decision": "approve", "version": 1, **item})
        assert (refused.status_code, refused.json()["type"]) == (400, OURS + "invalid-request"), item
    shown = (await both.resolver.get(f"{RESOLVER}/requests/{task['id']}")).json()
    assert [item["status"] for item in shown["items"]] == ["pending", "pending"]


@pytest.mark.anyio
@pytest.mark.requirement("ARS-77", "ARS-80")
async def test_one_bad_item_of_three_leaves_no_task_behind(both: Peers) -> None:
    body = await body_of(both, "open", "close", "audit")
    body["items"][2]["denial"]["binding_token"] = body["items"][1]["denial"]["binding_token"]
    refused = await both.gate.post(REQUEST, json=body)
    assert (refused.status_code, refused.json()["type"]) == (400, PROFILE + "invalid_denial_binding")
    both_forms = await both.gate.post(REQUEST, json=body | {"resource": body["items"][0]["resource"]})
    assert (both_forms.status_code, both_forms.json()["type"]) == (400, OURS + "invalid-request")
    assert (await both.resolver.get(f"{RESOLVER}/requests")).json()["items"] == []


@pytest.mark.anyio
async def test_the_queue_says_how_many_things_a_request_asks_for(both: Peers) -> None:
    task = await submitted(both, "open", "close")
    [row] = (await both.resolver.get(f"{RESOLVER}/requests", params={"mine": "true"})).json()["items"]
    assert (row["id"], row["item_count"], row["may_decide"]) == (task["id"], 2, True)
