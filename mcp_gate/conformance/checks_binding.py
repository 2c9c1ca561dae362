"""Groups `binding` and `access`: an approval is of one call by one principal, and a task id is no authority."""

from typing import Final

from mcp_gate.conformance.model import Check, Json, NotKept, NotRun
from mcp_gate.conformance.trial import Handle, Trial, brief, rule, task_of
from mcp_gate.conformance.wire import PREFIX, Wire

BINDING: Final = "binding"
ACCESS: Final = "access"
INVALID_PARAMS: Final = -32602
NOBODYS: Final = "there-is-no-task-of-this-name-0000000000"


@rule("changed-tool", BINDING, verbs=("approve",), calls=("gated", "changed_tool"))
async def changed_tool(trial: Trial) -> None:
    """The approval of one tool is none of another."""
    await _needs_its_own(trial, "changed_tool")


@rule("changed-arguments", BINDING, verbs=("approve",), calls=("gated", "changed_arguments"))
async def changed_arguments(trial: Trial) -> None:
    """The approval of a call is none of the same tool with other arguments."""
    await _needs_its_own(trial, "changed_arguments")


@rule("changed-principal", BINDING, verbs=("approve",))
async def changed_principal(trial: Trial) -> None:
    """The approval of one principal's call is none of another's."""
    await _needs_its_own(trial, "gated", wire=trial.someone_else())


@rule("changed-subject", BINDING, verbs=("approve",), calls=("gated", "changed_subject"))
async def changed_subject(trial: Trial) -> None:
    """The approval of a call about one subject is none about another."""
    await _needs_its_own(trial, "changed_subject")


@rule("changed-resource", BINDING, verbs=("approve",), calls=("gated", "changed_resource"))
async def changed_resource(trial: Trial) -> None:
    """The approval of a call on one resource is none on another."""
    await _needs_its_own(trial, "changed_resource")


@rule("handle-is-not-authority", BINDING, verbs=("approve",), calls=("gated", "changed_arguments"))
async def handle_is_not_authority(trial: Trial) -> None:
    """A call that names an approved task, and is another call, is not carried out on that task's approval."""
    handle = await trial.create()
    await trial.decided("approve", handle)
    related = {PREFIX + "related-task": {"taskId": handle.task_id}}
    answer = await trial.call("changed_arguments", marker=handle.marker, taskId=handle.task_id, _meta=related)
    if _ran(answer):
        raise NotKept("another call was carried out because it named the task of an approved one")


@rule("other-principal-cannot-get", ACCESS)
async def other_principal_cannot_get(trial: Trial) -> None:
    """`tasks/get` of somebody else's task is refused."""
    other = trial.someone_else()
    handle = await trial.create()
    answer = (await trial.reply("tasks/get", {"taskId": handle.task_id}, wire=other)).answer
    if "error" not in answer:
        raise NotKept("another principal read the task")


@rule("other-principal-cannot-update", ACCESS)
async def other_principal_cannot_update(trial: Trial) -> None:
    """`tasks/update` of somebody else's task is refused."""
    other = trial.someone_else()
    handle = await trial.create()
    answer = await trial.update(handle.task_id, {"any": {"action": "accept", "content": {}}}, wire=other)
    if "error" not in answer:
        raise NotKept("another principal's tasks/update was accepted")


@rule("other-principal-cannot-cancel", ACCESS)
async def other_principal_cannot_cancel(trial: Trial) -> None:
    """`tasks/cancel` of somebody else's task changes nothing."""
    other = trial.someone_else()
    handle = await trial.create()
    answer = await trial.cancel(handle.task_id, wire=other)
    await trial.settle()
    state = await trial.get(handle.task_id)
    if state.get("status") == "cancelled":
        raise NotKept("another principal cancelled the task")
    if "error" not in answer:
        raise NotKept("another principal's tasks/cancel was accepted")


@rule("unknown-task", ACCESS, calls=())
async def unknown_task(trial: Trial) -> None:
    """`tasks/get` of a task that does not exist is the error of the tasks extension."""
    answer = (await trial.reply("tasks/get", {"taskId": NOBODYS})).answer
    error = answer.get("error")
    if not isinstance(error, dict) or error.get("code") != INVALID_PARAMS:
        raise NotKept(f"tasks/get of no task was answered with {brief(answer)}, not error -32602")


async def _needs_its_own(trial: Trial, changed: str, *, wire: Wire | None = None) -> None:
    """Beside the pending task, and after its execution, the changed call is neither joined to it nor carried out."""
    handle = await trial.create()
    beside = await trial.call(changed, marker=handle.marker, wire=wire)
    if task_of(beside) == handle.task_id:
        raise NotKept("the changed call was answered with the task of the other one")
    if _ran(beside):
        raise NotRun(f"the call {changed} runs without an approval: {brief(beside)}")
    await _drop(trial, handle, beside, wire)
    await trial.decided("approve", handle)
    after = await trial.call(changed, marker=handle.marker, wire=wire)
    if _ran(after):
        raise NotKept("the changed call was carried out on the approval of the other one")


async def _drop(trial: Trial, handle: Handle, answer: Json, wire: Wire | None) -> None:
    """End what the changed call opened, so that no verb means it."""
    task_id = task_of(answer)
    if task_id is None:
        return
    await trial.cancel(task_id, wire=wire)
    if task_id == handle.task_id:
        raise NotRun("two calls share a task")


def _ran(answer: Json) -> bool:
    result = answer.get("result")
    is_final = isinstance(result, dict) and result.get("resultType") in {"complete", None} and "content" in result
    return is_final and isinstance(result, dict) and result.get("isError") is not True


CHECKS: Final[tuple[Check, ...]] = (
    changed_tool,
    changed_arguments,
    changed_principal,
    changed_subject,
    changed_resource,
    handle_is_not_authority,
    other_principal_cannot_get,
    other_principal_cannot_update,
    other_principal_cannot_cancel,
    unknown_task,
)
