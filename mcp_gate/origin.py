"""Tells an error that the upstream sent from one that our own side made up.

The SDK raises the same `MCPError` for a received JSON-RPC error, for a closed connection and for a time-out, and its
HTTP transport even puts errors of its own into the stream of received messages. But a call whose response was never
received has an unknown outcome, and a call that was answered with an error has not (design section 8, SEP-2848).
So the bytes are watched: an error counts as received if and only if a JSON-RPC error object for that request arrived.
"""

import json
from collections.abc import AsyncIterator, Mapping
from datetime import datetime
from itertools import count
from types import TracebackType
from typing import Any, Final, Self

import anyio
import httpx2
from anyio.abc import TaskStatus
from mcp.shared.dispatcher import CallOptions, OnNotify, OnNotifyIntercept, OnRequest
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.message import SessionMessage
from mcp.shared.transport_context import TransportContext
from mcp.types import ErrorData, JSONRPCError

from mcp_gate.approved import approved_until

SCAN_LIMIT: Final = 8 * 1024 * 1024
CONNECTION_CLOSED: Final = -32000
LISTEN: Final = "subscriptions/listen"
SESSION_HEADER: Final = "mcp-session-id"


class NotReceived(MCPError):
    """No response to the request was received: the connection was lost, time ran out, or it was not even read.

    `shown` is the error that a waiting client is told instead of a closed connection.
    """

    def __init__(self, reason: str = "connection_lost", *, shown: ErrorData | None = None) -> None:
        told = shown or ErrorData(code=CONNECTION_CLOSED, message="Connection closed")
        super().__init__(code=told.code, message=told.message, data=told.data)
        self.reason = reason


class ReceivedErrors:
    """The requests for which a JSON-RPC error object arrived, until asked for, and whether the session is gone."""

    def __init__(self) -> None:
        self._ids: set[str] = set()
        self._unread: set[str] = set()
        self.is_session_gone = False

    def add(self, request_id: object) -> None:
        """Remember that an error for `request_id` arrived."""
        if isinstance(request_id, str):
            self._ids.add(request_id)

    def take(self, request_id: str) -> bool:
        """Whether an error for `request_id` arrived; asked once."""
        if request_id in self._ids:
            self._ids.remove(request_id)
            return True
        return False

    def add_unread(self, request_id: object) -> None:
        """Remember that the message of `request_id` was answered with an error that names no request."""
        if isinstance(request_id, str):
            self._unread.add(request_id)

    def take_unread(self, request_id: str) -> bool:
        """Whether that happened to `request_id`; asked once."""
        if request_id in self._unread:
            self._unread.remove(request_id)
            return True
        return False


class OriginDispatcher(JSONRPCDispatcher[TransportContext]):
    """The SDK's dispatcher, under request ids of our own and with the two kinds of failure told apart.

    `bounds` holds, by its id, the end of the approval that a request on its way runs under.
    """

    def __init__(
        self, read: Any, write: Any, *, received: ReceivedErrors, bounds: dict[str, datetime] | None = None
    ) -> None:
        super().__init__(read, write)
        self._bounds = {} if bounds is None else bounds
        self._received = received
        self._numbers = count(1)
        self.closed = anyio.Event()

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None, **related: Any
    ) -> dict[str, Any]:
        """Send a request and await its result.

        Raises:
            NotReceived: no response arrived.
            MCPError: the peer answered with this error.
        """
        named = opts.get("request_id") if opts is not None and method == LISTEN else None  # its stream is told by it
        request_id = named if isinstance(named, str) else f"gate-{next(self._numbers)}"
        options: CallOptions = {**(opts or {}), "request_id": request_id}
        if (until := approved_until()) is not None:
            self._bounds[request_id] = until
        try:
            return await super().send_raw_request(method, params, options, **related)
        except MCPError as error:
            if self._received.take(request_id):
                raise
            if self._received.take_unread(request_id):
                raise NotReceived("not_read", shown=error.error) from error
            raise NotReceived from error
        finally:
            self._bounds.pop(request_id, None)

    async def run(
        self,
        on_request: OnRequest,
        on_notify: OnNotify,
        on_notify_intercept: OnNotifyIntercept | None = None,
        *,
        task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Pump messages until the peer closes, then say so through `closed`."""
        try:
            await super().run(on_request, on_notify, on_notify_intercept, task_status=task_status)
        finally:
            self.closed.set()


class WatchedStream:
    """A transport's read stream that notes every JSON-RPC error on its way; for transports that invent none (stdio)."""

    def __init__(self, inner: Any, received: ReceivedErrors) -> None:
        self._inner = inner
        self._received = received

    @property
    def last_context(self) -> Any:
        """The sender's context, where the transport carries one."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        """The next message."""
        return self._noted(await self._inner.receive())

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        return self._noted(await self._inner.__anext__())

    async def aclose(self) -> None:
        """Close the stream."""
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        leave: bool | None = await self._inner.__aexit__(kind, error, trace)
        return leave

    def _noted(self, item: SessionMessage | Exception) -> SessionMessage | Exception:
        if isinstance(item, SessionMessage) and isinstance(item.message, JSONRPCError):
            self._received.add(item.message.id)
        return item


class WatchedTransport(httpx2.AsyncBaseTransport):
    """An HTTP transport that notes every JSON-RPC error object in the responses to our requests."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, received: ReceivedErrors) -> None:
        self._inner = inner
        self._received = received

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send the request and watch what comes back."""
        response = await self._inner.handle_async_request(request)
        if response.status_code == 404 and SESSION_HEADER in request.headers:
            self._received.is_session_gone = True  # the server forgot the session; only a new one will do
        kind = response.headers.get("content-type", "").lower()
        if not isinstance(response.stream, httpx2.AsyncByteStream) or not kind.startswith(
            ("application/json", "text/event-stream")
        ):
            return response
        scanner = _Scanner(self._received, sent=message_id(request), events=kind.startswith("text/event-stream"))
        return httpx2.Response(
            status_code=response.status_code,
            headers=response.headers,
            stream=_WatchedBody(response.stream, scanner),
            extensions=response.extensions,
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._inner.aclose()


class _WatchedBody(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream, scanner: "_Scanner") -> None:
        self._inner = inner
        self._scanner = scanner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._inner:
            self._scanner.feed(chunk)
            yield chunk
        self._scanner.end()

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Scanner:
    """Finds JSON-RPC errors in a JSON body or in the data lines of server-sent events."""

    def __init__(self, received: ReceivedErrors, *, sent: object, events: bool) -> None:
        self._received = received
        self._sent = sent
        self._events = events
        self._rest = bytearray()

    def feed(self, chunk: bytes) -> None:
        self._rest += chunk
        if self._events and b"\n" in chunk:
            *lines, rest = bytes(self._rest).replace(b"\r\n", b"\n").split(b"\n")
            self._rest = bytearray(rest)
            for line in lines:
                if line.startswith(b"data:"):
                    self._look(line[5:])
        if len(self._rest) > SCAN_LIMIT:
            self._rest.clear()  # too large to be an error; not seen means not received, the careful answer

    def end(self) -> None:
        if not self._events:
            self._look(bytes(self._rest))

    def _look(self, text: bytes) -> None:
        if b'"error"' not in text:
            return
        try:
            message = json.loads(text)
        except (ValueError, RecursionError):
            return
        if isinstance(message, dict) and isinstance(message.get("error"), dict):
            # An error with `id: null` says that the message was not read as a request: no response to the call.
            if message.get("id") is None:
                self._received.add_unread(self._sent)
            else:
                self._received.add(message["id"])


def message_id(request: httpx2.Request) -> object:
    """The id of the JSON-RPC message that a request posts, if it posts one."""
    try:
        message = json.loads(request.content)
    except (ValueError, RecursionError, httpx2.RequestNotRead):
        return None
    return message.get("id") if isinstance(message, dict) else None
