"""The operator's listener of a gate: `/healthz`, `/readyz` and `/metrics`, on a loopback address of its own.

It stands beside the front, because a gate on stdio has none and because clients have no business here; it shows
figures and states, nothing of a call. Whoever is to see it from elsewhere puts a proxy before it. Design section 8.
"""

import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import anyio
import structlog
import uvicorn
from sqlalchemy.exc import SQLAlchemyError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mcp_gate.database import Database, StoreUnavailable
from mcp_gate.figures import Figures, figures
from mcp_gate.metrics import CONTENT_TYPE, Metrics
from mcp_gate.settings import ConfigurationInvalid
from mcp_gate.values import split_bind

_NO_STORE: Final = {"Cache-Control": "no-store"}

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Operation:
    """What the listener tells about; `is_recovered` says whether the engine has done what a start must do."""

    database: Database
    metrics: Metrics
    is_recovered: Callable[[], bool]
    clock: Callable[[], datetime]

    def app(self) -> Starlette:
        """The three routes."""
        return Starlette(
            routes=[
                Route("/healthz", self._healthz),
                Route("/readyz", self._readyz),
                Route("/metrics", self._metrics),
            ]
        )

    async def _healthz(self, _: Request) -> Response:
        return JSONResponse({"status": "ok"}, headers=_NO_STORE)

    async def _readyz(self, _: Request) -> Response:
        """Ready with 200, else 503; a backend that is away is told, and is no reason not to be ready."""
        found = await self._figures()
        answering = self.metrics.is_backend_answering
        parts: dict[str, Any] = {
            "database": {"status": "ok" if found is not None else "unavailable"},
            "recovery": {"status": "ok" if self.is_recovered() else "pending"},
            "backend": {"status": {True: "ok", False: "unavailable", None: "unknown"}[answering]},
        }
        if found is not None:
            parts["deliveries"] = {"status": "ok", "waiting": found.waiting, "dead": found.dead}
        ready = found is not None and self.is_recovered()
        body = {"status": "ok" if ready else "unavailable", "parts": parts}
        return JSONResponse(body, status_code=200 if ready else 503, headers=_NO_STORE)

    async def _metrics(self, _: Request) -> Response:
        found = await self._figures()
        if found is None:
            return JSONResponse({"status": "unavailable"}, status_code=503, headers=_NO_STORE)
        written = self.metrics.written(found, now=self.clock())
        return Response(written, headers={"Content-Type": CONTENT_TYPE, **_NO_STORE})

    async def _figures(self) -> Figures | None:
        try:
            return await self.database.read(figures)
        except (StoreUnavailable, SQLAlchemyError) as error:
            log.warning("figures_unavailable", reason=type(error).__name__)
            return None


class _Beside(uvicorn.Server):
    """A server that leaves the signals of the process to whoever runs it."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def listening(operation: Operation, bind: str | None) -> AsyncIterator[None]:
    """The listener on `HOST:PORT` for as long as the block lasts; without `bind` there is none.

    Raises:
        ConfigurationInvalid: The address cannot be used.
    """
    if bind is None:
        yield
        return
    host, port = split_bind(bind)
    try:
        listener = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise ConfigurationInvalid(f"operation: {bind} cannot be used ({error.strerror})") from None
    config = uvicorn.Config(
        operation.app(), http="h11", log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=1
    )
    server = _Beside(config)
    with listener:
        log.info("operation_listening", host=host, port=listener.getsockname()[1])
        async with anyio.create_task_group() as group:
            group.start_soon(server.serve, [listener])
            try:
                yield
            finally:
                server.should_exit = True
