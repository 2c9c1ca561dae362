"""What is known of a tool: its mapping, its fingerprint, and which arguments fit it (PEP-15, PEP-105)."""

from pathlib import Path
from typing import Any

import pytest
from mcp import types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import MCPServer
from mcp.shared.exceptions import MCPError

from mcp_gate.errors import InvalidParams, Unavailable
from mcp_gate.extension import Gate
from mcp_gate.settings_tools import ToolSettings
from mcp_gate.templates import MappingError
from mcp_gate.tools import EmbeddedTools, known
from tests.gate.upstream_server import add_tools
from tests.gate.world import World, connected, tasks_client

pytestmark = pytest.mark.anyio

OPERATOR: dict[str, Any] = {
    "evaluation": {
        "action": {"name": "transfer"},
        "resource": {"type": "account", "id": "$params.arguments.to"},
    }
}
OWN: dict[str, Any] = {
    "evaluation": {"action": {"name": "pay"}, "resource": {"type": "payee", "id": "$params.arguments.to"}}
}


def tool(**schema: Any) -> types.Tool:
    return types.Tool(name="wire", title="Wire", input_schema={"type": "object", **schema})


@pytest.mark.requirement("PEP-15")
async def test_the_mapping_that_the_operator_declares_is_what_the_decision_point_is_asked(tmp_path: Path) -> None:
    world = World(tmp_path)
    settings = world.settings(tools={"wire": {"mapping": OPERATOR}})
    async with connected(world.server(settings), tasks_client()) as client:
        await client.call_tool("wire", {"to": "acct-991", "amount": 1})
        await client.call_tool("read", {"account": "a1"})
    mapped, default = (asked.json() for asked in world.service.sent_to("/evaluation"))
    assert mapped["action"] == {"name": "transfer"}
    assert mapped["resource"] == {"type": "account", "id": "acct-991"}
    assert mapped["subject"] == {"type": "identity", "id": "alice"}
    assert default["resource"] == {"type": "tool", "id": "read"}


@pytest.mark.requirement("PEP-15")
async def test_the_mapping_that_the_tool_declares_is_used_and_no_part_of_its_arguments_schema(tmp_path: Path) -> None:
    world = World(tmp_path)

    async def list_tools(_: ServerRequestContext[Any], __: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[tool(**{"x-authzen-mapping": OWN})])

    async def call_tool(_: ServerRequestContext[Any], __: types.CallToolRequestParams) -> types.CallToolResult:
        raise AssertionError

    settings = world.settings()
    gate = Gate(settings, parts=world.parts(settings))
    server: Server[Any] = Server("low", on_list_tools=list_tools, on_call_tool=call_tool, lifespan=gate.lifespan())
    gate.bind(server)
    async with connected(server, tasks_client()) as client:
        await client.call_tool("wire", {"to": "acct-991"})
    (asked,) = world.service.sent_to("/evaluation")
    assert asked.json()["resource"] == {"type": "payee", "id": "acct-991"}


def test_the_operators_mapping_wins_and_a_wrong_one_is_an_error() -> None:
    own = tool(**{"x-authzen-mapping": OWN})
    assert known(own, None).declared == OWN
    assert known(own, ToolSettings(mapping=OPERATOR)).declared == OPERATOR
    assert known(tool(), ToolSettings()).mapping() is None
    with pytest.raises(MappingError):
        known(tool(**{"x-authzen-mapping": {"surprise": {}}}), None).mapping()


@pytest.mark.requirement("PEP-105")
def test_schema_mapping_and_code_are_all_part_of_the_fingerprint() -> None:
    base = known(tool(), None).fingerprint
    changed = {
        known(tool(required=["to"]), None).fingerprint,
        known(tool(), ToolSettings(mapping=OPERATOR)).fingerprint,
        known(tool(), None, code=b"other").fingerprint,
    }
    assert base not in changed
    assert len(changed) == 3
    assert known(tool(), None).fingerprint == base


def test_arguments_are_refused_by_the_place_of_their_fault_only() -> None:
    wire = known(tool(properties={"to": {"type": "string"}}, required=["to"]), None)
    wire.check({"to": "acct-991"})
    with pytest.raises(InvalidParams, match="/to"):
        wire.check({"to": 7})
    with pytest.raises(InvalidParams, match="top level"):
        wire.check({"canary": 1})


@pytest.mark.parametrize("schema", [{"$ref": "https://evil.example/schema"}, {"properties": 7}, {"$schema": "urn:no"}])
def test_a_schema_that_cannot_be_applied_lets_nothing_be_approved(schema: dict[str, Any]) -> None:
    with pytest.raises(InvalidParams, match="cannot be applied"):
        known(tool(**schema), None).check({})


@pytest.mark.requirement("PEP-105")
async def test_a_fresh_look_sees_what_changed_in_place(tmp_path: Path) -> None:
    """Whoever changes a registered tool says so to nobody."""
    listed = [tool()]
    server: MCPServer[Any] = MCPServer("treasury")
    add_tools(server, tmp_path / "effects")

    async def list_tools() -> list[types.Tool]:
        return listed

    tools = EmbeddedTools(server, {}, list_tools=list_tools)
    before = await tools.find("wire")
    listed[0] = tool(required=["to"])
    kept, fresh, after = await tools.find("wire"), await tools.find("wire", fresh=True), await tools.find("wire")
    assert before is not None
    assert fresh is not None
    assert kept is before
    assert fresh.fingerprint != before.fingerprint
    assert after is fresh


async def test_a_server_that_cannot_list_its_tools_has_not_lost_them() -> None:
    async def list_tools() -> list[types.Tool]:
        raise MCPError(code=-32603, message="canary")

    with pytest.raises(Unavailable) as caught:
        await EmbeddedTools(Server("low"), {}, list_tools=list_tools).find("wire")
    assert "canary" not in str(caught.value)
