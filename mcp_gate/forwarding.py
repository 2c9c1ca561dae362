"""Hands the gateway's requests to the upstream and its answers back, without what only the gate may say.

A result goes through as it came, except for claims about approvals, which are the gate's alone, and tasks of the
upstream's own, which nobody could look after here. It decides nothing about a call. SEP-2848, "The boundary"; PEP-02.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

import structlog
from mcp import types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.subscriptions import ListenHandler
from mcp.shared.exceptions import MCPError
from mcp.types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from mcp_gate.fleet import Fleet, Member
from mcp_gate.origin import NotReceived
from mcp_gate.shape import MOST_DEEP_RESULT, is_deeper
from mcp_gate.texts import DISPOSITION, ENVELOPE, IMMEDIATE
from mcp_gate.upstream import LISTS_SINCE_2026

Context = ServerRequestContext[Any, Any]

OWN_META: Final = "io.modelcontextprotocol/"
PROGRESS_META: Final = "progressToken"
ONLY_OURS: Final = frozenset({DISPOSITION, ENVELOPE, IMMEDIATE})
COMPLETE: Final = "complete"
INPUT_REQUIRED: Final = "input_required"
NEEDS_INPUT: Final = "The upstream asks for input, which this protocol version cannot carry"
UNUSABLE: Final = "The upstream answered with something that cannot be handed on; the tool may have run"
NO_LISTING: Final = "The upstream lists something that cannot be handed on"
FAULT: Final = types.ErrorData(code=types.INTERNAL_ERROR, message="The gateway could not carry the call out")

log = structlog.get_logger(__name__)


class Forward:
    """The handlers of the gateway's own server."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._listen = ListenHandler(fleet.bus)

    def install(self, server: Server[Any]) -> None:
        """Serve what the servers behind the gateway have, as far as that is known now."""
        handlers: tuple[tuple[str, str, type[Any], Any], ...] = (
            ("resources", "resources/list", types.PaginatedRequestParams, self.list_resources),
            ("resources", "resources/templates/list", types.PaginatedRequestParams, self.list_templates),
            ("resources", "resources/read", types.ReadResourceRequestParams, self.read_resource),
            ("prompts", "prompts/list", types.PaginatedRequestParams, self.list_prompts),
            ("prompts", "prompts/get", types.GetPromptRequestParams, self.get_prompt),
            ("completions", "completion/complete", types.CompleteRequestParams, self.complete),
        )
        for capability, method, params, handler in handlers:
            if self._fleet.offers(capability):
                server.add_request_handler(method, params, handler)

    def input_schema(self, name: str) -> dict[str, Any] | None:
        """The input schema of a tool as it was listed last."""
        tool = self._fleet.tool(name)
        return None if tool is None else tool.input_schema

    # Listings -------------------------------------------------------------------------------------------------------

    async def list_tools(self, _: Context, params: types.PaginatedRequestParams | None) -> Any:
        """One page of the tools.

        Raises:
            MCPError: an upstream answered with it, or not at all.
        """
        return await self._page(types.ListToolsRequest, params, "tools", member="tools")

    async def list_resources(self, _: Context, params: types.PaginatedRequestParams | None) -> Any:
        """One page of the resources; raises as `list_tools`."""
        return await self._page(types.ListResourcesRequest, params, "resources", member="resources")

    async def list_templates(self, _: Context, params: types.PaginatedRequestParams | None) -> Any:
        """One page of the resource templates; raises as `list_tools`."""
        return await self._page(types.ListResourceTemplatesRequest, params, "resources", member="resourceTemplates")

    async def list_prompts(self, _: Context, params: types.PaginatedRequestParams | None) -> Any:
        """One page of the prompts; raises as `list_tools`."""
        return await self._page(types.ListPromptsRequest, params, "prompts", member="prompts")

    async def _page(
        self, kind: type[Any], params: types.PaginatedRequestParams | None, capability: str, *, member: str
    ) -> Any:
        def page_of(cursor: str | None) -> types.Request[Any, Any]:
            request: types.Request[Any, Any] = kind(params=types.PaginatedRequestParams(cursor=cursor))
            return request

        cursor = None if params is None else params.cursor
        empty = {**LISTS_SINCE_2026, member: []}
        page = await self._fleet.page(page_of, cursor, capability=capability, empty=empty)
        if is_deeper(page, MOST_DEEP_RESULT):
            raise MCPError(code=types.INTERNAL_ERROR, message=NO_LISTING)
        return without_our_claims(page)

    # Things ---------------------------------------------------------------------------------------------------------

    async def call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> Any:
        """Call the tool at its upstream.

        Raises:
            NotReceived: it did not answer, or the gateway could not even ask.
            MCPError: it answered with this error, or with what cannot be handed on.
        """
        member, own = self._fleet.of_name(params.name, kind="tool")
        sent = types.CallToolRequestParams(
            name=own,
            arguments=params.arguments,
            input_responses=params.input_responses,
            request_state=params.request_state,
            meta=_meta(ctx),
        )
        return await _asked(ctx, member, types.CallToolRequest(params=sent), shown=params.name, usable=_is_tool_result)

    async def read_resource(self, ctx: Context, params: types.ReadResourceRequestParams) -> Any:
        """Read the resource at its upstream; raises as `call_tool`."""
        member, own = self._fleet.of_uri(str(params.uri))
        sent = params.model_copy(update={"uri": own, "meta": _meta(ctx)})
        return await _asked(ctx, member, types.ReadResourceRequest(params=sent), shown="resources/read")

    async def get_prompt(self, ctx: Context, params: types.GetPromptRequestParams) -> Any:
        """Get the prompt from its upstream; raises as `call_tool`."""
        member, own = self._fleet.of_name(params.name, kind="prompt")
        sent = params.model_copy(update={"name": own, "meta": _meta(ctx)})
        return await _asked(ctx, member, types.GetPromptRequest(params=sent), shown="prompts/get")

    async def complete(self, ctx: Context, params: types.CompleteRequestParams) -> Any:
        """Have the upstream complete an argument; raises as `call_tool`."""
        reference = params.ref
        if isinstance(reference, types.PromptReference):
            member, own = self._fleet.of_name(reference.name, kind="prompt")
            sent = params.model_copy(update={"ref": reference.model_copy(update={"name": own}), "meta": _meta(ctx)})
        else:
            member, own = self._fleet.of_uri(str(reference.uri))
            sent = params.model_copy(update={"ref": reference.model_copy(update={"uri": own}), "meta": _meta(ctx)})
        return await _asked(ctx, member, types.CompleteRequest(params=sent), shown="completion/complete")

    async def listen(self, ctx: Context, params: types.SubscriptionsListenRequestParams) -> Any:
        """Tell the caller what the upstreams announce, until it leaves."""
        async with self._fleet.watching(params.notifications.resource_subscriptions or ()):
            return await self._listen(ctx, params)

    def close(self) -> None:
        """End every stream of announcements."""
        self._listen.close()


async def _asked(
    ctx: Context,
    member: Member,
    request: types.Request[Any, Any],
    *,
    shown: str,
    usable: Callable[[Mapping[str, Any]], bool] = lambda _: True,
) -> dict[str, Any]:
    try:
        result = await member.upstream.call(request, progress=ctx.session.report_progress)
    except MCPError:
        raise
    except ValidationError:  # an answer, but none that a client could read
        log.warning("upstream_answer_refused", name=shown, reason="no_result")
        raise MCPError(code=types.INTERNAL_ERROR, message=UNUSABLE) from None
    except Exception as error:  # noqa: BLE001 - whatever broke here, the upstream said nothing
        log.error("forwarding_failed", name=shown, error=type(error).__name__)  # noqa: TRY400 - a traceback could show arguments
        raise NotReceived("forwarding_failed", shown=FAULT) from None
    accepted = _acceptable(result, shown, protocol_version=ctx.protocol_version, usable=usable)
    return member.prefix.result(accepted)


def _meta(ctx: Context) -> types.RequestParamsMeta | None:
    """What the caller said beside the request, without what belongs to the protocol of this connection."""
    kept = {
        name: value
        for name, value in (dict(ctx.meta) if ctx.meta else {}).items()
        if name != PROGRESS_META and not name.startswith(OWN_META)
    }
    return cast("types.RequestParamsMeta", kept) if kept else None


def _acceptable(
    result: dict[str, Any], shown: str, *, protocol_version: str, usable: Callable[[Mapping[str, Any]], bool]
) -> dict[str, Any]:
    kind = result.get("resultType")
    if kind == INPUT_REQUIRED and protocol_version not in MODERN_PROTOCOL_VERSIONS:
        raise MCPError(code=types.INTERNAL_ERROR, message=NEEDS_INPUT)
    reason = None
    if kind not in {COMPLETE, INPUT_REQUIRED}:  # PEP-02: a task of the upstream's is none of this server's
        reason = "result_type"
    elif is_deeper(result, MOST_DEEP_RESULT):
        reason = "depth"
    elif kind == COMPLETE and not usable(result):
        reason = "no_result"  # the SDK would hand it on without what it does not understand
    if reason is not None:
        log.warning("upstream_answer_refused", name=shown, reason=reason)
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
