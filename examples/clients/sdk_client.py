"""The SDK's own Python client: `python sdk_client.py URL` drives every course; with a task's id it takes it up again.

Nothing of ours is in it: the result type is claimed and the three methods are sent as the extension's text says. One
JSON object on standard output.
"""

import json
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

import anyio
from mcp import Client, types
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.client.session import ClientSession
from pydantic import ConfigDict

ENDED = {"completed", "failed", "cancelled"}


class Created(types.Result):
    """`resultType: task`."""

    model_config = ConfigDict(extra="allow")
    result_type: Literal["task"]


class Answer(types.Result):
    """Whatever a task method answers."""

    model_config = ConfigDict(extra="allow")


class TaskMethod(types.Request[dict[str, Any], str]):
    """Any of the three task methods."""

    name_param = "taskId"


class Tasks(ClientExtension):
    """The least that a client must do."""

    identifier = "io.modelcontextprotocol/tasks"

    def claims(self) -> Sequence[ResultClaim[Any]]:
        """Take results that are tasks."""
        return (ResultClaim(result_type="task", model=Created, resolve=self.resolve),)

    async def resolve(self, created: Created, context: ClaimContext) -> types.CallToolResult:
        """Finish a call as if it had never been a task."""
        found = await settled(context.session, (created.model_extra or {})["taskId"])
        return types.CallToolResult.model_validate(found["result"])


async def asked(session: ClientSession, method: str, task_id: str, **params: Any) -> dict[str, Any]:
    """A task method's answer."""
    request = TaskMethod(method=method, params={"taskId": task_id, **params})
    answer = await session.send_request(request, Answer)
    return answer.model_dump(by_alias=True, mode="json", exclude_unset=True)


async def settled(session: ClientSession, task_id: str) -> dict[str, Any]:
    """The task once it has ended; forms are confirmed."""
    while (state := await asked(session, "tasks/get", task_id))["status"] not in ENDED:
        if state["status"] == "input_required":
            answers = {key: {"action": "accept", "content": {"confirm": True}} for key in state["inputRequests"]}
            await asked(session, "tasks/update", task_id, inputResponses=answers)
        await anyio.sleep(state["pollIntervalMs"] / 1000)
    return {"status": state["status"], "result": state.get("result")}


async def created(session: ClientSession, tool: str, **arguments: Any) -> str:
    """The id of the task that a call becomes."""
    result = await session.call_tool(tool, arguments, allow_claimed=True)
    if not isinstance(result, Created):
        raise TypeError(f"{tool} became no task")
    return str((result.model_extra or {})["taskId"])


async def main(url: str, task_id: str | None = None) -> None:
    """Drive the courses."""
    async with Client(url, extensions=[Tasks()]) as client:
        session = client.session
        found: dict[str, Any] = {}
        if task_id is None:
            whole = await client.call_tool("slow_compute", {"seconds": 0, "label": "sdk"})
            found["approve"] = {"status": "completed", "result": whole.model_dump(by_alias=True, mode="json")}
            found["deny"] = await settled(session, await created(session, "denied_job"))
            found["input"] = await settled(session, await created(session, "confirm_delete", filename="sdk"))
            cancelled = await created(session, "slow_compute", seconds=600, label="sdk, cancelled")
            await asked(session, "tasks/cancel", cancelled)
            found["cancel"] = await settled(session, cancelled)
            found["left"] = await created(session, "slow_compute", seconds=1, label="sdk, left")
        else:
            found["resume"] = await settled(session, task_id)
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    anyio.run(partial(main, *sys.argv[1:]))
