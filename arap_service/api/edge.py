"""What every answer of the service has in common, whatever route or error it comes from.

Echoes `X-Request-ID` (PDP-09) and forbids content sniffing. It wraps the whole application, so that answers made
outside of any route have these headers too. AuthZEN Authorization API, "Request Identification".
"""

from collections.abc import MutableMapping
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

_REQUEST_ID: Final = b"x-request-id"
_NOSNIFF: Final = (b"x-content-type-options", b"nosniff")


class EdgeMiddleware:
    """An ASGI application around another."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, adding to what comes back."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = next((value for name, value in scope["headers"] if name == _REQUEST_ID), None)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                _complete(message, request_id)
            await send(message)

        await self._app(scope, receive, send_with_headers)


def _complete(message: MutableMapping[str, Any], request_id: bytes | None) -> None:
    headers = list(message.get("headers", ()))
    names = {name.lower() for name, _ in headers}
    if request_id is not None and _REQUEST_ID not in names:
        headers.append((_REQUEST_ID, request_id))
    if _NOSNIFF[0] not in names:
        headers.append(_NOSNIFF)
    message["headers"] = headers
