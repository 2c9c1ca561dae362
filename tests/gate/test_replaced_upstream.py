"""An upstream that is replaced, or away, while an approval is pending (SEP-2848, "Completion"; PEP-105)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.server.mcpserver import MCPServer
from starlette.applications import Starlette

from tests.gate.eras import HandshakeEra, Replaceable
from tests.gate.gateways import HttpGateway, http_gateway
from tests.gate.live import serving
from tests.gate.upstream_server import add_tools
from tests.gate.world import DISPOSITION, World, create, ended, tasks_client

pytestmark = pytest.mark.anyio


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def first(world: World) -> Starlette:
    server: MCPServer[Any] = MCPServer("upstream", version="7")
    add_tools(server, world.directory / "effects")
    return server.streamable_http_app()


def second(world: World) -> Starlette:
    """The next release: the same name, another schema, another effect."""
    server: MCPServer[Any] = MCPServer("upstream", version="8")

    @server.tool(title="Wire transfer")
    def wire(to: str, amount: int, currency: str = "BTC") -> str:
        with (world.directory / "effects").open("a", encoding="utf-8") as file:
            file.write(f"new {to} {amount} {currency}\n")
        return "new"

    return server.streamable_http_app()


@dataclass
class Behind:
    """What stands behind the gateway, and whether it was asked in vain."""

    place: Replaceable
    asked_in_vain: anyio.Event


@asynccontextmanager
async def before(world: World, *apps: Starlette, is_modern: bool = True) -> AsyncIterator[tuple[HttpGateway, Behind]]:
    """A gateway before the first of `apps`; all of them run."""
    asked = anyio.Event()
    place = Replaceable(apps[0], refused=asked.set)
    async with (
        serving(apps[0]),
        serving(apps[-1]),
        serving(place if is_modern else HandshakeEra(place)) as base,
        http_gateway(world, upstream={"url": f"{base}/mcp"}) as gateway,
    ):
        yield gateway, Behind(place, asked)


@pytest.mark.requirement("PEP-105")
@pytest.mark.parametrize("is_modern", [True, False])
async def test_an_approval_for_the_tool_of_yesterday_does_not_run_the_one_of_today(
    world: World, *, is_modern: bool
) -> None:
    old, new = first(world), second(world)
    async with (
        before(world, old, new, is_modern=is_modern) as (gateway, behind),
        gateway.client(tasks_client()) as client,
    ):
        created = await create(client, "wire", to="acct-991", amount=1)
        behind.place.app = new
        world.service.approve()
        state = await ended(client, created.task_id)
    assert state["result"]["_meta"][DISPOSITION] == "denied-not-executed"
    assert "tool changed" in state["result"]["content"][0]["text"]
    assert world.effects == []


@pytest.mark.requirement("PEP-105")
async def test_an_upstream_that_is_away_is_asked_again_before_the_approved_call_runs(world: World) -> None:
    old = first(world)
    async with before(world, old, first(world)) as (gateway, behind), gateway.client(tasks_client()) as client:
        created = await create(client, "wire", to="acct-991", amount=1)
        behind.place.app = None
        world.service.approve()
        await behind.asked_in_vain.wait()
        assert world.effects == []
        behind.place.app = old
        state = await ended(client, created.task_id)
    assert state["result"]["_meta"][DISPOSITION] == "approved-executed"
    assert world.effects == ["acct-991 1"]
