"""The flows that the reference chapter shows, each driven to its end over real wires.

A flow asserts that what it shows is what happened: a page that is right about something else would be worse than none.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tests.patience import pause
from tests.reference.world import Recorded

MONEY: Final[Mapping[str, Any]] = {"to": "acct-991", "amount": 50_000}
DISPOSITION: Final = "io.modelcontextprotocol/tool-approval-disposition"
QUESTION_SCHEMA: Final = {
    "type": "object",
    "required": ["invoice"],
    "properties": {"invoice": {"type": "string", "title": "Invoice"}},
}


@dataclass(frozen=True, slots=True)
class Flow:
    """A flow and what it needs: `limits` of the gate."""

    play: Callable[[Recorded], Awaitable[None]]
    limits: Mapping[str, Any] = field(default_factory=dict)


async def permitted(world: Recorded) -> None:
    """A permitted call runs at once and is no task."""
    result = await world.call("get_balance", account="acct-1")
    assert result["isError"] is False


async def denied_at_once(world: Recorded) -> None:
    """A plain denial is the tool's error result."""
    result = await world.call("close_account", account="acct-1")
    assert result["isError"] is True
    assert world.ran == []


async def approved(world: Recorded) -> None:
    """The whole way: task, decision, second evaluation, one run, report."""
    task = await world.call("wire_transfer", **MONEY)
    assert (await world.get(task["taskId"]))["status"] == "working"
    assert world.ran == []
    await world.decide("approve")
    await world.reported()
    ended = await world.get(task["taskId"])
    assert ended["result"]["_meta"][DISPOSITION] == "approved-executed"
    assert world.ran == ["wire_transfer"]


async def denied(world: Recorded) -> None:
    """Somebody says no."""
    task = await world.call("wire_transfer", **MONEY)
    await world.decide("deny", reason="The account is not one of ours.")
    await world.when(task["taskId"], "completed")
    ended = await world.get(task["taskId"])
    assert ended["result"]["_meta"][DISPOSITION] == "denied-not-executed"
    assert world.ran == []


async def failed_tool(world: Recorded) -> None:
    """The approved tool runs and answers with an error."""
    task = await world.call("book_transfer", **MONEY)
    await world.decide("approve")
    await world.reported()
    ended = await world.get(task["taskId"])
    assert ended["result"]["_meta"][DISPOSITION] == "execution-error"
    assert world.ran == ["book_transfer"]


async def cancelled(world: Recorded) -> None:
    """The client gives up before anybody has decided; the request ends at the backend as well."""
    task = await world.call("wire_transfer", **MONEY)
    await world.ask("tasks/cancel", {"taskId": task["taskId"]})
    await world.until(lambda tape: any("cancel" in each.path for each in tape.exchanges))
    assert (await world.get(task["taskId"]))["status"] == "cancelled"
    assert world.ran == []


async def expired(world: Recorded) -> None:
    """Nobody decides in time."""
    task = await world.call("wire_transfer", **MONEY)
    await world.when(task["taskId"], "completed")
    ended = await world.get(task["taskId"])
    assert ended["result"]["_meta"][DISPOSITION] == "denied-not-executed"
    assert world.ran == []


async def asked_before(world: Recorded) -> None:
    """The backend wants to know something before it takes the request."""
    asked = await world.call("pay_invoice", invoice="INV-4711")
    assert asked["resultType"] == "input_required"
    (key,) = asked["inputRequests"]
    answers = {key: {"action": "accept", "content": {"business_justification": "Due today."}}}
    params = {"name": "pay_invoice", "arguments": {"invoice": "INV-4711"}}
    more = {"inputResponses": answers, "requestState": asked["requestState"]}
    task = (await world.ask("tools/call", {**params, **more}))["result"]
    assert task["resultType"] == "task"


async def asked_meanwhile(world: Recorded) -> None:
    """Somebody asks back while the task is open."""
    task = await world.call("wire_transfer", **MONEY)
    request = await world.waiting()
    await world.resolver.ask(request["id"], "Which invoice is this for?", schema=QUESTION_SCHEMA)
    await world.when(task["taskId"], "input_required")
    asked = await world.get(task["taskId"])
    (key,) = asked["inputRequests"]
    answers = {key: {"action": "accept", "content": {"invoice": "INV-4711"}}}
    await world.ask("tasks/update", {"taskId": task["taskId"], "inputResponses": answers})
    while "INV-4711" not in str(await world.waiting()):
        await pause()
    # What the gate looks at next depends on how far it was when the answer came.
    await world.until(lambda tape: tape.end_with("POST", "/input"))


async def not_yet(world: Recorded) -> None:
    """Approved, but what was approved is not in place yet: the task goes on working."""
    task = await world.call("log_in", host="db-1")
    await world.decide("approve")
    while "later" not in (await world.unrecorded(task["taskId"]))["statusMessage"]:
        await pause()
    assert (await world.get(task["taskId"]))["status"] == "working"
    assert world.ran == []


async def without_tasks(world: Recorded) -> None:
    """A client that does not know tasks is told what it could do; nothing is submitted."""
    result = await world.call("wire_transfer", tasks=False, **MONEY)
    assert result["isError"] is True
    assert not [each for each in world.tape.exchanges if each.path.endswith("/request")]


async def method_without_tasks(world: Recorded) -> None:
    """A method of the tasks extension, from a client that has not declared it."""
    answer = await world.ask("tasks/get", {"taskId": "tsk_0000000000000000000000"}, tasks=False)
    assert answer["error"]["code"] == -32021


async def not_yours(world: Recorded) -> None:
    """An id that is unknown, or somebody else's."""
    answer = await world.ask("tasks/get", {"taskId": "tsk_0000000000000000000000"})
    assert answer["error"]["code"] == -32602


FLOWS: Final[Mapping[str, Flow]] = {
    "permitted": Flow(permitted),
    "denied at once": Flow(denied_at_once),
    "approved": Flow(approved),
    "denied": Flow(denied),
    "tool failed": Flow(failed_tool),
    "cancelled": Flow(cancelled),
    "expired": Flow(expired, {"pending_seconds": 1}),
    "asked before": Flow(asked_before),
    "asked meanwhile": Flow(asked_meanwhile),
    "not yet": Flow(not_yet),
    "without tasks": Flow(without_tasks),
    "method without tasks": Flow(method_without_tasks),
    "not yours": Flow(not_yours),
}
