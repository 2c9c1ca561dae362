"""Groups `binding` and `access`: an approval is of one call by one principal, and a task id is no authority."""

from typing import Final

from mcp_gate.conformance.checks_input import answers, asked, questions_of
from mcp_gate.conformance.model import Check, Json, NotKept, NotRun
from mcp_gate.conformance.trial import Handle, Trial, brief, has_run, is_refusal, meta_of, rule, task_of
from mcp_gate.conformance.wire import DISPOSITION, PREFIX, Wire

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
    await _needs_its_own(trial, "gated", wire=await trial.someone_else())


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
    ran = await _approved(trial, handle)
    related = {PREFIX + "related-task": {"taskId": handle.task_id}}
    answer = await trial.call("changed_arguments", marker=handle.marker, taskId=handle.task_id, _meta=related)
    await _stays_out(trial, handle, answer, ran, "another call that named the task of an approved one")


@rule("other-principal-cannot-get", ACCESS)
async def other_principal_cannot_get(trial: Trial) -> None:
    """`tasks/get` of somebody else's task is refused, while it is open and once it has ended."""
    other = await trial.someone_else()
    handle = await trial.create()
    await _cannot_get(trial, handle, other, "the task")
    if trial.hands.has("approve"):
        await trial.decided("approve", handle)
    else:
        await trial.cancel(handle.task_id)
        await trial.ended(handle)
    await _cannot_get(trial, handle, other, "the task that had ended")


@rule("other-principal-cannot-update", ACCESS)
async def other_principal_cannot_update(trial: Trial) -> None:
    """`tasks/update` of somebody else's task is refused, whether it asks for something or not."""
    other = await trial.someone_else()
    handle = await trial.create()
    answer = await trial.update(handle.task_id, {"any": {"action": "accept", "content": {}}}, wire=other)
    if not is_refusal(answer):
        raise NotKept("another principal's tasks/update was accepted")
    if not trial.hands.has("ask"):
        return
    requests = questions_of(await asked(trial, handle))
    answer = await trial.update(handle.task_id, answers(trial, requests), wire=other)
    await trial.settle()
    if not is_refusal(answer) or (await trial.get(handle.task_id)).get("status") != "input_required":
        raise NotKept("another principal answered the question of the task")


@rule("other-principal-cannot-cancel", ACCESS)
async def other_principal_cannot_cancel(trial: Trial) -> None:
    """`tasks/cancel` of somebody else's task changes nothing."""
    other = await trial.someone_else()
    handle = await trial.create()
    answer = await trial.cancel(handle.task_id, wire=other)
    await trial.settle()
    state = await trial.get(handle.task_id)
    if state.get("status") == "cancelled":
        raise NotKept("another principal cancelled the task")
    if not is_refusal(answer):
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
    task_id = task_of(beside)
    if task_id is None:
        raise NotRun(f"the call {changed} does not need an approval of its own: {brief(beside)}")
    if task_id == handle.task_id:
        raise NotKept("the changed call was answered with the task of the other one")
    await trial.cancel(task_id, wire=wire)  # so that no verb means it
    ran = await _approved(trial, handle)
    after = await trial.call(changed, marker=handle.marker, wire=wire)
    await _stays_out(trial, handle, after, ran, "the changed call", wire=wire)


async def _approved(trial: Trial, handle: Handle) -> int | None:
    """Have it carried out, so that there is an approval to misuse; how often it was, where that can be told."""
    state = await trial.decided("approve", handle)
    if state.get("status") != "completed":
        raise NotRun(f"the approved call was not carried out: its task ended as {state.get('status')!r}")
    return await trial.count(handle)


async def _stays_out(
    trial: Trial, handle: Handle, answer: Json, ran: int | None, what: str, *, wire: Wire | None = None
) -> None:
    """The call was not carried out, neither at once nor behind a task of its own that nobody has approved."""
    if has_run(answer):
        raise NotKept(f"{what} was carried out on the approval of the other one")
    task_id = task_of(answer)
    if task_id == handle.task_id:
        raise NotKept(f"{what} was answered with the task of the other one")
    await trial.settle()
    if ran is not None:
        if (await trial.count(handle) or 0) > ran:
            raise NotKept(f"{what} was carried out unseen, on the approval of the other one")
    elif task_id is not None:
        state = await trial.get(task_id, wire=wire)
        result = state.get("result") if state.get("status") == "completed" else None
        if isinstance(result, dict) and meta_of(result).get(DISPOSITION) != "denied-not-executed":
            raise NotKept(f"{what} became a task that was carried out, and nobody had approved it")


async def _cannot_get(trial: Trial, handle: Handle, other: Wire, what: str) -> None:
    if not is_refusal((await trial.reply("tasks/get", {"taskId": handle.task_id}, wire=other)).answer):
        raise NotKept(f"another principal read {what}")


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
