"""The hot paths: evaluations and submissions answered before the framework's layers, which cost more than a decision.

Wraps an application and takes out POST requests to exact paths; everything else passes through, and the same paths are
routed and described there as well, with the same endpoints. Body limit and errors are the same as behind the layers: no
value, never the text of an exception (PDP-11, PDP-13).
"""

import json
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fastapi import Request
from fastapi.responses import Response
from fastapi.routing import APIRoute
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

from arap_service.api.auth import authenticate, context
from arap_service.api.bodies import JSON, json_bytes
from arap_service.api.problems import problem_of, text_of
from arap_service.context import Context
from arap_service.domain.callers import Caller
from arap_service.domain.callers import Scope as Right
from arap_service.domain.errors import InvalidRequest
from arap_service.protocol.canonical import InvalidJson, strict_loads

UseCase = Callable[[Context, Caller, dict[str, Any]], Awaitable[dict[str, Any]]]
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
_HEADERS: Final = {"content-type": JSON, "cache-control": "no-store"}  # ARS-07


@dataclass(frozen=True, slots=True)
class Answer:
    """A JSON object with its status, and headers beside those that every such answer has (names in lower case)."""

    body: Mapping[str, Any]
    status: int = 200
    headers: Mapping[str, str] | None = None

    def response(self) -> Response:
        """The same as a response of the framework."""
        return Response(_ENCODER.encode(self.body), self.status, {**_HEADERS, **(self.headers or {})})


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What answers a request, and the form that its errors have."""

    answer: Callable[[Request], Awaitable[Answer]]
    refuse: Callable[[Exception], Response] = problem_of


class DirectRoute(APIRoute):
    """A route whose endpoint takes the request as it is; documented like any other."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The endpoint itself."""
        handler: Callable[[Request], Coroutine[Any, Any, Response]] = self.endpoint
        return handler


class DirectPaths:
    """An ASGI application around another that answers POST to `paths` by itself."""

    def __init__(self, app: ASGIApp, paths: Mapping[str, Endpoint]) -> None:
        self._app = app
        self._paths = dict(paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or pass on."""
        endpoint = self._paths.get(scope.get("path", "")) if scope.get("method") == "POST" else None
        if endpoint is None:
            await self._app(scope, receive, send)
            return
        try:
            response = (await endpoint.answer(Request(scope, receive))).response()
        except ClientDisconnect:
            return
        except Exception as error:  # noqa: BLE001 - the outermost layer of these paths: nothing else would answer
            response = endpoint.refuse(error)
        await response(scope, receive, send)


def asking(use_case: UseCase) -> Endpoint:
    """The endpoint of the Authorization API that asks `use_case`."""

    async def answer(request: Request) -> Answer:
        return await answered(request, use_case)

    return Endpoint(answer, text_of)


async def respond(request: Request, use_case: UseCase, *, right: Right = Right.EVALUATE) -> Response:
    """The same answer as a response of the framework, for a described route that needs `right`."""
    return (await answered(request, use_case, right=right)).response()


async def answered(request: Request, use_case: UseCase, *, right: Right = Right.EVALUATE) -> Answer:
    """What answers `request`.

    Raises:
        ArapError: The caller is nobody or lacks the scope, or the request is not one.
    """
    caller = await authenticate(request)
    caller.require(right)
    ctx = context(request)
    try:
        value = strict_loads(await json_bytes(request), max_depth=ctx.settings.limits.max_depth)
    except InvalidJson:
        raise InvalidRequest("The body is not valid JSON.") from None
    if not isinstance(value, dict):
        raise InvalidRequest("The body must be a JSON object.")
    return Answer(await use_case(ctx, caller, value))
