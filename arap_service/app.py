"""Wires the service together: a context in, one ASGI application out.

The only place that knows all parts. Routes stand under the path of the configured identifier; nothing is derived from
the Host header. Background work (courier, deadlines, rules, keys) lives as long as the application and is cancelled at
its end; whatever it was doing is picked up again, because all of it is rows.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

import anyio
from fastapi import APIRouter, FastAPI
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from arap_service.api import (
    audit,
    backchannel,
    catalogs,
    conversation,
    deliveries,
    events,
    health,
    pdp,
    requests,
    resolver,
    reviews,
    search,
    standing_rules,
)
from arap_service.api import issuer as issuer_routes
from arap_service.api.auth import Authenticator
from arap_service.api.description import complete, operation_id
from arap_service.api.direct import DirectPaths, Endpoint
from arap_service.api.edge import EdgeMiddleware
from arap_service.api.observed import Observed
from arap_service.api.problems import install_problems
from arap_service.background import run_background
from arap_service.context import Context
from arap_service.issuer import Issuer
from arap_service.simulator import control
from arap_service.simulator.core import Simulator
from arap_service.simulator.edge import SimulatorEdge
from arap_service.web import desk
from arap_service.web.login import gatekeeper


class Service(FastAPI):
    """An application whose every answer, also that of its outermost error handler, gets the common headers."""

    direct_paths: Mapping[str, Endpoint]

    def openapi(self) -> dict[str, Any]:
        """The description of all operations, made once."""
        is_new = self.openapi_schema is None
        document = super().openapi()
        if is_new:
            complete(document)
        return document

    def build_middleware_stack(self) -> ASGIApp:
        """The usual stack with the hot paths before it and the edge around both."""
        inner = DirectPaths(super().build_middleware_stack(), self.direct_paths)
        context: Context = self.state.context
        is_https = context.settings.identifier.startswith("https:")
        edge = EdgeMiddleware(inner, base_path=context.settings.base_path, is_https=is_https)
        observed = Observed(edge, context, direct=self.direct_paths)
        if isinstance(context.rehearsal, Simulator):
            return SimulatorEdge(observed, context.rehearsal, base_path=context.settings.base_path)
        return observed


def create_app(context: Context, *, background: bool = False) -> FastAPI:
    """The application on `context`, which stays the caller's to close; with `background` it also does its own work."""

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        async with anyio.create_task_group() as group:
            if background:
                group.start_soon(run_background, context)
                if isinstance(context.rehearsal, Simulator):
                    group.start_soon(context.rehearsal.run)
            yield
            group.cancel_scope.cancel()

    settings = context.settings
    app = Service(
        title="ARAP service",
        summary="AuthZEN decision point, access requests and their approval",
        version="1",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url=settings.base_path + "/openapi.json",
        generate_unique_id_function=operation_id,
        max_body_size=settings.limits.max_body_bytes,
        # Its spans would hold paths and queries, and thereby handles and names; ours are made in api/observed.py.
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    direct = {**pdp.PATHS, **requests.PATHS}
    app.direct_paths = {settings.base_path + path: endpoint for path, endpoint in direct.items()}
    _install(app, context)
    _route(app, context)
    return app


def _install(app: FastAPI, context: Context) -> None:
    settings = context.settings
    app.state.context = context
    app.state.streams = events.Streams()
    app.state.gatekeeper = gatekeeper()
    app.state.authenticator = Authenticator(
        context.trust, clock=context.clock, skew_seconds=settings.clock_skew_seconds
    )
    app.state.issuer = Issuer(settings, context.keys, clock=context.clock, new_id=context.new_id)
    if settings.builtin_issuer.enabled:
        context.log.warning("builtin_issuer_enabled", issuer=settings.builtin_issuer_identifier)
    if settings.authentication == "none":
        context.log.warning("authentication_disabled", bind=settings.bind)
    if settings.insecure_loopback:
        context.log.warning("insecure_loopback_enabled", identifier=settings.identifier)
    if settings.login.oidc is not None and settings.login.oidc.create_people and settings.desk.readers is None:
        context.log.warning("everybody_may_read_requests", issuer=settings.login.oidc.issuer)


def _route(app: FastAPI, context: Context) -> None:
    settings = context.settings
    made = _routes(
        settings.base_path,
        max_body_size=settings.limits.max_body_bytes,
        has_issuer=settings.builtin_issuer.enabled,
        rehearses=isinstance(context.rehearsal, Simulator),
        has_provider=context.provider is not None,
    )
    app.router.routes.extend(made)
    install_problems(app, base_path=settings.base_path)


@cache
def _routes(
    base: str, *, max_body_size: int, has_issuer: bool, rehearses: bool, has_provider: bool
) -> tuple[BaseRoute, ...]:
    """Every route, made once for all applications that are alike.

    An application's own includes would describe every operation anew at its first call, which takes longer than a
    hundred calls; what they share holds nothing of an application, for that comes with the call.
    """
    made = APIRouter(generate_unique_id_function=operation_id, strict_content_type=True, max_body_size=max_body_size)
    for router in (health.router, pdp.direct, pdp.router, search.router):
        made.include_router(router, prefix=base)
    for router in (requests.direct, requests.router, resolver.router):
        made.include_router(router, prefix=base)
    talk = (conversation.requester, conversation.router)
    for router in (
        audit.router,
        catalogs.router,
        *talk,
        deliveries.router,
        events.router,
        reviews.router,
        standing_rules.router,
    ):
        made.include_router(router, prefix=base)
    made.add_api_route(pdp.METADATA_PATH + base, pdp.metadata, tags=["decision point"])
    if has_issuer:
        made.include_router(issuer_routes.router, prefix=base)
        made.add_api_route(
            f"/.well-known/oauth-authorization-server{base}/issuer", issuer_routes.metadata, tags=["token issuer"]
        )
    if rehearses:
        made.include_router(control.router, prefix=base)
    if has_provider:
        made.include_router(backchannel.router, prefix=base)
    desk.install(made, prefix=base)
    return tuple(made.routes)
