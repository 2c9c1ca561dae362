"""Deferred execution through the server's own pipeline (SEP-2848, "Completion"; design section 8, Executor)."""

from pathlib import Path
from typing import Any

import pytest
from mcp import types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server

from mcp_gate.executor import DeferredExecutor
from mcp_gate.extension import Gate
from tests.gate.world import DISPOSITION, World, connected, create, ended, tasks_client

pytestmark = pytest.mark.anyio


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


class Selfish:
    """A server whose tool `wire` calls a tool of its own server in the middle, `times` at most."""

    def __init__(self, world: World, *, inner: str) -> None:
        settings = world.settings()
        gate = Gate(settings, parts=world.parts(settings))
        self.server: Server[Any] = Server(
            "selfish", on_list_tools=self._list, on_call_tool=self._call, lifespan=gate.lifespan()
        )
        gate.bind(self.server)
        self._inner = inner
        self.runs: list[str] = []
        self.answers: list[dict[str, Any]] = []

    async def _list(self, _: ServerRequestContext[Any], __: Any) -> types.ListToolsResult:
        names = ("wire", "other")
        return types.ListToolsResult(tools=[types.Tool(name=name, input_schema={"type": "object"}) for name in names])

    async def _call(self, _: ServerRequestContext[Any], params: types.CallToolRequestParams) -> types.CallToolResult:
        self.runs.append(params.name)
        if len(self.runs) == 1:
            again = DeferredExecutor(self.server, {})
            self.answers.append(await again.request("tools/call", {"name": self._inner, "arguments": {}}))
        return types.CallToolResult(content=[types.TextContent(text="done")])


@pytest.mark.requirement("PEP-15")
@pytest.mark.parametrize("inner", ["wire", "other"])
async def test_what_an_approved_tool_calls_in_its_turn_is_decided_like_everything_else(
    world: World, inner: str
) -> None:
    """The approval is for one invocation: not for the same tool again, and not for another one."""
    world.service.rules |= {"wire": "request", "other": "request"}
    selfish = Selfish(world, inner=inner)
    async with connected(selfish.server, tasks_client()) as client:
        created = await create(client, "wire")
        world.service.approve()
        state = await ended(client, created.task_id)
    assert state["result"]["_meta"][DISPOSITION] == "approved-executed"
    assert selfish.runs == ["wire"]
    (answer,) = selfish.answers
    assert answer["isError"] is True
    assert "needs an approval" in answer["content"][0]["text"]
    asked = [sent.json()["resource"]["id"] for sent in world.service.sent_to("/evaluation")]
    assert asked == ["wire", "wire", inner]
