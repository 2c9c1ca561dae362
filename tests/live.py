"""A service that really listens: uvicorn on a loopback port, with its background work, in the process of the test."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import anyio
import uvicorn

from arap_service.api.events import Streams
from arap_service.app import create_app
from arap_service.checkpoints import Checkpoint, passing
from arap_service.client import ClientCredentials
from arap_service.context import Context
from arap_service.http1 import BoundedHttp
from arap_service.surroundings import utc_now
from tests.service import SECRET, service_context, settings_for


@dataclass(frozen=True, slots=True)
class Live:
    """A service that listens at `url`, which also is its identifier."""

    url: str
    context: Context
    streams: Streams

    def credentials(self, client_id: str, *, scope: str | None = None) -> ClientCredentials:
        """A token source for one of the clients of `tests.service`."""
        return ClientCredentials(f"{self.url}/issuer/token", client_id=client_id, client_secret=SECRET, scope=scope)


@asynccontextmanager
async def serving(
    folder: Path,
    *,
    database: str,
    policy: str,
    clock: Callable[[], datetime] = utc_now,
    checkpoint: Checkpoint = passing,
    background: bool = True,
    **changes: Any,
) -> AsyncIterator[Live]:
    """Serve as long as the context lasts; `changes` go into the settings."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # asyncio does it for its own sockets only
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        insecure = {"insecure_loopback": True, "identifier": url}
        settings = settings_for(folder, database=database, policy=policy, **(insecure | changes))
        async with service_context(settings, clock=clock, checkpoint=checkpoint) as context:
            app = create_app(context, background=background)
            config = uvicorn.Config(app, http=BoundedHttp, log_config=None, access_log=False, lifespan="on")
            server = _Server(config)
            task = asyncio.create_task(server.serve(sockets=[listening]))
            try:
                with anyio.fail_after(40):
                    await server.ready.wait()
                yield Live(url, context, app.state.streams)
            finally:
                server.should_exit = True
                with anyio.fail_after(40):
                    await task


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()
