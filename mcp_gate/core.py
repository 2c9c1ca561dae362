"""What every part of the engine works with, and the one way in which it moves a task."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import structlog

from mcp_gate.backend import NOTHING, ApprovalBackend, Denial, Handle, Supplied
from mcp_gate.duty import Duty
from mcp_gate.events import Event
from mcp_gate.execution import Execute
from mcp_gate.inputs import fault, submitted
from mcp_gate.lifecycle import GateTask, Refused
from mcp_gate.limits import Limits, backoff
from mcp_gate.parts import Writing
from mcp_gate.records import NO_CHANGES, Changes, NewSubmission, StoredTask, Submission
from mcp_gate.store import TaskStore
from mcp_gate.texts import Wording, strings_in
from mcp_gate.watching import Watchers

log = structlog.get_logger(__name__)

Checkpoint = Callable[[str], None]
FingerprintOf = Callable[[str], Awaitable[str | None]]
"""What a tool is now (see `mapping.fingerprint`), or None when there is no such tool any more."""

_DENIAL_ARTIFACTS = (
    "evaluation_id",
    "binding_token",
    "endpoint",
    "form_url",
    "request_schema_url",
    "request_catalogs_url",
)


@dataclass(frozen=True, slots=True)
class Core:
    """The parts of one engine; `epoch` names this process among those that ever held claims."""

    store: TaskStore
    duty: Duty
    backend: ApprovalBackend
    execute: Execute
    fingerprint_of: FingerprintOf
    clock: Callable[[], datetime]
    new_id: Callable[[str], str]
    checkpoint: Checkpoint
    jitter: Callable[[], float]
    limits: Limits
    wording: Wording
    epoch: str
    watchers: Watchers = field(default_factory=Watchers)

    @property
    def writing(self) -> Writing:
        """What the store needs for a write."""
        return Writing(self.clock, self.new_id, self.limits.retention)

    async def move(
        self, task: GateTask, event: Event, *, seen: bool = False, changes: Changes = NO_CHANGES
    ) -> GateTask | Refused:
        """Lets `event` happen to the task; `seen` insists on the version that the event was concluded from."""
        version = task.version if seen else None
        moved = await self.store.transact(task.id, event, writing=self.writing, seen=version, changes=changes)
        if isinstance(moved, Refused):
            log.info("task_event_refused", task_id=task.id, transition=type(event).__name__, reason=moved.reason)
        else:
            self.watchers.ring(task.id)
            log.info(
                "task_moved",
                task_id=task.id,
                transition=type(event).__name__,
                phase=moved.phase,
                generation=moved.generation,
                ending=moved.ending,
                cause=moved.cause,
            )
        return moved

    async def later(self, task: GateTask, wait: timedelta, *, by: datetime, attempts: int) -> None:
        """Looks at an unchanged task again after `wait`, but no later than `by`."""
        now = self.clock()
        await self.store.reschedule(task, next_due=max(now, min(now + wait, by)), attempts=attempts)

    def is_repeatable(self, sent: Submission) -> bool:
        """Whether the backend still knows the key, so that a repeat finds the same request (PEP-60, PEP-62)."""
        return self.clock() < sent.created_at + self.limits.reconciliation

    def poll_wait(self, attempts: int) -> timedelta:
        """The wait before the backend is asked again: from several seconds to a minute (PEP-44)."""
        return backoff(attempts, first=self.limits.poll_first, most=self.limits.poll_most, jitter=self.jitter)

    def prepare(self, question: Mapping[str, Any], denial: Denial, *, supplied: Supplied = NOTHING) -> NewSubmission:
        """A submission for `denial` under a fresh key (PEP-61).

        Raises:
            ValueError: What the denial demands isn't supplied, or can't be.
        """
        if fault(denial.request_schema, question, supplied) is not None:  # PEP-38
            raise ValueError("the denial demands more input")
        given, state = submitted(question, supplied), self.new_id("cbs")
        body = self.backend.submission_body(
            {**question, "context": given["context"]},
            denial,
            requested_access=given["requested_access"] or None,
            callback_state=state,
        )
        return NewSubmission(
            key=self.new_id("key"),
            body=body,
            callback_state=state,
            artifacts=tuple(sorted(denial_artifacts(denial))),
            supplied=supplied,
        )


def denial_artifacts(denial: Denial) -> set[str]:
    """The strings of a denial that must never reach a client (PEP-126)."""
    sources = (denial.context, denial.access_request or {})
    return strings_in([source[name] for source in sources for name in _DENIAL_ARTIFACTS if name in source])


def artifacts_of(stored: StoredTask) -> Collection[str]:
    """Every string of the backend's that a tool's result must not carry to a client."""
    approval = stored.approval or {}
    found = {*stored.submission.artifacts, stored.submission.key}
    found |= strings_in([approval[name] for name in ("id", "state") if name in approval])
    return found | (handle_artifacts(stored.submission.handle) if stored.submission.handle else set())


def handle_artifacts(handle: Handle) -> set[str]:
    """The strings of a handle."""
    urls = (handle.status_endpoint, handle.cancel_url, handle.report_url, handle.input_url)
    return {handle.task_id, *(url for url in urls if url is not None)}
