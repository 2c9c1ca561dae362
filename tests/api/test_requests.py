"""The wire of access requests: shapes, headers, rights and problems (ARS-A, ARS-E, ARS-F, ARS-G)."""

from dataclasses import replace
from typing import Any

import httpx2
import pytest

from tests.clock import FakeClock
from tests.peers import REQUEST, RESOLVER, Peers, question
from tests.service import IDENTIFIER, app_for, http

PROFILE = "urn:openid:authzen:access-request:error:"


def fault(response: httpx2.Response) -> tuple[int, str]:
    """Status and type of a problem, after checking that it is one."""
    assert response.headers["content-type"] == "application/problem+json"
    assert response.headers["cache-control"] == "no-store"
    assert response.json()["status"] == response.status_code
    return response.status_code, response.json()["type"]


@pytest.mark.anyio
@pytest.mark.requirement("ARS-07", "ARS-50", "ARS-53", "ARS-57", "ARS-58", "ARS-71")
async def test_open_request_has_a_whole_handle_and_says_when_to_ask_again(both: Peers) -> None:
    accepted = await both.submit()
    assert accepted.status_code == 202
    task = accepted.json()["task"]
    url = f"{IDENTIFIER}{REQUEST}/{task['id']}"
    assert task == {
        "id": task["id"],
        "status": "pending",
        "status_endpoint": url,
        "expires_at": "2026-05-02T20:00:00Z",
        "links": {"cancel": f"{url}/cancel"},
    }
    assert accepted.headers["location"] == url
    polled = await both.gate.get(url)
    assert (polled.status_code, polled.json()) == (200, {"task": task})
    for response in (accepted, polled):
        assert int(response.headers["retry-after"]) >= 1
        assert response.headers["cache-control"] == "no-store"


@pytest.mark.anyio
@pytest.mark.requirement("ARS-51", "ARS-57", "ARS-59")
async def test_request_that_nobody_needs_to_look_at_is_answered_at_once(both: Peers) -> None:
    accepted = await both.submit(question(tool="small_transfer"))
    assert accepted.status_code == 201
    assert accepted.json()["task"]["status"] == "approved"
    assert accepted.json()["result"]["mode"] == "reevaluate"
    assert set(accepted.json()["result"]["approval"]) == {"id", "approved_at", "approved_until", "state"}
    assert "retry-after" not in accepted.headers
    assert accepted.headers["location"] == accepted.json()["task"]["status_endpoint"]


@pytest.mark.anyio
@pytest.mark.requirement("ARS-66", "ARS-74")
async def test_each_operation_needs_a_right_of_its_own(both: Peers) -> None:
    """The same client with tokens of smaller scope; the approval is not shown to who may only ask for the status."""
    task = await both.task()
    url = f"{REQUEST}/{task['id']}"
    submitter = both.authenticated("gate", scope="arap:submit")
    assert fault(await both.gate.get(url, headers=submitter)) == (403, "urn:x-arap:problem:forbidden")
    assert fault(await both.gate.post(f"{url}/cancel", headers=submitter)) == (403, "urn:x-arap:problem:forbidden")
    assert (await both.gate.get(url)).json()["task"]["status"] == "pending"
    await both.decide(task["id"])
    watcher = both.authenticated("gate", scope="arap:status")
    watched = await both.gate.get(url, headers=watcher)
    assert (watched.status_code, set(watched.json())) == (200, {"task"})
    assert set((await both.gate.get(url)).json()) == {"task", "result"}
    report = {"disposition": "approved-executed", "at": "2026-04-30T20:00:00Z", "generation": 1}
    refused = await both.gate.post(f"{url}/report", json=report, headers=watcher)
    assert fault(refused) == (403, "urn:x-arap:problem:forbidden")


@pytest.mark.anyio
@pytest.mark.requirement("ARS-63", "ARS-67", "ARS-68")
async def test_foreign_request_looks_exactly_like_one_that_does_not_exist(both: Peers) -> None:
    """Byte for byte, on every operation; a new token of the same principal keeps its rights."""
    task = await both.task()
    report = {"disposition": "failed", "at": "2026-04-30T20:00:00Z", "generation": 1}
    for method, suffix, body in (("GET", "", None), ("POST", "/cancel", {}), ("POST", "/report", report)):
        foreign = await both.stranger.request(method, f"{REQUEST}/{task['id']}{suffix}", json=body)
        missing = await both.stranger.request(method, f"{REQUEST}/task_AAAAAAAAAAAAAAAAAAAAAA{suffix}", json=body)
        assert fault(foreign) == (404, PROFILE + "unknown_task")
        assert (foreign.content, foreign.headers) == (missing.content, missing.headers)
    renewed = await both.gate.get(f"{REQUEST}/{task['id']}", headers=both.authenticated("gate"))
    assert renewed.status_code == 200


@pytest.mark.anyio
@pytest.mark.requirement("ARS-72", "ARS-73", "ARS-75")
async def test_request_is_withdrawn_once_and_cannot_be_approved_afterwards(both: Peers) -> None:
    bare, explained = await both.task(question(1)), await both.task(question(2))
    version = (await both.resolver.get(f"{RESOLVER}/requests/{bare['id']}")).json()["version"]
    first = await both.gate.post(bare["links"]["cancel"])
    assert (first.status_code, first.json()["task"]["status"]) == (200, "cancelled")
    assert "links" not in first.json()["task"]
    second = await both.gate.post(explained["links"]["cancel"], json={"reason": "changed", "comment": "my mind"})
    assert second.json()["task"]["status"] == "cancelled"
    assert fault(await both.gate.post(bare["links"]["cancel"])) == (409, PROFILE + "invalid_task_state")
    late = await both.resolver.post(
        f"{RESOLVER}/requests/{bare['id']}/decisions", json={"decision": "approve", "version": version}
    )
    assert fault(late) == (409, PROFILE + "invalid_task_state")
    assert (await both.gate.get(bare["status_endpoint"])).json()["task"]["status"] == "cancelled"


@pytest.mark.anyio
@pytest.mark.requirement("ARS-60")
async def test_denied_request_holds_no_approval(both: Peers) -> None:
    task = await both.task()
    await both.decide(task["id"], "deny", reason="not this supplier")
    found = (await both.gate.get(task["status_endpoint"])).json()
    assert set(found) == {"task"}
    assert found["task"]["display"] == {"urn:x-arap:decision": {"reason": "not this supplier"}}


@pytest.mark.anyio
@pytest.mark.requirement("ARS-62")
async def test_request_is_gone_before_it_is_unknown(both: Peers, clock: FakeClock) -> None:
    task = await both.task()
    clock.advance(86_400)
    assert (await both.gate.get(task["status_endpoint"], headers=both.authenticated("gate"))).json()["task"][
        "status"
    ] == "expired"
    clock.advance(86_400)
    gone = await both.gate.get(task["status_endpoint"], headers=both.authenticated("gate"))
    assert fault(gone) == (410, PROFILE + "task_expired")


@pytest.mark.anyio
@pytest.mark.requirement("ARS-03", "ARS-04")
async def test_every_fault_has_its_problem_type(both: Peers, clock: FakeClock) -> None:
    """The seven of the profile, and ours for what it names no type for."""
    gate = both.gate
    body = await both.denied(question())
    headers = {"Idempotency-Key": "one"}
    assert (await gate.post(REQUEST, json=body, headers=headers)).status_code == 202
    changed = body | {"requested_access": {"x.example/why": "because"}}
    stale = await both.denied(question(3))
    plain = (await gate.post("/access/v1/evaluation", json=question(tool="hammer"))).json()["context"]
    unbound = question(tool="hammer") | {
        "denial": {"evaluation_id": plain["evaluation_id"], "expires_at": "2026-04-30T20:05:00Z"}
    }
    found = {
        "duplicate": fault(await gate.post(REQUEST, json=changed, headers=headers)),
        "not requestable": fault(await gate.post(REQUEST, json=unbound)),
        "binding": fault(await gate.post(REQUEST, json=stale | {"action": {"name": "tools/list"}})),
        "forbidden": fault(await gate.post(REQUEST, json=stale | {"subject": {"type": "user", "id": "mallory"}})),
        "actor": fault(await gate.post(REQUEST, json=await both.denied(acting()) | claimed())),
        "shape": fault(await gate.post(REQUEST, json=[])),
        "syntax": fault(await gate.post(REQUEST, content=b"{", headers={"Content-Type": "application/json"})),
        "type": fault(await gate.post(REQUEST, content=b"{}", headers={"Content-Type": "text/plain"})),
        "two keys": fault(
            await gate.post(REQUEST, json=stale, headers=[("Idempotency-Key", "a"), ("Idempotency-Key", "b")])
        ),
        "long key": fault(await gate.post(REQUEST, json=stale, headers={"Idempotency-Key": "k" * 300})),
        "unknown": fault(await gate.get(f"{REQUEST}/nothing")),
    }
    off = replace(both.context, settings=both.context.settings.model_copy(update={"bulk": False}))
    async with http(app_for(off), headers=both.authenticated("gate")) as single:
        found["items"] = fault(await single.post(REQUEST, json=bundle(stale)))
    clock.advance(3600)
    late = await gate.post(REQUEST, json=stale, headers=both.authenticated("gate"))
    found["expired"] = fault(late)
    ours = "urn:x-arap:problem:"
    assert found == {
        "duplicate": (409, PROFILE + "duplicate_request"),
        "not requestable": (400, PROFILE + "not_requestable"),
        "binding": (400, PROFILE + "invalid_denial_binding"),
        "forbidden": (403, ours + "forbidden"),
        "actor": (403, ours + "actor-unverified"),
        "shape": (400, ours + "invalid-request"),
        "syntax": (400, ours + "invalid-request"),
        "type": (400, ours + "invalid-request"),
        "two keys": (400, ours + "invalid-request"),
        "long key": (400, ours + "invalid-request"),
        "unknown": (404, PROFILE + "unknown_task"),
        "items": (400, ours + "bulk-unsupported"),
        "expired": (410, PROFILE + "expired_denial"),
    }


def acting() -> dict[str, Any]:
    asked = question(9)
    asked["subject"] |= {"properties": {"act": {"iss": "https://idp.example", "sub": "agent-9"}}}
    return asked


def claimed() -> dict[str, Any]:
    return {"client": {"actor": {"issuer": "https://idp.example", "id": "agent-9"}}}


def bundle(body: dict[str, Any]) -> dict[str, Any]:
    item = {"resource": body["resource"], "action": body["action"]}
    return {name: value for name, value in body.items() if name not in item} | {"items": [item]}


@pytest.mark.anyio
async def test_body_beyond_the_limit_is_refused_whether_or_not_it_says_its_size(both: Peers) -> None:
    """PDP-13, for the request service."""
    size = both.context.settings.limits.max_body_bytes + 1
    json_type = {"Content-Type": "application/json"}

    async def chunks() -> Any:
        for _ in range(size // 65_536 + 1):
            yield b" " * 65_536

    for content in (b" " * size, chunks()):
        refused = await both.gate.post(REQUEST, content=content, headers=json_type)
        assert fault(refused) == (413, "urn:x-arap:problem:payload-too-large")


@pytest.mark.anyio
async def test_deep_nesting_is_a_bad_request(both: Peers) -> None:
    """PDP-13: 100,000 nested arrays; the process lives on."""
    deep = b"[" * 100_000 + b"]" * 100_000
    refused = await both.gate.post(REQUEST, content=deep, headers={"Content-Type": "application/json"})
    assert fault(refused) == (400, "urn:x-arap:problem:invalid-request")
    refused = await both.gate.post(f"{REQUEST}/x/cancel", content=deep, headers={"Content-Type": "application/json"})
    assert fault(refused) == (400, "urn:x-arap:problem:invalid-request")


@pytest.mark.anyio
async def test_method_that_is_not_offered_is_named_as_such(both: Peers) -> None:
    """RFC 9110 section 15.5.6: the answer lists what is allowed."""
    refused = await both.gate.delete(f"{REQUEST}/x")
    assert fault(refused) == (405, "about:blank")
    assert "GET" in refused.headers["allow"]
