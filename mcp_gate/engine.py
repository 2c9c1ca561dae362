"""The gate's engine: answers first calls, steps open tasks, and serves them to those who own them.

Wires the parts together and authorises every question about a task; what happens to a task is decided in `lifecycle`.
SEP-2848; MCP Tasks extension.
"""

import random
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import Any, Final

import anyio
import structlog

from arap_service.protocol.approval import pending_approval
from arap_service.protocol.canonical import arguments_hash
from mcp_gate.asking import NOTHING_OFFERED, Offered, answer_of
from mcp_gate.backend import ApprovalBackend, DecisionPointUnavailable, Denial, Permit
from mcp_gate.completion import Completion
from mcp_gate.core import Checkpoint, Core, FingerprintOf
from mcp_gate.creation import Answer, Creation, TaskCreated
from mcp_gate.database import StoreUnavailable
from mcp_gate.deliveries import Deliveries
from mcp_gate.duty import Duty
from mcp_gate.errors import InvalidParams, TaskNotFound, Unavailable
from mcp_gate.events import Cancel, InputSettled, WorkerLost
from mcp_gate.execution import Execute
from mcp_gate.lifecycle import Phase, TaskId, deadline, ends_at
from mcp_gate.limits import Limits
from mcp_gate.liveness import Liveness
from mcp_gate.mapping import CallBinding, Principal
from mcp_gate.poller import Poller
from mcp_gate.store import TaskStore, View
from mcp_gate.tables import InputState
from mcp_gate.texts import Wording
from mcp_gate.views import task_view
from mcp_gate.watching import Watch
from mcp_gate.writable import is_encodable, is_task_id

log = structlog.get_logger(__name__)

Json = dict[str, Any]

APPROVAL_PREFIX: Final = "io.mcp-hangar/approval"
ACKNOWLEDGED: Final[Mapping[str, Any]] = {"resultType": "complete"}
UNDECIDED: Final = "The authorization service is unavailable; nothing was done"
_HASTENED: Final = (Phase.INTENT, Phase.GRANTED, Phase.RESUBMITTING)


class Engine:
    """One engine in one process.

    `fingerprint_of` says what a tool is now; `instance` may name this process among its peers when only one process at
    a time ever bears the name; `match_client` also ties a task to the client and agent that created it (PEP-135);
    `serve_approvals` shows ADR-017's pending approval to clients that declare it (GOV-13, GOV-14).
    """

    def __init__(
        self,
        store: TaskStore,
        backend: ApprovalBackend,
        execute: Execute,
        *,
        fingerprint_of: FingerprintOf,
        clock: Callable[[], datetime],
        new_id: Callable[[str], str],
        checkpoint: Checkpoint = lambda _: None,
        limits: Limits | None = None,
        wording: Wording | None = None,
        jitter: Callable[[], float] = random.random,
        instance: str | None = None,
        match_client: bool = True,
        serve_approvals: bool = False,
        idle: timedelta = timedelta(seconds=1),
    ) -> None:
        duty = Duty(store.database)
        core = Core(
            store=store,
            duty=duty,
            backend=backend,
            execute=execute,
            fingerprint_of=fingerprint_of,
            clock=clock,
            new_id=new_id,
            checkpoint=checkpoint,
            jitter=jitter,
            limits=limits or Limits(),
            wording=wording or Wording(),
            epoch=new_id("wrk"),
        )
        self._core = core
        self._instance = instance
        self._match_client = match_client
        self._serve_approvals = serve_approvals
        self._liveness = Liveness(duty, epoch=core.epoch, instance=instance, database_file=store.database.path)
        self._is_registered = self._is_recovered = False
        self._idle = idle
        submitting: dict[TaskId, anyio.Event] = {}
        self._completion = Completion(core, wake=self.wake, submitting=submitting)
        self._creation = Creation(core, self._completion, submitting=submitting)
        self._deliveries = Deliveries(core)
        self._poller = self._poller_of(core, idle=idle)

    def _poller_of(self, core: Core, *, idle: timedelta) -> Poller:
        return Poller(
            self._completion,
            due=lambda: core.duty.due(core.clock()),
            soonest=core.duty.soonest,
            deliver=self._deliveries.deliver,
            purge=self.purge,
            clock=core.clock,
            idle=idle,
        )

    # Calls and steps ------------------------------------------------------------------------------------------------

    async def call(
        self,
        binding: CallBinding,
        *,
        tasks: bool,
        tool_fingerprint: str,
        check_arguments: Callable[[], None] = lambda: None,
        offered: Offered = NOTHING_OFFERED,
    ) -> Answer:
        """Decides a first call; `tasks` says whether this request declared the tasks extension (PEP-02).

        `check_arguments` is called before an approval is asked for, and refuses what the tool would refuse. `offered`
        is what the request brings along for questions that are asked before there is a task.

        Raises:
            InvalidParams: The arguments or answers don't fit, or the state isn't this call's; nothing was submitted.
            Unavailable: No decision, or it is unknown whether the submission arrived; nothing ran.
        """
        answer = await self._creation.call(
            binding,
            tasks=tasks,
            tool_fingerprint=tool_fingerprint,
            check_arguments=check_arguments,
            offered=offered,
        )
        # The poller looks around every `idle` anyway; a look of its own for each task would take longer than the task.
        if isinstance(answer, TaskCreated) and self._core.limits.poll_first < 2 * self._idle:
            self._poller.wake()
        return answer

    async def decide(self, asked: Json) -> Permit | Denial:
        """A decision about something that is no tool call, and that nobody is asked to approve.

        Raises:
            Unavailable: No decision was obtained.
        """
        try:
            return await self._core.backend.evaluate(asked)
        except DecisionPointUnavailable:
            raise Unavailable(UNDECIDED) from None  # PEP-13

    async def step(self, task_id: str, *, hurried: bool = False) -> datetime | None:
        """Does what is due for a task, and says when to look again."""
        return await self._completion.step(TaskId(task_id), hurried=hurried)

    async def deliver(self) -> int:
        """Brings what the outbox holds; how much that was."""
        return await self._deliveries.deliver()

    async def purge(self) -> None:
        """Deletes what is past its retention."""
        for task_id in await self._core.duty.purge(self._core.clock()):
            log.info("task_purged", task_id=task_id)

    def wake(self, task_id: str) -> None:
        """Asks for a step of the task soon; what the step finds out, it finds out itself."""
        self._poller.wake(TaskId(task_id))

    async def callback(self, *, state: str | None, backend_task_id: str) -> bool:
        """Takes an authenticated callback for a wake-up, and for nothing else (PEP-94); whether it was about a task."""
        found = await self._core.duty.task_of_callback(state=state, backend_task_id=backend_task_id)
        stored = None if found is None else await self._core.store.load(found[0])
        if found is None or stored is None:
            return False
        if stored.task.generation == found[1]:  # PEP-92: a superseded generation moves nothing
            self.wake(stored.task.id)
        return True

    async def recover(self) -> None:
        """Ends dead claims as unknown; a start also sees to intents and deliveries at once (PEP-59)."""
        core = self._core
        if not self._is_registered:
            await core.duty.register(core.epoch, instance=self._instance, now=core.clock())
            self._is_registered = True
        self._liveness.mark()
        for task_id, epoch in await core.duty.claims():
            stored = await core.store.load(task_id) if await self._liveness.is_dead(epoch) else None
            if stored is not None and stored.task.worker == epoch:
                await core.move(stored.task, WorkerLost(), seen=True)  # PEP-112
        self._liveness.sweep()
        await core.duty.hasten(_HASTENED, core.clock())
        self._is_recovered = True

    async def run(self, stop: anyio.Event) -> None:
        """Steps tasks until `stop`; recovers first if that wasn't done, as soon as the database can be used."""
        while not (self._is_recovered or stop.is_set()):
            try:
                await self.recover()
            except StoreUnavailable as error:
                log.error("recovery_postponed", reason=str(error))  # noqa: TRY400 - the reason says all
                with anyio.move_on_after(self._idle.total_seconds()):
                    await stop.wait()
        try:
            await self._poller.run(stop)
        finally:
            self._liveness.release()

    @property
    def is_recovered(self) -> bool:
        """Whether what a start must do has been done."""
        return self._is_recovered

    # What owners may ask --------------------------------------------------------------------------------------------

    async def get(self, task_id: str, principal: Principal, *, approvals: bool = False) -> Json:
        """`tasks/get`; `approvals` says whether this request declared ADR-017's extension.

        Raises:
            TaskNotFound: There is no such task for this principal.
        """
        view = await self._view(task_id, principal)
        body = task_view(view, limits=self._core.limits, wording=self._core.wording)
        if approvals and self._serve_approvals and (value := self.approval_of(view)) is not None:
            key = f"{APPROVAL_PREFIX}#{view.stored.task.generation}"
            body["inputRequests"] = {**body.get("inputRequests", {}), key: value}
        return body

    def approval_of(self, view: View) -> Json | None:
        """ADR-017's typed pending approval of an open task, with no argument in it (GOV-05)."""
        task, binding = view.stored.task, view.stored.binding
        if task.phase not in {Phase.PENDING, Phase.INPUT} or binding is None:
            return None
        return pending_approval(
            approval_id=task.id,
            server=binding.server,
            tool=binding.tool,
            arguments_hash=arguments_hash(binding.arguments),
            expires_at=deadline(task),
        )

    def watching(self, task_ids: Collection[str]) -> AbstractContextManager[Watch]:
        """A bell that rings when one of the tasks changes in this process; elsewhere they change without a sound."""
        return self._core.watchers.watching(task_ids)

    @property
    def client_poll(self) -> timedelta:
        """How often clients are told to ask."""
        return self._core.limits.client_poll

    async def update(self, task_id: str, principal: Principal, responses: Mapping[str, Any]) -> Json:
        """`tasks/update`: answers to outstanding questions; other keys are ignored (PEP-85).

        Raises:
            TaskNotFound: There is no such task for this principal.
            InvalidParams: An answer is malformed, doesn't fit its schema, or tries to approve; nothing was applied.
        """
        view = await self._view(task_id, principal)
        if any(key.startswith(APPROVAL_PREFIX) for key in responses):  # GOV-10, GOV-11, GOV-12
            log.warning("approval_by_caller_refused", task_id=task_id)
            raise InvalidParams("An approval cannot be given by the caller of the tool; no answer was applied")
        outstanding = {found.key: found for found in view.questions if found.state is InputState.OPEN}
        answers = {
            key: answer_of(key, response, schema=outstanding[key].request.schema)
            for key, response in responses.items()
            if key in outstanding
        }
        if not is_encodable(answers):
            raise InvalidParams("An answer holds characters that cannot be sent; no answer was applied")
        if answers and view.stored.task.phase is Phase.INPUT:
            still_open = await self._core.store.settle_inputs(task_id, answers, writing=self._core.writing)
            self._core.watchers.ring(task_id)
            if not still_open:
                await self._core.move(view.stored.task, InputSettled(view.stored.task.generation))
            self._poller.wake()
        return dict(ACKNOWLEDGED)

    async def cancel(self, task_id: str, principal: Principal) -> Json:
        """`tasks/cancel`: always acknowledged; it wins only before the claim (PEP-114).

        Raises:
            TaskNotFound: There is no such task for this principal.
        """
        view = await self._view(task_id, principal)
        await self._core.move(view.stored.task, Cancel())
        self._poller.wake()
        return dict(ACKNOWLEDGED)

    async def _view(self, task_id: str, principal: Principal) -> View:
        """The task, if it is this principal's; unknown, foreign and forgotten ones look alike (PEP-71, PEP-134)."""
        view = await self._core.store.view(task_id) if is_task_id(task_id) else None
        if view is None or not self._is_owner(view.stored.owner, principal):
            raise TaskNotFound
        task, binding = view.stored.task, view.stored.binding
        # The columns are for look-ups; what is sealed with the call says for certain whose it is (PEP-131).
        if binding is not None and not self._is_owner(binding.principal, principal):
            log.error("task_owner_broken", task_id=task.id)
            raise TaskNotFound
        if not task.announced or (task.phase is Phase.DONE and self._core.clock() >= ends_at(task)):
            raise TaskNotFound
        return view

    def _is_owner(self, owner: Principal, asking: Principal) -> bool:
        if (owner.iss, owner.sub) != (asking.iss, asking.sub):
            return False
        return not self._match_client or (owner.client_id, owner.agent) == (asking.client_id, asking.agent)
