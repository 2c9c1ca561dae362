"""The first call: decide it, and turn a requestable denial into a durable task. SEP-2848, "Denied-but-requestable".

The order is what makes it safe to die anywhere: the intent with its key and exact body is committed before the backend
hears of it, the handle before the client does. Nothing here runs a tool.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

import anyio
import structlog

from mcp_gate.asking import NOTHING_OFFERED, Asking, InputNeeded, Offered, Unobtainable
from mcp_gate.backend import (
    Accepted,
    BackendStatus,
    BackendUnavailable,
    DecisionPointUnavailable,
    Denial,
    Permit,
    Supplied,
)
from mcp_gate.core import Core
from mcp_gate.errors import Unavailable
from mcp_gate.events import Cause, HandleStored, Orphaned, SubmissionRefused
from mcp_gate.lifecycle import GateTask, Phase, TaskId, retained
from mcp_gate.lifecycle import Refused as Lost
from mcp_gate.mapping import CallBinding, call_digest, question, questions
from mcp_gate.reading import capped
from mcp_gate.records import Changes, NewSubmission, NewTask
from mcp_gate.store import Caps, Joined, Limited
from mcp_gate.texts import DENIED, ENDED, IMMEDIATE, IMMEDIATE_TEXT, OVER_LIMIT, SEVERAL, UNREPRESENTABLE
from mcp_gate.views import task_fields

log = structlog.get_logger(__name__)

NOTHING_RAN: Final = "The approval service is unavailable. The tool did not run; repeat the call."


@dataclass(frozen=True, slots=True)
class RunNow:
    """The call is permitted and may run at once; `permit` is the decision."""

    permit: Permit


@dataclass(frozen=True, slots=True)
class Result:
    """The final `CallToolResult` of a call that doesn't run and became no task."""

    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class TaskCreated:
    """The `CreateTaskResult` of a call that waits for approval."""

    body: dict[str, Any]
    task_id: TaskId


Answer = RunNow | Result | InputNeeded | TaskCreated


class FollowUp(Protocol):
    """Takes note of what the backend said when it accepted a submission."""

    async def absorb(self, task: GateTask, answer: Accepted) -> None:
        """Applies a status that came with the handle, so that it need not be polled (PEP-43)."""
        ...


class Creation:
    """Answers first calls."""

    def __init__(self, core: Core, follow_up: FollowUp, *, submitting: dict[TaskId, anyio.Event]) -> None:
        self._core = core
        self._follow_up = follow_up
        # Calls in this process that are submitting right now, so that an equal one waits instead of sending again.
        self._submitting = submitting
        self._asking = Asking(core, core.store.ring)

    async def call(
        self,
        binding: CallBinding,
        *,
        tasks: bool,
        tool_fingerprint: str,
        check_arguments: Callable[[], None] = lambda: None,
        offered: Offered = NOTHING_OFFERED,
    ) -> Answer:
        """Decides the call; `check_arguments` refuses what the tool would refuse, before anybody is asked about it.

        `offered` is what the request brings along for questions that are asked before there is a task.

        Raises:
            InvalidParams: The arguments or the answers don't fit, or the state is not this call's; nothing was
                submitted.
            Unavailable: No decision was obtained, or it is unknown whether the submission arrived; nothing ran.
        """
        for warning in binding.warnings:
            log.warning(warning, tool=binding.tool)
        state = self._asking.opened(binding, offered)
        denial = await self._denial(binding)
        if isinstance(denial, Permit):
            await self._asking.spend(state)
            return RunNow(denial)
        if (final := self._final(binding, denial, tasks=tasks)) is not None:
            return final
        check_arguments()
        if state is None and (waiting := await self._waiting(binding, denial)) is not None:
            return waiting
        supplied = await self._asking.settle(binding, denial, offered, state)
        if isinstance(supplied, Unobtainable):
            return Result(self._core.wording.plain_denial(supplied.text, remediation="available"))
        if isinstance(supplied, InputNeeded):
            return supplied
        # The client's disconnect must not interrupt what has begun; the backend's time-outs bound it.
        answer: Answer | None = None
        with anyio.CancelScope(shield=True):
            answer = await self._create(binding, denial, supplied, tool_fingerprint=tool_fingerprint)
        if answer is None:
            raise Unavailable(NOTHING_RAN)
        return answer

    def _final(self, binding: CallBinding, denial: Denial, *, tasks: bool) -> Result | None:
        """The answer to a denied call for which no approval can be requested, else None."""
        wording = self._core.wording
        if not denial.requestable:  # PEP-09, PEP-31
            return Result(wording.plain_denial(DENIED))
        if binding.evaluations:  # PEP-23: by default no approval for a call that needs several decisions
            return Result(wording.plain_denial(SEVERAL))
        if binding.unrepresentable is not None:
            return Result(wording.plain_denial(UNREPRESENTABLE.format(pointer=binding.unrepresentable or "the root")))
        if not tasks:  # PEP-05: nothing is submitted for a client that can't come back
            return Result(wording.degraded())
        return None

    async def _denial(self, binding: CallBinding) -> Permit | Denial:
        """The decision; of several, the first denial (PEP-22)."""
        permit = Permit()
        for asked in questions(binding):
            try:
                decision = await self._core.backend.evaluate(asked)
            except DecisionPointUnavailable:
                raise Unavailable from None  # PEP-13
            if isinstance(decision, Denial):
                return decision
            permit = decision
        return permit

    async def _waiting(self, binding: CallBinding, denial: Denial) -> TaskCreated | None:
        """The task that the call has already, when asking would be needed for a new one (PEP-63)."""
        if denial.request_schema is None:
            return None  # the intent's own insertion finds it
        existing = await self._core.store.find_open(call_digest(binding))
        return None if existing is None else await self._join(existing)

    async def _create(
        self, binding: CallBinding, denial: Denial, supplied: Supplied, *, tool_fingerprint: str
    ) -> Answer:
        digest = call_digest(binding)
        # Twice, because an intent that is joined may turn out to be refused by the backend, while ours is fresh.
        for _ in range(2):
            made = await self._open(binding, denial, supplied, digest=digest, tool_fingerprint=tool_fingerprint)
            if not isinstance(made, Joined):
                return made
            joined = await self._join(made.task_id)
            if joined is not None:
                return joined
        return Result(self._core.wording.plain_denial(ENDED[Cause.SUBMISSION_REFUSED]))

    async def _open(
        self, binding: CallBinding, denial: Denial, supplied: Supplied, *, digest: str, tool_fingerprint: str
    ) -> Answer | Joined:
        core = self._core
        try:
            submission = core.prepare(question(binding), denial, supplied=supplied)
        except ValueError:  # PEP-38: what can't be supplied is not invented
            return Result(core.wording.plain_denial(DENIED))
        new = self._intent(binding, submission, digest=digest, tool_fingerprint=tool_fingerprint)
        sent = anyio.Event()
        self._submitting[new.task.id] = sent
        try:
            caps = Caps(core.limits.open_tasks, core.limits.intents_per_minute)
            made = await core.store.create(new, caps=caps, writing=core.writing)  # PEP-55: or joins, before submitting
            if isinstance(made, Limited):  # PEP-130
                return Result(core.wording.plain_denial(OVER_LIMIT))
            if isinstance(made, Joined):
                return made
            core.checkpoint("intent.committed")
            answer = await self._submit(made, key=submission.key, body=submission.body)
            return answer or Result(core.wording.plain_denial(ENDED[Cause.SUBMISSION_REFUSED]))
        finally:
            sent.set()
            del self._submitting[new.task.id]

    def _intent(
        self, binding: CallBinding, submission: NewSubmission, *, digest: str, tool_fingerprint: str
    ) -> NewTask:
        core, now = self._core, self._core.clock()
        task = GateTask(
            id=TaskId(core.new_id("tsk")),
            phase=Phase.INTENT,
            version=1,
            generation=1,
            created_at=now,
            updated_at=now,
            ttl_ms=0,
            pending_deadline=now + core.limits.pending,
        )
        return NewTask(
            task=retained(task, retention=core.limits.retention),
            digest=digest,
            fingerprint=tool_fingerprint,
            binding=binding,
            submission=submission,
            next_due=now + core.limits.lease,
        )

    async def _join(self, task_id: TaskId) -> TaskCreated | None:
        """The task that an equal call already has (PEP-63); None if its submission turns out to be refused."""
        if (sending := self._submitting.get(task_id)) is not None:
            await sending.wait()
        stored = await self._core.store.load(task_id)
        if stored is None or stored.task.phase is Phase.DONE:
            return None
        if stored.task.phase is not Phase.INTENT:
            return self._created(stored.task)
        sent = stored.submission
        if sent.handle is not None:  # recovered meanwhile, under the same key
            return await self._announce(stored.task, Accepted(sent.handle, BackendStatus("pending")))
        if sent.body is None or not self._core.is_repeatable(sent):
            await self._core.move(stored.task, Orphaned())
            return None
        return await self._submit(stored.task, key=sent.key, body=sent.body)

    async def _submit(self, task: GateTask, *, key: str, body: bytes) -> TaskCreated | None:
        """Submits an intent under its own key and announces the task; None if the backend refuses.

        Raises:
            Unavailable: It is unknown whether the request arrived; the intent stays, and a repeat joins it (PEP-57).
        """
        core = self._core
        try:
            answer = await core.backend.submit(body, key=key)
        except BackendUnavailable:
            raise Unavailable(NOTHING_RAN) from None
        core.checkpoint("submit.answered")
        if not isinstance(answer, Accepted):
            log.warning("submission_refused", task_id=task.id, problem=answer.problem_type, status=answer.status)
            await core.move(task, SubmissionRefused())
            return None
        return await self._announce(task, answer)

    async def _announce(self, task: GateTask, answer: Accepted) -> TaskCreated | None:
        core, now = self._core, self._core.clock()
        handle = answer.handle
        event = HandleStored(1, capped(handle.expires_at, now=now, most=core.limits.pending))
        wait = (
            core.poll_wait(0) if answer.status.retry_after is None else core.limits.wait_of(answer.status.retry_after)
        )
        moved = await core.move(task, event, changes=Changes(next_due=now + wait, handle=handle))
        if isinstance(moved, Lost):  # an equal call was faster
            again = await core.store.load(task.id)
            return self._created(again.task) if again is not None and again.task.announced else None
        core.checkpoint("handle.stored")
        await self._follow_up.absorb(moved, answer)
        return self._created(moved)

    def _created(self, task: GateTask) -> TaskCreated:
        """The answer that the client gets (PEP-10, PEP-12)."""
        body: dict[str, Any] = {"resultType": "task", **task_fields(task, self._core.limits)}
        immediate = {} if task.phase is Phase.DONE else {IMMEDIATE: IMMEDIATE_TEXT}
        body["_meta"] = {**self._core.wording.envelope_of(task.phase, task.ending), **immediate}
        return TaskCreated(body, task.id)
