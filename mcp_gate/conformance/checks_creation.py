"""Group `creation`: what a requestable denial becomes, before anybody has decided."""

import itertools
import re
from datetime import datetime
from typing import Any, Final

import anyio

from mcp_gate.conformance.model import Check, Json, Level, NotApplicable, NotKept, NotRun
from mcp_gate.conformance.trial import Trial, brief, envelope_of, meta_of, rule, task_of
from mcp_gate.conformance.wire import DISPOSITION

GROUP: Final = "creation"
OPEN: Final = frozenset({"working", "input_required"})
SHORTEST_ID: Final = 16
ENTROPY: Final = 12
_INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")


@rule("requestable-denial-returns-task", GROUP)
async def requestable_denial_returns_task(trial: Trial) -> None:
    """The call becomes a task that works, and says so in words."""
    answer = await trial.call()
    if task_of(answer) is None:
        raise NotKept(f"the call did not become a task: {brief(answer)}")
    result: Json = answer["result"]
    if result.get("status") != "working":
        raise NotKept(f"the status of the new task is {result.get('status')!r}, not 'working'")
    message = result.get("statusMessage")
    if not isinstance(message, str) or not message.strip():
        raise NotKept("the new task has no statusMessage")


@rule("denial-is-not-executed", GROUP, verbs=("count",))
async def denial_is_not_executed(trial: Trial) -> None:
    """Nothing runs as long as nobody has approved."""
    await trial.executable()
    handle = await trial.create()
    await trial.get(handle.task_id)
    await trial.settle()
    if (ran := await trial.count(handle)) != 0:
        raise NotKept(f"the tool ran {ran} times although nobody had approved")


@rule("handle-shape", GROUP)
async def handle_shape(trial: Trial) -> None:
    """The members of the task have the types that the tasks extension gives them."""
    created = (await trial.create()).created
    for name in ("createdAt", "lastUpdatedAt"):
        if not isinstance(created.get(name), str) or not _INSTANT.fullmatch(created[name]):
            raise NotKept(f"{name} is no instant of ISO 8601: {created.get(name)!r}")
    if "ttlMs" not in created or not (created["ttlMs"] is None or _is_positive(created["ttlMs"])):
        raise NotKept(f"ttlMs is neither a positive integer nor null: {created.get('ttlMs', 'absent')!r}")
    if "pollIntervalMs" in created and not _is_positive(created["pollIntervalMs"]):
        raise NotKept(f"pollIntervalMs is no positive integer: {created['pollIntervalMs']!r}")


@rule("task-is-durable-when-returned", GROUP)
async def task_is_durable_when_returned(trial: Trial) -> None:
    """The very next `tasks/get` finds the task, as it was announced."""
    handle = await trial.create()
    answer = (await trial.reply("tasks/get", {"taskId": handle.task_id})).answer
    state = answer.get("result")
    if not isinstance(state, dict):
        raise NotKept(f"tasks/get right after the creation was answered with {brief(answer)}")
    if state.get("taskId") != handle.task_id or state.get("createdAt") != handle.created.get("createdAt"):
        raise NotKept("tasks/get shows another taskId or createdAt than the creation did")


@rule("tasks-get-shape", GROUP)
async def tasks_get_shape(trial: Trial) -> None:
    """The answer to `tasks/get` is a complete result with one of the five statuses."""
    state = await trial.get((await trial.create()).task_id)
    if state.get("resultType") != "complete":
        raise NotKept(f"the resultType of tasks/get is {state.get('resultType')!r}, not 'complete'")
    if state.get("status") not in {*OPEN, "completed", "failed", "cancelled"}:
        raise NotKept(f"there is no status {state.get('status')!r}")


@rule("task-ids-are-unguessable", GROUP)
async def task_ids_are_unguessable(trial: Trial) -> None:
    """Ids are long, and no two of them differ in a few places only."""
    ids = [(await trial.create()).task_id for _ in range(3)]
    for one, another in itertools.combinations(ids, 2):
        if len(one) < SHORTEST_ID:
            raise NotKept(f"a task id has {len(one)} characters only")
        different = sum(a != b for a, b in zip(one, another, strict=False)) + abs(len(one) - len(another))
        if different < ENTROPY:
            raise NotKept(f"two task ids differ in {different} places only")


@rule("non-requestable-denial", GROUP, calls=("denied",))
async def non_requestable_denial(trial: Trial) -> None:
    """A denial that nothing can lift is an ordinary result that says so."""
    marker = trial.new_marker()
    answer = await trial.call("denied", marker=marker)
    if task_of(answer) is not None:
        raise NotKept("a denial that cannot be requested became a task")
    result = answer.get("result")
    if not isinstance(result, dict) or result.get("isError") is not True:
        raise NotKept(f"the denied call is no result with isError: {brief(answer)}")
    await trial.settle()
    if ran := await trial.count_of("denied", marker):
        raise NotKept(f"the denied call was carried out {ran} times")


@rule("pending-envelope", GROUP)
async def pending_envelope(trial: Trial) -> None:
    """Where the denial envelope is implemented, it stands on the new task and on every later look at it."""
    handle = await trial.create()
    shown = [envelope_of(handle.created), *[envelope_of(await trial.get(handle.task_id)) for _ in range(2)]]
    if all(one is None for one in shown):
        raise NotApplicable("the server shows no denial envelope (SEP-2643)")
    for where, one in zip(("on the new task", "on tasks/get", "on a later tasks/get"), shown, strict=True):
        if not _is_available(one):
            raise NotKept(f"the envelope {where} is not a requestable denial with a hint of type task: {one!r}")


@rule("pending-is-not-presented-as-done", GROUP)
async def pending_is_not_presented_as_done(trial: Trial) -> None:
    """A task that waits has no result, no error, and no disposition."""
    handle = await trial.create()
    for where, state in (("the new task", handle.created), ("tasks/get", await trial.get(handle.task_id))):
        if found := {"result", "error", "content"} & state.keys():
            raise NotKept(f"{where} of a pending task has {', '.join(sorted(found))}")
        if DISPOSITION in meta_of(state):
            raise NotKept(f"{where} of a pending task has a disposition")


@rule("repeat-returns-the-task", GROUP, level=Level.SHOULD)
async def repeat_returns_the_task(trial: Trial) -> None:
    """The same call again, while its task is open, is answered with that task."""
    handle = await trial.create()
    again = await trial.create(marker=handle.marker)
    if again.task_id != handle.task_id:
        raise NotKept("the same call, made again while it was pending, opened a second task")


@rule("concurrent-repeats-open-one-task", GROUP, level=Level.SHOULD)
async def concurrent_repeats_open_one_task(trial: Trial) -> None:
    """Equal calls at the same moment open one task."""
    marker, found, refused = trial.new_marker(), set[str](), list[str]()

    async def one() -> None:
        answer = await trial.call(marker=marker)
        task_id = task_of(answer)
        if task_id is None:
            refused.append(brief(answer))
        else:
            found.add(task_id)

    async with anyio.create_task_group() as group:
        for _ in range(4):
            group.start_soon(one)
    if refused:
        raise NotRun(f"a call did not become a task: {refused[0]}")
    if len(found) != 1:
        raise NotKept(f"four equal calls at the same moment opened {len(found)} tasks")


def instant(value: object) -> datetime | None:
    """The instant that a member names; None when it names none."""
    if not isinstance(value, str) or not _INSTANT.fullmatch(value):
        return None
    return datetime.fromisoformat(value)


def _is_positive(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _is_available(envelope: Any) -> bool:
    if not isinstance(envelope, dict) or envelope.get("reason") != "insufficient_authorization":
        return False
    hints = envelope.get("remediationHints")
    has_hint = isinstance(hints, list) and any(isinstance(hint, dict) and hint.get("type") == "task" for hint in hints)
    return envelope.get("remediation") == "available" and has_hint


CHECKS: Final[tuple[Check, ...]] = (
    requestable_denial_returns_task,
    denial_is_not_executed,
    handle_shape,
    task_is_durable_when_returned,
    tasks_get_shape,
    task_ids_are_unguessable,
    non_requestable_denial,
    pending_envelope,
    pending_is_not_presented_as_done,
    repeat_returns_the_task,
    concurrent_repeats_open_one_task,
)
