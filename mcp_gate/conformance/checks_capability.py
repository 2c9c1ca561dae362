"""Group `capability`: what the server declares, and what clients get that did not declare tasks."""

from typing import Any, Final

from mcp_gate.conformance.model import Check, Json, Level, NotApplicable, NotKept, NotRun
from mcp_gate.conformance.transports import NoAnswer
from mcp_gate.conformance.trial import Trial, brief, has_run, is_refusal, rule, task_of, text_of
from mcp_gate.conformance.wire import APPROVAL, TASKS, Refused

GROUP: Final = "capability"
MISSING_CAPABILITY: Final = -32021
AS_THE_SEP_HAS_IT: Final = -32003
SHORTEST_GUIDANCE: Final = 20
SERVERS_FAULT: Final = 500


def declared(answer: Json) -> set[str]:
    """The extensions that a server declares in its answer to `server/discover`."""
    result = answer.get("result")
    capabilities = result.get("capabilities") if isinstance(result, dict) else None
    extensions = capabilities.get("extensions") if isinstance(capabilities, dict) else None
    return set(extensions) if isinstance(extensions, dict) else set()


@rule("capability-declared", GROUP, calls=(), always=True)
async def capability_declared(trial: Trial) -> None:
    """Both extensions stand in the server's capabilities."""
    answer = (await trial.reply("server/discover", {})).answer
    if missing := {TASKS, APPROVAL} - declared(answer):
        raise NotKept(f"server/discover does not declare {' and '.join(sorted(missing))}")


@rule("undeclared-client", GROUP)
async def undeclared_client(trial: Trial) -> None:
    """A client without tasks gets the error, or a denial that explains; never a task, never the tool's result."""
    marker = trial.new_marker()
    answer = await trial.call(marker=marker, tasks=False)
    if task_of(answer) is not None:
        raise NotKept("a client that did not declare tasks got a task")
    await trial.settle()
    if ran := await trial.count_of("gated", marker):
        raise NotKept(f"the call of a client that did not declare tasks was carried out {ran} times")
    if isinstance(answer.get("result"), dict):
        if answer["result"].get("isError") is not True:
            raise NotKept(f"the call was not denied: {brief(answer)}")
        return
    if not _names_tasks(answer):
        raise NotKept(f"the error does not name {TASKS} with code -32021 (or -32003): {brief(answer)}")


@rule("undeclared-client-guidance", GROUP, level=Level.SHOULD)
async def undeclared_client_guidance(trial: Trial) -> None:
    """The denial is a result that the model can read, with something to do next in it."""
    answer = await trial.call(tasks=False)
    if task_of(answer) is not None:
        raise NotRun("a client that did not declare tasks got a task")
    if is_refusal(answer):
        raise NotKept(f"the client got an error instead of a result with guidance: {brief(answer)}")
    if len(text_of(answer["result"])) < SHORTEST_GUIDANCE:
        raise NotKept("the result has no text that would tell what to do next")


@rule("task-methods-need-capability", GROUP)
async def task_methods_need_capability(trial: Trial) -> None:
    """`tasks/get` of a client that did not declare tasks is an error with the code of the tasks extension."""
    handle = await trial.create()
    for method in ("tasks/get", "tasks/update", "tasks/cancel"):
        params: dict[str, Any] = {"taskId": handle.task_id}
        if method == "tasks/update":
            params["inputResponses"] = {}
        answer = (await trial.reply(method, params, tasks=False)).answer
        code = answer["error"].get("code") if isinstance(answer.get("error"), dict) else None
        if code != MISSING_CAPABILITY:
            raise NotKept(f"{method} without the capability was answered with {brief(answer)}, not error -32021")


@rule("handshake-client-gets-no-task", GROUP)
async def handshake_client_gets_no_task(trial: Trial) -> None:
    """A client of the handshake era declares nothing per request, so it gets no task, nor what needs an approval."""
    if trial.open_another is None:
        raise NotApplicable("this transport has one connection only")
    async with trial.open_another() as wire:
        try:
            headers = await wire.shake_hands()
        except Refused as error:
            raise NotApplicable(f"the server does not take clients of the handshake era ({error})") from None
        except NoAnswer as error:
            if error.status is not None and error.status < SERVERS_FAULT:
                raise NotApplicable(f"the server does not take clients of the handshake era ({error})") from None
            raise NotRun(f"initialize: {error}") from None
        call, marker = trial.control.calls["gated"], trial.new_marker()
        params = {"name": call.tool, "arguments": call.marked(marker)}
        try:
            answer = (await wire.raw("tools/call", params, headers=headers)).answer
        except NoAnswer as error:
            raise NotRun(f"tools/call: {error}") from None
    if task_of(answer) is not None or (isinstance(answer.get("result"), dict) and "task" in answer["result"]):
        raise NotKept("a client of the handshake era got a task")
    await trial.settle()
    if has_run(answer) or await trial.count_of("gated", marker):
        raise NotKept("a client of the handshake era had the call carried out, and nobody had approved it")


def _names_tasks(answer: Json) -> bool:
    error = answer.get("error")
    if not isinstance(error, dict) or error.get("code") not in {MISSING_CAPABILITY, AS_THE_SEP_HAS_IT}:
        return False
    data = error.get("data")
    required = data.get("requiredCapabilities") if isinstance(data, dict) else None
    extensions = required.get("extensions") if isinstance(required, dict) else None
    return isinstance(extensions, dict) and TASKS in extensions


CHECKS: Final[tuple[Check, ...]] = (
    capability_declared,
    undeclared_client,
    undeclared_client_guidance,
    task_methods_need_capability,
    handshake_client_gets_no_task,
)
