"""A small FastMCP server, as anybody writes one; `gate.yaml` beside it puts the gateway before it.

It runs in an environment of its own, because FastMCP pins other versions than the gate:

    make .venv-fastmcp/.ready
    mcp-gate proxy --config examples/fastmcp_gateway/gate.yaml

The board is a file, named by `BOARD`. What may be written there is decided by the approval service of `gate.yaml`.
"""

import os
from pathlib import Path

from fastmcp import FastMCP  # type: ignore[import-not-found, unused-ignore]

server = FastMCP("board")


def board() -> Path:
    """The file that holds what was posted."""
    return Path(os.environ.get("BOARD", "board.txt"))


@server.tool  # type: ignore[untyped-decorator, unused-ignore]
def post(text: str) -> str:
    """Post a line for everybody to read."""
    with board().open("a", encoding="utf-8") as file:
        file.write(f"{text}\n")
    return f"Posted: {text}"


@server.resource("board://lines")  # type: ignore[untyped-decorator, unused-ignore]
def lines() -> str:
    """Everything that was posted."""
    return board().read_text(encoding="utf-8") if board().exists() else ""


@server.prompt  # type: ignore[untyped-decorator, unused-ignore]
def announce(what: str) -> str:
    """Ask for an announcement."""
    return f"Write one line that announces {what}."


if __name__ == "__main__":
    server.run(show_banner=False)
