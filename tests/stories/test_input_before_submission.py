"""Story: an approval needs a reason, and the person is asked for it in the middle of one ordinary tool call.

Service, gate and client are the real ones: the request schema is the service's own, the form is shown by the SDK's
client, and what was typed reaches the reviewer and never the tool. SEP-2848, "Collecting submission input"; ARS-106.
"""

from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, types
from mcp.server.mcpserver import MCPServer

from arap_service.client import AsyncResolver
from mcp_gate.client import TasksExtension
from mcp_gate.extension import Gate
from mcp_gate.settings import GateSettings, parse_settings
from tests.live import Live, serving
from tests.service import SECRET

POLICY = """
version: 1
clients: [{client: gate, may: 'subject.type == "identity"'}]
rules:
  - {id: transfers, when: resource.id == "wire_transfer", request: transfer}
templates:
  transfer:
    title: Wire transfer
    explanation: Money leaves the company.
    steps: [{id: risk, title: Risk engine, resolvers: [resolver]}]
    request_schema:
      type: object
      required: [context, requested_access]
      properties:
        context:
          type: object
          required: [business_justification]
          properties: {business_justification: {type: string, title: Why now, minLength: 5}}
        requested_access:
          type: object
          required: [cost_center]
          properties: {cost_center: {type: string, enum: [CC-1, CC-2]}}
"""
TYPED: dict[str, str | int | float | list[str] | None] = {
    "business_justification": "Quarter end, invoice 4711",
    "cost_center": "CC-2",
    "amount": 1,
}


def gate_settings(folder: Path, live: Live) -> GateSettings:
    return parse_settings(
        {
            "server_name": "treasury",
            "backend": {
                "identifier": live.url,
                "client_id": "gate",
                "client_secret": SECRET,
                "idempotency_retention_seconds": 86_400,
            },
            "insecure_loopback": True,
            "database": f"sqlite:///{folder}/gate.sqlite",
            "key_file": str(folder / "gate-keys.yaml"),
            "stdio": {"principal": {"iss": "https://issuer.example", "sub": "alice", "client": "agent-7"}},
            "limits": {"poll_interval_seconds": 0.05},
        }
    )


@pytest.mark.anyio
@pytest.mark.requirement("PEP-38", "PEP-80", "PEP-86", "ARS-106")
async def test_a_reason_that_is_asked_for_reaches_the_reviewer_and_never_the_tool(
    service_url: str, tmp_path: Path
) -> None:
    ran: list[tuple[str, int]] = []
    asked: list[dict[str, Any]] = []
    async with serving(tmp_path, database=service_url, policy=POLICY) as live:
        gate = Gate(gate_settings(tmp_path, live))
        server: MCPServer[Any] = MCPServer("treasury", extensions=[gate], lifespan=gate.lifespan())

        @server.tool()
        def wire_transfer(to: str, amount: int) -> str:
            ran.append((to, amount))
            return "transferred"

        async def fill_in(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult | types.ErrorData:
            del context
            assert isinstance(params, types.ElicitRequestFormParams)
            asked.append(params.requested_schema)
            return types.ElicitResult(action="accept", content=TYPED)

        async with AsyncResolver(live.url, auth=live.credentials("resolver")) as resolver:

            async def decide(_: Any) -> None:
                for waiting in [found async for found in resolver.queue(mine=True)]:
                    request = await resolver.get(waiting["id"])
                    assert request["justification"] == TYPED["business_justification"]
                    await resolver.decide(waiting["id"], "approve", version=request["version"])

            with anyio.fail_after(55):
                extension = TasksExtension(progress=decide)
                async with Client(server, extensions=[extension], elicitation_callback=fill_in) as client:
                    result = await client.call_tool("wire_transfer", {"to": "ACME", "amount": 50_000})
    assert not result.is_error
    assert ran == [("ACME", 50_000)]
    assert asked == [
        {
            "type": "object",
            "properties": {
                "business_justification": {"type": "string", "title": "Why now", "minLength": 5},
                "cost_center": {"type": "string", "enum": ["CC-1", "CC-2"]},
            },
            "required": ["business_justification", "cost_center"],
        }
    ]
