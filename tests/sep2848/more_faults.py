"""Gates with one fault each that is easily overlooked: what runs unseen, who sees what later, what is said where."""

import json
from typing import ClassVar

from tests.sep2848.faults import Broken, DenialBroken, ShowsTasksToAnybody
from tests.sep2848.plain_gate import DISPOSITION, PENDING, PREFIX, Json, Refusal

COUNTING = frozenset(
    {
        *("denial-is-not-executed", "executes-at-most-once", "reevaluates-after-approval", "terminal-is-final"),
        *("cancelled-never-executes", "expired-never-executes"),
    }
)


class RunsUnseen(Broken):
    """What nobody approved is carried out, and no answer says so."""

    def ran_for(self, arguments: Json) -> Json:
        """The executed task of the same marker; empty if there is none."""
        done = (task for task in self.tasks.values() if task.get("cause") == "approved-executed")
        return next((task for task in done if task["marker"] == arguments.get("memo")), {})

    def run_at_once(self, tool: str, arguments: Json, principal: str) -> Json:
        """Announce a task like any other, and carry it out."""
        task = self.open(tool, arguments, principal)
        announced = self.created(task)
        self.execute(task)
        return announced


class RunsAnotherToolBehindItsTask(RunsUnseen):
    found_by = "changed-tool"

    async def create(self, tool: str, arguments: Json, principal: str) -> Json:
        if self.ran_for(arguments).get("tool", tool) != tool:
            return self.run_at_once(tool, arguments, principal)
        return await super().create(tool, arguments, principal)


class AnswersAnotherToolWithTheEndedTask(RunsUnseen):
    found_by = "changed-tool"

    async def create(self, tool: str, arguments: Json, principal: str) -> Json:
        done = self.ran_for(arguments)
        if done.get("tool", tool) != tool:
            return self.created(done)
        return await super().create(tool, arguments, principal)


class RunsOtherArgumentsAsWell(RunsUnseen):
    found_by = "changed-arguments"

    async def call(self, params: Json, principal: str, *, with_tasks: bool, modern: bool) -> Json:
        given: Json = params.get("arguments", {})
        done: Json = self.ran_for(given).get("arguments", given)
        if done.get("amount") != given.get("amount") and "taskId" not in params:
            self.ran.append(given["memo"])
        return await super().call(params, principal, with_tasks=with_tasks, modern=modern)


class RunsBehindTheTaskThatIsNamed(RunsUnseen):
    found_by = "handle-is-not-authority"

    async def call(self, params: Json, principal: str, *, with_tasks: bool, modern: bool) -> Json:
        named = params.get("_meta", {}).get(PREFIX + "related-task", {}).get("taskId", "")
        if self.tasks.get(named, {}).get("cause") == "approved-executed":
            return self.run_at_once(params["name"], params["arguments"], principal)
        return await super().call(params, principal, with_tasks=with_tasks, modern=modern)


class RunsForOldClients(Broken):
    found_by = "handshake-client-gets-no-task"

    def explain(self, *, modern: bool) -> Json:
        return super().explain(modern=modern) if modern else self.tool_result(["7 sent.", "The tool ran."])


class RunsForOldClientsUnseen(Broken):
    found_by = "handshake-client-gets-no-task"

    async def call(self, params: Json, principal: str, *, with_tasks: bool, modern: bool) -> Json:
        if not modern:
            self.ran.append(params["arguments"]["memo"])
        return await super().call(params, principal, with_tasks=with_tasks, modern=modern)


class RunsForWhoDeclaresNothing(Broken):
    found_by = "undeclared-client"

    async def call(self, params: Json, principal: str, *, with_tasks: bool, modern: bool) -> Json:
        if modern and not with_tasks:
            self.ran.append(params["arguments"]["memo"])
        return await super().call(params, principal, with_tasks=with_tasks, modern=modern)


class RunsWhatItDenies(Broken):
    found_by = "non-requestable-denial"

    async def call(self, params: Json, principal: str, *, with_tasks: bool, modern: bool) -> Json:
        if params["name"] == "forbidden":
            self.ran.append(params["arguments"]["memo"])
        return await super().call(params, principal, with_tasks=with_tasks, modern=modern)


class RunsTheDeniedUnseen(Broken):
    found_by = "terminal-is-final"

    def approve(self, marker: str) -> None:
        super().approve(marker)
        self.ran += [
            marker for task in self.tasks.values() if task["marker"] == marker and task.get("cause") == "denied"
        ]


class ClaimsThatItRan(Broken):
    found_by = "approved-executes"
    hinders = COUNTING

    def restart(self) -> None:
        super().restart()
        for task in self.tasks.values():
            task["waited"] = True

    def execute(self, task: Json) -> None:
        super().execute(task)
        if not task.get("waited"):
            self.ran.remove(task["marker"])


class RunsAgainAfterRestart(Broken):
    found_by = "result-survives-restart"

    def restart(self) -> None:
        super().restart()
        self.ran += [task["marker"] for task in self.tasks.values() if task.get("cause") == "approved-executed"]


class ReopensTheCancelled(Broken):
    found_by = "cancelled-never-executes"

    def approve(self, marker: str) -> None:
        super().approve(marker)
        for task in self.tasks.values():
            if task["marker"] == marker and task["status"] == "cancelled":
                self.move(task, "failed", "It was approved too late.")


class ShowsEndedTasksToAnybody(Broken):
    found_by = "other-principal-cannot-get"

    def on_task(self, method: str, params: Json, principal: str) -> Json:
        task = self.tasks.get(params.get("taskId", ""))
        if task is not None and method == "tasks/get" and task["status"] not in PENDING:
            principal = task["principal"]
        return super().on_task(method, params, principal)


class AddsAnErrorToWhatItShows(ShowsTasksToAnybody):
    found_by = "other-principal-cannot-get"

    async def answer(self, message: Json, *, principal: str) -> list[Json]:
        sent = await super().answer(message, principal=principal)
        return [one | {"error": None} if "result" in one else one for one in sent]


class LetsAnybodyAnswer(Broken):
    found_by = "other-principal-cannot-update"

    def on_task(self, method: str, params: Json, principal: str) -> Json:
        task = self.tasks.get(params.get("taskId", ""))
        if task is not None and method == "tasks/update" and task["status"] == "input_required":
            principal = task["principal"]
        return super().on_task(method, params, principal)


class LetsAnybodyAnswerAndRefuses(Broken):
    found_by = "other-principal-cannot-update"

    def on_task(self, method: str, params: Json, principal: str) -> Json:
        task = self.tasks.get(params.get("taskId", ""))
        if task is not None and method == "tasks/update" and task["status"] == "input_required":
            self.update(task, params["inputResponses"])
        return super().on_task(method, params, principal)


class SaysYesToAnybodysCancel(Broken):
    found_by = "other-principal-cannot-cancel"

    def on_task(self, method: str, params: Json, principal: str) -> Json:
        task = self.tasks.get(params.get("taskId", ""))
        if task is not None and method == "tasks/cancel" and task["principal"] != principal:
            return self.acknowledged(method, task)
        return super().on_task(method, params, principal)


class FailsWhenAnswered(Broken):
    found_by = "input-through-the-task"

    def update(self, task: Json, responses: Json) -> None:
        super().update(task, responses)
        if not task["questions"]:
            self.move(task, "failed", "The approval service failed. The tool did not run.")


class TakesNoAnswers(Broken):
    found_by = "input-through-the-task"
    hinders = frozenset({"update-is-acknowledged"})

    def update(self, task: Json, responses: Json) -> None:
        raise Refusal(-32602, "Invalid params")


class AsksForNothing(Broken):
    found_by = "input-before-submission"
    hinders = frozenset({"input-retry-must-match"})

    async def call(self, params: Json, principal: str, *, with_tasks: bool, modern: bool) -> Json:
        found = await super().call(params, principal, with_tasks=with_tasks, modern=modern)
        return self.tool_result(["Thank you."]) if "requestState" in params else found


class AsksInACompleteResult(Broken):
    found_by = "input-before-submission"

    def questions(self, token: str) -> Json:
        return super().questions(token) | {"resultType": "complete"}


class SaysBoth(DenialBroken):
    found_by = "denied-body"

    def spoil(self, result: Json) -> None:
        text = "The tool ran and 50000 were sent; it was not called again."
        result["content"] = [{"type": "text", "text": text}]


class Tells(Broken):
    """The backend shows in a place that is looked at seldom."""

    found_at: ClassVar[str] = ""

    def shown(self, task: Json) -> Json:
        state = super().shown(task)
        if task["status"] == self.found_at or task.get("cause") == self.found_at:
            state["_meta"] = {**state.get("_meta", {}), **self.told()}
        return state

    def told(self) -> Json:
        """What is told."""
        return {"trace": {"evaluation_id": "e-1"}}


class TellsOnceCancelled(Tells):
    found_by, found_at = "no-backend-artifact", "cancelled"


class TellsOnceExpired(Tells):
    found_by, found_at = "no-backend-artifact", "expired"


class TellsOnceFailed(Tells):
    found_by, found_at = "no-backend-artifact", "failed"


class TellsOnceOverruled(Tells):
    found_by, found_at = "no-backend-artifact", "overruled"


class TellsWhileItAsks(Tells):
    found_by, found_at = "no-backend-artifact", "input_required"


class TellsInAName(Tells):
    found_by, found_at = "no-backend-artifact", "denied"

    def told(self) -> Json:
        return {"Binding-7F3A": 1}


class TellsInAText(Tells):
    found_by, found_at = "no-backend-artifact", "denied"

    def told(self) -> Json:
        return {"trace": json.dumps([{"status_endpoint": "https://approvals.example/t/1"}])}


class TellsInAHeader(Broken):
    found_by = "no-backend-artifact"

    def headers(self) -> dict[str, str]:
        return {"x-approvals-binding-token": "t-1"}


class TellsInTheValueOfAHeader(Broken):
    found_by = "no-backend-artifact"

    def headers(self) -> dict[str, str]:
        return {"server-timing": "binding-7f3a;dur=1"}


class SaysLittle(Broken):
    found_by = "undeclared-client-guidance"

    def explain(self, *, modern: bool) -> Json:
        return self.tool_result(["No."], is_error=True)


class PollsInFractions(Broken):
    found_by = "handle-shape"

    def created(self, task: Json) -> Json:
        return super().created(task) | {"pollIntervalMs": 0.5}


class HasAStatusOfItsOwn(Broken):
    found_by = "tasks-get-shape"

    def looked_at(self, task: Json) -> Json:
        state = super().looked_at(task)
        is_first = not task.get("looked_at")
        task["looked_at"] = True
        return state | {"status": "submitted"} if is_first and task["status"] == "working" else state

    def restart(self) -> None:
        super().restart()
        for task in self.tasks.values():
            task["looked_at"] = True


class DeniesWithoutSayingSo(Broken):
    found_by = "non-requestable-denial"

    def forbidden(self) -> Json:
        return super().forbidden() | {"isError": False}


class HasADispositionTooEarly(Broken):
    found_by = "pending-is-not-presented-as-done"

    def looked_at(self, task: Json) -> Json:
        state = super().looked_at(task)
        if task["status"] == "working":
            state["_meta"] = {**state.get("_meta", {}), DISPOSITION: "denied-not-executed"}
        return state


class CallsFailureOfTheToolFailed(Broken):
    found_by = "execution-error"
    hinders = frozenset({"execution-error-body"})

    def execute(self, task: Json) -> None:
        super().execute(task)
        if task["tool"] == "fails":
            self.move(task, "failed", "The tool ran and failed.")


class FailsWithAResult(Broken):
    found_by = "failed-carries-an-error"

    def shown(self, task: Json) -> Json:
        state = super().shown(task)
        return state | {"result": self.tool_result(["Failed."])} if task["status"] == "failed" else state


class UsesTwoIds(Broken):
    found_by = "task-ids-are-unguessable"

    def __init__(self) -> None:
        super().__init__()
        self.beginnings = super().new_id(), super().new_id()

    def new_id(self) -> str:
        number = len(self.tasks)
        return f"{self.beginnings[number % 2]}{number:04d}"
