"""What a `tools/call` brings along from an earlier round, and how the state between rounds is protected on the wire.

Translates for `asking`, which decides. A tool behind the gate may have rounds of its own: their state passes through
untouched, and the gate's own never reaches a tool. MCP, multi-round-trip requests; the SDK's `RequestStateBoundary`.
"""

from dataclasses import replace
from typing import Any, Final

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.types import CallToolRequestParams

from mcp_gate.asking import Offered
from mcp_gate.capabilities import can_be_asked
from mcp_gate.settings import GateSettings

_CARRIED: Final = ("requestState", "inputResponses")


def offered(ctx: ServerRequestContext[Any, Any], params: CallToolRequestParams) -> Offered:
    """What the request brings along."""
    responses = {
        key: answer.model_dump(by_alias=True, mode="json", exclude_none=True)
        for key, answer in (params.input_responses or {}).items()
    }
    return Offered(can_be_asked(ctx), params.request_state, responses)


def without_ours(
    ctx: ServerRequestContext[Any, Any], params: CallToolRequestParams, brought: Offered
) -> ServerRequestContext[Any, Any]:
    """The request as the tool may see it: without answers that were the gate's."""
    if not brought.is_ours:
        return ctx
    # The handler behind the interceptor was bound to this very object.
    params.request_state, params.input_responses = None, None
    kept = {name: value for name, value in (ctx.params or {}).items() if name not in _CARRIED}
    return replace(ctx, params=kept)


def protect(server: Server[Any], settings: GateSettings) -> None:
    """Have the wire's states sealed: with the operator's keys where there are any, else by whatever the server has."""
    keys = [key.get_secret_value() for key in settings.request_state_keys]
    has_one = any(isinstance(middleware, RequestStateBoundary) for middleware in server.middleware)
    if has_one and not keys:
        return
    ttl = float(settings.limits.input_seconds)
    security = RequestStateSecurity(keys=keys, ttl=ttl) if keys else RequestStateSecurity.ephemeral(ttl=ttl)
    boundary = RequestStateBoundary(security, default_audience=settings.server_name)
    if not has_one:
        server.middleware.append(boundary)
        return
    server.middleware[:] = [
        boundary if isinstance(middleware, RequestStateBoundary) else middleware for middleware in server.middleware
    ]
