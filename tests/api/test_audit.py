"""The audit log over HTTP: design.md sections 5 and 6, catalogue PDP-78 and ARS-123."""

from typing import Any

import httpx2
import pytest

from arap_service.auditing.checkpoints import notary_of
from tests.clock import FakeClock
from tests.peers import EVALUATION, REQUEST, RESOLVER, Peers, question

AUDIT = f"{RESOLVER}/audit"


async def ask(both: Peers, path: str = "", **params: Any) -> httpx2.Response:
    headers = both.authenticated("auditor")
    return await both.resolver.get(AUDIT + path, params=params, headers=headers)


async def pages(both: Peers, **params: Any) -> list[dict[str, Any]]:
    """All items, over pages of two."""
    found: list[dict[str, Any]] = []
    more: dict[str, str] = {}
    while True:
        response = await ask(both, limit=2, **params, **more)
        assert response.status_code == 200, response.text
        assert response.headers["cache-control"] == "no-store"
        page = response.json()
        assert len(page["items"]) <= 2
        found += page["items"]
        if page["next_cursor"] is None:
            return found
        more = {"cursor": page["next_cursor"]}


@pytest.mark.anyio
@pytest.mark.requirement("ARS-123", "PDP-78")
async def test_evaluation_id_alone_tells_the_whole_story_page_by_page(both: Peers, clock: FakeClock) -> None:
    """Denial, request, vote, approval, re-evaluation, execution; another request's story stays out of it."""
    asked = question()
    body = await both.denied(asked)
    task = (await both.gate.post(REQUEST, json=body)).json()["task"]
    await both.task(question(1))
    await both.decide(task["id"])
    approval = (await both.gate.get(f"{REQUEST}/{task['id']}")).json()["result"]["approval"]
    await both.gate.post(EVALUATION, json=asked | {"context": asked["context"] | {"approval": approval}})
    report = {"disposition": "approved-executed", "at": "2026-04-30T20:00:03Z", "generation": 1}
    await both.gate.post(f"{REQUEST}/{task['id']}/report", json=report)

    found = await pages(both, evaluation=body["denial"]["evaluation_id"])
    assert [each["kind"] for each in found] == [
        "denied_requestable",
        "task_submitted",
        "vote_cast",
        "task_approved",
        "reevaluated",
        "execution_reported",
    ]
    assert {each["evaluation_id"] for each in found} == {body["denial"]["evaluation_id"]}
    assert found[4]["detail"]["approval_id"] == approval["id"]
    chain = await pages(both, chain=task["id"])
    assert [each["seq"] for each in chain] == [1, 2, 3, 4, 5]
    assert await pages(both, evaluation="ev_unknown") == []


@pytest.mark.anyio
async def test_whole_log_goes_on_from_its_cursor_without_gap_or_double(both: Peers, clock: FakeClock) -> None:
    """Keys and configuration have chains of their own, beside the requests'."""
    task = await both.task()
    found = await pages(both)
    chains = {each["chain"] for each in found}
    assert {"keys", "configuration", task["id"]} <= chains
    assert len({(each["chain"], each["seq"]) for each in found}) == len(found)
    assert sum(each["chain"] == "keys" for each in found) == 3
    clock.advance(1)
    later = await both.task(question(2))
    assert [each["chain"] for each in await pages(both)][len(found) :][-1] == later["id"]


@pytest.mark.anyio
async def test_right_to_see_requests_is_no_right_to_read_the_audit_log(both: Peers) -> None:
    for path in ("", "/checkpoint"):
        for client in (both.gate, both.resolver):
            refused = await client.get(AUDIT + path)
            assert (refused.status_code, refused.json()["type"]) == (403, "urn:x-arap:problem:forbidden")
        nobody = await both.resolver.get(AUDIT + path, headers={"Authorization": "Bearer x"})
        assert nobody.status_code == 401
    auditor = both.authenticated("auditor")
    assert (await both.resolver.get(f"{RESOLVER}/requests", headers=auditor)).status_code == 403


@pytest.mark.anyio
@pytest.mark.parametrize(
    "params",
    [
        {"limit": "0"},
        {"limit": "501"},
        {"cursor": "invented"},
        {"cursor": "WyJhbGwiLC0xXQ"},
        {"cursor": "WyJhbGwiLHRydWVd"},
        {"chain": "a", "evaluation": "b"},
        {"chain": "\x00"},
        {"evaluation": "ev_1", "cursor": "WyJldmFsdWF0aW9uIiwieCIsImEiLDFd"},
        {"evaluation": "ev_1", "cursor": "WyJhbGwiLDFd"},
    ],
)
async def test_malformed_selection_is_named(both: Peers, params: dict[str, str]) -> None:
    refused = await ask(both, **params)
    assert (refused.status_code, refused.json()["type"]) == (400, "urn:x-arap:problem:invalid-request")


@pytest.mark.anyio
async def test_newest_checkpoint_is_handed_out_once_there_is_one(both: Peers) -> None:
    none = await ask(both, "/checkpoint")
    assert (none.status_code, none.json()["type"]) == (404, "urn:x-arap:problem:not-found")
    made = await notary_of(both.context).sign()
    assert made is not None
    shown = (await ask(both, "/checkpoint")).json()
    assert (shown["number"], shown["size"], shown["root"], shown["signature"]) == (
        1,
        made.size,
        made.root,
        made.signature,
    )
