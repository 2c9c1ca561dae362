"""The gate's durable state: applies what the lifecycle decided, and decides nothing itself.

One unit of work per method. A transition, its effects, its sealed parts and its audit line are one transaction, and the
time that the lifecycle is asked about is read inside it. SQLite and PostgreSQL. SEP-2848, "Crash-consistent creation";
design section 8.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final, Self

from sqlalchemy import Connection

from arap_service.protocol.sealing import KeyRing, SealBroken
from mcp_gate import parts, statements
from mcp_gate.backend import Handle
from mcp_gate.database import Database
from mcp_gate.events import Approved, Event
from mcp_gate.lifecycle import (
    CancelAtBackend,
    GateTask,
    Phase,
    Refused,
    ReportExecution,
    TaskId,
    Transition,
    decide,
    retained,
)
from mcp_gate.mapping import CallBinding, Principal
from mcp_gate.parts import Writing
from mcp_gate.records import (
    NO_CHANGES,
    Changes,
    NewTask,
    Question,
    StoredTask,
    Submission,
    Vault,
    opened,
    wrapped_key,
)
from mcp_gate.tables import Delivery, InputState

_RACES: Final = 8


@dataclass(frozen=True, slots=True)
class Caps:
    """How much one principal may have: open tasks, and intents within `window`."""

    open_tasks: int
    intents: int
    window: timedelta = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Limited:
    """The principal has too much open, or asked too often (PEP-130)."""


@dataclass(frozen=True, slots=True)
class Joined:
    """The same call has an open task or intent already (PEP-63)."""

    task_id: TaskId


@dataclass(frozen=True, slots=True)
class View:
    """What a client may ask about: the task, its questions, and its result once there is one."""

    stored: StoredTask
    questions: tuple[Question, ...]
    result: Mapping[str, Any] | None


class TaskStore:
    """The tasks of a gate."""

    def __init__(self, database: Database, ring: KeyRing) -> None:
        self.database: Final = database
        self.ring: Final = ring

    @classmethod
    def open(cls, url: str, ring: KeyRing) -> Self:
        """Opens the database at `url`, whose tables `mcp_gate.migrate` made.

        Raises:
            StoreUnavailable: It can't be opened, reached or written.
        """
        return cls(Database.open(url), ring)

    async def aclose(self) -> None:
        """Closes every connection."""
        await self.database.aclose()

    # Creation and reading -------------------------------------------------------------------------------------------

    async def create(self, new: NewTask, *, caps: Caps, writing: Writing) -> GateTask | Joined | Limited:
        """Records an intent before the backend hears of it, or says why not."""

        def work(connection: Connection) -> GateTask | Joined | Limited:
            who = new.binding.principal
            statements.lock_owner(connection, f"{who.iss}|{who.sub}")
            if (existing := statements.open_task_of(connection, new.digest)) is not None:
                return Joined(TaskId(existing.id))
            now = writing.clock()
            if statements.count_open(connection, who.iss, who.sub) >= caps.open_tasks:
                return Limited()
            if statements.count_created_since(connection, who.iss, who.sub, now - caps.window) >= caps.intents:
                return Limited()
            if not self._insert(connection, new):
                existing = statements.open_task_of(connection, new.digest)
                return Joined(TaskId(existing.id)) if existing is not None else Limited()
            detail = {"tool": new.binding.tool, "server": new.binding.server, "digest": new.digest, "sub": who.sub}
            parts.audit(connection, new.task.id, at=now, kind="intent", detail=detail)
            return new.task

        return await self.database.write(work)

    def _insert(self, connection: Connection, new: NewTask) -> bool:
        task_id, who = new.task.id, new.binding.principal
        wrapped = wrapped_key(self.ring, task_id)
        vault = Vault(self.ring, task_id, wrapped)
        more = {
            "digest": new.digest,
            "fingerprint": new.fingerprint,
            "server": new.binding.server,
            "tool": new.binding.tool,
            "iss": who.iss,
            "sub": who.sub,
            "client_id": who.client_id,
            "agent": who.agent,
            "data_key": wrapped,
            "binding": vault.seal_json("gate_task.binding", new.binding.to_json()),
            "next_due": new.next_due,
        }
        if not statements.insert_task(connection, new.task, more):
            return False
        parts.insert_submission(connection, vault, new.task, new.submission)
        return True

    async def find_open(self, digest: str) -> TaskId | None:
        """The open task or intent of a call."""

        def work(connection: Connection) -> TaskId | None:
            row = statements.open_task_of(connection, digest)
            return None if row is None else TaskId(row.id)

        return await self.database.read(work)

    async def load(self, task_id: str) -> StoredTask | None:
        """The task with its current submission."""

        def work(connection: Connection) -> StoredTask | None:
            row = statements.task_row(connection, task_id)
            return None if row is None else self._stored(connection, row)

        return await self.database.read(work)

    async def view(self, task_id: str) -> View | None:
        """The task as a client may ask about it."""

        def work(connection: Connection) -> View | None:
            row = statements.task_row(connection, task_id)
            if row is None:
                return None
            vault = self._vault(row)
            stored = self._stored(connection, row)
            if stored.binding is None:  # PEP-133: without it nobody can tell whose the sealed parts are
                return View(stored, (), None)
            sealed = opened(vault, "gate_outcome.result", statements.outcome_of(connection, task_id))
            questions = parts.questions(connection, vault, task_id)
            return View(stored, questions, None if sealed is None else json.loads(sealed))

        return await self.database.read(work)

    def _vault(self, row: statements.AnyRow) -> Vault | None:
        try:
            return Vault(self.ring, row.id, row.data_key)
        except SealBroken:
            return None

    def _stored(self, connection: Connection, row: statements.AnyRow) -> StoredTask:
        vault = self._vault(row)
        sent = statements.submission_row(connection, row.id, row.generation)
        if sent is None:
            raise LookupError(f"task {row.id} has no submission of generation {row.generation}")
        binding = opened(vault, "gate_task.binding", row.binding)
        approval = opened(vault, "gate_task.approval", row.approval, part=str(row.generation))
        return StoredTask(
            task=statements.to_task(row),
            digest=row.digest,
            fingerprint=row.fingerprint,
            server=row.server,
            tool=row.tool,
            owner=Principal(row.iss, row.sub, row.client_id, row.agent),
            submission=parts.read_submission(vault, sent),
            binding=None if binding is None else CallBinding.from_json(json.loads(binding)),
            approval=None if approval is None else json.loads(approval),
            next_due=row.next_due,
        )

    # Transitions ----------------------------------------------------------------------------------------------------

    async def transact(
        self, task_id: str, event: Event, *, writing: Writing, seen: int | None = None, changes: Changes = NO_CHANGES
    ) -> GateTask | Refused:
        """Asks the lifecycle what `event` does to the task as it is now, and writes that with everything it entails.

        `seen` refuses when the task is no longer at that version. Losing a race to somebody else is a refusal, too.
        """

        def work(connection: Connection) -> GateTask | Refused:
            for _ in range(_RACES):
                row = statements.task_row(connection, task_id)
                if row is None or (seen is not None and row.version != seen):
                    return Refused("not_in_this_phase")
                decided = decide(statements.to_task(row), event, now=writing.clock())
                if isinstance(decided, Refused):
                    return decided
                written = self._apply(connection, row, decided, event=event, changes=changes, writing=writing)
                if written is not None:
                    return written
            return Refused("not_in_this_phase")

        return await self.database.write(work)

    def _apply(
        self,
        connection: Connection,
        row: statements.AnyRow,
        decided: Transition,
        *,
        event: Event,
        changes: Changes,
        writing: Writing,
    ) -> GateTask | None:
        before, after = decided.before, retained(decided.after, retention=writing.retention)
        vault = self._vault(row)
        more: dict[str, Any] = {"next_due": None if after.phase is Phase.DONE else changes.next_due or after.updated_at}
        if isinstance(event, Approved) and vault is not None:
            part = str(after.generation)
            more["approval"] = vault.seal_json("gate_task.approval", changes.approval, part=part)
        if after.phase is Phase.RESUBMITTING:
            more["approval"] = None
        if not statements.replace_task(connection, before, after, more):
            return None
        if vault is not None:
            parts.write_parts(connection, vault, before, after, event=event, changes=changes)
        if before.phase is Phase.INPUT and after.phase is not Phase.INPUT:  # PEP-85: by whatever way it left
            statements.withdraw_questions(connection, after.id)
        for effect in decided.effects:
            kind = Delivery.CANCEL if isinstance(effect, CancelAtBackend) else Delivery.REPORT
            said = effect.disposition if isinstance(effect, ReportExecution) else None
            parts.insert_delivery(connection, after, kind, generation=effect.generation, said=said, writing=writing)
        detail = {"from": before.phase, "generation": after.generation, "cause": after.cause, "ending": after.ending}
        known = {name: value for name, value in {**detail, **(changes.audit or {})}.items() if value is not None}
        parts.audit(connection, after.id, at=after.updated_at, kind=after.phase, detail=known)
        return after

    async def reschedule(self, task: GateTask, *, next_due: datetime, attempts: int) -> None:
        """When to look at an unchanged task again."""
        await self.database.write(
            lambda connection: statements.set_due(
                connection, task.id, task.version, next_due=next_due, attempts=attempts
            )
        )

    async def prolong(self, task: GateTask, *, deadline: datetime, next_due: datetime, writing: Writing) -> bool:
        """Takes over a request deadline that the backend moved, with a `ttlMs` that covers it (PEP-74)."""

        def work(connection: Connection) -> bool:
            after = replace(task, pending_deadline=deadline, version=task.version + 1, updated_at=writing.clock())
            after = retained(after, retention=writing.retention)
            return statements.replace_task(connection, task, after, {"next_due": next_due})

        return await self.database.write(work)

    async def keep_handle(self, task_id: str, generation: int, handle: Handle) -> None:
        """Keeps a recovered handle, or links that the backend added; the task's phase doesn't change."""

        def work(connection: Connection) -> None:
            row = statements.task_row(connection, task_id)
            vault = None if row is None else self._vault(row)
            if vault is not None:
                parts.set_handle(connection, vault, task_id, generation, handle=handle)

        await self.database.write(work)

    async def handle_of(self, task_id: str, generation: int) -> Submission | None:
        """One generation's submission, superseded ones included."""

        def work(connection: Connection) -> Submission | None:
            row = statements.task_row(connection, task_id)
            sent = statements.submission_row(connection, task_id, generation)
            if row is None or sent is None:
                return None
            return parts.read_submission(self._vault(row), sent)

        return await self.database.read(work)

    async def begin_invocation(self, task: GateTask, *, worker: str, writing: Writing) -> bool:
        """Whether this worker may invoke the tool now; true at most once per task (PEP-111, PEP-113)."""
        return await self.database.write(
            lambda connection: statements.begin_invocation(
                connection, task.id, worker=worker, version=task.version, now=writing.clock()
            )
        )

    async def settle_inputs(
        self, task_id: str, answers: Mapping[str, Mapping[str, Any] | None], *, writing: Writing
    ) -> bool:
        """Records answers, None for a refusal to answer, and says whether any question is still open.

        Unknown and settled keys are ignored. The answers travel to the backend from the outbox.
        """

        def work(connection: Connection) -> bool:
            row = statements.task_row(connection, task_id)
            vault = None if row is None else self._vault(row)
            if row is None or vault is None or row.phase != Phase.INPUT:
                return False
            task = statements.to_task(row)
            for key, answer in answers.items():
                state = InputState.DECLINED if answer is None else InputState.ANSWERED
                sealed = None if answer is None else vault.seal_json("gate_input.answer", answer, part=key)
                settled = statements.settle_question(connection, task, key, state=state, answer=sealed)
                if settled and answer is not None:
                    parts.insert_delivery(
                        connection, task, Delivery.ANSWER, generation=task.generation, said=key, writing=writing
                    )
            rows = statements.question_rows(connection, task_id)
            return any(row.state == InputState.OPEN and row.generation == task.generation for row in rows)

        return await self.database.write(work)

    async def take_back_answer(self, task_id: str, key: str) -> None:
        """Forgets an answer that the backend refused, so that the question may be put again under another key."""
        await self.database.write(lambda connection: statements.withdraw_answer(connection, task_id, key))

    async def questions(self, task_id: str) -> tuple[Question, ...]:
        """Every question of a task, settled ones included."""

        def work(connection: Connection) -> tuple[Question, ...]:
            row = statements.task_row(connection, task_id)
            return () if row is None else parts.questions(connection, self._vault(row), task_id)

        return await self.database.read(work)
