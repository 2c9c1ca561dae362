"""Hands the gateway's requests to the upstream and its answers back, without what only the gate may say.

A result goes through as it came, except for claims about approvals, which are the gate's alone, and tasks of the
upstream's own, which nobody could look after here. It decides nothing about a call. SEP-2848, "The boundary"; PEP-02.
"""

from collections.abc import Mapping
from typing import Any, Final, cast

import structlog
from mcp import types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from mcp_gate.origin import NotReceived
from mcp_gate.shape import MOST_DEEP_RESULT, is_deeper
from mcp_gate.texts import DISPOSITION, ENVELOPE, IMMEDIATE
from mcp_gate.upstream import Upstream

OWN_META: Final = "io.modelcontextprotocol/"
PROGRESS_META: Final = "progressToken"
ONLY_OURS: Final = frozenset({DISPOSITION, ENVELOPE, IMMEDIATE})
COMPLETE: Final = "complete"
INPUT_REQUIRED: Final = "input_required"
NEEDS_INPUT: Final = "The upstream asks for input, which this protocol version cannot carry"
UNUSABLE: Final = "The upstream answered with something that cannot be handed on; the tool may have run"
FAULT: Final = types.ErrorData(code=types.INTERNAL_ERROR, message="The gateway could not carry the call out")

log = structlog.get_logger(__name__)


class Forward:
    """The handlers of the gateway's own server."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream

    def input_schema(self, name: str) -> dict[str, Any] | None:
        """The input schema of a tool as it was listed last."""
        tool = self._upstream.tools.get(name)
        return None if tool is None else tool.input_schema

    async def list_tools(self, _: ServerRequestContext[Any, Any], params: types.PaginatedRequestParams | None) -> Any:
        """One page of the upstream's tools.

        Raises:
            MCPError: the upstream answered with it, or not at all.
        """
        cursor = None if params is None else params.cursor
        return await self._upstream.call(types.ListToolsRequest(params=types.PaginatedRequestParams(cursor=cursor)))

    async def call_tool(self, ctx: ServerRequestContext[Any, Any], params: types.CallToolRequestParams) -> Any:
        """Call the tool at the upstream.

        Raises:
            NotReceived: it did not answer, or the gateway could not even ask.
            MCPError: it answered with this error, or with what cannot be handed on.
        """
        request = types.CallToolRequest(params=_forwarded(ctx, params))
        try:
            result = await self._upstream.call(request, progress=ctx.session.report_progress)
        except MCPError:
            raise
        except ValidationError:  # an answer, but none that a client could read
            log.warning("upstream_answer_refused", tool=params.name, reason="no_result")
            raise MCPError(code=types.INTERNAL_ERROR, message=UNUSABLE) from None
        except Exception as error:  # noqa: BLE001 - whatever broke here, the upstream said nothing
            log.error("forwarding_failed", tool=params.name, error=type(error).__name__)  # noqa: TRY400 - a traceback could show arguments
            raise NotReceived("forwarding_failed", shown=FAULT) from None
        return _acceptable(result, params.name, protocol_version=ctx.protocol_version)


def _forwarded(ctx: ServerRequestContext[Any, Any], params: types.CallToolRequestParams) -> types.CallToolRequestParams:
    meta = {
        name: value
        for name, value in (dict(ctx.meta) if ctx.meta else {}).items()
        if name != PROGRESS_META and not name.startswith(OWN_META)
    }
    return types.CallToolRequestParams(
        name=params.name,
        arguments=params.arguments,
        input_responses=params.input_responses,
        request_state=params.request_state,
        meta=cast("types.RequestParamsMeta", meta) if meta else None,
    )


def _acceptable(result: dict[str, Any], tool: str, *, protocol_version: str) -> dict[str, Any]:
    kind = result.get("resultType")
    if kind == INPUT_REQUIRED and protocol_version not in MODERN_PROTOCOL_VERSIONS:
        raise MCPError(code=types.INTERNAL_ERROR, message=NEEDS_INPUT)
    reason = None
    if kind not in {COMPLETE, INPUT_REQUIRED}:  # PEP-02: a task of the upstream's is none of this server's
        reason = "result_type"
    elif is_deeper(result, MOST_DEEP_RESULT):
        reason = "depth"
    elif kind == COMPLETE and not _is_tool_result(result):
        reason = "no_result"  # the SDK would hand it on without what it does not understand
    if reason is not None:
        log.warning("upstream_answer_refused", tool=tool, reason=reason)
        raise MCPError(code=types.INTERNAL_ERROR, message=UNUSABLE)
    return without_our_claims(result)


def _is_tool_result(result: Mapping[str, Any]) -> bool:
    try:
        types.CallToolResult.model_validate(result, by_name=False)
    except ValidationError:
        return False
    return isinstance(result.get("content"), list) and isinstance(result.get("isError", False), bool)


def without_our_claims(result: Mapping[str, Any]) -> dict[str, Any]:
    """`result` without dispositions and envelopes that the gate did not write (PEP-121)."""
    kept = dict(result)
    meta = kept.get("_meta")
    if isinstance(meta, Mapping) and not ONLY_OURS.isdisjoint(meta):
        rest = {name: value for name, value in meta.items() if name not in ONLY_OURS}
        del kept["_meta"]
        if rest:
            kept["_meta"] = rest
    return kept
