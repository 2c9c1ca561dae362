"""Group `input`: what a request for approval asks of the caller flows through the task, or through the call itself."""

from collections.abc import Mapping
from typing import Any, Final

from mcp_gate.conformance.model import Check, Json, NotApplicable, NotKept, NotRun
from mcp_gate.conformance.trial import TERMINAL, Handle, Trial, brief, has_run, is_refusal, rule, task_of
from mcp_gate.conformance.wire import Wire

GROUP: Final = "input"
EXAMPLES: Final[Mapping[str, Any]] = {"string": "conformance", "integer": 1, "number": 1, "boolean": True}


@rule("input-through-the-task", GROUP, verbs=("ask",))
async def input_through_the_task(trial: Trial) -> None:
    """The question shows on `tasks/get`, is answered by `tasks/update`, and the task goes on."""
    handle = await trial.create()
    shown = await asked(trial, handle)
    requests = shown.get("inputRequests")
    if not isinstance(requests, dict) or not requests or not all(_is_request(one) for one in requests.values()):
        raise NotKept("a task that is input_required has no inputRequests with a method and params each")
    answer = await trial.update(handle.task_id, answers(trial, requests))
    if is_refusal(answer):
        raise NotKept(f"tasks/update with answers to every question was refused: {brief(answer)}")
    state = await trial.until(
        handle.task_id,
        lambda state: (
            state.get("status") != "input_required" or not set(state.get("inputRequests", {})) & set(requests)
        ),
        "going on after its questions were answered",
    )
    if state.get("status") in {"failed", "cancelled"}:
        raise NotKept(f"the task whose questions were answered is {state.get('status')!r}, and does not go on")


@rule("update-is-acknowledged", GROUP, verbs=("ask",))
async def update_is_acknowledged(trial: Trial) -> None:
    """`tasks/update` is answered with an empty complete result."""
    handle = await trial.create()
    shown = await asked(trial, handle)
    answer = await trial.update(handle.task_id, answers(trial, questions_of(shown)))
    result = answer.get("result")
    if not isinstance(result, dict):
        raise NotRun(f"tasks/update was answered with {brief(answer)}")
    if result.get("resultType") != "complete" or result.keys() - {"resultType", "_meta"}:
        raise NotKept(f"the acknowledgement is no empty complete result: {brief(answer)}")


@rule("input-keys-are-validated", GROUP, verbs=("ask",))
async def input_keys_are_validated(trial: Trial) -> None:
    """An answer to a question that was not asked answers nothing."""
    handle = await trial.create()
    requests = questions_of(await asked(trial, handle))
    await trial.update(handle.task_id, {"not-asked": {"action": "accept", "content": {}}})
    await trial.settle()
    state = await trial.get(handle.task_id)
    if state.get("status") != "input_required" or set(state.get("inputRequests", {})) != set(requests):
        raise NotKept("an answer under another key changed what is asked")


@rule("input-is-not-elicited-apart", GROUP, verbs=("ask",))
async def input_is_not_elicited_apart(trial: Trial) -> None:
    """No request of the server's own reaches the client beside the task."""
    await asked(trial, await trial.create())
    for exchange in trial.exchanges:
        came = exchange.came if isinstance(exchange.came, list) else [exchange.came]
        apart = [one for one in came if isinstance(one, dict) and "method" in one and "id" in one]
        if apart:
            raise NotKept(f"the server sent a request of its own: {apart[0]['method']}")


@rule("input-before-submission", GROUP, calls=("before",))
async def input_before_submission(trial: Trial) -> None:
    """The call is answered with questions and no task; the same call with the answers becomes the task."""
    marker = trial.new_marker()
    result = await _questions(trial, marker)
    if result.get("resultType") != "input_required":
        raise NotKept(f"the resultType of an answer with questions is {result.get('resultType')!r}")
    if "taskId" in result:
        raise NotKept("one answer carries both input_required and a task")
    again = await _retried(trial, marker, result)
    if task_of(again) is None:
        raise NotKept(f"the call with its answers did not become a task: {brief(again)}")


@rule("input-retry-must-match", GROUP, calls=("before",))
async def input_retry_must_match(trial: Trial) -> None:
    """The answers belong to the call that was asked, by its arguments and its caller."""
    marker = trial.new_marker()
    if task_of(await _retried(trial, marker, await _questions(trial, marker))) is None:
        raise NotRun("the answers of the very call that was asked are not taken either")
    marker = trial.new_marker()
    result = await _questions(trial, marker)
    changed = await _retried(trial, trial.new_marker(), result)
    if _is_taken(changed):
        raise NotKept("the requestState of one call was accepted for another: its arguments differed")
    if trial.other is not None:
        other = await trial.someone_else()
        if _is_taken(await _retried(trial, marker, result, wire=other)):
            raise NotKept("the requestState of one caller was accepted from another")


def answers(trial: Trial, requests: Json) -> Json:
    """An accepted answer to every form, with the control file's values or plain ones."""
    return {key: {"action": "accept", "content": _content(trial, one)} for key, one in requests.items()}


def _content(trial: Trial, request: Any) -> Json:
    params = request.get("params") if isinstance(request, dict) else None
    schema = params.get("requestedSchema") if isinstance(params, dict) else None
    properties = schema.get("properties") if isinstance(schema, dict) else None
    given = trial.control.answers
    return {
        name: given[name] if name in given else _example(member)
        for name, member in (properties if isinstance(properties, dict) else {}).items()
    }


def _example(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return "conformance"
    if isinstance(schema.get("enum"), list) and schema["enum"]:
        return schema["enum"][0]
    return EXAMPLES.get(str(schema.get("type")), "conformance")


async def asked(trial: Trial, handle: Handle) -> Json:
    """The task once it asks its client for something.

    Raises:
        NotRun: It never did.
    """
    await trial.do("ask", handle)
    state = await trial.until(
        handle.task_id, lambda state: state.get("status") in {"input_required", *TERMINAL}, "input_required"
    )
    if state.get("status") != "input_required":
        raise NotRun(f"the task that was to ask ended as {state.get('status')!r}")
    return state


def questions_of(state: Json) -> Json:
    """What it asks.

    Raises:
        NotRun: Nothing.
    """
    requests = state.get("inputRequests")
    if not isinstance(requests, dict) or not requests:
        raise NotRun("the task that is input_required has no inputRequests")
    return requests


def _is_request(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("method"), str) and isinstance(value.get("params"), dict)


async def _questions(trial: Trial, marker: str) -> Json:
    answer = await trial.call("before", marker=marker)
    result = answer.get("result")
    if not isinstance(result, dict) or not isinstance(result.get("inputRequests"), dict):
        raise NotApplicable(f"the call before is not answered with questions: {brief(answer)}")
    return result


def _is_taken(answer: Json) -> bool:
    """Whether the answers were: an error, a denial, and the same questions anew all say no."""
    return task_of(answer) is not None or has_run(answer)


async def _retried(trial: Trial, marker: str, asked: Json, *, wire: Wire | None = None) -> Json:
    more: dict[str, Any] = {"inputResponses": answers(trial, asked["inputRequests"])}
    if "requestState" in asked:
        more["requestState"] = asked["requestState"]
    return await trial.call("before", marker=marker, wire=wire, **more)


CHECKS: Final[tuple[Check, ...]] = (
    input_through_the_task,
    update_is_acknowledged,
    input_keys_are_validated,
    input_is_not_elicited_apart,
    input_before_submission,
    input_retry_must_match,
)
