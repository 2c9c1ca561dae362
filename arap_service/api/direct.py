"""The hot path: evaluations answered before the framework's layers, which would cost more than the decision.

Wraps an application and takes out POST requests to exact paths; everything else passes through, and the same paths are
routed and described there as well. Body limit and errors are the same as behind the layers: short text, no value, never
the text of an exception (PDP-11, PDP-13).
"""

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from fastapi import Request
from fastapi.responses import Response
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

from arap_service.api.auth import authenticate, context
from arap_service.api.problems import text_of
from arap_service.context import Context
from arap_service.domain.callers import Caller
from arap_service.domain.callers import Scope as Right
from arap_service.domain.errors import InvalidRequest, PayloadTooLarge
from arap_service.protocol.canonical import InvalidJson, strict_loads

UseCase = Callable[[Context, Caller, dict[str, Any]], Awaitable[dict[str, Any]]]
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
_TYPE: Final = b"application/json"
_HEADERS: Final = ((b"content-type", _TYPE), (b"cache-control", b"no-store"))  # ARS-07


class DirectPaths:
    """An ASGI application around another that answers POST to `paths` (path to use case) by itself."""

    def __init__(self, app: ASGIApp, paths: Mapping[str, UseCase]) -> None:
        self._app = app
        self._paths = dict(paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or pass on."""
        use_case = self._paths.get(scope.get("path", "")) if scope.get("method") == "POST" else None
        if use_case is None:
            await self._app(scope, receive, send)
            return
        try:
            body = await answered(Request(scope, receive), use_case)
        except ClientDisconnect:
            return
        except Exception as error:  # noqa: BLE001 - the outermost layer of these paths: nothing else would answer
            await text_of(error)(scope, receive, send)
            return
        length = (b"content-length", str(len(body)).encode())
        await send({"type": "http.response.start", "status": 200, "headers": [*_HEADERS, length]})
        await send({"type": "http.response.body", "body": body})


async def respond(request: Request, use_case: UseCase, *, right: Right = Right.EVALUATE) -> Response:
    """The same answer as a response of the framework, for a described route that needs `right`."""
    body = await answered(request, use_case, right=right)
    return Response(body, headers={name.decode(): value.decode() for name, value in _HEADERS})


async def answered(request: Request, use_case: UseCase, *, right: Right = Right.EVALUATE) -> bytes:
    """The JSON body that answers `request`.

    Raises:
        ArapError: The caller is nobody or lacks the scope, or the request is not one.
    """
    caller = await authenticate(request)
    caller.require(right)
    ctx = context(request)
    if _media_type(request.scope["headers"]) != _TYPE:
        raise InvalidRequest("The Content-Type must be application/json.")
    limits = ctx.settings.limits
    try:
        value = strict_loads(await _body(request, limits.max_body_bytes), max_depth=limits.max_depth)
    except InvalidJson:
        raise InvalidRequest("The body is not valid JSON.") from None
    if not isinstance(value, dict):
        raise InvalidRequest("The body must be a JSON object.")
    answer = await use_case(ctx, caller, value)
    return _ENCODER.encode(answer).encode()


def _media_type(headers: list[tuple[bytes, bytes]]) -> bytes:
    kind = next((value for name, value in headers if name == b"content-type"), b"")
    return kind if kind == _TYPE else kind.partition(b";")[0].strip().lower()


async def _body(request: Request, most: int) -> bytes:
    pieces: list[bytes] = []
    size = 0
    async for piece in request.stream():
        size += len(piece)
        if size > most:
            raise PayloadTooLarge
        pieces.append(piece)
    return b"".join(pieces)
