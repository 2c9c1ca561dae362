"""Gateways before servers of the handshake era (MCP 2025-11-25), for clients of both eras; PEP-88, PEP-120."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp.server.mcpserver import MCPServer

from tests.gate.eras import HandshakeEra
from tests.gate.gateways import ROOT, HttpGateway, http_gateway
from tests.gate.live import serving
from tests.gate.upstream_server import add_tools
from tests.gate.world import DISPOSITION, World, create, ended, tasks_client

pytestmark = pytest.mark.anyio


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    made.service.rules["broken"] = "permit"
    return made


@asynccontextmanager
async def before(transport: str, world: World) -> AsyncIterator[HttpGateway]:
    """A gateway before a server of that era: in raw messages over stdio, or the SDK's own over HTTP."""
    effects = world.directory / "effects"
    if transport == "stdio":
        arguments = ["-m", "tests.gate.handshake_server", str(effects)]
        command = {"command": sys.executable, "args": arguments, "env": {"PYTHONPATH": str(ROOT)}}
        async with http_gateway(world, upstream=command) as gateway:
            yield gateway
        return
    server: MCPServer[Any] = MCPServer("old")
    add_tools(server, effects)
    app = server.streamable_http_app()
    async with (
        serving(app),
        serving(HandshakeEra(app)) as base,
        http_gateway(world, upstream={"url": f"{base}/mcp"}) as gateway,
    ):
        yield gateway


@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_tools_are_listed_and_permitted_calls_answered_whatever_era_the_client_is_of(
    world: World, transport: str, mode: str
) -> None:
    async with before(transport, world) as gateway, gateway.client(tasks_client(), mode=mode) as client:
        assert not gateway.gateway.fleet.members[0].upstream.is_modern
        listed = {tool.name for tool in (await client.list_tools()).tools}
        read = await client.call_tool("read", {"account": "a1"})
        failed = await client.call_tool("broken", {"text": "because"})
    assert {"wire", "read", "broken"} <= listed
    assert read.content
    assert (read.is_error or False, failed.is_error) == (False, True)


@pytest.mark.requirement("PEP-88", "PEP-120")
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_an_approved_call_ends_with_the_tools_own_result(world: World, transport: str) -> None:
    async with before(transport, world) as gateway, gateway.client(tasks_client()) as client:
        created = await create(client, "wire", to="acct-991", amount=7)
        world.service.approve()
        state = await ended(client, created.task_id)
    told, ran = (block["text"] for block in state["result"]["content"])
    assert told in {"wire of old", "Transfer of 7 to acct-991 completed."}
    assert ran == "The call was approved and the tool ran once."
    assert (state["status"], state["result"]["isError"]) == ("completed", False)
    assert state["result"]["_meta"][DISPOSITION] == "approved-executed"
    assert world.effects == ["acct-991 7"]
