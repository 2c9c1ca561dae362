"""The MCP server behind the gateway: one long-lived session, reopened whenever it is lost.

Forwards requests and hands back raw results, so that nothing of a result is lost on the way. It declares no client
capability of its own, passes no credential of a caller on, and repeats no call. notes: SDK 2.3, stdio or HTTP.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import anyio
import httpx2
import structlog
from anyio.abc import TaskStatus
from mcp import types
from mcp.client.session import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ServerEvent, ToolsListChanged
from mcp.types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import RootModel, ValidationError

from mcp_gate.origin import NotReceived, OriginDispatcher, ReceivedErrors, WatchedStream, WatchedTransport
from mcp_gate.settings_tools import Upstream as UpstreamSettings
from mcp_gate.upstream_auth import auth_of
from mcp_gate.upstream_events import AGAIN_SECONDS, EVERY_LIST, Announce, event_of, hear, watch

SERVER_INFO_META: Final = "io.modelcontextprotocol/serverInfo"
DELAYS: Final = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
PAGES: Final = 100
LIST_SECONDS: Final = 30
# What every result says since 2026 and none said before; nothing about caching was said, so nothing is promised.
SINCE_2026: Final[Mapping[str, Any]] = {"resultType": "complete"}
LISTS_SINCE_2026: Final[Mapping[str, Any]] = {**SINCE_2026, "ttlMs": 0, "cacheScope": "private"}
CACHEABLE: Final = (
    types.ListToolsRequest,
    types.ListResourcesRequest,
    types.ListResourceTemplatesRequest,
    types.ListPromptsRequest,
    types.ReadResourceRequest,
)

log = structlog.get_logger(__name__)


class _Raw(RootModel[dict[str, Any]]):
    """A result as it came."""


class UpstreamMissing(Exception):
    """The upstream cannot be started as configured."""


@dataclass(frozen=True, slots=True)
class _Open:
    session: ClientSession
    dispatcher: OriginDispatcher
    received: ReceivedErrors


async def _nobody(_: ServerEvent) -> None:
    """Nobody wants to hear what the upstream announces."""


class Upstream:
    """The upstream as the gateway uses it; run `run` in a task group, then `call`.

    `announce` hears of changes; one that is not `is_awaited` may be away when the gateway starts.
    """

    def __init__(
        self,
        settings: UpstreamSettings,
        *,
        name: str,
        sleep: Callable[[float], Any] = anyio.sleep,
        announce: Announce = _nobody,
        is_awaited: bool = True,
    ) -> None:
        self._settings = settings
        self._announce = announce
        self._bounds: dict[str, datetime] = {}
        self._auth = auth_of(settings, self._bounds)
        self._is_awaited = is_awaited
        self._info = types.Implementation(name=name, version="1")
        self._sleep = sleep
        self._open: _Open | None = None
        self._tools: dict[str, types.Tool] = {}
        self._stale = anyio.Event()
        self._in_flight = 0
        self.opened = 0
        self.tried = anyio.Event()
        """Set once the first connection stands or has failed."""

    @property
    def tools(self) -> Mapping[str, types.Tool]:
        """The tools that the upstream listed last, by name."""
        return self._tools

    @property
    def capabilities(self) -> types.ServerCapabilities | None:
        """What the upstream can do, while it is connected."""
        return None if self._open is None else self._open.session.server_capabilities

    @property
    def is_modern(self) -> bool:
        """Whether the upstream speaks the 2026 protocol."""
        return self._open is not None and self._open.session.protocol_version in MODERN_PROTOCOL_VERSIONS

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Keep the upstream open until cancelled; started once the first connection stands.

        Raises:
            UpstreamMissing: the command of a stdio upstream cannot be run, at the first start.
        """
        failures = 0
        started = False
        while True:
            try:
                async with self._session() as opened:
                    failures = 0
                    self.tried.set()
                    if not started:
                        task_status.started()
                        started = True
                    await self._until_lost(opened)
            except Exception as error:  # noqa: BLE001 - the supervisor outlives every fault of a connection
                cause = _first(error)
                cannot_start = isinstance(cause, OSError) and not isinstance(cause, ConnectionError)
                if cannot_start and not started and self._settings.command is not None:
                    raise UpstreamMissing(f"cannot start {self._settings.command!r}") from None
                log.warning("upstream_failed", error=type(cause).__name__)
                if not (started or self._is_awaited):
                    task_status.started()
                    started = True
            self._open = None
            self.tried.set()
            await self._sleep(DELAYS[min(failures, len(DELAYS) - 1)])
            failures += 1

    async def _until_lost(self, opened: _Open) -> None:
        self._stale = anyio.Event()
        self._open = opened
        self.opened += 1
        log.info("upstream_opened", protocol=opened.session.protocol_version, tools=len(self._tools))
        async with anyio.create_task_group() as group:
            for event in (opened.dispatcher.closed, self._stale):
                group.start_soon(_cancel_when, event, group.cancel_scope)
            group.start_soon(hear, opened.session, self._on_event)
            if self.opened > 1 or not self._is_awaited:  # whatever was announced meanwhile was missed
                for missed in EVERY_LIST:
                    await self._announce(missed)
        log.warning("upstream_lost")

    @asynccontextmanager
    async def _session(self) -> AsyncIterator[_Open]:
        received = ReceivedErrors()
        async with self._transport(received) as (read, write):
            dispatcher = OriginDispatcher(read, write, received=received, bounds=self._bounds)
            async with ClientSession(
                dispatcher=dispatcher, client_info=self._info, message_handler=self._on_message
            ) as session:
                try:
                    await session.discover()
                except (MCPError, RuntimeError):
                    await session.initialize()  # a server of the handshake era
                await self._list(session)
                yield _Open(session, dispatcher, received)

    @asynccontextmanager
    async def _transport(self, received: ReceivedErrors) -> AsyncIterator[tuple[Any, Any]]:
        settings = self._settings
        if settings.url is None:
            parameters = StdioServerParameters(
                command=settings.command or "",
                args=list(settings.args),
                env=dict(settings.env) or None,
                cwd=settings.cwd,
            )
            async with stdio_client(parameters) as (read, write):
                yield WatchedStream(read, received), write
            return
        headers = {name: value.get_secret_value() for name, value in settings.headers.items()}
        timeout = httpx2.Timeout(30, read=settings.call_seconds + 30)
        async with (
            httpx2.AsyncClient(
                transport=WatchedTransport(httpx2.AsyncHTTPTransport(trust_env=False), received),
                auth=self._auth,
                headers={**headers, "accept-encoding": "identity"},  # bytes are watched as they come
                timeout=timeout,
            ) as http,
            streamable_http_client(settings.url, http_client=http) as (read, write),
        ):
            yield read, write

    async def _on_message(self, message: Any) -> None:
        event = None if self.is_modern else event_of(message)  # a modern server's stream is listened to by itself
        if event is not None:
            await self._on_event(event)

    async def _on_event(self, event: ServerEvent) -> None:
        opened = self._open
        if opened is None:
            return
        if isinstance(event, ToolsListChanged):
            try:
                await self._list(opened.session)
            except (MCPError, ValidationError, RuntimeError) as error:
                log.warning("upstream_not_listed", error=type(error).__name__)
        await self._announce(event)

    async def watch(self, uris: Sequence[str]) -> None:
        """Have changes of these resources announced, until cancelled."""
        while True:
            if self._open is not None:
                await watch(self._open.session, uris, self._on_event)
            await anyio.sleep(AGAIN_SECONDS)

    async def _list(self, session: ClientSession) -> None:
        found: dict[str, types.Tool] = {}
        cursor: str | None = None
        for _ in range(PAGES):
            page = await session.list_tools(params=types.PaginatedRequestParams(cursor=cursor))
            found |= {tool.name: tool for tool in page.tools}
            cursor = page.next_cursor
            if cursor is None:
                break
        self._tools = found

    async def refresh(self) -> None:
        """List the tools again.

        Raises:
            MCPError: the upstream cannot be asked, does not answer in time, or lists what are no tools.
        """
        async with self._using() as opened:
            try:
                with anyio.fail_after(LIST_SECONDS):
                    await self._list(opened.session)
            except TimeoutError:
                raise NotReceived("list_timeout") from None
            except (ValidationError, RuntimeError):
                raise NotReceived("no_list") from None

    async def call(
        self, request: types.Request[Any, Any], *, seconds: float | None = None, progress: ProgressFnT | None = None
    ) -> dict[str, Any]:
        """Send one request and return the raw result, without the upstream's own identity.

        The result of a server of the handshake era is completed by the members that the 2026 protocol demands.

        Raises:
            NotReceived: no response arrived: connection lost, time out, or not connected.
            MCPError: the upstream answered with this error.
        """
        async with self._using() as opened:
            result = await opened.session.send_request(
                request,
                _Raw,
                request_read_timeout_seconds=seconds or self._settings.call_seconds,
                progress_callback=progress,
            )
            answer = without_server_info(result.root)
            if opened.session.protocol_version in MODERN_PROTOCOL_VERSIONS:
                return answer
            return {**(LISTS_SINCE_2026 if isinstance(request, CACHEABLE) else SINCE_2026), **answer}

    @asynccontextmanager
    async def _using(self) -> AsyncIterator[_Open]:
        opened = self._connected()
        self._in_flight += 1
        try:
            yield opened
        finally:
            self._in_flight -= 1
            # A session of the handshake era does not survive its server, but a call under way must not be cut off.
            if opened.received.is_session_gone and self._in_flight == 0:
                self._stale.set()

    def _connected(self) -> _Open:
        if self._open is None:
            raise NotReceived("not_connected")
        return self._open


def without_server_info(result: dict[str, Any]) -> dict[str, Any]:
    """`result` without the identity that the answering server stamped into `_meta`."""
    meta = result.get("_meta")
    if not isinstance(meta, dict) or SERVER_INFO_META not in meta:
        return result
    rest = {name: value for name, value in meta.items() if name != SERVER_INFO_META}
    return {**{name: value for name, value in result.items() if name != "_meta"}, **({"_meta": rest} if rest else {})}


def _first(error: BaseException) -> BaseException:
    """The first real exception of a group; task groups wrap what their transports raise."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def _cancel_when(event: anyio.Event, scope: anyio.CancelScope) -> None:
    await event.wait()
    scope.cancel()
