"""Group `decision`: what an approval and a denial do, and how the result says it."""

import re
from datetime import timedelta
from typing import Any, Final

from mcp_gate.conformance.checks_creation import instant
from mcp_gate.conformance.model import Check, Json, NotApplicable, NotKept, NotRun
from mcp_gate.conformance.trial import Trial, brief, envelope_of, is_refusal, meta_of, result_of, rule, task_of, text_of
from mcp_gate.conformance.wire import DISPOSITION

GROUP: Final = "decision"
IT_RAN: Final = (
    r"\b(tool|call|transfer|action|operation|it)\s+(has\s+)?"
    r"(ran|(was|been|was then)\s+(run|executed|invoked|carried out|performed))\b"
)


@rule("approved-executes", GROUP, verbs=("approve",))
async def approved_executes(trial: Trial) -> None:
    """After the approval the task completes with the tool's own result, and nothing but the task id was needed."""
    handle = await trial.create()
    state = await trial.decided("approve", handle)
    result = state.get("result")
    if (
        state.get("status") != "completed"
        or not isinstance(result, dict)
        or not isinstance(result.get("content"), list)
    ):
        raise NotKept(f"the approved task ended as {state.get('status')!r} without a tool result")
    if result.get("isError") is True:
        raise NotKept(f"the result of the approved call is an error: {text_of(result)!r}")
    if await trial.count(handle) == 0:
        raise NotKept("the task says completed, and the tool did not run")


@rule("executes-at-most-once", GROUP, verbs=("approve", "count"))
async def executes_at_most_once(trial: Trial) -> None:
    """However often it is approved, polled, cancelled and updated: one execution at most."""
    handle = await trial.create()
    await trial.decided("approve", handle)
    await trial.do_late("approve", handle)
    for _ in range(3):
        await trial.get(handle.task_id)
    await trial.update(handle.task_id, {})
    await trial.cancel(handle.task_id)
    await trial.settle()
    ran = await trial.count(handle)
    if ran == 0:
        raise NotRun("control: count tells of no execution of a call that was approved")
    if ran is not None and ran > 1:
        raise NotKept(f"one task carried out its tool {ran} times")


@rule("executed-disposition", GROUP, verbs=("approve",))
async def executed_disposition(trial: Trial) -> None:
    """The result of an executed call carries `approved-executed`."""
    _expect_disposition(await trial.decided("approve", await trial.create()), "approved-executed")


@rule("executed-body", GROUP, verbs=("approve",))
async def executed_body(trial: Trial) -> None:
    """Its content states that the tool ran."""
    text = text_of(result_of(await trial.decided("approve", await trial.create())))
    phrases = trial.control.phrases
    if not _says(phrases.ran, text) or _says(phrases.not_run, text):
        raise NotKept(f"the body of an executed call does not state that the tool ran: {text!r}")


@rule("no-envelope-once-executed", GROUP, verbs=("approve",))
async def no_envelope_once_executed(trial: Trial) -> None:
    """The denial envelope is gone once the call was carried out."""
    state = await trial.decided("approve", await trial.create())
    if envelope_of(state) is not None:
        raise NotKept("an executed call still carries the denial envelope")


@rule("terminal-denial-is-completed", GROUP, verbs=("deny",))
async def terminal_denial_is_completed(trial: Trial) -> None:
    """A denial ends the task as completed, with an error result, not as failed."""
    state = await trial.decided("deny", await trial.create())
    result = state.get("result")
    if state.get("status") != "completed" or not isinstance(result, dict):
        raise NotKept(f"the denied task ended as {state.get('status')!r} without a result")
    if result.get("isError") is not True:
        raise NotKept("the result of the denied call has no isError")


@rule("denied-disposition", GROUP, verbs=("deny",))
async def denied_disposition(trial: Trial) -> None:
    """Its result carries `denied-not-executed`."""
    _expect_disposition(await trial.decided("deny", await trial.create()), "denied-not-executed")


@rule("denied-body", GROUP, verbs=("deny",))
async def denied_body(trial: Trial) -> None:
    """Its content states that the tool did not run, for whoever does not read `_meta`."""
    text = text_of(result_of(await trial.decided("deny", await trial.create())))
    not_run = trial.control.phrases.not_run
    # Of a text that says both, nobody knows what it states; "run" stands in "not run" as well.
    if not _says(not_run, text) or _says(IT_RAN, re.sub(not_run, "", text, flags=re.IGNORECASE)):
        raise NotKept(f"the body of a denied call does not state that the tool did not run: {text!r}")


@rule("denied-envelope", GROUP, verbs=("deny",))
async def denied_envelope(trial: Trial) -> None:
    """Where the envelope is implemented, it now says that nothing can be done."""
    handle = await trial.create()
    state = await trial.decided("deny", handle)
    envelope = envelope_of(state)
    if envelope is None and envelope_of(handle.created) is None:
        raise NotApplicable("the server shows no denial envelope (SEP-2643)")
    if not isinstance(envelope, dict) or envelope.get("remediation") != "unavailable":
        raise NotKept(f"the envelope of the terminal denial does not say unavailable: {envelope!r}")


@rule("execution-error", GROUP, verbs=("approve",), calls=("failing",))
async def execution_error(trial: Trial) -> None:
    """A tool that fails after the approval completes the task with `execution-error`, and is no denial."""
    state = await trial.decided("approve", await trial.create("failing"))
    result = state.get("result")
    if state.get("status") != "completed" or not isinstance(result, dict) or result.get("isError") is not True:
        raise NotKept(f"the task of a tool that failed ended as {state.get('status')!r} without an error result")
    _expect_disposition(state, "execution-error")


@rule("execution-error-body", GROUP, verbs=("approve",), calls=("failing",))
async def execution_error_body(trial: Trial) -> None:
    """Its content does not claim that the tool did not run."""
    text = text_of(result_of(await trial.decided("approve", await trial.create("failing"))))
    phrases = trial.control.phrases
    if _says(phrases.not_run, text) or not _says(phrases.ran, text):
        raise NotKept(f"the body of a tool that failed does not state that the tool ran: {text!r}")


@rule("no-envelope-on-execution-error", GROUP, verbs=("approve",), calls=("failing",))
async def no_envelope_on_execution_error(trial: Trial) -> None:
    """The envelope would assert that nothing happened."""
    state = await trial.decided("approve", await trial.create("failing"))
    if envelope_of(state) is not None:
        raise NotKept("a call whose tool failed carries the denial envelope")


@rule("outcome-unknown", GROUP, verbs=("approve",), calls=("lost",))
async def outcome_unknown(trial: Trial) -> None:
    """A call whose outcome cannot be known says so, by disposition, and carries no envelope."""
    state = await trial.decided("approve", await trial.create("lost"))
    result = state.get("result")
    if state.get("status") != "completed" or not isinstance(result, dict) or result.get("isError") is not True:
        raise NotKept(f"the task of a call without an answer ended as {state.get('status')!r} without an error result")
    _expect_disposition(state, "outcome-unknown")
    if envelope_of(state) is not None:
        raise NotKept("a call whose outcome is unknown carries the denial envelope")


@rule("outcome-unknown-body", GROUP, verbs=("approve",), calls=("lost",))
async def outcome_unknown_body(trial: Trial) -> None:
    """Its content says that the tool may have run."""
    text = text_of(result_of(await trial.decided("approve", await trial.create("lost"))))
    phrases = trial.control.phrases
    if not _says(phrases.unknown, text) or _says(phrases.not_run, text):
        raise NotKept(f"the body does not state that the tool may have run: {text!r}")


@rule("failed-carries-an-error", GROUP, verbs=("fail",))
async def failed_carries_an_error(trial: Trial) -> None:
    """A failure of the backend before anything was decided is `failed`, with a JSON-RPC error and no disposition."""
    state = await trial.decided("fail", await trial.create())
    if state.get("status") != "failed":
        raise NotKept(f"the backend failed and the task ended as {state.get('status')!r}")
    error = state.get("error")
    if not isinstance(error, dict) or not isinstance(error.get("code"), int):
        raise NotKept("the failed task has no JSON-RPC error")
    if "result" in state or DISPOSITION in meta_of(state):
        raise NotKept("the failed task has a result or a disposition")


@rule("reevaluates-after-approval", GROUP, verbs=("revoke", "approve"))
async def reevaluates_after_approval(trial: Trial) -> None:
    """An approval is an input: where policy says no by then, nothing runs."""
    await trial.executable()
    handle = await trial.create()
    await trial.do("revoke", handle)
    state = await trial.decided("approve", handle)
    ran = await trial.count(handle)
    outcome = meta_of(state.get("result", {})).get(DISPOSITION) if isinstance(state.get("result"), dict) else None
    if ran or outcome == "approved-executed":
        raise NotKept("the call was carried out on its approval although policy denied it by then")


@rule("terminal-is-final", GROUP, verbs=("deny", "approve"))
async def terminal_is_final(trial: Trial) -> None:
    """Nothing that comes after the end changes it."""
    await trial.executable()
    handle = await trial.create()
    ended = _outcome(await trial.decided("deny", handle))
    await trial.do_late("approve", handle)
    await trial.update(handle.task_id, {"late": {"action": "accept", "content": {}}})
    await trial.settle()
    after = _outcome(await trial.get(handle.task_id))
    if after != ended:
        raise NotKept(f"the task had ended as {ended} and became {after}")
    if ran := await trial.count(handle):
        raise NotKept(f"the denied call was carried out {ran} times after its end")


@rule("identical-call-is-a-new-intent", GROUP, verbs=("deny",))
async def identical_call_is_a_new_intent(trial: Trial) -> None:
    """After the end, the same call is decided anew: not answered with the task that is over."""
    handle = await trial.create()
    await trial.decided("deny", handle)
    answer = await trial.call(marker=handle.marker)
    if task_of(answer) == handle.task_id:
        raise NotKept("the same call was answered with the task that had ended")
    if is_refusal(answer):
        raise NotRun(f"the same call after the end was answered with {brief(answer)}")


@rule("retention-covers-the-result", GROUP, verbs=("approve",))
async def retention_covers_the_result(trial: Trial) -> None:
    """`createdAt` plus `ttlMs` lies after the end of the task, so that the result can be fetched."""
    state = await trial.decided("approve", await trial.create())
    if state.get("ttlMs", 0) is None:
        return
    created, ended = instant(state.get("createdAt")), instant(state.get("lastUpdatedAt"))
    if created is None or ended is None or not isinstance(state.get("ttlMs"), int):
        raise NotRun("createdAt, lastUpdatedAt or ttlMs of the ended task cannot be read")
    if created + timedelta(milliseconds=state["ttlMs"]) <= ended:
        raise NotKept("createdAt plus ttlMs is not after the end of the task")


def _expect_disposition(state: Json, wanted: str) -> None:
    found = meta_of(result_of(state)).get(DISPOSITION)
    if found != wanted:
        raise NotKept(f"the disposition in the result's _meta is {found!r}, not {wanted!r}")


def _outcome(state: Json) -> tuple[Any, Any]:
    result = state.get("result")
    return state.get("status"), meta_of(result).get(DISPOSITION) if isinstance(result, dict) else None


def _says(pattern: str, text: str) -> bool:
    return re.search(pattern, text, re.IGNORECASE) is not None


CHECKS: Final[tuple[Check, ...]] = (
    approved_executes,
    executes_at_most_once,
    executed_disposition,
    executed_body,
    no_envelope_once_executed,
    terminal_denial_is_completed,
    denied_disposition,
    denied_body,
    denied_envelope,
    execution_error,
    execution_error_body,
    no_envelope_on_execution_error,
    outcome_unknown,
    outcome_unknown_body,
    failed_carries_an_error,
    reevaluates_after_approval,
    terminal_is_final,
    identical_call_is_a_new_intent,
    retention_covers_the_result,
)
