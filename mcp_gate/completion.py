"""One step of an open task: look at the backend, re-evaluate, wait, resubmit, or hand over to the invocation.

A step leases the task, so that other processes leave it alone, and does what its phase asks for until nothing is left
to do now. What an answer means is decided in `reading` and `lifecycle`. SEP-2848, "Lifecycle and task status",
"Completion".
"""

from collections.abc import Callable, Collection, Container
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final, assert_never

import structlog

from arap_service.protocol.canonical import Unrepresentable
from mcp_gate.backend import (
    Accepted,
    BackendStatus,
    BackendUnavailable,
    DecisionPointUnavailable,
    Denial,
    InputQuestion,
    Permit,
)
from mcp_gate.core import Core, artifacts_of
from mcp_gate.errors import GateError
from mcp_gate.events import (
    Approved,
    Cause,
    ChainRequested,
    Due,
    ExecutionOverdue,
    Expire,
    FailedClosed,
    HandleStored,
    InputAsked,
    InputSettled,
    Orphaned,
    PolicyDenied,
    RetryLater,
    SubmissionAbandoned,
    SubmissionRefused,
)
from mcp_gate.invocation import Invocation
from mcp_gate.lifecycle import GateTask, Phase, Refused, TaskId, deadline
from mcp_gate.limits import backoff
from mcp_gate.mapping import call_digest, question
from mcp_gate.reading import capped, read_status
from mcp_gate.records import Changes, Question, StoredTask
from mcp_gate.tables import InputState
from mcp_gate.views import is_elicitable

log = structlog.get_logger(__name__)

# Phases that a callback or a restart may hurry; a wait that the decision point asked for is not among them (PEP-100).
HURRIED: Final = (Phase.INTENT, Phase.INPUT, Phase.PENDING, Phase.GRANTED, Phase.RESUBMITTING)
_MOST_STEPS: Final = 32
# How often one version of a question is put to the client, when its answers were refused or it was withdrawn.
MOST_ASKED: Final = 5
LARGEST_VERSION: Final = 2**31 - 1


class Completion:
    """Steps tasks; `wake` asks for a step soon, `submitting` holds the intents that a call is still working on."""

    def __init__(self, core: Core, *, wake: Callable[[TaskId], None], submitting: Container[TaskId]) -> None:
        self._core = core
        self._wake = wake
        self._submitting = submitting
        self._invocation = Invocation(core)

    async def step(self, task_id: TaskId, *, hurried: bool = False) -> datetime | None:
        """Does what is due for the task, and says when to look again; None when it is done or not to be touched."""
        core = self._core
        early = HURRIED if hurried else ()
        if not await core.duty.take(task_id, now=core.clock(), lease=core.limits.lease, early=early):
            return None
        for _ in range(_MOST_STEPS):
            stored = await core.store.load(task_id)
            if stored is None or stored.task.phase is Phase.DONE:
                return None
            if not await self._advance(stored):
                break
        stored = await core.store.load(task_id)
        return None if stored is None else stored.next_due

    async def _advance(self, stored: StoredTask) -> bool:
        """Whether there is more to do at once."""
        match stored.task.phase:
            case Phase.INTENT:
                return await self._reconcile(stored)
            case Phase.PENDING | Phase.INPUT:
                return await self._poll(stored)
            case Phase.GRANTED:
                return await self._reevaluate(stored)
            case Phase.WAITING:
                return await self._resume(stored)
            case Phase.RESUBMITTING:
                return await self._resubmit(stored)
            case Phase.CLAIMED:
                return await self._watch(stored)
            case Phase.DONE:
                return False
            case _:
                assert_never(stored.task.phase)

    def _leased(self) -> datetime:
        """Until when a transition in the middle of a step keeps other processes off the task."""
        return self._core.clock() + self._core.limits.lease

    # Intents --------------------------------------------------------------------------------------------------------

    async def _reconcile(self, stored: StoredTask) -> bool:
        """Recovers an intent's handle under its key, and gives it up when nobody repeats the call (PEP-59)."""
        core, task, sent = self._core, stored.task, stored.submission
        over = task.created_at + core.limits.grace
        if task.id in self._submitting:
            await core.later(task, core.limits.lease, by=over, attempts=0)
            return False
        if sent.handle is None and sent.body is not None and core.is_repeatable(sent):
            try:
                answer = await core.backend.submit(sent.body, key=sent.key)
            except BackendUnavailable:
                pass  # its cancellation will recover it when the backend is back
            else:
                if not isinstance(answer, Accepted):  # PEP-60: for example the denial is too old by now
                    await core.move(task, SubmissionRefused())
                    return False
                await core.store.keep_handle(task.id, task.generation, answer.handle)
        if core.clock() >= over:
            await core.move(task, Orphaned())
        else:
            await core.later(task, core.poll_wait(task.attempts), by=over, attempts=task.attempts + 1)
        return False

    # Waiting for the backend ----------------------------------------------------------------------------------------

    async def absorb(self, task: GateTask, answer: Accepted) -> None:
        """Applies the status that came with an accepted submission (PEP-43)."""
        taken = await self._take(task, answer.status)
        if taken is not None and taken.phase is Phase.GRANTED:
            self._wake(task.id)

    async def _poll(self, stored: StoredTask) -> bool:
        core, task, handle = self._core, stored.task, stored.submission.handle
        status = None
        wait = core.poll_wait(task.attempts)
        if handle is not None:  # it doesn't open when the database was tampered with
            try:
                status = await core.backend.status(handle)
            except BackendUnavailable as error:
                wait = wait if error.retry_after is None else core.limits.wait_of(error.retry_after)
        if status is not None:
            taken = await self._take(task, status)
            if taken is not None:
                return taken.phase is not Phase.INPUT
            if status.retry_after is not None:  # PEP-45
                wait = core.limits.wait_of(status.retry_after)
            if status.handle is not None:
                await core.store.keep_handle(task.id, task.generation, status.handle)
        return await self._keep_waiting(task, wait, until=self._moved_deadline(stored, status))

    async def _keep_waiting(self, task: GateTask, wait: timedelta, *, until: datetime) -> bool:
        core = self._core
        if until != task.pending_deadline:  # also an earlier one, and before it is looked whether it has passed
            due = min(core.clock() + wait, until)
            if not await core.store.prolong(task, deadline=until, next_due=due, writing=core.writing):
                return True
            core.watchers.ring(task.id)
        if core.clock() >= until:  # PEP-46, PEP-47: whatever the backend says or doesn't
            await core.move(task, Expire())
        elif until == task.pending_deadline:
            await core.later(task, wait, by=until, attempts=task.attempts + 1)
        return False

    def _moved_deadline(self, stored: StoredTask, status: BackendStatus | None) -> datetime:
        if status is None or status.expires_at is None:
            return stored.task.pending_deadline
        return capped(status.expires_at, now=stored.submission.created_at, most=self._core.limits.pending)

    async def _take(self, task: GateTask, status: BackendStatus) -> GateTask | None:
        """Applies a status; the task as it is then, if that changed its phase."""
        core = self._core
        event = read_status(status, generation=task.generation, now=core.clock(), limits=core.limits)
        if event is None:
            return await self._converse(task, status)
        result = None
        if not isinstance(event, Approved) and event.cause is Cause.DENIED:
            result = core.wording.completed(
                Cause.DENIED, decision_text=status.decision_text, proposed=status.proposed_arguments
            )
        changes = Changes(approval=status.approval, handle=status.handle, result=result, next_due=self._leased())
        moved = await core.move(task, event, changes=changes)
        if isinstance(moved, Refused):
            return None
        if moved.phase is Phase.GRANTED:
            core.checkpoint("grant.stored")
        return moved

    async def _converse(self, task: GateTask, status: BackendStatus) -> GateTask | None:
        """Follows the backend's questions; the task as it is then, if that changed its phase (PEP-85)."""
        core = self._core
        if task.phase is Phase.PENDING and not status.questions:
            return None
        asked = [question for question in status.questions if _is_askable(question)]
        if len(asked) < len(status.questions):
            log.warning("question_not_elicitable", task_id=task.id)
        known = [found for found in await core.store.questions(task.id) if found.generation == task.generation]
        unknown = tuple(question for question in asked if not _is_known(question, known))
        moved: GateTask | Refused
        if task.phase is Phase.INPUT:
            still = {question.version for question in asked}
            is_withdrawn = any(found.state is InputState.OPEN and found.version not in still for found in known)
            if not (unknown or is_withdrawn):
                return None
            # Withdrawn, or joined by another: what the backend still asks is put again at once, under other keys.
            moved = await core.move(task, InputSettled(task.generation))
        elif unknown:
            changes = Changes(questions=unknown, handle=status.handle, next_due=core.clock() + core.poll_wait(0))
            moved = await core.move(task, InputAsked(task.generation), changes=changes)
        else:
            return None
        return None if isinstance(moved, Refused) else moved

    # Re-evaluation --------------------------------------------------------------------------------------------------

    async def _resume(self, stored: StoredTask) -> bool:
        moved = await self._core.move(stored.task, Due(), changes=Changes(next_due=self._leased()))
        if isinstance(moved, Refused) and moved.reason == "deadline_passed":  # PEP-49, PEP-100
            await self._core.move(stored.task, Expire())
        return not isinstance(moved, Refused)

    async def _reevaluate(self, stored: StoredTask) -> bool:
        core, task, binding = self._core, stored.task, stored.binding
        if core.clock() >= deadline(task):
            await core.move(task, Expire())
            return False
        if binding is None or stored.approval is None or not _is_intact(stored):
            log.error("call_binding_broken", task_id=task.id)  # PEP-68: an alarm, because only tampering does that
            await core.move(task, FailedClosed(Cause.BINDING_BROKEN), seen=True)
            return False
        try:
            if await core.fingerprint_of(binding.tool) != stored.fingerprint:  # PEP-105
                await core.move(task, FailedClosed(Cause.TOOL_CHANGED), seen=True)
                return False
            decision = await core.backend.evaluate(question(binding), approval=stored.approval)  # PEP-98
        except (DecisionPointUnavailable, GateError):
            decision = Denial(next_action="retry")
        if isinstance(decision, Permit):
            await self._invocation.carry_out(stored, decision)
            return False
        return await self._denied(stored, decision)

    async def _denied(self, stored: StoredTask, denial: Denial) -> bool:
        core, task = self._core, stored.task
        if denial.next_action == "retry":
            wait = self._retry_wait(task) if denial.retry_after is None else core.limits.wait_of(denial.retry_after)
            at = min(core.clock() + wait, deadline(task))
            moved = await core.move(task, RetryLater(at), seen=True, changes=Changes(next_due=at))
            if isinstance(moved, Refused) and moved.reason == "deadline_passed":
                await core.move(task, Expire())
            return False
        if not denial.requestable or stored.binding is None:
            await core.move(task, PolicyDenied(), seen=True)  # PEP-103
            return False
        try:
            # PEP-102: the fresh denial's; what was answered once for this call is not asked for again.
            submission = core.prepare(question(stored.binding), denial, supplied=stored.submission.supplied)
        except ValueError:
            await core.move(task, PolicyDenied(), seen=True)
            return False
        # PEP-126: the tool may echo what it heard of any generation, and only the latest one is at hand at the claim.
        artifacts = {*submission.artifacts, *artifacts_of(stored)}
        submission = replace(submission, artifacts=tuple(sorted(artifacts)))
        event = ChainRequested(limit=1 + core.limits.chain, deadline=core.clock() + core.limits.pending)
        changes = Changes(submission=submission, next_due=self._leased())
        moved = await core.move(task, event, seen=True, changes=changes)
        if isinstance(moved, Refused) and moved.reason == "deadline_passed":
            await core.move(task, Expire())
        return not isinstance(moved, Refused)

    def _retry_wait(self, task: GateTask) -> timedelta:
        limits = self._core.limits
        return backoff(task.attempts, first=limits.poll_first, most=limits.poll_most, jitter=self._core.jitter)

    async def _resubmit(self, stored: StoredTask) -> bool:
        core, task, sent = self._core, stored.task, stored.submission
        limit = min(sent.created_at + core.limits.resubmission, task.pending_deadline)
        if sent.body is None or not core.is_repeatable(sent):
            await core.move(task, SubmissionAbandoned())
            return False
        try:
            answer = await core.backend.submit(sent.body, key=sent.key)
        except BackendUnavailable as error:
            if core.clock() >= limit:  # PEP-89
                await core.move(task, SubmissionAbandoned())
                return False
            wait = (
                core.poll_wait(task.attempts) if error.retry_after is None else core.limits.wait_of(error.retry_after)
            )
            await core.later(task, wait, by=limit, attempts=task.attempts + 1)
            return False
        core.checkpoint("submit.answered")
        if not isinstance(answer, Accepted):
            await core.move(task, SubmissionRefused())
            return False
        now = core.clock()
        event = HandleStored(task.generation, capped(answer.handle.expires_at, now=now, most=core.limits.pending))
        due = now + core.poll_wait(0)
        moved = await core.move(task, event, changes=Changes(handle=answer.handle, next_due=due))
        if isinstance(moved, Refused):
            return False
        core.checkpoint("handle.stored")
        taken = await self._take(moved, answer.status)
        return taken is not None and taken.phase is not Phase.INPUT

    # Claims ---------------------------------------------------------------------------------------------------------

    async def _watch(self, stored: StoredTask) -> bool:
        """Ends a claim whose time is over; somebody may still be at it until then (PEP-77)."""
        moved = await self._core.move(stored.task, ExecutionOverdue())
        if isinstance(moved, Refused) and moved.reason == "deadline_not_reached":
            until = deadline(stored.task)
            await self._core.store.reschedule(stored.task, next_due=until, attempts=0)
        return False


def _is_intact(stored: StoredTask) -> bool:
    """Whether the stored call is the one whose digest was stored with it (PEP-68)."""
    try:
        return stored.binding is not None and call_digest(stored.binding) == stored.digest
    except Unrepresentable:
        return False


def _is_askable(asked: InputQuestion) -> bool:
    return is_elicitable(asked.schema) and abs(asked.version) <= LARGEST_VERSION


def _is_known(asked: InputQuestion, known: Collection[Question]) -> bool:
    """Whether the client has this question or has settled it; a withdrawn one that comes back is asked again."""
    same = [found for found in known if found.version == asked.version]
    return len(same) >= MOST_ASKED or any(found.state is not InputState.WITHDRAWN for found in same)
