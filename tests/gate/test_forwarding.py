"""What the gateway hands through between protocol eras, and upstreams of the handshake era (notes on SDK 2.3)."""

import json
from pathlib import Path
from typing import Any, cast

import anyio
import anyio.lowlevel
import pytest
from mcp import types
from mcp.server.mcpserver import MCPServer
from mcp.shared.exceptions import MCPError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from mcp_gate.settings import Upstream as UpstreamSettings
from mcp_gate.upstream import Upstream
from tests.gate.eras import HandshakeEra
from tests.gate.gateways import http_gateway
from tests.gate.live import serving
from tests.gate.upstream_server import add_tools
from tests.gate.world import World, tasks_client

pytestmark = pytest.mark.anyio


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    made.service.rules |= {"confirm": "permit", "echo": "permit"}
    return made


def asking_upstream(seen: list[dict[str, Any]]) -> Starlette:
    """An upstream in raw messages: `confirm` asks for input first, `echo` answers with what it was sent."""

    async def handle(request: Request) -> Response:
        message = await request.json()
        seen.append(message)
        result: dict[str, Any] = {"resultType": "complete"}
        if message["method"] == "server/discover":
            result |= {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
        if message["method"] == "tools/list":
            schema = {"type": "object"}
            result |= {"tools": [{"name": name, "inputSchema": schema} for name in ("confirm", "echo")]}
        if message["method"] != "tools/call":
            result |= {"ttlMs": 0, "cacheScope": "private"}
        elif message["params"]["name"] == "confirm" and "requestState" not in message["params"]:
            form = {"type": "object", "properties": {"sure": {"type": "boolean"}}}
            params = {"mode": "form", "message": "Sure?", "requestedSchema": form}
            asked = {"sure": {"method": "elicitation/create", "params": params}}
            result = {"resultType": "input_required", "inputRequests": asked, "requestState": "upstream-state"}
        else:
            echoed = {} if message["params"]["name"] == "confirm" else message["params"]
            result |= {"content": [{"type": "text", "text": json.dumps(echoed)}]}
        body = {"jsonrpc": "2.0", "id": message["id"], "result": result}
        return Response(json.dumps(body), media_type="application/json")

    return Starlette(routes=[Route("/mcp", handle, methods=["POST"])])


async def test_an_upstream_that_asks_first_is_answered_through_the_gateway(world: World) -> None:
    """The state goes out sealed and comes back to the upstream as it was; each round is decided anew (PEP-15)."""
    seen: list[dict[str, Any]] = []

    async def sure(_: Any, __: Any) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={"sure": True})

    async with (
        serving(asking_upstream(seen)) as base,
        http_gateway(world, upstream={"url": f"{base}/mcp"}) as gateway,
        gateway.client(tasks_client(), elicitation_callback=sure) as client,
    ):
        result = await client.call_tool("confirm", {})
    assert not result.is_error
    last = [message["params"] for message in seen if message["method"] == "tools/call"][-1]
    assert last["requestState"] == "upstream-state"
    assert last["inputResponses"]["sure"]["content"] == {"sure": True}
    assert b"upstream-state" not in bytes(gateway.seen)
    assert len(world.service.sent_to("/evaluation")) == 2


async def test_a_client_of_the_handshake_era_is_told_that_input_cannot_be_asked(world: World) -> None:
    async with (
        serving(asking_upstream([])) as base,
        http_gateway(world, upstream={"url": f"{base}/mcp"}) as gateway,
        gateway.client(mode="legacy") as client,
    ):
        with pytest.raises(MCPError) as caught:
            await client.call_tool("confirm", {})
    assert caught.value.code == -32603


async def test_metadata_of_the_caller_is_forwarded_and_the_protocols_own_is_not(world: World) -> None:
    async with (
        serving(asking_upstream([])) as base,
        http_gateway(world, upstream={"url": f"{base}/mcp"}) as gateway,
        gateway.client(tasks_client()) as client,
    ):
        result = await client.call_tool(
            "echo", {"a": 1}, meta=cast("types.RequestParamsMeta", {"example.com/trace": "t-1"})
        )
    (block,) = result.content
    assert isinstance(block, types.TextContent)
    forwarded = json.loads(block.text)
    assert forwarded["arguments"] == {"a": 1}
    assert forwarded["_meta"]["example.com/trace"] == "t-1"
    assert forwarded["_meta"]["io.modelcontextprotocol/clientInfo"]["name"] == "treasury"
    assert forwarded["_meta"]["io.modelcontextprotocol/clientCapabilities"] == {}


async def test_a_session_that_its_server_forgot_is_opened_anew(tmp_path: Path) -> None:
    apps = []
    for _ in range(2):
        server: MCPServer[Any] = MCPServer("upstream")
        add_tools(server, tmp_path / "effects")
        apps.append(server.streamable_http_app())
    era = HandshakeEra(*apps)
    reading = types.CallToolRequest(params=types.CallToolRequestParams(name="read", arguments={"account": "a"}))
    with anyio.fail_after(60):
        async with serving(apps[0]), serving(apps[1]), serving(era) as base, anyio.create_task_group() as group:
            upstream = Upstream(UpstreamSettings(url=f"{base}/mcp"), name="gate")
            await group.start(upstream.run)
            assert not upstream.is_modern
            assert (await upstream.call(reading))["structuredContent"] == {"account": "a", "cents": 1200}
            era.apps.pop(0)
            with pytest.raises(MCPError):  # answered, because the new server says that it knows no such session
                await upstream.call(reading)
            while upstream.opened < 2:
                await anyio.lowlevel.checkpoint()
            assert (await upstream.call(reading))["structuredContent"] == {"account": "a", "cents": 1200}
            group.cancel_scope.cancel()
