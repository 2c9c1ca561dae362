"""A mapping that is declared beside a tool's function (COAZ-MCP, "Declaring a Mapping")."""

from pathlib import Path
from typing import Any

import pytest

from mcp_gate import authzen_mapping
from mcp_gate.templates import MappingError
from tests.gate.world import World, connected

MAPPING: dict[str, Any] = {
    "evaluation": {
        "action": {"name": "close"},
        "resource": {"type": "account", "id": "$params.arguments.account"},
    }
}


@pytest.mark.anyio
@pytest.mark.requirement("PEP-15")
async def test_a_declared_mapping_is_advertised_and_asked_by(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.service.rules["acct-1"] = "permit"
    server = world.server()

    @authzen_mapping(server, MAPPING, tool="close_account")
    @server.tool(name="close_account")
    def close(account: str) -> str:
        """Close an account."""
        return f"{account} closed"

    async with connected(server) as client:
        (listed,) = [tool for tool in (await client.list_tools()).tools if tool.name == "close_account"]
        permitted = await client.call_tool("close_account", {"account": "acct-1"})
        denied = await client.call_tool("close_account", {"account": "acct-2"})
    assert listed.input_schema["x-authzen-mapping"] == MAPPING
    assert listed.input_schema["required"] == ["account"]
    assert close("x") == "x closed"
    assert (permitted.is_error, denied.is_error) == (False, True)
    asked = [received.json() for received in world.service.sent_to("/evaluation")]
    assert [(one["action"]["name"], one["resource"]) for one in asked] == [
        ("close", {"type": "account", "id": "acct-1"}),
        ("close", {"type": "account", "id": "acct-2"}),
    ]


def test_a_wrong_mapping_or_a_missing_tool_is_told_at_once(tmp_path: Path) -> None:
    server = World(tmp_path).server()
    with pytest.raises(MappingError):
        authzen_mapping(server, {"evaluation": {"action": {"name": "$nonsense("}}})
    with pytest.raises(LookupError, match="unregistered"):

        @authzen_mapping(server, MAPPING)
        def unregistered(account: str) -> str:
            return account
