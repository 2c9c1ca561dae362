"""Tokens that the gateway signs for a server behind it (SEP-2848, "Completion": bounded by the approval's expiry)."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, OKPKey, RSAKey
from mcp.server.mcpserver import MCPServer
from starlette.types import ASGIApp, Receive, Scope, Send

from mcp_gate.approved import approved_until, within
from mcp_gate.settings import ConfigurationInvalid
from mcp_gate.settings_tools import CallTokens
from mcp_gate.upstream_auth import SignedCalls, load_call_key
from tests.clock import FakeClock
from tests.gate.gateways import http_gateway
from tests.gate.live import serving
from tests.gate.upstream_server import add_tools
from tests.gate.world import DISPOSITION, World, create, ended, tasks_client

EC = ECKey.generate_key("P-256", parameters={"kid": "gate-1"})
ED = OKPKey.generate_key("Ed25519")


def key_file(folder: Path, key: Any = EC, *, private: bool = True) -> Path:
    path = folder / "call-key.json"
    path.write_text(json.dumps(key.as_dict(private=private)), encoding="utf-8")
    return path


def settings(path: Path) -> CallTokens:
    return CallTokens(issuer="https://gate.example", audience="https://bank.example", key_file=path)


def claims_of(header: str, key: Any = EC) -> dict[str, Any]:
    decoded = jwt.decode(header.removeprefix("Bearer "), key, algorithms=["ES256", "Ed25519"])
    return dict(decoded.claims)


@pytest.mark.requirement("PEP-107")
@pytest.mark.parametrize("key", [EC, ED])
@pytest.mark.parametrize(("left", "lives"), [(None, 60), (300, 60), (7, 7)])
def test_a_token_ends_with_the_approval_at_the_latest(
    tmp_path: Path, clock: FakeClock, key: Any, left: int | None, lives: int
) -> None:
    now = clock()
    bounds = {} if left is None else {"gate-4": now + timedelta(seconds=left)}
    path = key_file(tmp_path, key)
    auth = SignedCalls(settings(path), bounds, key=load_call_key(path), clock=clock)
    tokens = []
    for _ in range(2):
        request = httpx2.Request("POST", "https://bank.example/mcp", json={"id": "gate-4", "method": "tools/call"})
        sent = next(auth.auth_flow(request))
        tokens.append(claims_of(sent.headers["authorization"], key))
    assert tokens[0]["exp"] == int(now.timestamp()) + lives
    assert (tokens[0]["iss"], tokens[0]["aud"]) == ("https://gate.example", "https://bank.example")
    assert tokens[0]["jti"] != tokens[1]["jti"]


@pytest.mark.parametrize("body", [{"id": "gate-5"}, {"id": 7}, {"method": "notifications/cancelled"}, [1]])
def test_what_belongs_to_no_approval_gets_an_ordinary_token(tmp_path: Path, clock: FakeClock, body: Any) -> None:
    path = key_file(tmp_path)
    auth = SignedCalls(settings(path), {"gate-4": clock()}, key=load_call_key(path), clock=clock)
    sent = next(auth.auth_flow(httpx2.Request("POST", "https://bank.example/mcp", json=body)))
    assert claims_of(sent.headers["authorization"])["exp"] == int(clock().timestamp()) + 60


def test_an_approval_reaches_no_further_than_its_block() -> None:
    until = datetime(2026, 12, 1, tzinfo=UTC)
    with within(until):
        assert approved_until() == until
    assert approved_until() is None


@pytest.mark.anyio
@pytest.mark.requirement("PEP-107")
async def test_an_approved_call_carries_a_token_that_ends_with_its_approval(world: World, tmp_path: Path) -> None:
    """Over the wire: of all requests to the server behind, only the approved call is so bound."""
    upstream: MCPServer[Any] = MCPServer("upstream")
    add_tools(upstream, tmp_path / "effects")
    app = upstream.streamable_http_app()
    calls: list[tuple[str, dict[str, Any]]] = []

    async def recording(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = {name.decode(): value.decode() for name, value in scope["headers"]}
            calls.append((headers.get("mcp-name", ""), claims_of(headers["authorization"])))
        await app(scope, receive, send)

    recorded: ASGIApp = recording
    world.service.approval_seconds = 20
    tokens = {"issuer": "https://gate.example", "audience": "bank", "key_file": str(key_file(tmp_path))}
    async with (
        serving(recorded) as base,
        http_gateway(world, upstream={"url": f"{base}/mcp", "call_tokens": tokens}) as gateway,
        gateway.client(tasks_client()) as client,
    ):
        await client.call_tool("read", {"account": "a1"})
        created = await create(client, "wire", to="acct-991", amount=1)
        world.service.approve()
        with anyio.fail_after(55):
            state = await ended(client, created.task_id)
    (task,) = world.service.tasks.values()
    until = datetime.fromisoformat(task["approval"]["approved_until"])
    assert state["result"]["_meta"][DISPOSITION] == "approved-executed"
    assert {named for named, _ in calls} >= {"read", "wire"}
    (bound,) = [claims for named, claims in calls if named == "wire"]
    assert bound["exp"] <= until.timestamp()
    assert all(claims["exp"] - claims["iat"] == 60 for named, claims in calls if named != "wire")


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.mark.parametrize(
    "write",
    [
        lambda path: path.mkdir(),
        lambda path: path.write_text("nonsense"),
        lambda path: path.write_text("{}"),
        lambda path: path.write_text(json.dumps(EC.as_dict(private=False))),
        lambda path: path.write_text(json.dumps(ECKey.generate_key("P-384").as_dict(private=True))),
        lambda path: path.write_text(json.dumps(RSAKey.generate_key(2048).as_dict(private=True))),
    ],
)
def test_a_file_that_holds_no_fit_key_is_refused_without_showing_it(tmp_path: Path, write: Any) -> None:
    path = tmp_path / "call-key.json"
    write(path)
    with pytest.raises(ConfigurationInvalid, match="private P-256 or Ed25519 JWK"):
        load_call_key(path)
