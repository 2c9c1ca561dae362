"""The servers behind a gateway, taken for one: which of them a name belongs to, and what they list together.

A server that is away takes nothing from the others: its part of a listing is missing until it is back, which is
announced. It decides nothing about a call. Names: see `prefixes`.
"""

import base64
import binascii
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import anyio
import structlog
from anyio.abc import TaskStatus
from mcp import types
from mcp.server.subscriptions import InMemorySubscriptionBus
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ResourceUpdated, ServerEvent

from mcp_gate.origin import NotReceived
from mcp_gate.prefixes import Prefix
from mcp_gate.settings_tools import Upstream as UpstreamSettings
from mcp_gate.upstream import Upstream

Json = dict[str, Any]
PageOf = Callable[[str | None], types.Request[Any, Any]]

START_SECONDS: Final = 10.0
UNKNOWN_CURSOR: Final = "Invalid cursor"
UNKNOWN_NAME: Final = "Unknown {kind}"

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Member:
    """One server of the fleet and how its things are named."""

    prefix: Prefix
    upstream: Upstream

    def offers(self, capability: str) -> bool:
        """Whether it is there and has the capability, such as `prompts`."""
        found = self.upstream.capabilities
        return found is not None and getattr(found, capability) is not None


class Fleet:
    """Every server behind the gateway; run `run` in a task group."""

    def __init__(self, settings: Mapping[str, UpstreamSettings], *, name: str) -> None:
        self.bus = InMemorySubscriptionBus()
        self._members = tuple(
            Member(
                Prefix(server),
                Upstream(given, name=name, announce=self._announcer(Prefix(server)), is_awaited=len(settings) == 1),
            )
            for server, given in settings.items()
        )

    @property
    def members(self) -> Sequence[Member]:
        """The servers, in the order of the configuration."""
        return self._members

    def _announcer(self, prefix: Prefix) -> Callable[[ServerEvent], Any]:
        async def announce(event: ServerEvent) -> None:
            shown = ResourceUpdated(prefix.uri(event.uri)) if isinstance(event, ResourceUpdated) else event
            await self.bus.publish(shown)

        return announce

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Keep every server open until cancelled; started once each was reached or tried.

        Several are waited for no longer than `START_SECONDS`, so that one that keeps silent holds up none.

        Raises:
            UpstreamMissing: A command cannot be run.
        """
        async with anyio.create_task_group() as group:
            if len(self._members) == 1:
                await group.start(self._members[0].upstream.run)
            else:
                for member in self._members:
                    group.start_soon(member.upstream.run)
                with anyio.move_on_after(START_SECONDS):
                    for member in self._members:
                        await member.upstream.tried.wait()
            task_status.started()

    def offers(self, capability: str) -> bool:
        """Whether any server has the capability."""
        return any(member.offers(capability) for member in self._members)

    # Tools ----------------------------------------------------------------------------------------------------------

    def of_name(self, shown: str, *, kind: str) -> tuple[Member, str]:
        """The server that has the tool or prompt, and its own name there.

        Raises:
            MCPError: No server of the fleet bears the prefix.
        """
        for member in self._members:
            if (own := member.prefix.own_name(shown)) is not None:
                return member, own
        raise MCPError(code=types.INVALID_PARAMS, message=UNKNOWN_NAME.format(kind=kind))

    def of_uri(self, shown: str) -> tuple[Member, str]:
        """The server that has the resource, and its own URI there.

        Raises:
            MCPError: No server of the fleet bears the prefix.
        """
        for member in self._members:
            if (own := member.prefix.own_uri(shown)) is not None:
                return member, own
        raise MCPError(code=types.INVALID_PARAMS, message=UNKNOWN_NAME.format(kind="resource"))

    def tool(self, shown: str) -> types.Tool | None:
        """The tool as its server listed it last, under its own name."""
        try:
            member, own = self.of_name(shown, kind="tool")
        except MCPError:
            return None
        return member.upstream.tools.get(own)

    async def refresh(self, shown: str) -> None:
        """Have the server that would have the tool list its tools again.

        Raises:
            MCPError: It cannot be asked, or lists what are no tools.
        """
        try:
            member, _ = self.of_name(shown, kind="tool")
        except MCPError:
            return
        await member.upstream.refresh()

    # Listings -------------------------------------------------------------------------------------------------------

    async def page(self, page_of: PageOf, cursor: str | None, *, capability: str, empty: Json) -> Json:
        """One page of what the servers list together: one server after the other, each with its own pages.

        Raises:
            MCPError: A server answered with it, or the cursor is none of ours.
        """
        if len(self._members) == 1:
            return self._members[0].prefix.listing(await self._members[0].upstream.call(page_of(cursor)))
        index, inner = _position(cursor, most=len(self._members))
        while index < len(self._members):
            member = self._members[index]
            found = None
            if member.offers(capability):
                found = await self._page_of(member, page_of(inner), is_first=inner is None)
            if found is not None:
                following = found.pop("nextCursor", None)
                if isinstance(following, str):
                    return {**found, "nextCursor": _cursor(index, following)}
                more = self._next(index + 1, capability)
                return {**found, "nextCursor": _cursor(more, None)} if more is not None else found
            index, inner = index + 1, None
        return dict(empty)

    def _next(self, index: int, capability: str) -> int | None:
        later = range(index, len(self._members))
        return next((place for place in later if self._members[place].offers(capability)), None)

    async def _page_of(self, member: Member, request: types.Request[Any, Any], *, is_first: bool) -> Json | None:
        try:
            return member.prefix.listing(await member.upstream.call(request))
        except NotReceived:
            log.warning("upstream_left_out", server=member.prefix.server)
        except MCPError as error:
            if error.code != types.METHOD_NOT_FOUND:
                if not is_first:  # the middle of a listing is no place to leave a part of it out
                    raise
                log.warning("upstream_left_out", server=member.prefix.server, code=error.code)
        return None

    @asynccontextmanager
    async def watching(self, uris: Sequence[str]) -> AsyncIterator[None]:
        """Have changes of these resources announced while the block lasts; unknown ones never change."""
        of_member: dict[int, list[str]] = {}
        for shown in uris:
            for place, member in enumerate(self._members):
                if (own := member.prefix.own_uri(shown)) is not None:
                    of_member.setdefault(place, []).append(own)
        async with anyio.create_task_group() as group:
            for place, own_uris in of_member.items():
                group.start_soon(self._members[place].upstream.watch, own_uris)
            yield
            group.cancel_scope.cancel()


def _cursor(index: int, inner: str | None) -> str:
    return base64.urlsafe_b64encode(json.dumps([index, inner]).encode()).decode()


def _position(cursor: str | None, *, most: int) -> tuple[int, str | None]:
    if cursor is None:
        return 0, None
    try:
        index, inner = json.loads(base64.urlsafe_b64decode(cursor.encode()))
    except (ValueError, TypeError, binascii.Error, RecursionError):
        raise MCPError(code=types.INVALID_PARAMS, message=UNKNOWN_CURSOR) from None
    is_ours = type(index) is int and 0 <= index < most and (inner is None or isinstance(inner, str))
    if not is_ours:
        raise MCPError(code=types.INVALID_PARAMS, message=UNKNOWN_CURSOR)
    return index, inner
