"""Serves a tool of FastMCP whose calls become tasks: `python serve_fastmcp.py PORT`, in an environment of its own.

Its tasks wait for ever, as ours wait for somebody's yes, so that no run of the tool is measured on either side.
"""

import asyncio
import sys

from fastmcp import FastMCP  # type: ignore[import-not-found, unused-ignore]
from fastmcp.utilities.tasks import TaskConfig  # type: ignore[import-not-found, unused-ignore]
from fastmcp_tasks import TasksExtension  # type: ignore[import-not-found, unused-ignore]

server = FastMCP("bench")
server.add_extension(TasksExtension(url="memory://"))


@server.tool(task=TaskConfig(mode="required"))  # type: ignore[untyped-decorator, unused-ignore]
async def transfer(amount: int, to: str) -> str:
    """Move money, some day."""
    await asyncio.Event().wait()
    return f"{amount} to {to}"


if __name__ == "__main__":
    server.run(transport="http", host="127.0.0.1", port=int(sys.argv[1]), show_banner=False, log_level="error")
