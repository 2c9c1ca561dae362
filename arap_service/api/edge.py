"""What every answer of the service has in common, whatever route or error it comes from.

Echoes `X-Request-ID` (PDP-09), forbids content sniffing and framing, keeps browsers to https where the service is
reached by it, and lets nothing run that a browser might take for a page. It wraps the whole application, so that
answers made outside of any route have these headers too, and gives the framework's bare refusal of an oversized body
the form that the APIs with problem documents promise. AuthZEN Authorization API, "Request Identification".
"""

from collections.abc import MutableMapping, Sequence
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from arap_service.api.problems import problem
from arap_service.domain.errors import PayloadTooLarge

PROBLEM_PATHS: Final = ("/access/v1/request", "/access/v1/catalogs/", "/resolver/", "/issuer/")
_REQUEST_ID: Final = b"x-request-id"
_ALWAYS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"),
)
_HTTPS_ONLY: Final = (b"strict-transport-security", b"max-age=31536000; includeSubDomains")


class EdgeMiddleware:
    """An ASGI application around another; `base_path` is what our paths stand under, `is_https` how we are reached."""

    def __init__(self, app: ASGIApp, *, base_path: str = "", is_https: bool = False) -> None:
        self._app = app
        self._added = (*_ALWAYS, _HTTPS_ONLY) if is_https else _ALWAYS
        self._problem_paths = tuple(base_path + path for path in PROBLEM_PATHS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on, adding to what comes back."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = next((value for name, value in scope["headers"] if name == _REQUEST_ID), None)
        speaks_problem = scope["path"].startswith(self._problem_paths)
        replaced = False

        async def send_completed(message: Message) -> None:
            nonlocal replaced
            if message["type"] == "http.response.start":
                replaced = speaks_problem and message["status"] == 413 and _is_bare(message)
                if replaced:
                    message = {**message, "headers": _TOO_LARGE.raw_headers}
                _complete(message, request_id, self._added)
            elif replaced and message["type"] == "http.response.body":
                message = {"type": "http.response.body", "body": _TOO_LARGE.body, "more_body": False}
            await send(message)

        await self._app(scope, receive, send_completed)


_TOO_LARGE: Final = problem(PayloadTooLarge())


def _is_bare(message: Message) -> bool:
    return any(name == b"content-type" and value.startswith(b"text/plain") for name, value in message["headers"])


def _complete(
    message: MutableMapping[str, Any], request_id: bytes | None, added: Sequence[tuple[bytes, bytes]]
) -> None:
    headers = list(message.get("headers", ()))
    names = {name.lower() for name, _ in headers}
    if request_id is not None and _REQUEST_ID not in names:
        headers.append((_REQUEST_ID, request_id))
    headers += (header for header in added if header[0] not in names)
    message["headers"] = headers
