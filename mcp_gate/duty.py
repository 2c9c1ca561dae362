"""What is due: leases on tasks and deliveries, retention, and who holds claims. Beside `store`, over one database.

Plain bookkeeping; no phase changes here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from mcp_gate import statements
from mcp_gate.database import Database
from mcp_gate.lifecycle import Phase, TaskId
from mcp_gate.records import DueDelivery, reference
from mcp_gate.tables import Delivery, DeliveryState

BATCH: Final = 100


@dataclass(frozen=True, slots=True)
class AuditLine:
    """One line of a task's record."""

    at: datetime
    kind: str
    detail: str


class Duty:
    """What is due in one gate database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def take(self, task_id: str, *, now: datetime, lease: timedelta, early: Sequence[Phase] = ()) -> bool:
        """Whether the open task could be taken: its time has come, or it is in a phase that may be looked at early."""
        return await self._database.write(
            lambda connection: statements.lease(connection, task_id, now=now, until=now + lease, early=early)
        )

    async def due(self, now: datetime) -> list[TaskId]:
        """Tasks whose time has come."""
        return await self._database.read(lambda connection: statements.due_tasks(connection, now, BATCH))

    async def soonest(self) -> datetime | None:
        """When the next task or delivery is due."""
        return await self._database.read(statements.soonest)

    async def hasten(self, phases: Sequence[Phase], now: datetime) -> None:
        """Makes the tasks in these phases due now, and every delivery: whoever had taken one may be dead."""

        def work(connection: Any) -> None:
            statements.hasten(connection, phases, now)
            statements.hasten_deliveries(connection, now)

        await self._database.write(work)

    async def claims(self) -> list[tuple[TaskId, str]]:
        """Every claim without an outcome, and the epoch that holds it."""
        return await self._database.read(statements.claims)

    async def register(self, epoch: str, *, instance: str | None, now: datetime) -> None:
        """Announces a process that may hold claims."""
        await self._database.write(
            lambda connection: statements.insert_worker(connection, epoch, instance=instance, now=now)
        )

    async def instance_of(self, epoch: str) -> str | None:
        """The configured name of the process behind an epoch."""
        return await self._database.read(lambda connection: statements.instance_of(connection, epoch))

    async def task_of_callback(self, *, state: str | None, backend_task_id: str) -> tuple[TaskId, int] | None:
        """Task and generation that a callback speaks of."""
        state_ref = None if state is None else reference(state)
        wanted = reference(backend_task_id)

        def work(connection: Any) -> tuple[TaskId, int] | None:
            row = statements.submission_by_reference(connection, state_ref=state_ref, handle_ref=wanted)
            if row is None or (row.handle_ref is not None and row.handle_ref != wanted):  # PEP-95
                return None
            return TaskId(row.task_id), row.generation

        return await self._database.read(work)

    async def deliveries(self, now: datetime, *, lease: timedelta) -> list[DueDelivery]:
        """Deliveries whose time has come, taken."""
        rows = await self._database.write(
            lambda connection: statements.lease_deliveries(connection, now=now, until=now + lease, limit=BATCH)
        )
        return [
            DueDelivery(
                id=row.id,
                task_id=TaskId(row.task_id),
                kind=Delivery(row.kind),
                generation=row.generation,
                reference=row.reference,
                attempts=row.attempts,
                created_at=row.created_at,
            )
            for row in rows
        ]

    async def settle(self, delivery: DueDelivery, *, state: DeliveryState, due_at: datetime) -> None:
        """What became of an attempt."""
        await self._database.write(
            lambda connection: statements.settle_delivery(
                connection, delivery.id, state=state, attempts=delivery.attempts + 1, due_at=due_at
            )
        )

    async def purge(self, now: datetime) -> list[TaskId]:
        """Deletes what is past its retention (PEP-131)."""
        return await self._database.write(lambda connection: statements.purge(connection, now))

    async def use_nonce(self, value: str, *, expires_at: datetime) -> bool:
        """Whether a one-time value, of any length and characters, was never used before."""
        kept = reference(value)
        return await self._database.write(lambda connection: statements.consume_nonce(connection, kept, expires_at))

    async def audit(self, task_id: str) -> list[AuditLine]:
        """The record of a task, also after the task is gone (PEP-136)."""
        rows = await self._database.read(lambda connection: statements.audit_of(connection, task_id))
        return [AuditLine(row.at, row.kind, row.detail) for row in rows]
