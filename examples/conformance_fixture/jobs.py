"""The tools of the suite's task scenarios, as plain tools: none of them knows that it is gated."""

from typing import Any, Final

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.extension import Extension
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.server import require_client_extension
from mcp.types import CallToolRequestParams

from examples.conformance_fixture.approvals import Approvals

TASKS: Final = "io.modelcontextprotocol/tasks"
# The suite calls for tools that refuse a client without tasks; the gate by itself explains instead (PEP-03, PEP-04).
FOR_TASK_CLIENTS_ONLY: Final = frozenset({"failing_job", "protocol_error_job"})


class ForTaskClients(Extension):
    """Refuses some tools to clients that did not declare tasks, before anything is decided about the call."""

    identifier = "example.conformance/for-task-clients"

    async def intercept_tool_call(
        self, params: CallToolRequestParams, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        """Refuse with error -32021, or go on."""
        if params.name in FOR_TASK_CLIENTS_ONLY:
            require_client_extension(ctx, TASKS)
        return await call_next(ctx)


def add_jobs(server: MCPServer[Any], approvals: Approvals) -> None:
    """Register the tools."""

    @server.tool()
    def greet(name: str) -> str:
        """Greet somebody; nobody need approve that."""
        return f"Hello, {name}!"

    @server.tool()
    def slow_compute(seconds: float, label: str = "") -> str:
        """Compute something whose approval takes so many seconds."""
        return f"Computed {label or 'it'} after {seconds:g} s."

    @server.tool()
    def failing_job() -> str:
        """Fail, once it is approved."""
        raise ToolError("This job always fails.")

    @server.tool()
    def denied_job() -> str:
        """Never run: the approval is always denied. The suite has no such tool; clients are tried with it."""
        raise ToolError("This job must not run.")

    @server.tool()
    def protocol_error_job() -> str:
        """Never run: the approval service fails first."""
        raise ToolError("This job must not run.")

    @server.tool()
    def confirm_delete(filename: str) -> str:
        """Pretend to delete a file, once somebody has confirmed it."""
        return f"Deleted {filename}."

    @server.tool()
    def multi_input() -> str:
        """Run once two questions are answered, one by one or together."""
        return "Both answers are in."

    @server.tool()
    def test_tool_with_task() -> str:
        """Greet whoever is named on the request for approval."""
        return f"Hello, {approvals.named_for('test_tool_with_task')}!"
