"""Questions to the requester, comments and claims over the wire, for both sides (design.md sections 5 and 6)."""

from typing import Any

import httpx2
import pytest

from arap_service import audit
from tests.clock import FakeClock
from tests.peers import REQUEST, RESOLVER, Peers

INPUT = "urn:x-arap:input"
SCHEMA = {
    "type": "object",
    "required": ["ticket"],
    "properties": {"ticket": {"type": "string", "pattern": "^[A-Z]+-[0-9]+$"}, "password": {"type": "string"}},
}


async def tell(both: Peers, task_id: str, what: str, body: Any = None, *, headers: Any = None) -> httpx2.Response:
    """What the resolver, or somebody else, says about a request."""
    return await both.resolver.post(f"{RESOLVER}/requests/{task_id}/{what}", json=body, headers=headers)


async def asked(both: Peers, **body: Any) -> str:
    """The id of a request whose requester has been asked something."""
    task = await both.task()
    answer = await tell(both, task["id"], "questions", {"message": "Which ticket?", **body})
    assert answer.status_code == 200, answer.text
    return str(task["id"])


def fault(response: httpx2.Response) -> tuple[int, str]:
    """Status and type of a problem."""
    return response.status_code, response.json()["type"].removeprefix("urn:x-arap:problem:")


@pytest.mark.anyio
async def test_question_is_linked_while_it_is_open_and_its_answer_reaches_the_reviewer(both: Peers) -> None:
    task_id = await asked(both, schema=SCHEMA)
    url = f"{REQUEST}/{task_id}"
    polled = (await both.gate.get(url)).json()["task"]
    link = polled["links"][INPUT]
    assert link == f"{polled['status_endpoint']}/input"
    question = await both.gate.get(link)
    assert question.headers["cache-control"] == "no-store"
    assert question.json() == {"message": "Which ticket?", "schema": SCHEMA, "version": 1}
    given = {"ticket": "OPS-7", "password": "hunter2"}
    assert (await both.gate.post(link, json={"version": 1, "input": given})).status_code == 204
    assert INPUT not in (await both.gate.get(url)).json()["task"]["links"]
    shown = (await both.resolver.get(f"{RESOLVER}/requests/{task_id}")).json()["questions"]
    assert len(shown) == 1
    assert (shown[0]["message"], shown[0]["asked_by"]) == ("Which ticket?", "resolver")
    values = {value["pointer"]: (value["masked"], value["text"]) for value in shown[0]["answer"]}
    assert values["/ticket"] == (False, "OPS-7")
    assert values["/password"][0]
    assert "hunter2" not in str(shown)


@pytest.mark.anyio
@pytest.mark.requirement("ARS-118")
async def test_nobody_decides_on_a_version_from_before_the_answer(both: Peers) -> None:
    task_id = await asked(both)
    seen = (await both.resolver.get(f"{RESOLVER}/requests/{task_id}")).json()["version"]
    answered = await both.gate.post(f"{REQUEST}/{task_id}/input", json={"version": 1, "input": {"answer": "OPS-7"}})
    assert answered.status_code == 204
    body = {"decision": "approve", "version": seen}
    stale = await both.resolver.post(f"{RESOLVER}/requests/{task_id}/decisions", json=body)
    assert fault(stale) == (409, "stale-version")
    assert (await both.decide(task_id)).status_code == 200


@pytest.mark.anyio
async def test_answer_that_is_not_what_was_asked_for_changes_nothing(both: Peers) -> None:
    """Wrong shape, another question's version, and one that is answered already."""
    task_id = await asked(both, schema=SCHEMA)
    url = f"{REQUEST}/{task_id}/input"
    wrong = await both.gate.post(url, json={"version": 1, "input": {"ticket": "seven"}})
    assert fault(wrong) == (422, "input-invalid")
    assert wrong.json()["errors"] == [{"pointer": "/input/ticket", "code": "pattern"}]
    assert fault(await both.gate.post(url, json={"version": 2, "input": {"ticket": "OPS-7"}})) == (409, "stale-version")
    for body in ({"version": 1}, {"version": "1", "input": {}}, {"version": 1, "input": [], "more": 1}):
        assert fault(await both.gate.post(url, json=body)) == (400, "invalid-request")
    assert (await both.gate.get(url)).json()["version"] == 1
    assert (await both.gate.post(url, json={"version": 1, "input": {"ticket": "OPS-7"}})).status_code == 204
    again = await both.gate.post(url, json={"version": 1, "input": {"ticket": "OPS-8"}})
    assert again.status_code == 409
    assert again.json()["type"].endswith(":invalid_task_state")
    assert (await both.gate.get(url)).status_code == 409


@pytest.mark.anyio
@pytest.mark.requirement("ARS-63", "ARS-66")
async def test_question_is_for_the_requester_alone(both: Peers) -> None:
    """For everybody else it looks like that of a request that does not exist; looking and answering need own rights."""
    task_id = await asked(both)
    for method, body in (("GET", None), ("POST", {"version": 1, "input": {"answer": "x"}})):
        foreign = await both.stranger.request(method, f"{REQUEST}/{task_id}/input", json=body)
        missing = await both.stranger.request(method, f"{REQUEST}/task_AAAAAAAAAAAAAAAAAAAAAA/input", json=body)
        assert (foreign.status_code, foreign.content) == (404, missing.content)
        narrow = both.authenticated("gate", scope="arap:cancel")
        assert (
            await both.gate.request(method, f"{REQUEST}/{task_id}/input", json=body, headers=narrow)
        ).status_code == 403
    assert (await both.gate.get(f"{REQUEST}/{task_id}/input")).json()["version"] == 1


@pytest.mark.anyio
async def test_deadline_keeps_running_and_ends_the_question(both: Peers, clock: FakeClock) -> None:
    task_id = await asked(both)
    clock.advance(86_400)
    headers = both.authenticated("gate")
    late = await both.gate.post(
        f"{REQUEST}/{task_id}/input", json={"version": 1, "input": {"answer": "x"}}, headers=headers
    )
    assert late.status_code == 409
    task = (await both.gate.get(f"{REQUEST}/{task_id}", headers=headers)).json()["task"]
    assert (task["status"], INPUT in task.get("links", {})) == ("expired", False)


@pytest.mark.anyio
async def test_one_question_at_a_time_and_only_by_who_may_decide(both: Peers) -> None:
    task_id = await asked(both)
    body = {"message": "And which account?"}
    second = await tell(both, task_id, "questions", body)
    assert second.status_code == 409
    reader = both.authenticated("reader")
    auditor = both.authenticated("auditor")
    for what in ("questions", "comments", "claim", "release"):
        said = {"questions": body, "comments": {"text": "x"}}.get(what)
        assert fault(await tell(both, task_id, what, said, headers=reader)) == (403, "forbidden")
        assert (await tell(both, task_id, what, said, headers=auditor)).status_code == 404
    await both.decide(task_id)
    assert (await tell(both, task_id, "comments", {"text": "x"})).status_code == 409


@pytest.mark.anyio
@pytest.mark.parametrize(
    "body",
    [
        {},
        {"message": "  "},
        {"message": "\u200b \u3164"},
        {"message": "a\u0000b"},
        {"message": "x" * 2001},
        {"message": "x", "schema": {"type": "string"}},
        {"message": "x", "schema": {"type": "object", "$ref": "https://elsewhere.example/schema"}},
        {"message": "x", "schema": {"type": "object", "properties": {"a": {"$ref": "#"}}}},
        {"message": "x", "schema": {"type": "object", "properties": {"a": {"pattern": "(?=a)"}}}},
        {"message": "x", "schema": {"type": "object", "properties": 5}},
        {"message": "x", "schema": {"type": "object", "title": "x" * 20_001}},
        {"message": "x", "more": 1},
    ],
)
async def test_question_that_cannot_be_asked_is_refused(both: Peers, body: dict[str, Any]) -> None:
    task = await both.task()
    assert fault(await tell(both, task["id"], "questions", body)) == (400, "invalid-request")
    assert INPUT not in (await both.gate.get(f"{REQUEST}/{task['id']}")).json()["task"]["links"]


@pytest.mark.anyio
async def test_comments_are_for_reviewers_and_claims_for_one_at_a_time(both: Peers) -> None:
    task = await both.task()
    other = both.authenticated("second-resolver")
    commented = await tell(both, task["id"], "comments", {"text": "Looks odd"})
    assert [(each["by"], each["text"]) for each in commented.json()["comments"]] == [("resolver", "Looks odd")]
    assert "Looks odd" not in (await both.gate.get(f"{REQUEST}/{task['id']}")).text
    for _ in range(2):
        assert (await tell(both, task["id"], "claim")).json()["claimed_by"] == "resolver"
    assert (await tell(both, task["id"], "claim", headers=other)).status_code == 409
    assert (await tell(both, task["id"], "release", headers=other)).json()["claimed_by"] is None
    assert (await tell(both, task["id"], "release")).json()["claimed_by"] is None
    assert (await tell(both, task["id"], "claim", headers=other)).json()["claimed_by"] == "second-resolver"
    assert (await both.decide(task["id"])).status_code == 200  # a claim keeps nobody from deciding


@pytest.mark.anyio
async def test_what_was_said_is_in_the_audit_without_its_words(both: Peers) -> None:
    task_id = await asked(both)
    await tell(both, task_id, "comments", {"text": "canary-comment"})
    given = {"version": 1, "input": {"answer": "canary-answer"}}
    assert (await both.gate.post(f"{REQUEST}/{task_id}/input", json=given)).status_code == 204
    entries = await both.context.database.read(lambda session: audit.entries_of(session, task_id))
    assert [entry.kind for entry in entries][1:] == ["question_asked", "commented", "question_answered"]
    assert not any("canary" in entry.detail for entry in entries)


@pytest.mark.anyio
@pytest.mark.requirement("ARS-76")
async def test_resolver_whom_a_step_names_withdraws_a_request(both: Peers) -> None:
    task = await both.task()
    assert (await tell(both, task["id"], "cancel", headers=both.authenticated("reader"))).status_code == 403
    ended = await tell(both, task["id"], "cancel")
    assert (ended.status_code, ended.json()["status"]) == (200, "cancelled")
    assert (await tell(both, task["id"], "cancel")).status_code == 409


@pytest.mark.anyio
async def test_answer_with_a_number_that_would_be_another_one_elsewhere_is_refused(both: Peers) -> None:
    task_id = await asked(both)
    url = f"{REQUEST}/{task_id}/input"
    exact = {"version": 1, "input": {"answer": "x", "deep": [{"n/a": 12345678901234567890}]}}
    refused = await both.gate.post(url, json=exact)
    assert fault(refused) == (422, "input-invalid")
    assert refused.json()["errors"] == [{"pointer": "/input/deep/0/n~1a", "code": "number"}]
    assert (await both.gate.post(url, json={"version": 1, "input": {"answer": "x"}})).status_code == 204
