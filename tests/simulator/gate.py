"""Our gate as the enforcement point under test: real, over HTTP to the simulator, its callbacks over another socket."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcp import Client
from mcp.server.mcpserver import MCPServer
from mcp.shared.exceptions import MCPError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from arap_service.simulator.driving import Target
from mcp_gate.client import TaskEnded, TasksExtension
from mcp_gate.extension import Gate
from mcp_gate.settings import parse_settings
from tests.gate.live import serving as listening
from tests.gate.world import cancel, create
from tests.service import CALLBACK_KEY, SECRET
from tests.simulator.world import Rehearsal, rehearsing


class GatedServer:
    """An MCP server behind a gate; `ran` are the calls that its tool has carried out."""

    def __init__(self) -> None:
        self.ran: list[int] = []
        self.gate: Gate | None = None
        self._server: MCPServer[Any] | None = None

    def app(self) -> Starlette:
        """The callback endpoint of the gate."""

        async def callback(request: Request) -> Response:
            if self.gate is None:
                return Response(status_code=503)
            return await self.gate.receive_callback(request)

        return Starlette(routes=[Route("/callbacks/arap", callback, methods=["POST"])])

    def start(self, folder: Path, *, service: str, endpoint: str) -> None:
        """Put the gate before the tool; `endpoint` is where callbacks reach it."""
        backend = {
            "identifier": service,
            "client_id": "gate",
            "client_secret": SECRET,
            "callback": {"endpoint": endpoint, "key": CALLBACK_KEY},
            "idempotency_retention_seconds": 86_400,
        }
        settings = parse_settings(
            {
                "server_name": "treasury",
                "backend": backend,
                "insecure_loopback": True,
                "database": f"sqlite:///{folder}/gate.sqlite",
                "key_file": str(folder / "gate-keys.yaml"),
                "stdio": {"principal": {"iss": "https://issuer.example", "sub": "alice", "client": "agent-7"}},
                "limits": {"poll_interval_seconds": 0.05},
            }
        )
        gate = self.gate = Gate(settings)
        server: MCPServer[Any] = MCPServer("treasury", extensions=[gate], lifespan=gate.lifespan())

        @server.tool()
        def wire_transfer(to: str, amount: int) -> str:
            del to
            self.ran.append(amount)
            return "transferred"

        self._server = server

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        """A client of the server; the gate works as long as it is connected."""
        assert self._server is not None
        async with Client(self._server, extensions=[TasksExtension()]) as client:
            yield client


@asynccontextmanager
async def gated(folder: Path, *, database: str, **changes: Any) -> AsyncIterator[tuple[Rehearsal, GatedServer, Client]]:
    """A simulator with our gate in front of one tool, and a client that calls it."""
    server = GatedServer()
    async with listening(server.app()) as base:
        endpoint = f"{base}/callbacks/arap"
        callbacks = {
            "gate": {
                "endpoints": [endpoint],
                "keys": [CALLBACK_KEY],
                "allow_destinations": [base.removeprefix("http://")],
            }
        }
        given = {"background": True, "callbacks": callbacks, "limits": {"poll_seconds": 1}}
        async with rehearsing(folder, database=database, **(given | changes)) as world:
            server.start(folder, service=world.live.url, endpoint=endpoint)
            async with server.client() as client:
                yield world, server, client


def target(server: GatedServer, client: Client, *, cancels: bool = False) -> Target:
    """The gate as a scenario drives it."""

    async def call() -> bool:
        try:
            return not (await client.call_tool("wire_transfer", {"to": "ACME", "amount": 50_000})).is_error
        except (MCPError, TaskEnded):
            return False

    async def call_and_cancel() -> bool:
        created = await create(client, "wire_transfer", to="ACME", amount=50_000)
        await cancel(client, created.task_id)
        return True

    trigger = call_and_cancel if cancels else call
    return Target("gate", "transfer", trigger=trigger, count=lambda: len(server.ran))
