"""A real MCP server to stand behind the gate, in process or as `python -m tests.gate.upstream_server`.

Every run of `wire` appends one line to the file named by `EFFECTS`, so that a test counts side effects, not calls.
"""

import os
from pathlib import Path
from typing import Any

from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.mcpserver import Context, MCPServer
from mcp.shared.exceptions import MCPError
from mcp.types import ToolAnnotations
from pydantic import BaseModel


class Balance(BaseModel):
    """A structured result."""

    account: str
    cents: int


def add_tools(server: MCPServer[Any], effects: Path) -> None:
    """Register the tools; `effects` is where `wire` leaves its mark."""

    @server.tool(title="Wire transfer", annotations=ToolAnnotations(destructive_hint=True))
    def wire(to: str, amount: int) -> str:
        """Transfer money."""
        with effects.open("a", encoding="utf-8") as file:
            file.write(f"{to} {amount}\n")
        return f"Transfer of {amount} to {to} completed."

    @server.tool()
    def read(account: str) -> Balance:
        """Read a balance."""
        return Balance(account=account, cents=1200)

    @server.tool()
    def broken(text: str) -> str:
        """Fail as tools do."""
        raise ValueError(text)

    @server.tool()
    def refuse(code: int) -> str:
        """Answer with a JSON-RPC error."""
        raise MCPError(code=code, message="refused by the tool", data={"why": "test"})

    @server.tool()
    def die() -> str:
        """End the process before answering."""
        os._exit(3)

    @server.tool()
    def sees() -> str:
        """Tell whether a caller's token is visible."""
        return "no token" if get_access_token() is None else "token"

    @server.tool()
    async def ask(ctx: Context) -> str:
        """Ask the client, which nobody can answer later."""
        answer = await ctx.elicit("Sure?", _Sure)
        return str(answer.action)


class _Sure(BaseModel):
    sure: bool


def main() -> None:
    """Serve over stdio."""
    server: MCPServer[Any] = MCPServer("upstream", version="7")
    add_tools(server, Path(os.environ["EFFECTS"]))
    server.run("stdio")


if __name__ == "__main__":
    main()
