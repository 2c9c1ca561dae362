"""The resolver API: design.md section 6, and the one chokepoint behind it (GOV-09)."""

import json
from typing import Any

import anyio
import httpx2
import pytest

from tests.clock import FakeClock
from tests.peers import EVALUATION, POLICY, RESOLVER, Peers, question

OURS = "urn:x-arap:problem:"
PROFILE = "urn:openid:authzen:access-request:error:"


def fault(response: httpx2.Response) -> tuple[int, str]:
    assert response.headers["content-type"] == "application/problem+json"
    assert response.headers["cache-control"] == "no-store"
    return response.status_code, response.json()["type"]


async def get(both: Peers, path: str, **params: Any) -> Any:
    response = await both.resolver.get(f"{RESOLVER}{path}", params=params)
    assert response.status_code == 200, response.text
    assert response.headers["cache-control"] == "no-store"
    return response.json()


@pytest.mark.anyio
async def test_request_shows_what_a_decision_needs_and_its_version_as_the_etag(both: Peers) -> None:
    task = await both.task()
    response = await both.resolver.get(f"{RESOLVER}/requests/{task['id']}")
    request = response.json()
    assert response.headers["etag"] == f'"{request["version"]}"'
    assert (request["status"], request["may_decide"], request["why_not"]) == ("pending", True, None)
    assert (request["server"], request["tool"], request["complete"]) == ("treasury", "wire_transfer", True)
    assert [(each["pointer"], each["text"]) for each in request["arguments"]] == [("/amount", "50000"), ("/to", "ACME")]
    assert request["explanation"] == "Money leaves the company."
    assert request["deadline"] == "2026-05-01T20:00:00Z"
    assert request["steps"] == [
        {
            "id": "risk",
            "title": "Risk engine",
            "quorum": 1,
            "approvals": 0,
            "denials": 0,
            "status": "waiting",
            "after": [],
            "deadline": None,
            "escalated_at": None,
            "veto": 1,
        }
    ]
    assert request["pending_approval"] is not None


@pytest.mark.anyio
async def test_queue_is_paged_by_opaque_cursors_and_filtered(both: Peers, clock: FakeClock) -> None:
    ids = []
    for amount in range(5):
        ids.append((await both.task(question(amount, subject=f"user-{amount}")))["id"])
        clock.advance(1)
    await both.decide(ids[4], "deny")
    found: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = await get(both, "/requests", status="pending", limit=3, **cursor)
        found += [row["id"] for row in page["items"]]
        if page["next_cursor"] is None:
            break
        cursor = {"cursor": page["next_cursor"]}
    assert found == ids[:4]
    assert [row["id"] for row in (await get(both, "/requests", subject="user-2"))["items"]] == [ids[2]]
    assert [row["id"] for row in (await get(both, "/requests", status="denied"))["items"]] == [ids[4]]
    assert {row["id"] for row in (await get(both, "/requests", mine="true"))["items"]} == set(ids[:4])
    assert (await get(both, "/requests", template="nothing"))["items"] == []
    for wrong in ({"cursor": "invented"}, {"limit": "0"}, {"limit": "many"}, {"status": "bogus"}, {"mine": "perhaps"}):
        refused = await both.resolver.get(f"{RESOLVER}/requests", params=wrong)
        assert fault(refused) == (400, OURS + "invalid-request")


@pytest.mark.anyio
@pytest.mark.requirement("ARS-118")
async def test_second_decision_is_refused_and_shows_the_first(both: Peers) -> None:
    task = await both.task()
    url = f"{RESOLVER}/requests/{task['id']}/decisions"
    version = (await get(both, f"/requests/{task['id']}"))["version"]
    stale = await both.resolver.post(url, json={"decision": "approve", "version": version + 1})
    assert fault(stale) == (409, OURS + "stale-version")
    assert (stale.json()["current_status"], stale.json()["version"]) == ("pending", version)
    first = await both.resolver.post(url, json={"decision": "deny", "version": version, "reason": "no"})
    assert (first.status_code, first.json()["status"]) == (200, "denied")
    assert first.headers["etag"] == f'"{first.json()["version"]}"'
    second = await both.resolver.post(url, json={"decision": "approve", "version": version})
    assert fault(second) == (409, PROFILE + "invalid_task_state")
    assert second.json()["current_status"] == "denied"


@pytest.mark.anyio
async def test_decision_repeated_under_its_key_counts_once(both: Peers) -> None:
    """design.md section 6: idempotent under Idempotency-Key; the key belongs to its caller and its decision."""
    task, other = await both.task(question(1)), await both.task(question(2))
    url = f"{RESOLVER}/requests/{task['id']}/decisions"
    body = {"decision": "approve", "version": (await get(both, f"/requests/{task['id']}"))["version"]}
    key = {"Idempotency-Key": "a-key"}
    answers: list[httpx2.Response] = []

    async def send() -> None:
        answers.append(await both.resolver.post(url, json=body, headers=key))

    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(send)
    assert [answer.status_code for answer in answers] == [200] * 5
    assert all(answer.json() == answers[0].json() for answer in answers)
    assert len(answers[0].json()["votes"]) == 1
    quoted = await both.resolver.post(url, json=body, headers={"Idempotency-Key": '"a-key"'})
    assert quoted.json() == answers[0].json()
    changed = await both.resolver.post(url, json=body | {"decision": "deny", "reason": "no"}, headers=key)
    assert fault(changed) == (409, PROFILE + "duplicate_request")
    elsewhere = await both.resolver.post(f"{RESOLVER}/requests/{other['id']}/decisions", json=body, headers=key)
    assert fault(elsewhere) == (409, PROFILE + "duplicate_request")
    foreign = await both.resolver.post(url, json=body, headers=key | both.authenticated("second-resolver"))
    assert fault(foreign) == (409, PROFILE + "invalid_task_state")


@pytest.mark.anyio
async def test_refused_decision_uses_up_no_key(both: Peers) -> None:
    task = await both.task()
    url = f"{RESOLVER}/requests/{task['id']}/decisions"
    version = (await get(both, f"/requests/{task['id']}"))["version"]
    key = {"Idempotency-Key": "a-key"}
    assert (await both.resolver.post(url, json={"decision": "approve", "version": 99}, headers=key)).status_code == 409
    again = await both.resolver.post(url, json={"decision": "approve", "version": version}, headers=key)
    assert again.status_code == 200


@pytest.mark.anyio
@pytest.mark.requirement("ARS-108")
async def test_resolver_may_shorten_the_lifetime_and_not_prolong_it(both: Peers) -> None:
    shorter, longer = await both.task(question(1)), await both.task(question(2))
    assert (await both.decide(shorter["id"], approved_until="2026-04-30T22:05:00+02:00")).status_code == 200
    assert (await both.decide(longer["id"], approved_until="2026-05-30T20:00:00Z")).status_code == 200
    for task, until in ((shorter, "2026-04-30T20:05:00Z"), (longer, "2026-04-30T20:10:00Z")):
        result = (await both.gate.get(task["status_endpoint"])).json()["result"]
        assert result["approval"]["approved_until"] == until


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"decision": "approve"},
        {"decision": "perhaps", "version": 1},
        {"decision": "approve", "version": "1"},
        {"decision": "approve", "version": True},
        {"decision": "approve", "version": 1, "scope": "all"},
        {"decision": "approve", "version": 1, "approved_until": "tomorrow"},
        {"decision": "approve", "version": 1, "approved_until": 5},
        {"decision": "deny", "version": 1, "reason": "x" * 4001},
        {"decision": "deny", "version": 1, "reason": "no", "approved_until": "2026-05-30T20:00:00Z"},
    ],
)
@pytest.mark.anyio
async def test_decision_of_another_form_is_refused_and_its_values_are_not_repeated(
    body: dict[str, Any], both: Peers
) -> None:
    task = await both.task()
    refused = await both.resolver.post(f"{RESOLVER}/requests/{task['id']}/decisions", json=body)
    assert fault(refused) == (400, OURS + "invalid-request")
    assert not any(word in refused.text for word in ("perhaps", "tomorrow", "all", "xxx"))
    assert (await get(both, f"/requests/{task['id']}"))["status"] == "pending"


@pytest.mark.anyio
async def test_decision_that_can_be_read_in_two_ways_is_not_read_at_all(both: Peers) -> None:
    """A repeated member: the usual parsers keep the last of them in silence."""
    task = await both.task()
    body = b'{"decision": "deny", "reason": "no", "version": 1, "decision": "approve"}'
    refused = await both.resolver.post(
        f"{RESOLVER}/requests/{task['id']}/decisions", content=body, headers={"Content-Type": "application/json"}
    )
    assert fault(refused) == (400, OURS + "invalid-request")
    assert (await get(both, f"/requests/{task['id']}"))["status"] == "pending"


@pytest.mark.anyio
@pytest.mark.requirement("GOV-09", "ARS-115")
async def test_who_may_only_read_or_is_not_named_decides_nothing(both: Peers) -> None:
    """A scope is not enough: the step names two resolvers, and the reader is none of them."""
    task = await both.task()
    url = f"{RESOLVER}/requests/{task['id']}/decisions"
    body = {"decision": "approve", "version": 1}
    reader = both.authenticated("resolver", scope="approval:read")
    assert fault(await both.resolver.post(url, json=body, headers=reader)) == (403, OURS + "forbidden")
    without = both.authenticated("resolver", scope="approval:resolve")
    assert fault(await both.resolver.get(f"{RESOLVER}/requests", headers=without)) == (403, OURS + "forbidden")
    assert (await get(both, f"/requests/{task['id']}"))["status"] == "pending"


@pytest.mark.anyio
async def test_unknown_request_and_approval_are_unknown_on_every_path(both: Peers) -> None:
    decision = {"decision": "approve", "version": 1}
    report = {"disposition": "failed", "at": "2026-04-30T20:00:00Z", "generation": 1}
    for method, path, body in (
        ("GET", "/requests/task_x", None),
        ("POST", "/requests/task_x/decisions", decision),
        ("POST", "/approvals/appr_x/revoke", {"reason": "no"}),
        ("POST", "/approvals/appr_x/executions", report),
    ):
        client = both.gate if path.endswith("executions") else both.resolver
        assert fault(await client.request(method, RESOLVER + path, json=body)) == (404, PROFILE + "unknown_task")


@pytest.mark.anyio
@pytest.mark.requirement("ARS-121", "PDP-65")
async def test_revoked_approval_permits_nothing_from_the_next_question_on(both: Peers) -> None:
    task = await both.task()
    await both.decide(task["id"])
    approval = (await both.gate.get(task["status_endpoint"])).json()["result"]["approval"]
    asked = question()
    asked["context"]["approval"] = approval
    assert (await both.gate.post(EVALUATION, json=asked)).json()["decision"] is True
    url = f"{RESOLVER}/approvals/{approval['id']}"
    report = {"disposition": "approved-executed", "at": "2026-04-30T20:00:00Z", "generation": 1}
    assert (await both.gate.post(f"{url}/executions", json=report)).status_code == 204
    assert fault(await both.resolver.post(f"{url}/revoke", json={})) == (400, OURS + "invalid-request")
    revoked = await both.resolver.post(f"{url}/revoke", json={"reason": "changed my mind"})
    assert (revoked.status_code, revoked.json()["approval"]["status"]) == (200, "revoked")
    assert [each["disposition"] for each in revoked.json()["executions"]] == ["approved-executed"]
    assert (await both.gate.post(EVALUATION, json=asked)).json()["decision"] is False
    assert fault(await both.resolver.post(f"{url}/revoke", json={"reason": "again"}))[0] == 409
    assert (await both.gate.get(task["status_endpoint"])).json()["task"]["status"] == "approved"


@pytest.mark.anyio
async def test_description_names_every_operation_with_its_faults(both: Peers) -> None:
    """OpenAPI tells the truth: each operation has a body schema where it reads one, and its problem documents."""
    document = (await both.resolver.get("/openapi.json")).json()
    text = json.dumps(document)
    assert POLICY.strip()[:20] not in text
    for path in ("/access/v1/request", f"{RESOLVER}/requests/{{request_id}}/decisions"):
        operation = document["paths"][path]["post"]
        assert "application/json" in operation["requestBody"]["content"]
        assert [each["name"] for each in operation["parameters"]][-1] == "Idempotency-Key"
        for status in ("400", "401", "403", "409"):
            assert "application/problem+json" in operation["responses"][status]["content"]


@pytest.mark.anyio
@pytest.mark.parametrize("headers", [{}, {"Idempotency-Key": "one"}])
async def test_version_that_json_cannot_carry_exactly_is_refused(both: Peers, headers: dict[str, str]) -> None:
    """RFC 8785: an integer beyond 2**53 - 1 has no canonical form, so it can be neither compared nor remembered."""
    task = await both.task()
    body = {"decision": "approve", "version": 2**53}
    refused = await both.resolver.post(f"{RESOLVER}/requests/{task['id']}/decisions", json=body, headers=headers)
    assert fault(refused)[0] == 400
    assert refused.json()["pointer"] == "/version"
    assert (await both.gate.get(task["status_endpoint"])).json()["task"]["status"] == "pending"


@pytest.mark.anyio
async def test_denial_proposes_other_arguments_and_an_approval_wider_than_its_template_is_refused(both: Peers) -> None:
    task = await both.task()
    path = f"{RESOLVER}/requests/{task['id']}/decisions"
    for body, status in (
        ({"decision": "approve", "scope": {"may_vary": ["/resource/id"]}}, 422),
        ({"decision": "approve", "scope": {}}, 400),
        ({"decision": "approve", "proposed_arguments": {"amount": 1}}, 400),
        ({"decision": "deny", "reason": "no", "proposed_arguments": [1]}, 400),
    ):
        refused = await both.resolver.post(path, json={**body, "version": 1})
        assert fault(refused)[0] == status, body
    denied = {"decision": "deny", "version": 1, "reason": "less", "proposed_arguments": {"amount": 1, "to": "ACME"}}
    assert (await both.resolver.post(path, json=denied)).json()["status"] == "denied"
    display = (await both.gate.get(task["status_endpoint"])).json()["task"]["display"]
    assert display["urn:x-arap:decision"] == {"reason": "less", "proposed_arguments": {"amount": 1, "to": "ACME"}}


@pytest.mark.anyio
async def test_description_says_what_every_operation_shares(both: Peers) -> None:
    """Tokens, the faults of every kind of call, and links to what comes next; nothing of the framework's own errors."""
    document = (await both.resolver.get("/openapi.json")).json()
    assert "HTTPValidationError" not in json.dumps(document)
    for path, operations in document["paths"].items():
        for operation in operations.values():
            needs_token = "401" in operation["responses"] and path != "/issuer/token"
            assert operation.get("security", []) == ([{"access_token": []}] if needs_token else []), path
            assert not needs_token or "503" in operation["responses"], path
            assert "requestBody" not in operation or {"400", "413"} <= set(operation["responses"]), path
    names = [operation["operationId"] for each in document["paths"].values() for operation in each.values()]
    assert len(names) == len(set(names))
    links = document["paths"]["/access/v1/request"]["post"]["responses"]["202"]["links"]
    assert links["requests_status"] == {
        "operationId": "requests_status",
        "parameters": {"path.task_id": "$response.body#/task/id"},
    }
    linked = {
        link["operationId"]
        for each in document["paths"].values()
        for operation in each.values()
        for response in operation["responses"].values()
        for link in response.get("links", {}).values()
    }
    assert linked <= set(names)
