"""The searches over HTTP: rights, strict JSON, errors, description. AuthZEN Authorization API 1.0, "Search APIs"."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from arap_service.context import Context
from arap_service.store import migrate
from tests import pdp
from tests.clock import FakeClock
from tests.databases import Databases
from tests.service import app_for, bearer, client, http, service_context, settings_for

SUBJECT = "/access/v1/search/subject"
RESOURCE = "/access/v1/search/resource"
ACTION = "/access/v1/search/action"
PATHS = (SUBJECT, RESOURCE, ACTION)
JSON = {"Content-Type": "application/json"}
CANARY = "canary-51c9"
POLICY = pdp.POLICY.replace("entities:\n", "actions: {record: [read, write]}\nentities:\n  record: {record-1: {}}\n")
# A body that each of the three accepts: it ignores what it does not need.
WHOLE: dict[str, Any] = {
    "subject": {"type": "user", "id": "bob"},
    "action": {"name": "read"},
    "resource": {"type": "record", "id": "record-1"},
}
FOUND: dict[str, list[dict[str, str]]] = {
    SUBJECT: [{"type": "user", "id": "bob"}],
    RESOURCE: [{"type": "record", "id": "record-1"}],
    ACTION: [{"name": "read"}],
}


@pytest.fixture
async def ctx(databases: Databases, tmp_path: Path, clock: FakeClock) -> AsyncIterator[Context]:
    url = databases.copy_of("sqlite", "service", migrate.upgrade)
    clients = (client("searcher", "authzen:search"), client("gate", "authzen:evaluate"))
    settings = settings_for(
        tmp_path,
        database=url,
        policy=POLICY,
        limits={"max_body_bytes": 100_000},
        builtin_issuer={"enabled": True, "clients": clients},
    )
    async with service_context(settings, clock=clock) as opened:
        yield opened


@pytest.fixture
async def searcher(ctx: Context) -> AsyncIterator[httpx2.AsyncClient]:
    """A client that may search."""
    async with http(app_for(ctx), headers=bearer(ctx, "searcher")) as opened:
        yield opened


@pytest.fixture
async def nobody(ctx: Context) -> AsyncIterator[httpx2.AsyncClient]:
    async with http(app_for(ctx)) as opened:
        yield opened


@pytest.mark.anyio
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.requirement("PDP-25", "PDP-04", "ARS-07")
async def test_a_search_is_answered_whatever_else_it_says(searcher: httpx2.AsyncClient, path: str) -> None:
    asked = {**WHOLE, "future": {"nested": True}, "resource": {**WHOLE["resource"], "future": 1}}
    answer = await searcher.post(path, json=asked)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.json() == {"page": {"next_token": "", "count": 1}, "results": FOUND[path]}
    assert answer.text.startswith('{"page":')  # "The Search API Response" recommends it


@pytest.mark.anyio
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.requirement("PDP-10")
async def test_searching_is_a_right_of_its_own(ctx: Context, nobody: httpx2.AsyncClient, path: str) -> None:
    for headers in ({}, {"Authorization": "Bearer garbage"}):
        answer = await nobody.post(path, json=WHOLE, headers=headers)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith("Bearer")
    answer = await nobody.post(path, json=WHOLE, headers=bearer(ctx, "gate"))
    assert answer.status_code == 403
    assert 'scope="authzen:search"' in answer.headers["www-authenticate"]
    answer = await nobody.post("/access/v1/evaluation", json=WHOLE, headers=bearer(ctx, "searcher"))
    assert answer.status_code == 403


@pytest.mark.anyio
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.requirement("PDP-03", "PDP-12", "PDP-13")
async def test_what_is_no_strict_json_object_is_refused(searcher: httpx2.AsyncClient, path: str) -> None:
    bodies = [
        b"",
        b"{not json",
        b"[]",
        b'{"subject": {"type": "a"}, "subject": {"type": "b"}}',
        b'{"context": {"n": NaN}}',
        b'{"context": {"n": 1e999}}',
        b'{"context": "\\ud800"}',
        b'{"context": "\xff"}',
        b"[" * 50_000,
        b'{"a":' * 200 + b"1" + b"}" * 200,
    ]
    answers = [await searcher.post(path, content=body, headers=JSON) for body in bodies]
    whole = json.dumps(WHOLE).encode()
    answers.append(await searcher.post(path, content=whole, headers={"Content-Type": "text/plain"}))
    answers.append(await searcher.post(path, content=whole))
    for answer in answers:
        assert (answer.status_code, answer.headers["content-type"]) == (400, "text/plain; charset=utf-8")
    charset = {"Content-Type": "application/json; charset=utf-8"}
    assert (await searcher.post(path, content=whole, headers=charset)).status_code == 200
    assert (await searcher.post(path, content=b" " * 200_000, headers=JSON)).status_code == 413


@pytest.mark.anyio
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.requirement("PDP-09")
async def test_the_request_id_comes_back_on_every_answer(
    searcher: httpx2.AsyncClient, nobody: httpx2.AsyncClient, path: str
) -> None:
    name = {"X-Request-ID": "bfe9eb29 ab87"}
    answers = [
        await searcher.post(path, json=WHOLE, headers=name),
        await searcher.post(path, json={}, headers=name),
        await nobody.post(path, json=WHOLE, headers=name),
        await searcher.get(path, headers=name),
        await searcher.post(path, content=b" " * 200_000, headers={**JSON, **name}),
    ]
    assert [answer.status_code for answer in answers] == [200, 400, 401, 405, 413]
    assert {answer.headers["x-request-id"] for answer in answers} == {"bfe9eb29 ab87"}
    assert "x-request-id" not in (await searcher.post(path, json=WHOLE)).headers


@pytest.mark.anyio
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.requirement("PDP-11")
async def test_an_error_is_a_short_text_that_repeats_nothing(
    searcher: httpx2.AsyncClient, nobody: httpx2.AsyncClient, path: str
) -> None:
    faulty = {CANARY: CANARY, "subject": CANARY, "resource": CANARY}
    numbers = {**WHOLE, "context": {CANARY: 2**60}}
    answers = [
        await searcher.post(path, json=faulty),
        await searcher.post(path, json=numbers),
        await searcher.post(path, json={**WHOLE, "page": {"token": CANARY}}),
        await searcher.post(path, json={**WHOLE, "page": {"limit": CANARY}}),
        await searcher.post(path, content=CANARY.encode(), headers=JSON),
        await nobody.post(path, json=faulty, headers={"Authorization": f"Bearer {CANARY}"}),
        await searcher.put(f"{path}?{CANARY}"),
        await searcher.post(f"{path}/{CANARY}"),
    ]
    assert [answer.status_code for answer in answers] == [400, 400, 400, 400, 400, 401, 405, 404]
    for answer in answers:
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        assert CANARY not in answer.text
        assert 0 < len(answer.text) < 100


@pytest.mark.anyio
async def test_the_searches_are_described(searcher: httpx2.AsyncClient) -> None:
    paths = (await searcher.get("/openapi.json")).json()["paths"]
    required = {SUBJECT: {"subject", "action", "resource"}, ACTION: {"subject", "resource"}}
    for path in PATHS:
        operation = paths[path]["post"]
        assert set(operation["responses"]) == {"200", "400", "401", "403", "413", "429", "501", "503"}
        assert set(operation["responses"]["400"]["content"]) == {"text/plain"}
        described = operation["requestBody"]["content"]["application/json"]["schema"]
        assert set(described["required"]) == required.get(path, required[SUBJECT])
        assert set(described["properties"]) == {*described["required"], "context", "page"}
