"""The built-in issuer: RFC 6749 section 4.4 over HTTP, tokens of RFC 9068."""

import base64
import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from arap_service.context import Context
from arap_service.keys import ACCESS_TYP, verify
from tests.clock import FakeClock
from tests.service import IDENTIFIER, SECRET, app_for, http, service_context, settings_for, token
from tests.service import client as configured

POLICY = "version: 1\nrules: []\n"
GATE = "https://gate.example/mcp"


@pytest.fixture
async def ctx(tmp_path: Path, service_url: str, clock: FakeClock) -> AsyncIterator[Context]:
    settings = settings_for(tmp_path, database=service_url, policy=POLICY)
    async with service_context(settings, clock=clock) as context:
        yield context


@pytest.fixture
async def client(ctx: Context) -> AsyncIterator[httpx2.AsyncClient]:
    async with http(app_for(ctx)) as opened:
        yield opened


def basic(client_id: str, secret: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{client_id}:{secret}".encode()).decode()}


GRANT = {"grant_type": "client_credentials"}


@pytest.mark.anyio
async def test_configured_client_gets_a_short_lived_token_for_this_service(
    ctx: Context, client: httpx2.AsyncClient, clock: FakeClock
) -> None:
    response = await client.post("/issuer/token", data=GRANT, headers=basic("gate", SECRET))
    assert response.status_code == 200
    assert response.headers["cache-control"] == "no-store"
    body = response.json()
    claims = verify(body["access_token"], typ=ACCESS_TYP, issuers=ctx.trust.access)
    assert claims["iss"] == f"{IDENTIFIER}/issuer"
    assert claims["aud"] == IDENTIFIER
    assert claims["sub"] == claims["client_id"] == "gate"
    assert claims["exp"] == int(clock().timestamp()) + body["expires_in"]
    assert set(claims["scope"].split()) >= {"arap:submit", "arap:status"}


@pytest.mark.anyio
async def test_client_of_another_resource_gets_a_token_for_that_one_and_for_whom_it_acts(
    tmp_path: Path, service_url: str, clock: FakeClock
) -> None:
    digest = hashlib.sha256(SECRET.encode()).hexdigest()
    agent = {"client_id": "agent", "secret_hash": f"sha256:{digest}", "subject": "dana@example.com", "audience": GATE}
    settings = settings_for(
        tmp_path, database=service_url, policy=POLICY, builtin_issuer={"enabled": True, "clients": [agent]}
    )
    async with service_context(settings, clock=clock) as ctx, http(app_for(ctx)) as client:
        response = await client.post("/issuer/token", data=GRANT, headers=basic("agent", SECRET))
        token = response.json()["access_token"]
        refused = await client.get("/resolver/v1/requests", headers={"Authorization": f"Bearer {token}"})
    claims = verify(token, typ=ACCESS_TYP, issuers=ctx.trust.access)
    assert (claims["aud"], claims["sub"], claims["client_id"]) == (GATE, "dana@example.com", "agent")
    assert claims["scope"] == ""
    assert refused.status_code == 401


@pytest.mark.parametrize(
    ("form", "headers", "status", "error"),
    [
        (GRANT, basic("gate", "wrong"), 401, "invalid_client"),
        (GRANT, basic("nobody", SECRET), 401, "invalid_client"),
        (GRANT, {}, 401, "invalid_client"),
        (GRANT, {"Authorization": "Basic !!!"}, 401, "invalid_client"),
        (GRANT, {"Authorization": "Basic " + base64.b64encode(b"\xff\xfe:x").decode()}, 401, "invalid_client"),
        (GRANT, {"Authorization": "Bearer x"}, 401, "invalid_client"),
        (GRANT | {"client_id": "gate", "client_secret": "wrong"}, {}, 401, "invalid_client"),
        ({"grant_type": "password", "username": "a"}, basic("gate", SECRET), 400, "unsupported_grant_type"),
        ({}, basic("gate", SECRET), 400, "unsupported_grant_type"),
        (GRANT | {"scope": "admin"}, basic("gate", SECRET), 400, "invalid_scope"),
        (GRANT | {"scope": "arap:submit admin"}, basic("gate", SECRET), 400, "invalid_scope"),
        (GRANT | {"scope": " "}, basic("gate", SECRET), 400, "invalid_scope"),
    ],
)
@pytest.mark.anyio
async def test_request_that_is_not_in_order_gets_no_token(
    form: dict[str, str], headers: dict[str, str], status: int, error: str, client: httpx2.AsyncClient
) -> None:
    """RFC 6749 section 5.2."""
    response = await client.post("/issuer/token", data=form, headers=headers)
    assert (response.status_code, response.json()["error"]) == (status, error)
    assert response.headers["cache-control"] == "no-store"
    assert "access_token" not in response.text


@pytest.mark.anyio
async def test_unknown_client_and_wrong_secret_look_the_same(client: httpx2.AsyncClient) -> None:
    unknown = await client.post("/issuer/token", data=GRANT, headers=basic("nobody", SECRET))
    wrong = await client.post("/issuer/token", data=GRANT, headers=basic("gate", "wrong"))
    assert (unknown.content, unknown.headers) == (wrong.content, wrong.headers)


@pytest.mark.anyio
async def test_secret_may_stand_in_the_form_and_the_scope_may_be_narrowed(
    ctx: Context, client: httpx2.AsyncClient
) -> None:
    form = GRANT | {"client_id": "gate", "client_secret": SECRET, "scope": "arap:status arap:submit"}
    body = (await client.post("/issuer/token", data=form)).json()
    assert body["scope"] == "arap:status arap:submit"
    assert verify(body["access_token"], typ=ACCESS_TYP, issuers=ctx.trust.access)["scope"] == body["scope"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"grant_type=client_credentials&grant_type=client_credentials", 400),
        (b"\xff", 400),
        (b"grant_type=%ff", 400),
        (b"nonsense", 400),
        (b"a=" + b"b" * 20_000, 413),
    ],
)
@pytest.mark.anyio
async def test_form_that_cannot_be_read_in_one_way_is_refused(
    body: bytes, status: int, client: httpx2.AsyncClient
) -> None:
    """RFC 6749 section 3.2: parameters must not be included more than once."""
    response = await client.post("/issuer/token", content=body, headers=basic("gate", SECRET))
    assert response.status_code == status


@pytest.mark.anyio
async def test_client_that_is_an_agent_is_named_as_the_actor(
    service_url: str, tmp_path: Path, clock: FakeClock
) -> None:
    """RFC 8693 section 4.1: `act` names who acts."""
    clients = [configured("bot", "arap:submit", agent="agent-7")]
    settings = settings_for(
        tmp_path, database=service_url, policy=POLICY, builtin_issuer={"enabled": True, "clients": clients}
    )
    async with service_context(settings, clock=clock) as context:
        claims = verify(token(context, "bot"), typ=ACCESS_TYP, issuers=context.trust.access)
    assert claims["act"] == {"sub": "agent-7"}


@pytest.mark.anyio
async def test_metadata_leads_to_the_keys_that_verify_its_tokens(ctx: Context, client: httpx2.AsyncClient) -> None:
    """RFC 8414 section 3; the issuer's keys are not those of the decision point."""
    metadata = (await client.get("/.well-known/oauth-authorization-server/issuer")).json()
    assert metadata["issuer"] == f"{IDENTIFIER}/issuer"
    published = (await client.get(metadata["jwks_uri"])).json()["keys"]
    own = (await client.get("/jwks.json")).json()["keys"]
    assert len(published) == 1
    assert published[0]["kid"] not in {each["kid"] for each in own}
    assert (await client.post(metadata["token_endpoint"], data=GRANT, headers=basic("gate", SECRET))).status_code == 200


@pytest.mark.anyio
async def test_issuer_that_is_off_does_not_exist(service_url: str, tmp_path: Path, clock: FakeClock) -> None:
    settings = settings_for(
        tmp_path,
        database=service_url,
        policy=POLICY,
        builtin_issuer={"enabled": False},
        issuers=[{"issuer": "https://issuer.example", "jwks_uri": "https://issuer.example/jwks.json"}],
    )
    async with service_context(settings, clock=clock) as context, http(app_for(context)) as client:
        for path in ("/issuer/jwks.json", "/.well-known/oauth-authorization-server/issuer"):
            assert (await client.get(path)).status_code == 404
        assert (await client.post("/issuer/token", data=GRANT, headers=basic("gate", SECRET))).status_code == 404


@pytest.mark.anyio
async def test_tenant_path_carries_all_endpoints(service_url: str, tmp_path: Path, clock: FakeClock) -> None:
    """PDP-26, RFC 8414: well-known paths are inserted before the path of the identifier, all others stand under it."""
    settings = settings_for(tmp_path, database=service_url, policy=POLICY, identifier=f"{IDENTIFIER}/tenant1")
    async with service_context(settings, clock=clock) as context, http(app_for(context)) as client:
        metadata = (await client.get("/.well-known/oauth-authorization-server/tenant1/issuer")).json()
        assert metadata["token_endpoint"] == f"{IDENTIFIER}/tenant1/issuer/token"
        answer = await client.post(metadata["token_endpoint"], data=GRANT, headers=basic("gate", SECRET))
        assert answer.status_code == 200
        assert (await client.get("/tenant1/readyz")).status_code == 200
