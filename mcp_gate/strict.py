"""Refuses JSON-RPC messages at the front that two parsers could read differently, before anything is made of them.

Two members of one name, NaN, numbers that overflow, halves of surrogate pairs, and nesting beyond all need: the gate
would decide about one reading and a reviewer be shown another. What is no JSON at all is left to the SDK's own answer.
RFC 7493 (I-JSON); design section 2.
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

import anyio
from mcp.shared.message import SessionMessage
from mcp.types import INVALID_REQUEST, ErrorData, JSONRPCError
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from arap_service.protocol.canonical import InvalidJson, strict_loads

LEFT_TO_THE_SDK: Final = frozenset({"utf8", "syntax"})

Reply = Callable[[SessionMessage], Awaitable[None]]


def refusal(text: bytes | str) -> JSONRPCError | None:
    """The error that answers a message which is not strict JSON, else None; nothing of the message is in it."""
    try:
        strict_loads(text)
    except InvalidJson as fault:
        if fault.code in LEFT_TO_THE_SDK:
            return None
        error = ErrorData(code=INVALID_REQUEST, message=f"The message is not strict JSON: {fault}")
        return JSONRPCError(jsonrpc="2.0", id=_id_of(text), error=error)
    return None


def _id_of(text: bytes | str) -> str | int | None:
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        return None
    named = message.get("id") if isinstance(message, dict) and "method" in message else None
    return named if isinstance(named, str | int) and not isinstance(named, bool) else None


class StrictBodies:
    """ASGI: reads the bodies posted to `path` strictly, up to `limit` bytes; larger ones are for `app` to refuse.

    Behind an authentication it looks at the bodies of authenticated callers only.
    """

    def __init__(self, app: ASGIApp, *, path: str, limit: int) -> None:
        self._app = app
        self._path = path
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request, or hand it on as it came."""
        if scope["type"] != "http" or scope["method"] != "POST" or scope["path"] != self._path:
            await self._app(scope, receive, send)
            return
        if "user" in scope and not scope["user"].is_authenticated:
            await self._app(scope, receive, send)
            return
        taken, body = await self._read(receive)
        if body is not None and (refused := refusal(body)) is not None:
            shown = refused.model_dump_json(by_alias=True, exclude_none=False, exclude_unset=True)
            await Response(shown, status_code=400, media_type="application/json")(scope, receive, send)
            return

        async def again() -> Message:
            return taken.pop(0) if taken else await receive()

        await self._app(scope, again, send)

    async def _read(self, receive: Receive) -> tuple[list[Message], bytes | None]:
        """The messages that were taken, and the body if it is whole and within the limit."""
        taken: list[Message] = []
        body = bytearray()
        while True:
            message = await receive()
            taken.append(message)
            if message["type"] != "http.request":
                return taken, None
            body += message.get("body", b"")
            if len(body) > self._limit:
                return taken, None
            if not message.get("more_body", False):
                return taken, bytes(body)


class StrictLines:
    """Lines of a stdio front, without those that are refused; the caller of a refused one hears so through `reply`."""

    def __init__(self, lines: Any) -> None:
        self._lines = lines
        self._reply: Reply | None = None
        self._is_bound = anyio.Event()

    def bind(self, reply: Reply) -> None:
        """Say where refusals go; none is read before that."""
        self._reply = reply
        self._is_bound.set()

    async def __aiter__(self) -> AsyncIterator[str]:
        await self._is_bound.wait()
        async for line in self._lines:
            refused = refusal(line)
            if refused is None:
                yield line
            elif self._reply is not None:
                await self._reply(SessionMessage(refused))
