"""Lets an author declare, beside a tool's function, how its calls are mapped to questions.

The mapping is checked when it is declared, and travels in the tool's input schema, so that clients and gateways on the
way see it too. COAZ-MCP, "Declaring a Mapping".
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from mcp.server.mcpserver import MCPServer

from mcp_gate.templates import declared_mapping
from mcp_gate.tools import DECLARED_MAPPING

F = TypeVar("F", bound=Callable[..., Any])


def authzen_mapping(server: MCPServer[Any], mapping: Mapping[str, Any], *, tool: str | None = None) -> Callable[[F], F]:
    """Declares the mapping of the function's tool of `server`; `tool` is its name, if not the function's own.

        @authzen_mapping(server, {"evaluation": {"action": {"name": "read"}, "resource": {...}}})
        @server.tool()
        def read(account: str) -> str: ...

    Raises:
        MappingError: The mapping is wrong.
        LookupError: The server has no such tool yet.
    """
    document = dict(mapping)
    declared_mapping(document)

    def declare(function: F) -> F:
        name = tool or function.__name__
        registered = server._tool_manager.get_tool(name)  # noqa: SLF001 - the only way to a tool's schema
        if registered is None:
            raise LookupError(f"the server has no tool {name}; declare the mapping above @server.tool()")
        registered.parameters = {**registered.parameters, DECLARED_MAPPING: document}
        return function

    return declare
