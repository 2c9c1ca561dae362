"""The MCP server behind the gateway: `python -m tests.crash.counting_server FOLDER`, over stdio.

Every run of `wire` adds one line to `effects`, synced to disk, so that a test counts side effects. While a server
lives it shares a lock on `alive`: whoever gets the lock alone knows that no server is left that could add another.
"""

import fcntl
import os
import sys
from pathlib import Path

from mcp.server.mcpserver import MCPServer

from tests.patience import pause_now

EFFECTS = "effects"
ALIVE = "alive"
HELD = "held"
BEGUN = "begun"


def serve(folder: Path) -> None:
    """Serve until stdin ends."""
    with (folder / ALIVE).open("a") as alive:
        fcntl.flock(alive, fcntl.LOCK_SH)
        server: MCPServer[None] = MCPServer("counting", version="1")

        @server.tool(title="Wire transfer")
        def wire(to: str, amount: int) -> str:
            """Transfer money; while a file `held` lies in the folder, not yet."""
            (folder / BEGUN).touch()
            # Like most real tools it doesn't notice when its caller is gone, and finishes.
            while (folder / HELD).exists():
                pause_now()
            _append(folder / EFFECTS, f"{to} {amount}\n")
            return f"Transfer of {amount} to {to} completed."

        @server.tool()
        def read(account: str) -> str:
            """Read a balance."""
            return f"{account} holds 1200."

        server.run("stdio")


def _append(path: Path, line: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, line.encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def main() -> None:
    """Serve the folder that the command line names."""
    serve(Path(sys.argv[1]))


if __name__ == "__main__":
    main()
