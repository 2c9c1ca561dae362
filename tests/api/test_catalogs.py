"""Catalogs over the wire: who sees which values for which denial, and which are accepted at submission (ARS-K)."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import structlog

from arap_service.context import Context
from tests.clock import FakeClock
from tests.pdp import change_rules
from tests.peers import EVALUATION, REQUEST, Peers, peers, question
from tests.service import GATE_SCOPES, IDENTIFIER, RESOLVER_SCOPES, client, service_context, settings_for

POLICY = """
version: 1
clients: [{client: gate, may: 'true'}, {client: other-gate, may: 'true'}, {client: no-catalog, may: 'true'}]
rules:
  - {id: roles, when: resource.id == "wire_transfer", request: roles}
  - {id: plain, when: resource.id == "plain", request: plain}
templates:
  roles:
    title: A role
    explanation: Somebody gets a role.
    steps: [{id: one, title: One, resolvers: [resolver]}]
    request_schema:
      type: object
      properties:
        requested_access:
          type: object
          properties:
            application: {type: string}
            roles: {type: array, items: {type: string}}
    catalogs:
      /requested_access/application: {catalog: applications}
      /requested_access/roles: {catalog: roles, scope: {application: /requested_access/application}}
  plain:
    title: Plain
    explanation: Nothing to choose.
    steps: [{id: one, title: One, resolvers: [resolver]}]
catalogs:
  applications:
    items:
      - {value: app-1, label: Ledger, description: Books and accounts}
      - {value: app-2, label: Payroll, when: 'subject.id == "bob@example.com"'}
      - {value: app-3, label: Archive, status: retired}
      - {value: app-4, label: Vault, when: 'subject.missing == 1'}
      - {value: app-5, label: Orders, status: active}
  roles:
    scope: [application]
    owner_when: subject.id == "bob@example.com"
    items:
      - {value: reader, label: Reader, owner: treasury, scope: {application: [app-1]}}
      - {value: writer, label: Writer, risk_level: high, scope: {application: [app-1]}}
      - {value: clerk, label: Clerk, scope: {application: [app-2]}}
  unused:
    items: [{value: x}]
"""
CATALOG_SCOPES = (*GATE_SCOPES, "arap:catalog")
CANARY = "canary-6b1f"


@pytest.fixture
async def both(service_url: str, tmp_path: Path, clock: FakeClock) -> AsyncIterator[Peers]:
    """An enforcement point that may look at catalogs, one that may not, and a resolver."""
    clients = (
        client("gate", *CATALOG_SCOPES),
        client("other-gate", *CATALOG_SCOPES),
        client("no-catalog", *GATE_SCOPES),
        client("resolver", *RESOLVER_SCOPES),
    )
    settings = settings_for(
        tmp_path,
        database=service_url,
        policy=POLICY,
        limits={"catalog_calls_per_minute": 30},
        builtin_issuer={"enabled": True, "clients": clients},
    )
    async with service_context(settings, clock=clock) as context:
        opened = peers(context)
        yield opened
        await opened.aclose()


async def denial(both: Peers, *, subject: str = "alice@example.com", tool: str = "wire_transfer") -> dict[str, Any]:
    """What the decision says of a denial for this subject."""
    answer = await both.gate.post(EVALUATION, json=question(subject=subject, tool=tool))
    context: dict[str, Any] = answer.json()["context"]
    return context


async def endpoints(both: Peers, denied: dict[str, Any]) -> dict[str, str]:
    """The catalog endpoint of each field."""
    document = await both.gate.get(denied["access_request"]["request_catalogs_url"])
    return {pointer: field["endpoint"] for pointer, field in document.json()["fields"].items()}


async def applications(both: Peers, *, subject: str = "alice@example.com") -> str:
    """The endpoint of the catalog of applications, for a fresh denial."""
    return (await endpoints(both, await denial(both, subject=subject)))["/requested_access/application"]


async def choose(both: Peers, denied: dict[str, Any], subject: str = "alice@example.com", **chosen: Any) -> Any:
    """Submit for this denial with these members of `requested_access`."""
    offer = denied["access_request"]
    echo = {"binding_token": offer["binding_token"], "expires_at": offer["expires_at"]}
    body = {**question(subject=subject), "denial": {**echo, "evaluation_id": denied["evaluation_id"]}}
    return await both.gate.post(REQUEST, json={**body, "requested_access": chosen})


def url_with(url: str, **parameters: str) -> httpx2.URL:
    """The endpoint with these parameters beside its own."""
    return httpx2.URL(url).copy_merge_params(parameters)


def values(response: httpx2.Response) -> list[str]:
    """The values of a page."""
    assert response.status_code == 200, response.text
    return [item["value"] for item in response.json()["items"]]


@pytest.mark.anyio
@pytest.mark.requirement("PDP-45", "ARS-112")
async def test_denial_leads_to_the_document_and_the_document_to_endpoints_that_name_the_denial(both: Peers) -> None:
    denied = await denial(both)
    offer = denied["access_request"]
    assert offer["request_schema_url"] == f"{IDENTIFIER}/access/v1/request-schemas/roles"
    document = await both.gate.get(offer["request_catalogs_url"])
    assert document.headers["cache-control"] == "no-store"
    query = f"evaluation_id={denied['evaluation_id']}"
    assert document.json() == {
        "fields": {
            "/requested_access/application": {
                "endpoint": f"{IDENTIFIER}/access/v1/catalogs/applications?{query}",
                "search_param": "q",
            },
            "/requested_access/roles": {
                "endpoint": f"{IDENTIFIER}/access/v1/catalogs/roles?{query}",
                "search_param": "q",
                "scope_params": {"application": "/requested_access/application"},
            },
        }
    }
    assert "request_catalogs_url" not in (await denial(both, tool="plain"))["access_request"]


@pytest.mark.anyio
@pytest.mark.requirement("ARS-110")
async def test_two_subjects_see_different_values_and_hidden_ones_are_nowhere(both: Peers) -> None:
    """Not in the list, not in a search for them, not in the total; conditions that err hide."""
    hers, his = await applications(both), await applications(both, subject="bob@example.com")
    listed = await both.gate.get(hers)
    assert listed.json() == {
        "items": [
            {"value": "app-1", "label": "Ledger", "description": "Books and accounts"},
            {"value": "app-5", "label": "Orders"},
        ],
        "total": 2,
    }
    assert values(await both.gate.get(his)) == ["app-1", "app-5", "app-2"]
    for hidden in ("payroll", "archive", "vault", "app-2"):
        assert (await both.gate.get(url_with(hers, q=hidden))).json() == {"items": [], "total": 0}
    assert values(await both.gate.get(url_with(hers, q="BOOKS", unheard_of="1"))) == ["app-1"]


@pytest.mark.anyio
@pytest.mark.requirement("ARS-110", "ARS-01")
async def test_looking_is_a_right_apart_from_submitting(both: Peers) -> None:
    """Nor does it help to know another client's denial, or a catalog that the template does not use."""
    url = await applications(both)
    anonymous = await both.gate.get(url, headers={"Authorization": "Bearer garbage"})
    assert anonymous.status_code == 401
    assert anonymous.headers["www-authenticate"].startswith("Bearer")
    refused = await both.gate.get(url, headers=both.authenticated("no-catalog"))
    assert (refused.status_code, refused.json()["type"]) == (403, "urn:x-arap:problem:forbidden")
    assert 'scope="arap:catalog"' in refused.headers["www-authenticate"]
    foreign = await both.stranger.get(url)
    missing = await both.stranger.get("/access/v1/catalogs/applications", params={"evaluation_id": "eval_nothing"})
    assert (foreign.status_code, foreign.content) == (404, missing.content)
    assert (await both.gate.get(url.replace("applications", "unused"))).status_code == 404


@pytest.mark.anyio
@pytest.mark.requirement("ARS-110", "ARS-113")
async def test_owner_is_told_to_those_whom_the_catalog_entitles(both: Peers) -> None:
    shown = {}
    for subject in ("alice@example.com", "bob@example.com"):
        url = (await endpoints(both, await denial(both, subject=subject)))["/requested_access/roles"]
        shown[subject] = (await both.gate.get(url_with(url, application="app-1"))).json()["items"]
    writer = {"value": "writer", "label": "Writer", "risk_level": "high"}
    assert shown["alice@example.com"] == [{"value": "reader", "label": "Reader"}, writer]
    assert shown["bob@example.com"] == [{"value": "reader", "label": "Reader", "owner": "treasury"}, writer]


@pytest.mark.anyio
@pytest.mark.requirement("ARS-111")
async def test_pages_follow_one_another_and_the_last_has_no_cursor(both: Peers) -> None:
    """A cursor belongs to one caller and one look-up: elsewhere it is refused, whole or altered."""
    his = await applications(both, subject="bob@example.com")
    first = await both.gate.get(url_with(his, limit="2"))
    cursor = first.json()["next_cursor"]
    assert values(first) == ["app-1", "app-5"]
    assert first.json()["total"] == 3
    second = await both.gate.get(url_with(his, limit="2", cursor=cursor))
    assert values(second) == ["app-2"]
    assert "next_cursor" not in second.json()
    other = await applications(both, subject="bob@example.com")
    for url, params in (
        (his, {"cursor": cursor, "q": "a"}),
        (other, {"cursor": cursor}),
        (his, {"cursor": cursor[:-4] + "AAAA"}),
        (his, {"cursor": "no cursor"}),
    ):
        refused = await both.gate.get(url_with(url, **params))
        assert (refused.status_code, refused.json()["type"]) == (400, "urn:x-arap:problem:invalid-request")
        assert refused.json()["pointer"] == "/cursor"


@pytest.mark.anyio
@pytest.mark.requirement("ARS-112")
async def test_call_that_names_no_living_denial_is_refused(both: Peers, clock: FakeClock) -> None:
    for path in ("/access/v1/catalogs/applications", "/access/v1/request-catalogs/roles"):
        refused = await both.gate.get(path)
        assert (refused.status_code, refused.json()["pointer"]) == (400, "/evaluation_id")
    url = await applications(both)
    clock.advance(360)
    late = await both.gate.get(url, headers=both.authenticated("gate"))
    assert late.status_code == 410
    assert late.json()["type"].endswith(":expired_denial")


@pytest.mark.anyio
async def test_parameters_that_cannot_be_meant_are_refused(both: Peers) -> None:
    url = await applications(both)
    for params in ("limit=0", "limit=many", "limit=-1", "q=a&q=b", f"q={'a' * 256}"):
        refused = await both.gate.get(f"{url}&{params}")
        assert (refused.status_code, refused.json()["type"]) == (400, "urn:x-arap:problem:invalid-request"), params
    roles = (await endpoints(both, await denial(both)))["/requested_access/roles"]
    refused = await both.gate.get(roles)
    assert (refused.status_code, refused.json()["pointer"]) == (400, "/application")


@pytest.mark.anyio
@pytest.mark.requirement("ARS-113", "ARS-06")
async def test_look_ups_are_limited_and_their_terms_are_written_nowhere(both: Peers) -> None:
    url = await applications(both)
    with structlog.testing.capture_logs() as logs:
        answers = [await both.gate.get(url_with(url, q=CANARY)) for _ in range(31)]
    assert answers[0].status_code == 200
    assert (answers[-1].status_code, answers[-1].json()["type"]) == (429, "urn:x-arap:problem:rate-limited")
    assert int(answers[-1].headers["retry-after"]) >= 1
    assert CANARY not in repr(logs)
    assert (await both.gate.get(url, headers=both.authenticated("other-gate"))).status_code == 404  # its own rate


@pytest.mark.anyio
@pytest.mark.requirement("ARS-109")
async def test_values_that_the_denial_leads_to_are_accepted(both: Peers) -> None:
    denied = await denial(both)
    accepted = await choose(both, denied, application="app-1", roles=["reader", "writer"])
    assert accepted.status_code == 202, accepted.text


@pytest.mark.anyio
@pytest.mark.requirement("ARS-109")
@pytest.mark.parametrize(
    ("chosen", "faults"),
    [
        ({"application": "app-2"}, {"/requested_access/application": "unknown"}),
        ({"application": "app-9"}, {"/requested_access/application": "unknown"}),
        ({"application": "app-4"}, {"/requested_access/application": "unknown"}),
        ({"application": "app-3"}, {"/requested_access/application": "retired"}),
        ({"application": "app-1", "roles": ["reader", "clerk"]}, {"/requested_access/roles/1": "unknown"}),
        ({"roles": ["reader"]}, {"/requested_access/roles/0": "scope"}),
    ],
)
async def test_value_that_may_not_be_requested_makes_no_request(
    both: Peers, chosen: dict[str, Any], faults: dict[str, str]
) -> None:
    """What is hidden from the subject is refused as what never existed; the binding stays good for another attempt."""
    denied = await denial(both)
    refused = await choose(both, denied, **chosen)
    assert (refused.status_code, refused.json()["type"]) == (422, "urn:x-arap:problem:catalog-value-rejected")
    assert {error["pointer"]: error["code"] for error in refused.json()["errors"]} == faults
    assert (await choose(both, denied, application="app-1")).status_code == 202


@pytest.mark.anyio
@pytest.mark.requirement("ARS-109")
@pytest.mark.parametrize(
    ("change", "code"),
    [
        ("status: retired", "retired"),
        ("status: disabled", "disabled"),
        ("risk_level: high, changed_at: '2026-04-30T20:00:01Z'", "changed"),
        ("when: 'false'", "unknown"),
    ],
)
async def test_value_that_changed_since_it_was_looked_up_is_refused(
    both: Peers, clock: FakeClock, change: str, code: str
) -> None:
    denied = await denial(both)
    assert "app-5" in values(await both.gate.get((await endpoints(both, denied))["/requested_access/application"]))
    clock.advance(2)
    context: Context = both.context
    change_rules(context, context.settings.policy_path, "label: Orders, status: active", f"label: Orders, {change}")
    refused = await choose(both, denied, application="app-5")
    assert refused.status_code == 422
    assert refused.json()["errors"] == [{"pointer": "/requested_access/application", "code": code}]
