"""The tools behind the reviewer's gate, as a server on stdio that knows nothing of approvals.

`BOOK` names the folder of the book, in which every execution leaves a line.
"""

import os
from pathlib import Path
from typing import Any

import anyio
from mcp.server.mcpserver import MCPServer
from mcp.shared.exceptions import MCPError

from examples.reviewer.book import Book


def build(book: Book) -> MCPServer[Any]:
    """The server with its tools; `memo` is where the suite puts its marker."""
    server: MCPServer[Any] = MCPServer("bank")

    @server.tool()
    def transfer(to: str, amount: int, memo: str, owner: str = "ada") -> str:
        """Transfer money from the owner's account."""
        book.carry_out(memo)
        return f"{amount} sent from {owner} to {to}."

    @server.tool()
    def payout(to: str, amount: int, memo: str, owner: str = "ada") -> str:
        """Pay money out in cash."""
        book.carry_out(memo)
        return f"{amount} paid out for {owner} to {to}."

    @server.tool()
    def donate(to: str, amount: int, memo: str) -> str:
        """Give money away; the request for approval needs a ticket."""
        book.carry_out(memo)
        return f"{amount} given to {to}."

    @server.tool()
    def bounce(to: str, amount: int, memo: str) -> str:
        """Begin a transfer that the other bank refuses."""
        book.carry_out(memo)
        raise MCPError(code=-32050, message=f"The bank of {to} refused {amount}.")

    @server.tool()
    async def vanish(to: str, amount: int, memo: str) -> str:
        """Begin a transfer and never answer."""
        book.carry_out(memo)
        await anyio.sleep_forever()
        return f"{amount} sent to {to}."

    @server.tool()
    def close_bank(memo: str) -> str:
        """Never permitted, and nothing that could be requested."""
        return f"closed {memo}"

    @server.tool()
    def balance() -> str:
        """What anybody may see."""
        return "1200"

    return server


if __name__ == "__main__":
    build(Book(Path(os.environ["BOOK"]))).run("stdio")
