"""Serves an ASGI application over real sockets on loopback, for as long as a block lasts."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio
import uvicorn
from starlette.types import ASGIApp


@dataclass(frozen=True, slots=True)
class Served:
    """An application that is served: its base URL, and its connections to be cut."""

    base: str
    server: uvicorn.Server

    def cut(self) -> None:
        """Close every connection, as the end of a process does."""
        for connection in list(self.server.server_state.connections):
            connection.transport.abort()


@asynccontextmanager
async def serving(app: ASGIApp) -> AsyncIterator[str]:
    """The base URL under which `app` answers."""
    async with served(app) as found:
        yield found.base


@asynccontextmanager
async def served(app: ASGIApp) -> AsyncIterator[Served]:
    """`app`, answering."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # asyncio does it for its own sockets only
        port = listener.getsockname()[1]
        server = _Quiet(uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=1))
        async with anyio.create_task_group() as group:
            group.start_soon(server.serve, [listener])
            await server.ready.wait()
            yield Served(f"http://127.0.0.1:{port}", server)
            server.should_exit = True


class _Quiet(uvicorn.Server):
    """A server that says when it is up, and leaves signals to the test runner."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = anyio.Event()

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        await self._serve(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        self.ready.set()
