"""Story: what changes while an approval is pending is looked up when the call runs, and binds nothing.

Service and gate are the real ones. The risk of the caller is the decision point's own knowledge; no property that an
approval is bound to carries it (X-04; SEP-2848, "Completion").
"""

from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.server.mcpserver import MCPServer

from arap_service.client import AsyncResolver
from mcp_gate.client import TasksExtension
from mcp_gate.extension import Gate
from tests.live import Live, serving
from tests.stories.test_input_before_submission import gate_settings

POLICY = """
version: 1
clients: [{{client: gate, may: 'subject.type == "identity"'}}]
entities: {{identity: {{alice: {{risk: {risk}}}}}}}
rules:
  - {{id: risky, when: subject_entity.risk == "high", deny: risk}}
  - {{id: transfers, when: resource.id == "wire_transfer", request: transfer}}
templates:
  transfer:
    title: Wire transfer
    explanation: Money leaves the company.
    steps: [{{id: risk, title: Risk engine, resolvers: [resolver]}}]
"""
DISPOSITION = "io.modelcontextprotocol/tool-approval-disposition"


def becomes(live: Live, risk: str) -> None:
    """The decision point learns of another risk."""
    live.context.settings.policy_path.write_text(POLICY.format(risk=risk), encoding="utf-8")
    assert live.context.policy.refresh()


@pytest.mark.anyio
@pytest.mark.requirement("PEP-25")
@pytest.mark.parametrize(
    ("risk", "disposition", "effects"),
    [("medium", "approved-executed", ["ACME"]), ("high", "denied-not-executed", [])],
)
async def test_a_risk_that_changes_is_seen_at_the_end_and_leaves_the_approval_in_scope(
    service_url: str, tmp_path: Path, risk: str, disposition: str, effects: list[str]
) -> None:
    ran: list[str] = []
    async with serving(tmp_path, database=service_url, policy=POLICY.format(risk="low")) as live:
        gate = Gate(gate_settings(tmp_path, live))
        server: MCPServer[Any] = MCPServer("treasury", extensions=[gate], lifespan=gate.lifespan())

        @server.tool()
        def wire_transfer(to: str) -> str:
            ran.append(to)
            return "transferred"

        async with AsyncResolver(live.url, auth=live.credentials("resolver")) as resolver:

            async def decide(_: Any) -> None:
                for waiting in [found async for found in resolver.queue(mine=True)]:
                    becomes(live, risk)
                    request = await resolver.get(waiting["id"])
                    await resolver.decide(waiting["id"], "approve", version=request["version"])

            with anyio.fail_after(55):
                async with Client(server, extensions=[TasksExtension(progress=decide)]) as client:
                    result = await client.call_tool("wire_transfer", {"to": "ACME"})
    assert (result.meta or {})[DISPOSITION] == disposition
    assert ran == effects
