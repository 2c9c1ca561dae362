"""Decides every method but `tools/call`: asks the decision point by COAZ's default mappings, and filters listings.

A method that no mapping covers is denied. What the server lacks is left to its own answer, and notifications and
`ping` pass. Older clients begin with `initialize`, which is decided as `server/discover`, whose answer it gives.
COAZ-MCP, "PEP Behavior", "Pass-through Operations", "Unknown Methods"; X-06.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import anyio
import structlog
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.types.methods import CLIENT_REQUESTS, SPEC_CLIENT_METHODS

from mcp_gate import request_tools
from mcp_gate.backend import Permit
from mcp_gate.callers import FrontCaller, caller_of
from mcp_gate.capabilities import tasks_declared
from mcp_gate.errors import InvalidParams, MethodDenied
from mcp_gate.executor import take_pass
from mcp_gate.mapping import map_call, question
from mcp_gate.methods import DISCOVER, LISTEN, METHODS, REACHING, RESOURCE_SUBSCRIBE, map_method
from mcp_gate.runtime import Runtime
from mcp_gate.settings import GateSettings
from mcp_gate.templates import Json, declared_mapping

CALL: Final = "tools/call"
LIST_TOOLS: Final = "tools/list"
PING: Final = "ping"
INITIALIZE: Final = "initialize"
RESERVED_PREFIX: Final = "tasks/"
MOST_RESOURCES: Final = 64
AT_ONCE: Final = 8

log = structlog.get_logger(__name__)


class Guard:
    """The middleware that decides; `runtime` is the gate once it runs."""

    def __init__(self, server: Server[Any], settings: GateSettings, runtime: Callable[[], Runtime]) -> None:
        self._server = server
        self._settings = settings
        self._runtime = runtime
        self._declared = {method: declared_mapping(mapping) for method, mapping in settings.methods.items()}

    async def serve(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Let the message through, or deny it.

        Raises:
            MethodDenied: The decision point denies it, or nothing says how it would be decided.
            MappingError: It cannot be turned into a question.
            Unavailable: No decision was obtained.
        """
        method = ctx.method
        if ctx.request_id is None or method in {CALL, PING} or take_pass(method):
            return await call_next(ctx)  # a call is decided where its tool is known
        await self.decide(ctx, DISCOVER if method == INITIALIZE else method, ctx.params or {})
        result = await call_next(ctx)
        if not isinstance(result, dict):
            return result
        if self._settings.listings == "filtered" and method in LISTINGS:
            result = await self._filtered(ctx, method, result)
        if self._settings.request_tools and method == LIST_TOOLS:
            return request_tools.listed(result, shown=not tasks_declared(ctx))
        return result

    async def decide(self, ctx: ServerRequestContext[Any, Any], method: str, params: Mapping[str, Any]) -> None:
        """Nothing, when `method` may go on with these parameters.

        Raises:
            MethodDenied: See `serve`, as for the other errors.
        """
        if _is_foreign(ctx):
            return
        if method not in METHODS and method not in self._declared:
            if not self._settings.deny_unknown_methods or self._is_lacking(method):
                return
            raise MethodDenied  # PEP-26
        asks = self._settings.decide == "all" or method in REACHING or method in self._declared
        watched = _watched(ctx) if method == LISTEN else ()
        if not asks and not watched:
            return
        caller = caller_of(ctx, self._settings)
        asked = self._questions(method, params, caller) if asks else ()
        for uri in watched:  # to be told of changes is to be subscribed
            asked += self._questions(RESOURCE_SUBSCRIBE, {"uri": uri}, caller)
        for one in asked:
            if not isinstance(await self._runtime().engine.decide(one), Permit):
                log.info("method_denied", method=method)
                raise MethodDenied

    def _is_lacking(self, method: str) -> bool:
        """Whether MCP knows the method and this server does not serve it: then it says so itself."""
        is_known = method in SPEC_CLIENT_METHODS or method.startswith(RESERVED_PREFIX)
        return is_known and self._server.get_request_handler(method) is None

    def _questions(self, method: str, params: Mapping[str, Any], caller: FrontCaller) -> tuple[Json, ...]:
        return map_method(
            method,
            params,
            server=self._settings.server_name,
            own=self._settings.resource,
            token_claims=caller.claims,
            principal=caller.principal,
            subject_claim=self._settings.subject_claim,
            declared=self._declared.get(method),
        )

    # Listings -------------------------------------------------------------------------------------------------------

    async def _filtered(self, ctx: ServerRequestContext[Any, Any], method: str, result: Json) -> Json:
        """The listing without what the caller is plainly denied; what could be approved stays."""
        member, key, question_of = LISTINGS[method]
        entries = result.get(member)
        if not isinstance(entries, list):
            return result
        caller, kept = caller_of(ctx, self._settings), [True] * len(entries)
        places = anyio.CapacityLimiter(AT_ONCE)
        failures: list[Exception] = []

        async def judge(index: int) -> None:
            async with places:
                try:
                    asked = await question_of(self, entries[index].get(key), caller)
                    kept[index] = asked is None or await self._is_open(asked)
                except Exception as error:  # noqa: BLE001 - raised again below, but not as one of a group
                    failures.append(error)
                    group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            for index in range(len(entries)):
                group.start_soon(judge, index)
        if failures:
            raise failures[0]
        shown = [entry for entry, keep in zip(entries, kept, strict=True) if keep]
        private = {"cacheScope": "private"} if "cacheScope" in result else {}  # it is this caller's listing now
        return {**result, member: shown, **private}

    async def _is_open(self, asked: Json) -> bool:
        decision = await self._runtime().engine.decide(asked)
        return isinstance(decision, Permit) or decision.requestable

    async def _tool(self, name: str, caller: FrontCaller) -> Json | None:
        """The question of a call of this tool whose arguments are not shown; None where only they could tell."""
        found = await self._runtime().catalogue.find(name)
        if found is not None and found.declared is not None:
            return None
        binding = map_call(
            None,
            server=self._settings.server_name,
            tool=name,
            title=None if found is None else found.title,
            arguments={},
            token_claims=caller.claims,
            principal=caller.principal,
            subject_claim=self._settings.subject_claim,
            disclosed=(),
        )
        return question(binding)

    async def _resource(self, uri: str, caller: FrontCaller) -> Json | None:
        return self._questions("resources/read", {"uri": uri}, caller)[0]

    async def _prompt(self, name: str, caller: FrontCaller) -> Json | None:
        return self._questions("prompts/get", {"name": name}, caller)[0]


QuestionOf = Callable[[Guard, Any, FrontCaller], Awaitable[Json | None]]
LISTINGS: Final[Mapping[str, tuple[str, str, QuestionOf]]] = {
    LIST_TOOLS: ("tools", "name", Guard._tool),  # noqa: SLF001 - of this very class
    "resources/list": ("resources", "uri", Guard._resource),  # noqa: SLF001 - as above
    "prompts/list": ("prompts", "name", Guard._prompt),  # noqa: SLF001 - as above
}
"""Of each listing: the member that lists, what names an entry, and the question about it. Templates name no entry."""


def _is_foreign(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Whether MCP has the method, but not in the client's version of it: then the server says that it has none."""
    return ctx.method in SPEC_CLIENT_METHODS and (ctx.method, ctx.protocol_version) not in CLIENT_REQUESTS


def _watched(ctx: ServerRequestContext[Any, Any]) -> tuple[str, ...]:
    """The resources whose changes a stream wants to hear of.

    Raises:
        InvalidParams: There are too many, or they are no list of texts.
    """
    wanted = (ctx.params or {}).get("notifications")
    uris = wanted.get("resourceSubscriptions") if isinstance(wanted, Mapping) else None
    if uris is None:
        return ()
    if not isinstance(uris, list) or len(uris) > MOST_RESOURCES or not all(isinstance(uri, str) for uri in uris):
        raise InvalidParams(f"notifications.resourceSubscriptions must be a list of at most {MOST_RESOURCES} URIs")
    return tuple(uris)
