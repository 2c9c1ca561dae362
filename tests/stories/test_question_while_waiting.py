"""Story: a reviewer asks back while the call waits; the person answers in the same client, and only then is it decided.

Service, gate and client are the real ones: the question goes by `urn:x-arap:input` and `inputRequests`, the answer by
`tasks/update`. Design section 5, "Question and answer"; SEP-2848, "Input while the task is open".
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
from tests.live import serving
from tests.stories.test_input_before_submission import gate_settings

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
"""
QUESTION = "Which invoice is this for?"
SCHEMA = {
    "type": "object",
    "required": ["invoice"],
    "properties": {"invoice": {"type": "string", "title": "Invoice", "pattern": "^INV-[0-9]+$"}},
}


@pytest.mark.anyio
@pytest.mark.parametrize("answer", ["accept", "decline"])
async def test_a_question_of_a_reviewer_is_answered_before_he_decides(
    service_url: str, tmp_path: Path, answer: Any
) -> None:
    """A refusal to answer is no answer: the reviewer still has his question, and nothing has run."""
    ran: list[int] = []
    asked: list[tuple[str, dict[str, Any]]] = []
    told: list[Any] = []
    async with serving(tmp_path, database=service_url, policy=POLICY, limits={"poll_seconds": 1}) as live:
        gate = Gate(gate_settings(tmp_path, live))
        server: MCPServer[Any] = MCPServer("treasury", extensions=[gate], lifespan=gate.lifespan())

        @server.tool()
        def wire_transfer(to: str, amount: int) -> str:
            ran.append(amount)
            return f"transferred to {to}"

        async def fill_in(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult | types.ErrorData:
            del context
            assert isinstance(params, types.ElicitRequestFormParams)
            asked.append((params.message, params.requested_schema))
            if answer == "decline":
                return types.ElicitResult(action="decline")
            return types.ElicitResult(action="accept", content={"invoice": "INV-4711"})

        async with AsyncResolver(live.url, auth=live.credentials("resolver")) as resolver:

            async def review(_: Any) -> None:
                for waiting in [found async for found in resolver.queue(mine=True)]:
                    request = await resolver.get(waiting["id"])
                    assert ran == []
                    if not asked and not told:
                        told.append(await resolver.ask(request["id"], QUESTION, schema=SCHEMA))
                    elif asked:
                        told.append(request)
                        seen = request["version"]
                        if "INV-4711" in str(request):
                            await resolver.decide(request["id"], "approve", version=seen)
                        else:
                            await resolver.decide(request["id"], "deny", version=seen, reason="not answered")

            with anyio.fail_after(55):
                extension = TasksExtension(progress=review)
                async with Client(server, extensions=[extension], elicitation_callback=fill_in) as client:
                    result = await client.call_tool("wire_transfer", {"to": "ACME", "amount": 50_000})
    ((message, schema),) = asked
    assert QUESTION in message
    assert schema["properties"] == SCHEMA["properties"]
    assert ran == ([50_000] if answer == "accept" else [])
    assert result.is_error == (answer == "decline")
