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
from tests.service import IDENTIFIER, SECRET, app_for, http, service_context, settings_for

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
    assert refused.status_code in {401, 404}
