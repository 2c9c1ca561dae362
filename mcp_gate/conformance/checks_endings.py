"""Group `endings`: cancellation and expiry, after which nothing runs any more."""

from typing import Final

from mcp_gate.conformance.model import Check, Json, NotKept
from mcp_gate.conformance.trial import Handle, Trial, brief, meta_of, rule
from mcp_gate.conformance.wire import DISPOSITION

GROUP: Final = "endings"


@rule("cancel-is-acknowledged", GROUP)
async def cancel_is_acknowledged(trial: Trial) -> None:
    """`tasks/cancel` is answered with an empty complete result."""
    answer = await trial.cancel((await trial.create()).task_id)
    result = answer.get("result")
    if not isinstance(result, dict):
        raise NotKept(f"tasks/cancel of a pending task was answered with {brief(answer)}")
    if result.get("resultType") != "complete" or result.keys() - {"resultType", "_meta"}:
        raise NotKept(f"the acknowledgement is no empty complete result: {brief(answer)}")


@rule("cancelled-status", GROUP)
async def cancelled_status(trial: Trial) -> None:
    """A pending task that is cancelled ends as cancelled, without a result and without a disposition."""
    state = await _cancelled(trial, await trial.create())
    if state.get("status") != "cancelled":
        raise NotKept(f"the cancelled task ended as {state.get('status')!r}")
    if "result" in state or DISPOSITION in meta_of(state):
        raise NotKept("the cancelled task has a result or a disposition")


@rule("cancelled-never-executes", GROUP, verbs=("approve", "count"))
async def cancelled_never_executes(trial: Trial) -> None:
    """An approval that comes after the cancellation runs nothing."""
    await trial.executable()
    handle = await trial.create()
    await _cancelled(trial, handle)
    await _nothing_after(trial, handle, "cancelled")


@rule("cancel-after-the-end-is-no-op", GROUP, verbs=("approve",))
async def cancel_after_the_end_is_no_op(trial: Trial) -> None:
    """Who comes too late changes nothing."""
    handle = await trial.create()
    before = await trial.decided("approve", handle)
    await trial.cancel(handle.task_id)
    await trial.settle()
    after = await trial.get(handle.task_id)
    if after.get("status") != before.get("status"):
        raise NotKept(f"the task had ended as {before.get('status')!r}; tasks/cancel made it {after.get('status')!r}")


@rule("notification-does-not-cancel", GROUP)
async def notification_does_not_cancel(trial: Trial) -> None:
    """`notifications/cancelled` is about requests, not about tasks."""
    handle = await trial.create()
    await trial.notify("notifications/cancelled", {"requestId": handle.task_id, "taskId": handle.task_id})
    await trial.settle()
    state = await trial.get(handle.task_id)
    if state.get("status") == "cancelled":
        raise NotKept("notifications/cancelled cancelled the task")


@rule("expired-is-denied", GROUP, verbs=("expire",))
async def expired_is_denied(trial: Trial) -> None:
    """A request that nobody decided in time ends as a denial."""
    state = await trial.decided("expire", await trial.create())
    result = state.get("result")
    if state.get("status") != "completed" or not isinstance(result, dict) or result.get("isError") is not True:
        raise NotKept(f"the expired task ended as {state.get('status')!r} without an error result")
    found = meta_of(result).get(DISPOSITION)
    if found != "denied-not-executed":
        raise NotKept(f"the disposition of the expired task is {found!r}, not 'denied-not-executed'")


@rule("expired-never-executes", GROUP, verbs=("expire", "approve", "count"))
async def expired_never_executes(trial: Trial) -> None:
    """An approval that comes after the expiry runs nothing."""
    await trial.executable()
    handle = await trial.create()
    await trial.decided("expire", handle)
    await _nothing_after(trial, handle, "expired")


async def _cancelled(trial: Trial, handle: Handle) -> Json:
    await trial.cancel(handle.task_id)
    return await trial.ended(handle)


async def _nothing_after(trial: Trial, handle: Handle, how: str) -> None:
    before = (await trial.get(handle.task_id)).get("status")
    await trial.do_late("approve", handle)
    await trial.settle()
    if ran := await trial.count(handle):
        raise NotKept(f"the {how} call was carried out {ran} times")
    after = (await trial.get(handle.task_id)).get("status")
    if after != before:
        raise NotKept(f"the {how} task was {before!r} and became {after!r} by a late approval")


CHECKS: Final[tuple[Check, ...]] = (
    cancel_is_acknowledged,
    cancelled_status,
    cancelled_never_executes,
    cancel_after_the_end_is_no_op,
    notification_does_not_cancel,
    expired_is_denied,
    expired_never_executes,
)
