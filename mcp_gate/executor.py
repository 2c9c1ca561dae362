"""Runs an approved tool through the server's own pipeline, outside of any request.

The same middleware, interceptors and validation as for a synchronous call, but no client behind it: no token, no
headers, no back channel. It runs a call once and says what came back; whether it may run is decided elsewhere.
SEP-2848, "Completion"; design section 8, Executor.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final

import anyio
import structlog
from mcp import types
from mcp.server.connection import Connection
from mcp.server.lowlevel import Server
from mcp.server.runner import serve_one
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp.shared.transport_context import TransportContext
from mcp.types import CLIENT_CAPABILITIES_META_KEY, PROTOCOL_VERSION_META_KEY
from mcp.types.version import LATEST_MODERN_VERSION
from pydantic import ValidationError

from mcp_gate.approved import within
from mcp_gate.execution import Executed, NoResponse, ReceivedError, ToolCall
from mcp_gate.origin import NotReceived
from mcp_gate.upstream import without_server_info

LIST_TOOLS: Final = "tools/list"
INTERNAL_ERROR: Final = -32603
INVALID_PARAMS: Final = -32602
ASKED_FOR_INPUT: Final = (
    "The tool was started and asked for input, which is not possible here. It may have had effects."
)
CLIENT: Final = {"name": "mcp_gate", "version": "1"}

log = structlog.get_logger(__name__)

_pass: ContextVar[list[str] | None] = ContextVar("mcp_gate_pass", default=None)


def take_pass(what: str) -> bool:
    """Whether the gate itself started this very call of a tool, or request of a method; true once."""
    # Used up at once, so that whatever the tool calls in its turn is evaluated like everything else.
    granted = _pass.get()
    return granted is not None and granted == [what] and granted.pop() == what


@contextmanager
def _passing(what: str) -> Iterator[None]:
    token = _pass.set([what])
    try:
        yield
    finally:
        _pass.reset(token)


@dataclass(slots=True)
class DetachedContext:
    """A dispatch context without a client: nothing can be sent, and nobody can cancel."""

    transport: TransportContext = field(
        default_factory=lambda: TransportContext(kind="mcp_gate", can_send_request=False)
    )
    can_send_request: bool = False
    request_id: str | int | None = "deferred"
    message_metadata: None = None
    cancel_requested: anyio.Event = field(default_factory=anyio.Event)

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        """Refuse: there is nobody to ask.

        Raises:
            NoBackChannelError: always.
        """
        del params, opts
        raise NoBackChannelError(method)

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None) -> None:
        """Drop the notification."""

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Drop the progress report."""


class DeferredExecutor:
    """Executes tools of `server`; `lifespan_state` is what its lifespan yielded."""

    def __init__(self, server: Server[Any], lifespan_state: Any) -> None:
        self._server = server
        self._lifespan_state = lifespan_state

    async def __call__(self, call: ToolCall) -> Executed | ReceivedError | NoResponse:
        """Invoke the tool once."""
        try:
            with _passing(call.tool), within(call.approved_until):
                result = await self.request("tools/call", {"name": call.tool, "arguments": dict(call.arguments)})
        except NotReceived as error:
            return NoResponse(error.reason)
        except MCPError as error:
            return ReceivedError(error.code, error.message)
        except ValidationError:
            return ReceivedError(INVALID_PARAMS, "Invalid request parameters")
        except Exception as error:  # noqa: BLE001 - the tool's fault, which must become the task's outcome
            log.warning("tool_raised", task=call.task_id, tool=call.tool, error=type(error).__name__)
            return ReceivedError(INTERNAL_ERROR, "Internal server error")
        if result.get("resultType", "complete") != "complete":
            content = [{"type": "text", "text": ASKED_FOR_INPUT}]
            return Executed({"content": content, "isError": True, "resultType": "complete"}, is_error=True)
        return Executed(result, is_error=result.get("isError") is True)

    async def request(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Send one request of the gate's own through the server, without the server's stamp in the result.

        Raises:
            MCPError: the server answered with this error.
        """
        connection = Connection.from_envelope(LATEST_MODERN_VERSION, CLIENT, {})
        meta = {PROTOCOL_VERSION_META_KEY: LATEST_MODERN_VERSION, CLIENT_CAPABILITIES_META_KEY: {}}
        result = await serve_one(
            self._server,
            DetachedContext(),
            method,
            {**params, "_meta": meta},
            connection=connection,
            lifespan_state=self._lifespan_state,
        )
        return without_server_info(result)

    async def list_tools(self) -> list[types.Tool]:
        """Every tool that the server lists.

        Raises:
            MCPError: the server cannot list them.
        """
        tools: list[types.Tool] = []
        cursor: str | None = None
        for _ in range(100):
            with _passing(LIST_TOOLS):  # the gate's own question; nobody is behind it who could be decided about
                answer = await self.request(LIST_TOOLS, {} if cursor is None else {"cursor": cursor})
            page = types.ListToolsResult.model_validate(answer, by_name=False)
            tools += page.tools
            cursor = page.next_cursor
            if cursor is None:
                break
        return tools
