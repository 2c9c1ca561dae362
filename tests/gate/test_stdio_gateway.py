"""`mcp-gate proxy` as a process on stdio, before two others: names, decisions about methods, and the pair of tools."""

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPError

from tests.gate.gateways import ROOT, stdio_upstream
from tests.gate.live import serving
from tests.gate.world import World

pytestmark = pytest.mark.anyio
NOTE = "note://plans"


@asynccontextmanager
async def gateway(world: World, **changes: Any) -> AsyncIterator[Client]:
    """A client without tasks, before the gateway's own process."""
    arguments = ["-m", "tests.gate.announcing_server", str(world.directory / "marks")]
    notes = {"command": sys.executable, "args": arguments, "env": {"PYTHONPATH": str(ROOT)}}
    async with serving(world.service.app()) as base:
        world.service.host = base
        document = {
            "server_name": "treasury",
            "backend": {"identifier": base, "idempotency_retention_seconds": 86_400},
            "insecure_loopback": True,
            "database": f"sqlite:///{world.directory}/gate.sqlite",
            "key_file": str(world.directory / "keys.yaml"),
            "front": {"stdio": True},
            "stdio": {"principal": {"iss": "https://issuer.example", "sub": "alice", "client": "agent-7"}},
            "limits": {"poll_interval_seconds": 0.05},
            "upstreams": {"bank": stdio_upstream(world.directory), "notes": notes},
            **changes,
        }
        config = world.directory / "gate.yaml"
        config.write_text(json.dumps(document))  # JSON is YAML
        process = StdioServerParameters(
            command=sys.executable,
            args=["-m", "mcp_gate", "proxy", "--config", str(config)],
            env={"PYTHONPATH": str(ROOT)},
        )
        with anyio.fail_after(60):
            async with Client(process) as client:
                yield client


async def names_of(client: Client) -> set[str]:
    found: set[str] = set()
    cursor: str | None = None
    while True:
        page = await client.list_tools(cursor=cursor)
        found |= {tool.name for tool in page.tools}
        if (cursor := page.next_cursor) is None:
            return found


@pytest.mark.requirement("PEP-06")
async def test_a_client_without_tasks_is_served_by_two_servers_and_the_pair(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.service.rules = {"bank_wire": "request", "bank_read": "permit"}
    async with gateway(world, request_tools=True, listings="filtered") as client:
        names = await names_of(client)
        read = await client.call_tool("bank_read", {"account": "a1"})
        wanted = {"tool": "bank_wire", "arguments": {"to": "acct-991", "amount": 7}}
        requested = await client.call_tool("request_access", wanted)
        task = {"task_id": (requested.structured_content or {})["taskId"]}
        world.service.approve()
        while ((told := await client.call_tool("get_request_status", task)).structured_content or {}).get("status"):
            pass
        with pytest.raises(MCPError) as denied:
            await client.read_resource(f"notes+{NOTE}")
    assert names == {"bank_wire", "bank_read", "request_access", "get_request_status"}
    assert not read.is_error
    assert told.structured_content == {"result": "Transfer of 7 to acct-991 completed."}
    assert world.effects == ["acct-991 7"]
    assert denied.value.code == -32001
    asked = world.service.sent_to("/evaluation")[-1].json()
    assert asked["resource"] == {"type": "resource", "id": f"notes+{NOTE}"}
    assert asked["subject"] == {"type": "identity", "id": "alice"}


@pytest.mark.requirement("PEP-29")
async def test_a_listing_is_about_this_very_server_where_there_is_no_token(tmp_path: Path) -> None:
    """On stdio the gate knows its own name from the configuration, and every method may be decided."""
    world = World(tmp_path)
    world.service.rules = {"treasury": "permit"}
    async with gateway(world, decide="all") as client:
        assert "bank_wire" in await names_of(client)
    asked = [received.json() for received in world.service.sent_to("/evaluation")]
    assert {"server/discover", "tools/list"} <= {one["action"]["name"] for one in asked}
    assert all(one["resource"] == {"type": "mcp_server", "id": "treasury"} for one in asked)
