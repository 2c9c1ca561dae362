"""The decision point over HTTP: certification cases, refusals, metadata, keys. AuthZEN Authorization API 1.0."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from joserfc import jwk, jws

from arap_service.context import Context
from arap_service.store import migrate
from tests import pdp
from tests.clock import FakeClock
from tests.databases import Databases
from tests.pdp import question
from tests.protocol import vectors
from tests.service import IDENTIFIER, app_for, bearer, http, service_context, settings_for

EVALUATION = "/access/v1/evaluation"
EVALUATIONS = "/access/v1/evaluations"
METADATA = "/.well-known/authzen-configuration"
CASES = [case for case in vectors.load("certification-cases")["cases"] if "/search/" not in case["endpoint"]]
JSON = {"Content-Type": "application/json"}
CANARY = "canary-7f3a"


@pytest.fixture
async def ctx(databases: Databases, tmp_path: Path, clock: FakeClock) -> AsyncIterator[Context]:
    url = databases.copy_of("sqlite", "service", migrate.upgrade)
    settings = settings_for(tmp_path, database=url, policy=pdp.POLICY, limits={"max_body_bytes": 100_000})
    async with service_context(settings, clock=clock) as opened:
        yield opened


@pytest.fixture
async def gate(ctx: Context) -> AsyncIterator[httpx2.AsyncClient]:
    """An enforcement point that is authenticated."""
    async with http(app_for(ctx), headers=bearer(ctx, "gate")) as client:
        yield client


@pytest.fixture
async def nobody(ctx: Context) -> AsyncIterator[httpx2.AsyncClient]:
    async with http(app_for(ctx)) as client:
        yield client


async def certified(gate: httpx2.AsyncClient, case: dict[str, Any]) -> httpx2.Response:
    content = case["raw"].encode() if "raw" in case else json.dumps(case["body"]).encode()
    headers = {"Content-Type": case.get("content_type", "application/json"), **case.get("headers", {})}
    return await gate.post(case["endpoint"], content=content, headers=headers)


@pytest.mark.anyio
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
@pytest.mark.requirement("PDP-01", "PDP-02", "PDP-03", "PDP-04", "PDP-05", "PDP-08", "PDP-17", "PDP-18", "PDP-19")
async def test_certification_case(gate: httpx2.AsyncClient, case: dict[str, Any]) -> None:
    """`certification-cases.json`, levels evaluation and evaluations."""
    expected = case["expect"]
    for _ in range(case.get("repeat", 1)):
        answer = await certified(gate, case)
        assert answer.status_code == expected["status"]
        if answer.status_code != 200:
            return
        assert answer.headers["content-type"] == "application/json"
        body = answer.json()
        if "decision" in expected:
            assert body["decision"] is expected["decision"]
            assert "evaluations" not in body
        else:
            decisions = [each["decision"] for each in body["evaluations"]]
            assert all(isinstance(decision, bool) for decision in decisions)
            assert decisions == expected.get("decisions", decisions)
            assert len(decisions) == expected.get("structure", len(decisions))
            assert "decision" not in body  # PDP-22
        for name, value in expected.get("headers", {}).items():
            assert answer.headers[name] == value


@pytest.mark.anyio
@pytest.mark.requirement("PDP-08")
async def test_stored_attributes_do_not_grant_what_the_question_does_not_claim(gate: httpx2.AsyncClient) -> None:
    """Bob is stored as an administrator."""
    asked = {"subject": {"type": "user", "id": "bob"}, "action": {"name": "write"}}
    archived = {"type": "record", "id": "record-1", "properties": {"status": "archived"}}
    answer = await gate.post(EVALUATION, json={**asked, "resource": archived})
    assert answer.json()["decision"] is False


@pytest.mark.anyio
@pytest.mark.parametrize(
    "kind", ["application/json; charset=utf-8", "Application/JSON", "application/json;charset=UTF-8"]
)
@pytest.mark.requirement("PDP-03")
async def test_parameters_and_case_of_the_media_type_do_not_matter(gate: httpx2.AsyncClient, kind: str) -> None:
    answer = await gate.post(EVALUATION, content=json.dumps(question("open_tool")), headers={"Content-Type": kind})
    assert answer.status_code == 200


@pytest.mark.anyio
@pytest.mark.parametrize(
    "raw",
    [
        b'{"subject": {"type":"user","id":"a"}, "subject": {"type":"user","id":"b"}}',
        b'{"resource": {"n": NaN}}',
        b'{"resource": {"n": 1e999}}',
        b'{"resource": "\\ud800"}',
        b'{"resource": "\xff"}',
        b"[]",
        b'"x"',
        b"[" * 50_000,
        b'{"a":' * 200 + b"1" + b"}" * 200,
    ],
    ids=["duplicate", "nan", "overflow", "surrogate", "utf8", "array", "string", "nested", "deep"],
)
@pytest.mark.parametrize("path", [EVALUATION, EVALUATIONS])
@pytest.mark.requirement("PDP-12", "PDP-13")
async def test_what_is_no_strict_json_object_is_refused(gate: httpx2.AsyncClient, path: str, raw: bytes) -> None:
    answer = await gate.post(path, content=raw, headers=JSON)
    assert (answer.status_code, answer.headers["content-type"]) == (400, "text/plain; charset=utf-8")


@pytest.mark.anyio
@pytest.mark.requirement("PDP-14")
async def test_the_largest_exact_integer_is_accepted_and_the_next_is_not(gate: httpx2.AsyncClient) -> None:
    for number, status in ((9007199254740991, 200), (9007199254740993, 400)):
        resource = {"type": "tool", "id": "open_tool", "properties": {"n": number}}
        answer = await gate.post(EVALUATION, json=question(resource=resource))
        assert answer.status_code == status


@pytest.mark.anyio
@pytest.mark.requirement("PDP-14")
@pytest.mark.parametrize("number", ["9007199254740993.0", "9007199254740993e0", "123456789012345678901234567890.0"])
async def test_a_number_that_would_be_rounded_is_refused_however_it_is_written(
    gate: httpx2.AsyncClient, number: str
) -> None:
    asked = question(resource={"type": "tool", "id": "open_tool", "properties": {"n": "number"}})
    body = json.dumps(asked).replace('"number"', number)
    answer = await gate.post(EVALUATION, content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400


@pytest.mark.anyio
@pytest.mark.requirement("PDP-13")
async def test_a_body_beyond_the_limit_is_refused(gate: httpx2.AsyncClient) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield b" " * 10_000

    for content in (b" " * 200_000, chunks()):
        answer = await gate.post(EVALUATION, content=content, headers=JSON)
        assert answer.status_code == 413
    assert (await gate.post(EVALUATION, json=question("open_tool"))).status_code == 200


@pytest.mark.anyio
@pytest.mark.requirement("PDP-13")
async def test_a_burst_is_stopped_and_others_are_served(databases: Databases, tmp_path: Path, clock: FakeClock) -> None:
    url = databases.copy_of("sqlite", "service", migrate.upgrade)
    settings = settings_for(tmp_path, database=url, policy=pdp.POLICY, limits={"evaluations_per_minute": 3})
    async with service_context(settings, clock=clock) as ctx, http(app_for(ctx)) as client:
        gate, other = bearer(ctx, "gate"), bearer(ctx, "other-gate")
        answers = [await client.post(EVALUATION, json=question("open_tool"), headers=gate) for _ in range(4)]
        assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
        assert answers[3].headers["content-type"] == "text/plain; charset=utf-8"
        assert answers[3].headers["retry-after"] == "20"
        entries = {"evaluations": [question("open_tool")] * 4}
        assert (await client.post(EVALUATIONS, json=entries, headers=other)).status_code == 429
        clock.advance(20)
        assert (await client.post(EVALUATION, json=question("open_tool"), headers=gate)).status_code == 200


@pytest.mark.anyio
@pytest.mark.requirement("PDP-09")
async def test_the_request_id_comes_back_on_every_answer(gate: httpx2.AsyncClient, nobody: httpx2.AsyncClient) -> None:
    name = {"X-Request-ID": "bfe9eb29 ab87"}
    answers = [
        await gate.post(EVALUATION, json=question("open_tool"), headers=name),
        await gate.post(EVALUATION, content=b"{", headers={**JSON, **name}),
        await nobody.post(EVALUATION, json=question(), headers=name),
        await gate.get(EVALUATION, headers=name),
        await gate.post(EVALUATION, content=b" " * 200_000, headers={**JSON, **name}),
        await gate.get("/nowhere", headers=name),
    ]
    assert [answer.status_code for answer in answers] == [200, 400, 401, 405, 413, 404]
    assert {answer.headers["x-request-id"] for answer in answers} == {"bfe9eb29 ab87"}
    assert "x-request-id" not in (await gate.post(EVALUATION, json=question("open_tool"))).headers


@pytest.mark.anyio
@pytest.mark.requirement("PDP-10")
async def test_callers_are_told_apart_from_denials(ctx: Context, nobody: httpx2.AsyncClient) -> None:
    for headers in ({}, {"Authorization": "Bearer garbage"}, {"Authorization": "Basic Z2F0ZTp4"}):
        answer = await nobody.post(EVALUATION, json=question(), headers=headers)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith("Bearer")
    answer = await nobody.post(EVALUATION, json=question(), headers=bearer(ctx, "status-only"))
    assert answer.status_code == 403
    assert 'scope="authzen:evaluate"' in answer.headers["www-authenticate"]
    answer = await nobody.post(EVALUATION, json=question("unknown"), headers=bearer(ctx, "gate"))
    assert (answer.status_code, answer.json()["decision"]) == (200, False)


@pytest.mark.anyio
@pytest.mark.requirement("PDP-11")
async def test_an_error_is_a_short_text_that_repeats_nothing(
    gate: httpx2.AsyncClient, nobody: httpx2.AsyncClient
) -> None:
    faulty = question(**{CANARY: CANARY})
    faulty["subject"] = {"type": CANARY, "id": {CANARY: CANARY}}
    broken = f'{{"{CANARY}": 1, "{CANARY}": 2}}'.encode()
    numbers = question(resource={"type": "tool", "id": CANARY, "properties": {CANARY: 2**60}})
    answers = [
        await gate.post(EVALUATION, json=faulty),
        await gate.post(EVALUATION, content=broken, headers=JSON),
        await gate.post(EVALUATION, json=numbers),
        await gate.post(EVALUATION, content=b"x", headers={"Content-Type": CANARY}),
        await nobody.post(EVALUATION, json=faulty, headers={"Authorization": f"Bearer {CANARY}"}),
        await gate.put(EVALUATION + f"?{CANARY}"),
        await gate.post(EVALUATIONS, json={"evaluations": [question()], "options": {"evaluations_semantic": CANARY}}),
    ]
    for answer in answers:
        assert answer.status_code in {400, 401, 405}
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        assert CANARY not in answer.text
        assert 0 < len(answer.text) < 100


@pytest.mark.anyio
@pytest.mark.requirement("ARS-07")
async def test_no_evaluation_may_be_stored_by_a_cache(gate: httpx2.AsyncClient) -> None:
    for path, body in ((EVALUATION, question()), (EVALUATIONS, {"evaluations": [question()]}), (EVALUATION, {})):
        assert (await gate.post(path, json=body)).headers["cache-control"] == "no-store"


@pytest.mark.anyio
@pytest.mark.requirement("PDP-26", "PDP-27", "PDP-28", "PDP-29", "PDP-30", "PDP-31", "PDP-35")
async def test_metadata_says_where_everything_is(nobody: httpx2.AsyncClient) -> None:
    answer = await nobody.get(METADATA, headers={"Host": "evil.example", "X-Forwarded-Host": "evil.example"})
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "public, max-age=300"
    said = answer.json()
    del said["signed_metadata"]
    assert said == {
        "policy_decision_point": IDENTIFIER,
        "access_evaluation_endpoint": IDENTIFIER + EVALUATION,
        "access_evaluations_endpoint": IDENTIFIER + EVALUATIONS,
        "search_subject_endpoint": IDENTIFIER + "/access/v1/search/subject",
        "search_resource_endpoint": IDENTIFIER + "/access/v1/search/resource",
        "search_action_endpoint": IDENTIFIER + "/access/v1/search/action",
        "access_request_endpoint": IDENTIFIER + "/access/v1/request",
        "jwks_uri": IDENTIFIER + "/jwks.json",
        "capabilities": ["urn:openid:authzen:capability:access-request"],
    }


@pytest.mark.anyio
@pytest.mark.requirement("PDP-36")
async def test_metadata_is_signed_by_a_published_key_and_says_the_same(nobody: httpx2.AsyncClient) -> None:
    said = (await nobody.get(METADATA)).json()
    signed = said.pop("signed_metadata")
    kid = pdp.header_of(signed)["kid"]
    published = [key for key in (await nobody.get("/jwks.json")).json()["keys"] if key["kid"] == kid]
    verified = jws.deserialize_compact(signed, jwk.import_key(published[0]), algorithms=["ES256"])
    claims = json.loads(verified.payload)
    assert claims.pop("iss") == IDENTIFIER
    assert claims.pop("iat") == 1777579200  # what the test's clock shows
    assert claims == said


@pytest.mark.anyio
async def test_signed_metadata_passes_for_no_binding_token(ctx: Context, gate: httpx2.AsyncClient) -> None:
    denial = (await gate.post(EVALUATION, json=question())).json()["context"]
    body = pdp.submission(question(), denial)
    body["denial"]["binding_token"] = (await gate.get(METADATA)).json()["signed_metadata"]
    answer = await gate.post("/access/v1/request", json=body)
    assert answer.status_code == 400
    assert answer.json()["type"].endswith("invalid_denial_binding")


@pytest.mark.anyio
@pytest.mark.requirement("PDP-28")
async def test_every_advertised_endpoint_exists(gate: httpx2.AsyncClient) -> None:
    """The enforcement point may use all of them but the searches."""
    for name, url in (await gate.get(METADATA)).json().items():
        if name.endswith("_endpoint"):
            expected = 403 if name.startswith("search_") else 400
            assert (await gate.post(url, json={})).status_code == expected
        elif name == "jwks_uri":
            assert (await gate.get(url)).status_code == 200


@pytest.mark.anyio
@pytest.mark.requirement("PDP-26", "PDP-27")
async def test_an_identifier_with_a_path_has_its_metadata_before_that_path(
    databases: Databases, tmp_path: Path, clock: FakeClock
) -> None:
    url = databases.copy_of("sqlite", "service", migrate.upgrade)
    tenant = IDENTIFIER + "/tenant1"
    settings = settings_for(tmp_path, database=url, policy=pdp.POLICY, identifier=tenant)
    async with service_context(settings, clock=clock) as ctx, http(app_for(ctx), headers=bearer(ctx, "gate")) as gate:
        answer = await gate.get(METADATA + "/tenant1")
        assert answer.json()["policy_decision_point"] == tenant
        assert (await gate.get("/tenant1" + METADATA)).status_code == 404
        endpoint = answer.json()["access_evaluation_endpoint"]
        assert endpoint == tenant + EVALUATION
        assert (await gate.post(endpoint, json=question("open_tool"))).json()["decision"] is True
        refused = await gate.post(endpoint, content=b"{", headers=JSON)
        assert (refused.status_code, refused.headers["content-type"]) == (400, "text/plain; charset=utf-8")


@pytest.mark.anyio
@pytest.mark.requirement("PDP-31", "PDP-32", "PDP-35")
async def test_the_key_set_is_public_in_every_sense(nobody: httpx2.AsyncClient) -> None:
    answer = await nobody.get("/jwks.json")
    assert answer.headers["cache-control"] == "public, max-age=300"
    keys = answer.json()["keys"]
    assert len({key["kid"] for key in keys}) == len(keys) == 2
    for key in keys:
        assert key["use"] == "sig"
        assert set(key) <= {"kty", "crv", "x", "y", "kid", "use", "alg"}


@pytest.mark.anyio
@pytest.mark.requirement("PDP-46", "ARS-106")
async def test_the_schema_of_a_request_is_where_the_denial_says(
    gate: httpx2.AsyncClient, nobody: httpx2.AsyncClient
) -> None:
    denial = (await gate.post(EVALUATION, json=question("form_tool"))).json()["context"]
    url = denial["access_request"]["request_schema_url"]
    answer = await gate.get(url)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/schema+json"
    assert answer.json() == {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": url,
        "type": "object",
        "properties": {
            "context": {
                "type": "object",
                "required": ["justification"],
                "properties": {"justification": {"type": "string"}},
            }
        },
    }
    assert (await nobody.get(url)).status_code == 401
    for template in ("auto", "unknown"):
        missing = await gate.get(f"/access/v1/request-schemas/{template}")
        assert (missing.status_code, missing.headers["content-type"]) == (404, "application/problem+json")


@pytest.mark.anyio
async def test_the_evaluation_endpoints_are_described(gate: httpx2.AsyncClient) -> None:
    paths = (await gate.get("/openapi.json")).json()["paths"]
    for path in (EVALUATION, EVALUATIONS):
        operation = paths[path]["post"]
        assert set(operation["responses"]) == {"200", "400", "401", "403", "413", "429", "503"}
        assert "text/plain" in operation["responses"]["400"]["content"]
        assert "subject" in operation["requestBody"]["content"]["application/json"]["schema"]["properties"]
