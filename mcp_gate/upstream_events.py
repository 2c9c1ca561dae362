"""What a server behind the gateway announces: changed lists and changed resources, of either protocol era.

A modern server tells them on a stream that has to be asked for, an older one whenever it likes. Announcements may be
lost; they only ever mean "look again". MCP, "Subscriptions".
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import anyio
import structlog
from mcp import types
from mcp.client.session import ClientSession
from mcp.client.subscriptions import SubscriptionLost, listen
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import (
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

from mcp_gate.origin import NotReceived

Announce = Callable[[ServerEvent], Awaitable[None]]

EVERY_LIST: Final[tuple[ServerEvent, ...]] = (ToolsListChanged(), PromptsListChanged(), ResourcesListChanged())
AGAIN_SECONDS: Final = 5.0

log = structlog.get_logger(__name__)


def event_of(message: object) -> ServerEvent | None:
    """The announcement that a notification of the handshake era makes, if it makes one."""
    match message:
        case types.ToolListChangedNotification():
            return ToolsListChanged()
        case types.PromptListChangedNotification():
            return PromptsListChanged()
        case types.ResourceListChangedNotification():
            return ResourcesListChanged()
        case types.ResourceUpdatedNotification(params=params):
            return ResourceUpdated(str(params.uri))
        case _:
            return None


def _wanted(capabilities: types.ServerCapabilities | None) -> dict[str, bool]:
    if capabilities is None:
        return {}
    named = {
        "tools_list_changed": capabilities.tools,
        "prompts_list_changed": capabilities.prompts,
        "resources_list_changed": capabilities.resources,
    }
    return {kind: True for kind, capability in named.items() if capability is not None and capability.list_changed}


async def hear(session: ClientSession, announce: Announce) -> None:
    """Hand on what a modern server announces about its lists, until cancelled; nothing when it announces nothing."""
    wanted = _wanted(session.server_capabilities)
    if wanted and session.protocol_version in MODERN_PROTOCOL_VERSIONS:
        await _listen(session, announce, **wanted)


async def watch(session: ClientSession, uris: Sequence[str], announce: Announce) -> None:
    """Hand on the changes of some resources, until cancelled."""
    if session.protocol_version in MODERN_PROTOCOL_VERSIONS:
        await _listen(session, announce, resource_subscriptions=uris)
        return
    try:
        for uri in uris:  # changes come as notifications, which the session hands on
            await _request(session, types.SubscribeRequest(params=types.SubscribeRequestParams(uri=uri)))
        await anyio.sleep_forever()
    finally:
        with anyio.move_on_after(1, shield=True):
            for uri in uris:
                await _request(session, types.UnsubscribeRequest(params=types.UnsubscribeRequestParams(uri=uri)))


async def _request(session: ClientSession, request: types.Request[Any, Any]) -> None:
    try:
        await session.send_request(request, types.EmptyResult)
    except MCPError as error:
        log.info("upstream_subscription_refused", code=error.code)


async def _listen(session: ClientSession, announce: Announce, **wanted: Any) -> None:
    while True:
        try:
            async with listen(session, **wanted) as subscription:
                async for event in subscription:
                    await announce(event)
        except NotReceived:
            return  # the connection is gone, and with it this session
        except SubscriptionLost:
            log.info("upstream_announcements_lost")
        except MCPError as error:
            log.info("upstream_announces_nothing", code=error.code)
            return
        await anyio.sleep(AGAIN_SECONDS)
