"""The gate as an extension of an MCP server: what reaches the server is decided, and approvals become tasks.

Translates between MCP and the engine: capabilities, routing headers, callers, errors. It decides nothing about
tasks. SEP-2848; MCP Tasks extension; notes on SDK 2.3: the task result must be a dict, the capability check must
include the protocol version, and a client's disconnect must not interrupt a submission.

    gate = Gate(load_settings(Path("gate.yaml")))
    server = MCPServer("treasury", extensions=[gate], lifespan=gate.lifespan())
    gate.bind(server)
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final, TypeVar

import structlog
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.extension import Extension, MethodBinding, compose_tool_call_handler
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import MCPServer
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
from mcp.types import INTERNAL_ERROR, METHOD_NOT_FOUND, CallToolRequestParams, RequestParams
from mcp.types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import Field, JsonValue
from starlette.requests import Request
from starlette.responses import Response

from mcp_gate import callbacks, round_trips
from mcp_gate.asking import NOTHING_OFFERED, Offered
from mcp_gate.callbacks import CallbackEndpoint
from mcp_gate.callers import FrontCaller, caller_of
from mcp_gate.capabilities import extension_declared, tasks_declared
from mcp_gate.database import StoreUnavailable
from mcp_gate.errors import (
    APPROVAL_EXTENSION,
    TASKS_EXTENSION,
    TOOL_APPROVAL_EXTENSION,
    GateError,
    HeaderMismatch,
    InvalidParams,
    MissingCapability,
    Unavailable,
)
from mcp_gate.executor import take_pass
from mcp_gate.guarding import Guard
from mcp_gate.listening import Listening
from mcp_gate.request_tools import PAIR, REQUEST_ACCESS, requested, told, wanted_call, wanted_task
from mcp_gate.runtime import Parts, Runtime, open_runtime
from mcp_gate.settings import GateSettings
from mcp_gate.shape import MOST_DEEP_ARGUMENTS, is_deeper

T = TypeVar("T")
Lifespan = Callable[[Any], AbstractAsyncContextManager[Any]]

STORE_UNAVAILABLE: Final = "The gate cannot use its database now; ask again"

log = structlog.get_logger(__name__)


class TaskParams(RequestParams):
    """Parameters of `tasks/get` and `tasks/cancel`."""

    task_id: str = Field(alias="taskId")


class UpdateParams(TaskParams):
    """Parameters of `tasks/update`."""

    input_responses: dict[str, JsonValue] = Field(alias="inputResponses")


class Gate(Extension):
    """One gate; give it to one server, and use its `lifespan`.

    `parts` replaces pieces for tests and for other deployments: the backend, the clock, and so on.
    """

    identifier = TASKS_EXTENSION

    def __init__(self, settings: GateSettings, *, parts: Parts | None = None) -> None:
        self.configuration = settings
        self._parts = parts or Parts()
        self._server: Server[Any] | None = None
        self._owner: MCPServer[Any] | Server[Any] | None = None
        self._runtimes: list[Runtime] = []
        self._guard: Guard  # of the server that the gate is bound to

    def methods(self) -> Sequence[MethodBinding]:
        """The methods of the tasks extension, for the protocol versions that have tasks."""
        return [
            MethodBinding(method, params, handler, protocol_versions=frozenset(MODERN_PROTOCOL_VERSIONS))
            for method, params, handler in (
                ("tasks/get", TaskParams, self._get),
                ("tasks/update", UpdateParams, self._update),
                ("tasks/cancel", TaskParams, self._cancel),
            )
        ]

    def bind(self, server: MCPServer[Any] | Server[Any]) -> None:
        """Tie the gate to the server whose tools it guards; once, before the server starts.

        A low-level `Server` takes no extensions, so there the methods and the interceptor are installed as well.
        """
        if self._owner is server:
            return
        if self._owner is not None:
            raise RuntimeError("a gate guards one server; make another gate for another server")
        self._owner = server
        if isinstance(server, MCPServer):
            self._server = server._lowlevel_server  # noqa: SLF001 - the SDK hands no server to an extension
            if self.configuration.callback is not None:
                server.custom_route(callbacks.PATH, methods=["POST"])(self.receive_callback)
        else:
            self._server = server
            self._install(server)
        round_trips.protect(self._server, self.configuration)
        guard = self._guard = Guard(self._server, self.configuration, lambda: self.runtime)
        self._server.middleware.append(lambda ctx, call_next: _told(guard.serve(ctx, call_next)))
        listening = Listening(self._server, lambda: self.runtime)
        self._server.middleware.append(lambda ctx, call_next: _told(listening.serve(ctx, call_next)))
        self._server.extensions[TOOL_APPROVAL_EXTENSION] = {}  # PEP-01: never without the tasks extension

    def _install(self, server: Server[Any]) -> None:
        entry = server.get_request_handler("tools/call")
        if entry is None:
            raise RuntimeError("the server has no tools/call handler; register it before binding the gate")
        server.add_request_handler(
            "tools/call", CallToolRequestParams, compose_tool_call_handler([self], entry.handler)
        )
        for binding in self.methods():
            server.add_request_handler(binding.method, binding.params_type, _version_gated(binding))
        server.extensions[self.identifier] = self.settings()

    def lifespan(self, inner: Lifespan | None = None) -> Lifespan:
        """The server's lifespan with the gate in it; `inner` is the author's own, whose state is what tools see."""

        @asynccontextmanager
        async def entered(server: Any) -> AsyncIterator[Any]:
            async with (inner or _nothing)(server) as state:
                self.bind(server)
                async with self._running(state):
                    yield state

        return entered

    @asynccontextmanager
    async def _running(self, state: Any) -> AsyncIterator[None]:
        if self._owner is None or self._server is None:  # unreachable through `lifespan`
            raise RuntimeError("bind the gate first")
        async with open_runtime(
            self.configuration, self._parts, owner=self._owner, server=self._server, lifespan_state=state
        ) as runtime:
            self._runtimes.append(runtime)
            try:
                yield
            finally:
                self._runtimes.remove(runtime)

    @property
    def runtime(self) -> Runtime:
        """The running gate.

        Raises:
            Unavailable: it does not run: the server was started without `gate.lifespan`.
        """
        if not self._runtimes:
            raise Unavailable("The gate is not running; start the server with the gate's lifespan")
        return self._runtimes[-1]

    async def receive_callback(self, request: Request) -> Response:
        """The callback endpoint, for `callbacks.route`: an authentic delivery wakes a task of this gate."""
        settings = self.configuration.callback
        if settings is None or not self._runtimes:
            return Response(status_code=503)
        runtime = self.runtime
        endpoint = CallbackEndpoint(
            settings.keys(),
            use_once=lambda value, until: runtime.duty.use_nonce(value, expires_at=until),
            wake=lambda state, task: runtime.engine.callback(state=state, backend_task_id=task),
            clock=runtime.clock,
        )
        return await endpoint.receive(request)

    async def intercept_tool_call(
        self, params: CallToolRequestParams, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        """Decide the call: run it, refuse it, or answer with a task (PEP-15)."""
        if take_pass(params.name):
            return await call_next(ctx)
        arguments = params.arguments or {}
        if self.configuration.request_tools and params.name in PAIR:
            return await _told(self._pair(ctx, params.name, arguments))
        offered = round_trips.offered(ctx, params)
        answer = await _told(self._decide(ctx, params.name, arguments, offered=offered))
        return answer if answer is not None else await call_next(round_trips.without_ours(ctx, params, offered))

    async def _pair(self, ctx: ServerRequestContext[Any, Any], tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """The tools for clients without tasks; the call that is wanted is decided as if it had been made (PEP-06)."""
        runtime, caller = self.runtime, caller_of(ctx, self.configuration)
        check_arguments(arguments, limit=self.configuration.limits.argument_bytes)
        if tool == REQUEST_ACCESS:
            wanted, given = wanted_call(arguments)
            return requested(
                await runtime.detached.do(
                    lambda: runtime.call(wanted, given, caller=caller, with_tasks=True, offered=NOTHING_OFFERED)
                )
            )
        task_id = wanted_task(arguments)
        await self._guard.decide(ctx, "tasks/get", {"taskId": task_id})
        return told(await runtime.detached.do(lambda: runtime.engine.get(task_id, caller.principal)))

    async def _decide(
        self, ctx: ServerRequestContext[Any, Any], tool: str, arguments: dict[str, Any], *, offered: Offered
    ) -> dict[str, Any] | None:
        runtime, with_tasks = self.runtime, tasks_declared(ctx)
        caller = caller_of(ctx, self.configuration)
        check_arguments(arguments, limit=self.configuration.limits.argument_bytes)
        return await runtime.detached.do(
            lambda: runtime.call(tool, arguments, caller=caller, with_tasks=with_tasks, offered=offered)
        )

    async def _get(self, ctx: ServerRequestContext[Any, Any], params: TaskParams) -> HandlerResult:
        approvals = extension_declared(ctx, APPROVAL_EXTENSION)  # GOV-14

        async def work(runtime: Runtime, caller: FrontCaller) -> dict[str, Any]:
            return await runtime.engine.get(params.task_id, caller.principal, approvals=approvals)

        return await _told(self._on_task(ctx, params.task_id, work))

    async def _update(self, ctx: ServerRequestContext[Any, Any], params: UpdateParams) -> HandlerResult:
        async def work(runtime: Runtime, caller: FrontCaller) -> dict[str, Any]:
            return await runtime.engine.update(params.task_id, caller.principal, params.input_responses)

        return await _told(self._on_task(ctx, params.task_id, work))

    async def _cancel(self, ctx: ServerRequestContext[Any, Any], params: TaskParams) -> HandlerResult:
        async def work(runtime: Runtime, caller: FrontCaller) -> dict[str, Any]:
            return await runtime.engine.cancel(params.task_id, caller.principal)

        return await _told(self._on_task(ctx, params.task_id, work))

    async def _on_task(
        self,
        ctx: ServerRequestContext[Any, Any],
        task_id: str,
        work: Callable[[Runtime, FrontCaller], Awaitable[dict[str, Any]]],
    ) -> dict[str, Any]:
        if not tasks_declared(ctx):
            raise MissingCapability  # PEP-07
        check_name_header(ctx, task_id)
        runtime, caller = self.runtime, caller_of(ctx, self.configuration)
        return await runtime.detached.do(lambda: work(runtime, caller))


def check_name_header(ctx: ServerRequestContext[Any, Any], task_id: str) -> None:
    """Refuse a routing header that names another task; clients that send none are tolerated.

    Raises:
        HeaderMismatch: the header and the body disagree.
    """
    header = ctx.request.headers.get(MCP_NAME_HEADER) if ctx.request is not None else None
    # Not every HTTP server takes the spaces around a value away.
    if header is not None and decode_header_value(header.strip(" \t")) != task_id:
        raise HeaderMismatch


def check_arguments(arguments: dict[str, Any], *, limit: int) -> None:
    """Refuse arguments that are no JSON, such as NaN, that are nested too deeply, or that exceed `limit` bytes.

    Raises:
        InvalidParams: without repeating any of them.
    """
    if is_deeper(arguments, MOST_DEEP_ARGUMENTS):
        raise InvalidParams(f"The arguments are nested more than {MOST_DEEP_ARGUMENTS} levels deep")
    try:
        size = len(json.dumps(arguments, ensure_ascii=False, allow_nan=False).encode())
    except ValueError:
        raise InvalidParams("The arguments are not representable as JSON") from None
    if size > limit:
        raise InvalidParams(f"The arguments are larger than {limit} bytes")


async def _told(work: Awaitable[T]) -> T:
    """The result of `work`, or its error as the one that JSON-RPC carries."""
    try:
        return await work
    except GateError as error:
        raise MCPError(code=error.code, message=error.message, data=error.data) from None
    except StoreUnavailable as error:
        log.error("store_unavailable", reason=str(error))  # noqa: TRY400 - the reason says all, a traceback more
        raise MCPError(code=INTERNAL_ERROR, message=STORE_UNAVAILABLE) from None


def _version_gated(
    binding: MethodBinding,
) -> Callable[[ServerRequestContext[Any, Any], Any], Awaitable[HandlerResult]]:
    async def gated(ctx: ServerRequestContext[Any, Any], params: Any) -> HandlerResult:
        if ctx.protocol_version not in (binding.protocol_versions or ()):
            raise MCPError(code=METHOD_NOT_FOUND, message="Method not found", data=binding.method)
        return await binding.handler(ctx, params)

    return gated


@asynccontextmanager
async def _nothing(_: Any) -> AsyncIterator[dict[str, Any]]:
    yield {}
