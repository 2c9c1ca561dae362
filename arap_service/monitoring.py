"""A listener of its own for monitoring, on loopback and without authentication: figures, life and readiness.

For a collector on the same machine that holds no token. Everybody on the machine may read it, which is why
`metrics_bind` takes loopback addresses only and what it serves holds codes and counts alone. A collector elsewhere asks
`/metrics` on the main port, with the scope `admin`. What is served is made in `api/health.py`.
"""

import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import anyio
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from arap_service.api.health import alive, exposition, ready
from arap_service.context import Context
from arap_service.metrics import CONTENT_TYPE


def create_monitoring(context: Context) -> Starlette:
    """The application that the listener serves."""

    async def metrics(_request: Request) -> Response:
        return Response(await exposition(context), media_type=CONTENT_TYPE)

    async def readyz(_request: Request) -> Response:
        return await ready(context)

    async def healthz(_request: Request) -> Response:
        return JSONResponse(await alive())

    return Starlette(routes=[Route("/metrics", metrics), Route("/readyz", readyz), Route("/healthz", healthz)])


@asynccontextmanager
async def monitored(context: Context, listening: socket.socket | None) -> AsyncIterator[None]:
    """Serve on `listening`, if there is one, for as long as the block runs."""
    if listening is None:
        yield
        return
    config = uvicorn.Config(
        create_monitoring(context),
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="off",
        timeout_graceful_shutdown=1,
    )
    server = _Quiet(config)
    async with anyio.create_task_group() as group:
        group.start_soon(server.serve, [listening])
        try:
            yield
        finally:
            server.should_exit = True


class _Quiet(uvicorn.Server):
    """A server that leaves signals to the one beside it."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield
