"""FastMCP's client with `fastmcp-tasks`: `python fastmcp_tasks_client.py URL` drives every course.

With what an earlier process printed for the task that it left, the task is taken up again. Runs in an environment of
its own. One JSON object on standard output.
"""

import asyncio
import json
import sys
from typing import Any

from fastmcp import Client  # type: ignore[import-not-found] # lives in an environment of its own
from fastmcp_tasks.client import ToolTask, call_tool_task  # type: ignore[import-not-found] # lives in an environment of its own
from fastmcp_tasks.client_models import ClientCreateTaskResult  # type: ignore[import-not-found] # lives in an environment of its own


async def confirm(*_: object) -> dict[str, bool]:
    """The answer to every form."""
    return {"confirm": True}


async def settled(task: ToolTask) -> dict[str, Any]:
    """The task once it has ended."""
    parsed = await task.result()
    state = await task.status()
    text = [block.text for block in parsed.content if block.type == "text"]
    return {"status": state.status, "result": {**(state.result or {}), "seen": text}}


async def main(url: str, reference: str | None = None) -> None:
    """Drive the courses."""
    async with Client(url, elicitation_handler=confirm) as client:

        async def call(tool: str, **arguments: Any) -> ToolTask:
            return await call_tool_task(client, tool, arguments, raise_on_error=False)

        found: dict[str, Any] = {}
        if reference is None:
            found["approve"] = await settled(await call("slow_compute", seconds=0, label="fastmcp"))
            found["deny"] = await settled(await call("denied_job"))
            found["input"] = await settled(await call("confirm_delete", filename="fastmcp"))
            cancelled = await call("slow_compute", seconds=600, label="fastmcp, cancelled")
            await cancelled.cancel()
            found["cancel"] = await settled(cancelled)
            left = await call("slow_compute", seconds=1, label="fastmcp, left")
            found["left"] = left.create_result.model_dump_json(by_alias=True)
        else:
            created = ClientCreateTaskResult.model_validate_json(reference)
            found["resume"] = await settled(ToolTask(client, "slow_compute", created, raise_on_error=False))
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
