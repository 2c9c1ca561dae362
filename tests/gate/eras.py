"""ASGI applications that stand before others: a server that knows no 2026 protocol, one that is replaced meanwhile."""

from collections.abc import Callable

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

VERSION_HEADER = b"mcp-protocol-version"
MODERN = b"2026-07-28"


class HandshakeEra:
    """Serves real servers of the handshake era, one after the other; sessions of one are unknown to the next."""

    def __init__(self, *apps: ASGIApp) -> None:
        self.apps = list(apps)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        if dict(scope["headers"]).get(VERSION_HEADER) == MODERN:
            await Response(status_code=400)(scope, receive, send)
            return
        await self.apps[0](scope, receive, send)


class Replaceable:
    """Serves `app`, whichever that is at the time, or nothing while it is None; `refused` hears of the latter."""

    def __init__(self, app: ASGIApp | None, *, refused: Callable[[], None] = lambda: None) -> None:
        self.app = app
        self._refused = refused

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        if self.app is None:
            self._refused()
            await Response(status_code=503)(scope, receive, send)
            return
        await self.app(scope, receive, send)
