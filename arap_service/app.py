"""Wires the service together: configuration and context in, one ASGI application out.

The only place that knows all parts. Routes stand under the path of the configured identifier; nothing is derived from
the Host header. Background work (courier, deadlines, rules, keys) lives as long as the application and is cancelled at
its end; whatever it was doing is picked up again, because all of it is rows.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
from fastapi import FastAPI

from arap_service.api import health
from arap_service.api import issuer as issuer_routes
from arap_service.api.auth import Authenticator
from arap_service.api.edge import EdgeMiddleware
from arap_service.background import run_background
from arap_service.context import Context
from arap_service.issuer import Issuer
from arap_service.settings import Settings

OpenContext = Callable[[], Awaitable[Context]]


def create_app(settings: Settings, *, context: Context | None = None, opened: OpenContext | None = None) -> FastAPI:
    """The application for `settings`.

    Give `context` to serve on surroundings that somebody else opened, closes and works the background of (a test); give
    `opened` to have the application open them when it starts, work in the background and close them at the end.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        if opened is None:
            yield
            return
        own = await opened()
        try:
            _install(app, own)
            async with anyio.create_task_group() as group:
                group.start_soon(run_background, own)
                yield
                group.cancel_scope.cancel()
        finally:
            await own.database.aclose()

    app = FastAPI(
        title="ARAP service",
        summary="AuthZEN decision point, access requests and their approval",
        version="1",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url=settings.base_path + "/openapi.json",
        max_body_size=settings.limits.max_body_bytes,
        telemetry={"logs": False},
    )
    _route(app, settings)
    app.add_middleware(EdgeMiddleware)
    if context is not None:
        _install(app, context)
    return app


def _install(app: FastAPI, context: Context) -> None:
    settings = context.settings
    app.state.context = context
    app.state.authenticator = Authenticator(
        context.trust, clock=context.clock, skew_seconds=settings.clock_skew_seconds
    )
    app.state.issuer = Issuer(settings, context.keys, clock=context.clock, new_id=context.new_id)
    if settings.builtin_issuer.enabled:
        context.log.warning("builtin_issuer_enabled", issuer=settings.builtin_issuer_identifier)
    if settings.insecure_loopback:
        context.log.warning("insecure_loopback_enabled", identifier=settings.identifier)


def _route(app: FastAPI, settings: Settings) -> None:
    base = settings.base_path
    app.include_router(health.router, prefix=base)
    if settings.builtin_issuer.enabled:
        app.include_router(issuer_routes.router, prefix=base)
        app.add_api_route(
            f"/.well-known/oauth-authorization-server{base}/issuer", issuer_routes.metadata, tags=["token issuer"]
        )
