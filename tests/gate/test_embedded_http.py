"""An author's own HTTP server with the gate in it and the SDK's bearer authentication before it."""

import base64
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import httpx2
import pytest
from mcp import Client, types
from mcp.client.streamable_http import streamable_http_client
from mcp.server.auth.settings import AuthSettings
from pydantic import AnyHttpUrl

from arap_service.protocol.callback import sign
from mcp_gate.front_auth import JwtVerifier
from mcp_gate.settings import Issuer
from tests.gate.issuer import ISSUER, RESOURCE, TestIssuer
from tests.gate.live import serving
from tests.gate.scripted_service import HOST
from tests.gate.world import DISPOSITION, World, at_once, connected, create, ended, tasks_client

pytestmark = pytest.mark.anyio

KEY = b"callback-key-of-thirty-two-bytes"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@asynccontextmanager
async def embedded(world: World, **changes: Any) -> AsyncIterator[tuple[str, TestIssuer]]:
    """The base URL of the server, and who signs its callers' tokens."""
    issuer = TestIssuer()
    async with httpx2.AsyncClient(transport=issuer.transport()) as http:
        known = [Issuer(issuer=ISSUER, jwks_uri=f"{ISSUER}/jwks.json")]
        server = world.server(
            world.settings(**changes),
            token_verifier=JwtVerifier(known, resource=RESOURCE, http=http, clock=lambda: datetime.now(UTC)),
            auth=AuthSettings(
                issuer_url=AnyHttpUrl(ISSUER), resource_server_url=AnyHttpUrl(RESOURCE), validate_token_resource=True
            ),
        )
        with anyio.fail_after(60):
            async with serving(server.streamable_http_app()) as base:
                yield base, issuer


@asynccontextmanager
async def calling(base: str, issuer: TestIssuer) -> AsyncIterator[Client]:
    headers = {"authorization": f"Bearer {issuer.token()}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=20) as http,
        Client(streamable_http_client(f"{base}/mcp", http_client=http), extensions=[tasks_client()]) as client,
    ):
        yield client


async def test_a_tool_sees_its_callers_token_at_once_but_never_when_it_runs_later(world: World) -> None:
    """Deferred execution happens in the lifespan's own context, as it also would after a restart."""
    async with embedded(world) as (base, issuer), calling(base, issuer) as client:
        (now,) = (await client.call_tool("sees", {})).content
        world.service.rules["sees"] = "request"
        created = await create(client, "sees")
        world.service.approve()
        state = await ended(client, created.task_id)
    assert isinstance(now, types.TextContent)
    assert now.text == "token"
    assert state["result"]["content"][0]["text"] == "no token"


async def test_the_callback_endpoint_stands_beside_the_authors_server(world: World) -> None:
    callback = {"endpoint": "https://gate.example/callbacks/arap", "key": base64.b64encode(KEY).decode()}
    changes = {
        "backend": {"identifier": HOST, "idempotency_retention_seconds": 86_400, "callback": callback},
        "limits": {"poll_interval_seconds": 3000},
    }
    async with embedded(world, **changes) as (base, issuer), calling(base, issuer) as client:
        created = await create(client, "wire", to="acct-991", amount=1)
        task_id = world.service.approve()
        state = world.service.tasks[task_id]["body"]["callback"]["state"]
        task = {"id": task_id, "status": "approved", "status_endpoint": f"{HOST}/requests/{task_id}"}
        body = httpx2.Request("POST", base, json={"task": task, "state": state}).content
        headers = sign(body, webhook_id=f"msg_{secrets.token_hex(4)}", at=datetime.now(UTC), keys=[KEY])
        async with httpx2.AsyncClient() as http:
            assert (await http.post(f"{base}/callbacks/arap", content=body, headers=headers)).status_code == 204
        done = await at_once(client, created.task_id)
    assert done["result"]["_meta"][DISPOSITION] == "approved-executed"


async def test_a_principal_of_stdio_does_not_stand_in_for_an_http_caller(world: World) -> None:
    """The same server without authentication: nobody is identified, so nothing is decided."""
    async with serving(world.server().streamable_http_app()) as base, connected(f"{base}/mcp") as client:
        with pytest.raises(Exception, match="not identified"):
            await client.call_tool("read", {"account": "a1"})
    assert world.service.received == []
