"""What a check is given: the service through each caller's token, the deployment's hands, and ways to wait.

Whatever keeps a check from reaching its question is `NotRun`, never a verdict about the rule.
"""

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Final

import anyio

from arap_service.conformance.control import Control, Hands, Input
from arap_service.conformance.listener import Call, Listener
from arap_service.conformance.seeing import ENDS, approval_of
from arap_service.conformance.wire import Answer, NoAnswer, Wire
from blackbox_kit.hands import Declined
from blackbox_kit.model import Json, NotApplicable, NotRun

MACHINERY: Final = frozenset({"access_request", "evaluation_id", "evaluated_at", "reason", "approval"})
KEY: Final = "idempotency-key"
CLEANING_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class Denial:
    """A requestable denial, and the question that it answers."""

    question: Json
    added: Input
    context: Json
    offer: Json
    marker: str
    answer: Answer

    @property
    def token(self) -> str | None:
        """Its binding token."""
        token = self.offer.get("binding_token")
        return token if isinstance(token, str) else None

    @property
    def evaluation_id(self) -> str | None:
        """The evaluation's id."""
        found = self.context.get("evaluation_id")
        return found if isinstance(found, str) else None

    def echoed(self) -> Json:
        """The member `denial` of a submission."""
        found = {
            name: self.context[name] for name in ("evaluation_id", "evaluated_at", "reason") if name in self.context
        }
        taken = ("expires_at", "binding_token", "template")
        return found | {name: self.offer[name] for name in taken if name in self.offer}

    def body(self) -> Json:
        """The submission that the draft wants for this denial."""
        question = deepcopy(self.question)
        context = {name: value for name, value in question.get("context", {}).items() if name not in MACHINERY}
        context |= self.added.context
        found = {name: question[name] for name in ("subject", "resource", "action")} | {"denial": self.echoed()}
        if context:
            found["context"] = context
        return found | ({"requested_access": self.added.requested_access} if self.added.requested_access else {})

    def body_by_id(self) -> Json:
        """The same, bound by the evaluation id alone."""
        body = self.body()
        body["denial"].pop("binding_token", None)
        return body


@dataclass(frozen=True, slots=True)
class Task:
    """An accepted request."""

    id: str
    status_endpoint: str
    created: Answer
    denial: Denial
    body: Json
    key: str
    role: str = "pep"

    @property
    def cancel_url(self) -> str | None:
        """Where it can be cancelled."""
        links = (self.created.task or {}).get("links")
        url = links.get("cancel") if isinstance(links, dict) else None
        return url if isinstance(url, str) else None


@dataclass(slots=True)
class Trial:
    """The surroundings of one check. `metadata` and `profiles` are what was read before."""

    target: str
    metadata: Json
    metadata_answer: Answer
    profiles: frozenset[str]
    wire: Wire
    hands: Hands
    tokens: Mapping[str, str]
    new_marker: Callable[[], str]
    listener: Listener | None = None
    secrets: Mapping[str, str] = field(default_factory=dict)
    made: list[Task] = field(default_factory=list)

    @property
    def control(self) -> Control:
        """What the deployment declares."""
        return self.hands.control

    # ---- requests ----

    async def ask(self, method: str, url: str, *, role: str | None = "pep", **more: Any) -> Answer:
        """The answer to a request, as whoever has the role; None is nobody.

        Raises:
            NotRun: None came.
        """
        try:
            return await self.wire.ask(method, url, token=None if role is None else self.tokens.get(role), **more)
        except NoAnswer as error:
            raise NotRun(f"{method} {url}: {error}") from None

    def endpoint(self, name: str) -> str:
        """An endpoint of the metadata.

        Raises:
            NotRun: It is not there.
        """
        url = self.metadata.get(name)
        if not isinstance(url, str):
            raise NotRun(f"the metadata has no {name}")
        return url

    def endpoint_of(self, denial: Denial) -> str:
        """Where a request for a denial goes."""
        named = denial.offer.get("endpoint")
        return named if isinstance(named, str) else self.endpoint("access_request_endpoint")

    async def keys(self) -> list[Any]:
        """The published keys.

        Raises:
            NotRun: There are none.
        """
        answer = await self.ask("GET", self.endpoint("jwks_uri"), role=None)
        keys = answer.document.get("keys")
        if not answer.is_success or not isinstance(keys, list):
            raise NotRun(f"jwks_uri was answered with {answer.brief()}")
        return keys

    async def evaluate(self, question: Json, *, approval: Any = None, role: str = "pep") -> Answer:
        """The decision point's answer, an approval carried along where one is given."""
        if approval is not None:
            question = question | {"context": {**question.get("context", {}), "approval": approval}}
        return await self.ask("POST", self.endpoint("access_evaluation_endpoint"), role=role, body=question)

    async def permits(self, question: Json, *, approval: Any = None, role: str = "pep") -> bool:
        """Whether it is permitted.

        Raises:
            NotRun: There is no decision.
        """
        answer = await self.evaluate(question, approval=approval, role=role)
        decision = answer.document.get("decision")
        if not isinstance(decision, bool):
            raise NotRun(f"an evaluation was answered with {answer.brief()}")
        return decision

    def question(self, name: str, marker: str) -> Json:
        """A question of the control file."""
        return self.control.questions[name].asked(marker)

    def other(self, denial: Denial, part: str) -> Json:
        """The question of a denial with another subject, resource or action: the control file's, or an invented one.

        Raises:
            NotRun: The control file's question differs in something else, or in nothing.
        """
        if (name := f"other_{part}") in self.control.questions:
            asked = self.question(name, denial.marker)
            parts = ("subject", "resource", "action", "context")
            if [one for one in parts if asked.get(one) != denial.question.get(one)] != [part]:
                raise NotRun(f"control: {name} does not differ from requestable in its {part} and in that alone")
            return asked
        other, member = deepcopy(denial.question), "name" if part == "action" else "id"
        other[part][member] = f"{other[part].get(member)}-other"
        return other

    async def denied(
        self,
        name: str = "requestable",
        *,
        marker: str | None = None,
        role: str = "pep",
        alter: Callable[[Json], None] | None = None,
    ) -> Denial:
        """A requestable denial.

        Raises:
            NotRun: The question was answered otherwise.
        """
        marker = marker or self.new_marker()
        asked = deepcopy(self.question(name, marker))
        if alter is not None:
            alter(asked)
        answer = await self.evaluate(asked, role=role)
        context = answer.document.get("context")
        offer = context.get("access_request") if isinstance(context, dict) else None
        if answer.document.get("decision") is not False or not isinstance(context, dict) or not isinstance(offer, dict):
            raise NotRun(f"the question {name} is no requestable denial: {answer.brief()}")
        return Denial(asked, self.control.questions[name].added(marker), context, offer, marker, answer)

    async def submit(self, denial: Denial, body: Json | None = None, *, key: str | None = None, **more: Any) -> Answer:
        """The answer to a submission; a task that it opens is cancelled after the check."""
        body, role = denial.body() if body is None else body, more.pop("role", "pep")
        url = self.endpoint_of(denial)
        key = key or self.new_marker()
        sent = {"raw": more.pop("raw")} if "raw" in more else {"body": body}
        answer = await self.ask("POST", url, role=role, headers={KEY: f'"{key}"'}, **sent, **more)
        if (task := self._task(answer, denial, body, key, role or "pep")) is not None:
            self.made.append(task)
        return answer

    def _task(self, answer: Answer, denial: Denial, body: Json, key: str, role: str) -> Task | None:
        task = answer.task if answer.is_success else None
        if task is None or not isinstance(task.get("id"), str) or not isinstance(task.get("status_endpoint"), str):
            return None
        return Task(task["id"], task["status_endpoint"], answer, denial, body, key, role)

    async def open(self, name: str = "requestable", **more: Any) -> Task:
        """A request that was accepted.

        Raises:
            NotRun: It was not.
        """
        denial = await self.denied(name, marker=more.pop("marker", None))
        change = more.pop("change", None)
        body = denial.body() | (change or {})
        return self.accepted(await self.submit(denial, body, **more))

    async def open_as(self, role: str) -> Task:
        """A request that another caller opened, and sees: what is kept from it shows nothing where it can do nothing.

        Raises:
            NotRun: It cannot.
        """
        try:
            task = self.accepted(await self.submit(await self.denied(role=role), role=role))
        except NotRun as error:
            raise NotRun(f"the token {role} opens no task of its own: {error}") from None
        seen = await self.look(task, role=role)
        if not seen.is_success or seen.task is None:
            raise NotRun(f"the token {role} does not see a task of its own: {seen.brief()}")
        return task

    def accepted(self, answer: Answer) -> Task:
        """The task of the last submission.

        Raises:
            NotRun: There is none.
        """
        if self.made and self.made[-1].created is answer:
            return self.made[-1]
        raise NotRun(f"a submission was answered with {answer.brief()}")

    async def look(self, task: Task, *, role: str | None = "pep") -> Answer:
        """The answer of the status endpoint."""
        return await self.ask("GET", task.status_endpoint, role=role)

    async def state(self, task: Task) -> Json:
        """The whole answer of the status endpoint.

        Raises:
            NotRun: There is no task in it.
        """
        answer = await self.look(task)
        if not answer.is_success or answer.task is None:
            raise NotRun(f"the status endpoint of a task that exists was answered with {answer.brief()}")
        return answer.document

    async def status(self, task: Task) -> Any:
        """The status."""
        return (await self.state(task))["task"].get("status")

    async def cancel(self, task: Task, *, role: str | None = "pep", body: Json | None = None) -> Answer:
        """The answer to a cancellation.

        Raises:
            NotRun: The task cannot be cancelled.
        """
        if task.cancel_url is None:
            raise NotRun("the task has no links.cancel")
        return await self.ask("POST", task.cancel_url, role=role, body=body)

    async def cancel_late(self, task: Task) -> Answer:
        """The answer to a cancellation that comes too late; of the status where nothing can be cancelled."""
        return await self.look(task) if task.cancel_url is None else await self.cancel(task)

    # ---- waiting ----

    async def until(self, task: Task, is_there: Callable[[Json], bool], what: str) -> Json:
        """The status answer once `is_there` holds.

        Raises:
            NotRun: It never did.
        """
        seconds, found = self.control.seconds, {}
        with anyio.move_on_after(seconds.end):
            while True:
                found = await self.state(task)
                if is_there(found):
                    return found
                await anyio.sleep(seconds.poll)
        status = found.get("task", {}).get("status")
        raise NotRun(f"the task was not {what} within {seconds.end:g} s; its status is {status!r}")

    async def ended(self, task: Task) -> Json:
        """The status answer once the task has ended; a status of the service's own is no end."""
        return await self.until(task, lambda found: found["task"].get("status") in ENDS, "at its end")

    async def called(self, task: Task) -> list[Call]:
        """The callbacks about a task, once there is one; none if none comes in time."""
        listener = self.ear()
        with anyio.move_on_after(self.control.seconds.end):
            while True:
                if found := listener.about(task.id):
                    return found
                await anyio.sleep(0.05)
        return []

    async def settle(self) -> None:
        """Give the service time to do what it must not."""
        await anyio.sleep(self.control.seconds.settle)

    # ---- the deployment ----

    async def do(self, verb: str, task: Task | None, *, item: int = 0) -> None:
        """Have the deployment do something."""
        named = {"task": "", "marker": ""} if task is None else {"task": task.id, "marker": task.denial.marker}
        await self.hands.do(verb, item=str(item), **named)

    async def do_late(self, verb: str, task: Task, *, proof: str) -> None:
        """The same after an end. A deployment may well refuse; that it can at all is then seen at a new task.

        Raises:
            NotRun: It cannot be asked, or the new task does not get the status `proof` by it either.
        """
        try:
            await self.do(verb, task)
        except Declined:
            fresh = await self.open()
            await self.do(verb, fresh)
            if (status := (await self.ended(fresh))["task"].get("status")) != proof:
                raise NotRun(f"control: {verb} made a new task {status!r}, not {proof}") from None

    async def approved(self, task: Task, verb: str = "approve") -> Json:
        """The approval that a task ends with.

        Raises:
            NotRun: It ends otherwise.
        """
        await self.do(verb, task)
        found = await self.ended(task)
        approval = approval_of(found)
        if found["task"].get("status") != "approved" or approval is None:
            raise NotRun(f"after {verb} the task is {found['task'].get('status')!r}, or has no approval to look at")
        return approval

    def ear(self) -> Listener:
        """Who listens for callbacks.

        Raises:
            NotApplicable: Nobody.
        """
        if self.listener is None:
            raise NotApplicable("the control file has no callbacks")
        return self.listener

    async def clean(self) -> None:
        """Cancel what is left open, so that nobody has to decide it."""
        with anyio.move_on_after(CLEANING_SECONDS):
            for task in self.made:
                if task.cancel_url is not None and (task.created.task or {}).get("status") == "pending":
                    try:
                        await self.wire.ask("POST", task.cancel_url, token=self.tokens.get(task.role))
                    except NoAnswer:
                        return
