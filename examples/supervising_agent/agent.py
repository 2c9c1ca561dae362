"""The agent: an MCP client that looks at what waits and decides it by the tools that it is offered.

A rule stands where a model would think, so that the story is the same each time. It decides on what the request says
of itself as data, and leaves to others whatever it may not or cannot decide.
"""

from collections.abc import Callable
from typing import Any

from mcp import Client

Judgement = tuple[str, str]
"""Approve, deny or leave, and why."""


async def supervise(client: Client, judge: Callable[[dict[str, Any]], Judgement]) -> list[tuple[str, str]]:
    """Look once at everything that waits; for each request what came of it: its status, left or refused."""
    offered = {tool.name for tool in (await client.list_tools()).tools}
    came_of_it = []
    for row in _value(await client.call_tool("list_requests", {})):
        request = _value(await client.call_tool("read_request", {"request_id": row["id"]}))
        decision, reason = judge(request)
        tool = f"{decision}_request"
        if tool not in offered:
            came_of_it.append((row["id"], "left"))
            continue
        about = {"request_id": row["id"], "version": request["version"], "reason": reason}
        answer = await client.call_tool(tool, about)
        came_of_it.append((row["id"], "refused" if answer.is_error else str(_value(answer)["status"])))
    return came_of_it


def _value(result: Any) -> Any:
    content = result.structured_content
    return content["result"] if content is not None and content.keys() == {"result"} else content
