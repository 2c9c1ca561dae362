"""A bank for stories: a real service, and a tool behind the real gate that a real client calls."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from mcp import Client
from mcp.server.mcpserver import MCPServer

from arap_service.client import AsyncResolver
from mcp_gate.client import TasksExtension
from mcp_gate.extension import Gate
from tests.live import Live, serving
from tests.stories.test_input_before_submission import gate_settings

DISPOSITION = "io.modelcontextprotocol/tool-approval-disposition"
Review = Callable[["Bank"], Awaitable[None]]


async def _nobody(_: "Bank") -> None:
    return


@dataclass(frozen=True, slots=True)
class Bank:
    """What a story looks at: the service, what has run, and the resolver that is named in the rules."""

    live: Live
    client: Client
    resolver: AsyncResolver
    ran: list[tuple[str, int]] = field(default_factory=list)

    async def transfer(self, amount: int, to: str = "ACME") -> Any:
        """Call the tool and wait for the end of it."""
        with anyio.fail_after(60):
            return await self.client.call_tool("wire_transfer", {"to": to, "amount": amount})

    async def waiting(self) -> list[dict[str, Any]]:
        """What the resolver may decide now, whole."""
        return [await self.resolver.get(found["id"]) async for found in self.resolver.queue(mine=True)]


def disposition(result: Any) -> str:
    """What a result says became of the call."""
    return str((result.meta or {})[DISPOSITION])


@asynccontextmanager
async def bank(
    folder: Path,
    database: str,
    policy: str,
    *,
    review: Review = _nobody,
    shows_words: bool = False,
    elicitation: Any = None,
    **settings: Any,
) -> AsyncIterator[Bank]:
    """A bank whose reviewers look whenever the client hears of a state; `settings` are those of the service."""
    ran: list[tuple[str, int]] = []
    looking = anyio.Lock()
    async with serving(folder, database=database, policy=policy, **settings) as live:
        chosen = gate_settings(folder, live).model_copy(update={"show_decision_text": shows_words})
        gate = Gate(chosen)
        server: MCPServer[Any] = MCPServer("treasury", extensions=[gate], lifespan=gate.lifespan())

        @server.tool()
        def wire_transfer(to: str, amount: int) -> str:
            ran.append((to, amount))
            return f"transferred {amount} to {to}"

        opened: list[Bank] = []

        async def look(_: Any) -> None:
            async with looking:
                await review(opened[0])

        async with (
            AsyncResolver(live.url, auth=live.credentials("resolver")) as resolver,
            Client(server, extensions=[TasksExtension(progress=look)], elicitation_callback=elicitation) as client,
        ):
            opened.append(Bank(live, client, resolver, ran))
            yield opened[0]
