"""The outermost layer: counts and times every answer, and gives each request a span.

A span continues the trace of the caller (W3C Trace Context) and is named by method and route template. Paths, queries,
addresses, headers and whatever else could tell of a person or hold a task handle are in no label and no attribute;
neither are the messages of exceptions. Nothing is recorded where no OpenTelemetry SDK is set up.
"""

import time
from collections.abc import Collection
from typing import Any, Final

from opentelemetry.trace import SpanKind, StatusCode
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from arap_service.context import Context
from arap_service.tracing import carried, spanning

_PASSED_OVER: Final = frozenset({"/healthz", "/readyz", "/metrics"})


class Observed:
    """An ASGI application around another; `direct` are the paths that are answered before any route is looked for."""

    def __init__(self, app: ASGIApp, context: Context, *, direct: Collection[str]) -> None:
        self._app = app
        self._context = context
        self._direct = frozenset(direct)
        self._untraced = frozenset(context.settings.base_path + path for path in _PASSED_OVER)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, and note what became of it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope["path"] in self._untraced:
            await self._counted(scope, receive, send)
            return
        method = scope["method"]
        with spanning(self._context.tracer, method, kind=SpanKind.SERVER, parent=carried(scope["headers"])) as span:
            status = await self._counted(scope, receive, send)
            route = self._route(scope)
            if span.is_recording():
                span.update_name(f"{method} {route}" if route else method)
                span.set_attribute("http.request.method", method)
                span.set_attribute("http.response.status_code", status)
                if route:
                    span.set_attribute("http.route", route)
                if status >= 500:
                    span.set_status(StatusCode.ERROR)

    async def _counted(self, scope: Scope, receive: Receive, send: Send) -> int:
        begun, status = time.perf_counter(), 500

        async def send_noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, send_noted)
        finally:
            seconds = time.perf_counter() - begun
            self._context.metrics.answered(self._route(scope), scope["method"], status, seconds=seconds)
        return status

    def _route(self, scope: Scope) -> str | None:
        if scope["path"] in self._direct:
            return str(scope["path"])
        route: Any = scope.get("route")
        template = getattr(route, "path", None)
        return template if isinstance(template, str) else None
