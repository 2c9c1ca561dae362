"""Every statement that the gate runs on its database, named. Synchronous; each works inside the caller's transaction.

Writes to a task are compare-and-set on id, version and phase: no row means that somebody else was first. What to write
is decided in `lifecycle`; when, in `store`. The statements that every task needs are made once, since making one takes
longer than running it.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Connection, Row, bindparam, delete, func, insert, literal, or_, select, text, update
from sqlalchemy.dialects import postgresql, sqlite

from mcp_gate.events import Cause
from mcp_gate.lifecycle import Ending, GateTask, Phase, TaskId, ends_at
from mcp_gate.tables import DeliveryState, InputState, SubmissionState, audit, nonce, outbox, outcome
from mcp_gate.tables import question as question_table
from mcp_gate.tables import submission as submission_table
from mcp_gate.tables import task as task_table
from mcp_gate.tables import worker as worker_table

AnyRow = Row[Any]
_TASK, _SENT = task_table.c, submission_table.c
_OPEN: Final = _TASK.phase != Phase.DONE
# Written out, as the partial indexes have it: at what is bound SQLite looks anew each time, to see whether one fits.
_IS_OPEN: Final = text(f"phase <> '{Phase.DONE}'")
_OWNED: Final = (_TASK.iss == bindparam("iss"), _TASK.sub == bindparam("sub"))
# No name of a column, which would be taken for what is to be set.
_THIS: Final = (_SENT.task_id == bindparam("this_task"), _SENT.generation == bindparam("this_generation"))

_TASK_ROW: Final = select(task_table).where(_TASK.id == bindparam("id"))
_OPEN_OF_DIGEST: Final = select(task_table).where(_TASK.digest == bindparam("digest"), _IS_OPEN)
_CREATED_SINCE: Final = (
    select(func.count()).select_from(task_table).where(*_OWNED, _TASK.created_at > bindparam("since"))
)
_OPEN_OF_OWNER: Final = select(func.count()).select_from(task_table).where(*_OWNED, _IS_OPEN)
_INSERT_TASK: Final = {
    dialect.dialect.name: dialect.insert(task_table)
    .on_conflict_do_nothing(index_elements=[_TASK.digest], index_where=_IS_OPEN)
    .returning(_TASK.id)
    for dialect in (sqlite, postgresql)
}
_REPLACE_TASK: Final = (
    update(task_table)
    .where(
        _TASK.id == bindparam("this_id"),
        _TASK.version == bindparam("seen_version"),
        _TASK.phase == bindparam("seen_phase"),
    )
    .returning(_TASK.id)
)
_SUBMISSION: Final = select(submission_table).where(*_THIS)
_INSERT_SUBMISSION: Final = insert(submission_table)
_UPDATE_SUBMISSION: Final = update(submission_table).where(*_THIS)
_APPEND_AUDIT: Final = insert(audit)


def _insert(connection: Connection, table: Any) -> Any:
    """An insert that can step aside on conflict, which the two engines spell alike but in their own dialects."""
    return sqlite.insert(table) if connection.dialect.name == "sqlite" else postgresql.insert(table)


def to_task(row: AnyRow) -> GateTask:
    """The machine's fields of a row."""
    return GateTask(
        id=TaskId(row.id),
        phase=Phase(row.phase),
        version=row.version,
        generation=row.generation,
        created_at=row.created_at,
        updated_at=row.updated_at,
        ttl_ms=row.ttl_ms,
        pending_deadline=row.pending_deadline,
        approved_until=row.approved_until,
        execution_deadline=row.execution_deadline,
        worker=row.worker,
        ending=None if row.ending is None else Ending(row.ending),
        cause=None if row.cause is None else Cause(row.cause),
        terminalized_at=row.terminalized_at,
        announced=row.announced,
        attempts=row.attempts,
    )


def _columns(task: GateTask) -> dict[str, Any]:
    """The machine's fields as columns, but for the id."""
    return {
        "phase": task.phase,
        "version": task.version,
        "generation": task.generation,
        "updated_at": task.updated_at,
        "ttl_ms": task.ttl_ms,
        "pending_deadline": task.pending_deadline,
        "approved_until": task.approved_until,
        "execution_deadline": task.execution_deadline,
        "worker": task.worker,
        "ending": task.ending,
        "cause": task.cause,
        "terminalized_at": task.terminalized_at,
        "announced": task.announced,
        "attempts": task.attempts,
        "purge_at": ends_at(task) if task.phase is Phase.DONE else None,
    }


# Tasks --------------------------------------------------------------------------------------------------------------


def task_row(connection: Connection, task_id: str) -> AnyRow | None:
    """The task."""
    return connection.execute(_TASK_ROW, {"id": task_id}).first()


def open_task_of(connection: Connection, digest: str) -> AnyRow | None:
    """The one open task or intent of a call."""
    return connection.execute(_OPEN_OF_DIGEST, {"digest": digest}).first()


def insert_task(connection: Connection, task: GateTask, more: dict[str, Any]) -> bool:
    """A new intent, unless the same call has an open one already (PEP-64)."""
    values = {"id": task.id, "created_at": task.created_at, **_columns(task), **more}
    return connection.execute(_INSERT_TASK[connection.dialect.name], values).first() is not None


def lock_owner(connection: Connection, owner: str) -> None:
    """Makes counting and inserting one step per principal; a SQLite writer is alone anyhow."""
    if connection.dialect.name != "sqlite":
        connection.execute(text("SELECT pg_advisory_xact_lock(hashtextextended(:owner, 0))"), {"owner": owner})


def count_created_since(connection: Connection, iss: str, sub: str, since: datetime) -> int:
    """How many intents a principal opened since then."""
    count: int = connection.execute(_CREATED_SINCE, {"iss": iss, "sub": sub, "since": since}).scalar_one()
    return count


def count_open(connection: Connection, iss: str, sub: str) -> int:
    """How many tasks of a principal are open."""
    count: int = connection.execute(_OPEN_OF_OWNER, {"iss": iss, "sub": sub}).scalar_one()
    return count


def replace_task(connection: Connection, before: GateTask, after: GateTask, more: dict[str, Any]) -> bool:
    """Writes `after` if the row is still at version and phase of `before`."""
    seen = {"this_id": before.id, "seen_version": before.version, "seen_phase": before.phase}
    return connection.execute(_REPLACE_TASK, {**_columns(after), **more, **seen}).first() is not None


def set_due(connection: Connection, task_id: str, version: int, *, next_due: datetime, attempts: int) -> None:
    """When to look at an unchanged task again."""
    at = (task_table.c.id == task_id, task_table.c.version == version, _OPEN)
    connection.execute(update(task_table).where(*at).values(next_due=next_due, attempts=attempts))


def lease(connection: Connection, task_id: str, *, now: datetime, until: datetime, early: Sequence[Phase]) -> bool:
    """Takes an open task so that others leave it alone until then: when its time has come, or in an `early` phase."""
    ready = or_(task_table.c.next_due <= now, task_table.c.phase.in_(early))
    statement = update(task_table).where(task_table.c.id == task_id, _OPEN, ready).values(next_due=until)
    return connection.execute(statement.returning(task_table.c.id)).first() is not None


def due_tasks(connection: Connection, now: datetime, limit: int) -> list[TaskId]:
    """Tasks whose time has come, the longest waiting first."""
    statement = select(task_table.c.id).where(_OPEN, task_table.c.next_due <= now)
    return [TaskId(row.id) for row in connection.execute(statement.order_by(task_table.c.next_due).limit(limit))]


def soonest(connection: Connection) -> datetime | None:
    """When the next task or delivery is due."""
    task_due = connection.execute(select(func.min(task_table.c.next_due)).where(_OPEN)).scalar()
    waiting = outbox.c.state == DeliveryState.WAITING
    delivery_due = connection.execute(select(func.min(outbox.c.due_at)).where(waiting)).scalar()
    return min((due for due in (task_due, delivery_due) if due is not None), default=None)


def hasten(connection: Connection, phases: Sequence[Phase], now: datetime) -> None:
    """Makes the tasks in these phases due now."""
    statement = update(task_table).where(task_table.c.phase.in_(phases), task_table.c.next_due > now)
    connection.execute(statement.values(next_due=now))


def begin_invocation(connection: Connection, task_id: str, *, worker: str, version: int, now: datetime) -> bool:
    """The last statement before a tool runs: the claim is still this worker's, unused, and in time (PEP-113)."""
    statement = (
        update(task_table)
        .where(
            task_table.c.id == task_id,
            task_table.c.phase == Phase.CLAIMED,
            task_table.c.version == version,
            task_table.c.worker == worker,
            task_table.c.execution_deadline > now,
            task_table.c.invoked_at.is_(None),
        )
        .values(invoked_at=now)
    )
    return connection.execute(statement.returning(task_table.c.id)).first() is not None


def claims(connection: Connection) -> list[tuple[TaskId, str]]:
    """Every claim that has no outcome, with the worker that holds it."""
    statement = select(task_table.c.id, task_table.c.worker).where(task_table.c.phase == Phase.CLAIMED)
    return [(TaskId(row.id), row.worker) for row in connection.execute(statement)]


def purge(connection: Connection, now: datetime) -> list[TaskId]:
    """Deletes what is past its retention, keys and sealed parts included; claimed and open tasks never (PEP-77)."""
    statement = delete(task_table).where(task_table.c.phase == Phase.DONE, task_table.c.purge_at <= now)
    connection.execute(delete(nonce).where(nonce.c.expires_at <= now))
    return [TaskId(row.id) for row in connection.execute(statement.returning(task_table.c.id))]


# Submissions --------------------------------------------------------------------------------------------------------


def _this(task_id: str, generation: int) -> dict[str, Any]:
    return {"this_task": task_id, "this_generation": generation}


def submission_row(connection: Connection, task_id: str, generation: int) -> AnyRow | None:
    """One generation's submission."""
    return connection.execute(_SUBMISSION, _this(task_id, generation)).first()


def insert_submission(connection: Connection, values: dict[str, Any]) -> None:
    """A submission about to be sent."""
    connection.execute(_INSERT_SUBMISSION, {"state": SubmissionState.SENDING, **values})


def set_handle(connection: Connection, task_id: str, generation: int, *, handle: bytes, ref: str) -> None:
    """The backend's handle of a submission, first or with links that it added."""
    values = {"handle": handle, "handle_ref": ref, "state": SubmissionState.ACCEPTED}
    connection.execute(_UPDATE_SUBMISSION, {**values, **_this(task_id, generation)})


def set_submission_state(connection: Connection, task_id: str, generation: int, state: SubmissionState) -> None:
    """What became of a submission."""
    connection.execute(_UPDATE_SUBMISSION, {"state": state, **_this(task_id, generation)})


def submission_by_reference(connection: Connection, *, state_ref: str | None, handle_ref: str) -> AnyRow | None:
    """The submission that a callback speaks of: by its state where it names one, else by the backend's task."""
    wanted = submission_table.c.state_ref == state_ref if state_ref else submission_table.c.handle_ref == handle_ref
    return connection.execute(select(submission_table).where(wanted)).first()


# Inputs, outcomes, deliveries, nonces, audit ------------------------------------------------------------------------


def insert_question(connection: Connection, values: dict[str, Any]) -> bool:
    """A question to the client, unless this very one was put before (PEP-85)."""
    statement = _insert(connection, question_table).values(state=InputState.OPEN, **values).on_conflict_do_nothing()
    return connection.execute(statement.returning(question_table.c.key)).first() is not None


def question_rows(connection: Connection, task_id: str) -> Sequence[AnyRow]:
    """Every question of a task."""
    statement = select(question_table).where(question_table.c.task_id == task_id)
    ordered = statement.order_by(question_table.c.created_at, question_table.c.question_version)
    return connection.execute(ordered).all()


def settle_question(
    connection: Connection, task: GateTask, key: str, *, state: InputState, answer: bytes | None
) -> bool:
    """Settles a question of the task's generation that is still open."""
    at = (
        question_table.c.task_id == task.id,
        question_table.c.key == key,
        question_table.c.generation == task.generation,  # PEP-92
        question_table.c.state == InputState.OPEN,
    )
    statement = update(question_table).where(*at).values(state=state, answer=answer)
    return connection.execute(statement.returning(question_table.c.key)).first() is not None


def withdraw_questions(connection: Connection, task_id: str) -> None:
    """Nobody need answer any more."""
    at = (question_table.c.task_id == task_id, question_table.c.state == InputState.OPEN)
    connection.execute(update(question_table).where(*at).values(state=InputState.WITHDRAWN))


def withdraw_answer(connection: Connection, task_id: str, key: str) -> None:
    """Makes an answered question one that was never settled and need not be."""
    at = (question_table.c.task_id == task_id, question_table.c.key == key)
    answered = question_table.c.state == InputState.ANSWERED
    connection.execute(update(question_table).where(*at, answered).values(state=InputState.WITHDRAWN, answer=None))


def insert_outcome(connection: Connection, task_id: str, *, result: bytes, now: datetime) -> None:
    """The final result; the primary key refuses a second one (PEP-70)."""
    connection.execute(insert(outcome).values(task_id=task_id, result=result, stored_at=now))


def outcome_of(connection: Connection, task_id: str) -> bytes | None:
    """The sealed final result."""
    return connection.execute(select(outcome.c.result).where(outcome.c.task_id == task_id)).scalar()


def insert_delivery(connection: Connection, values: dict[str, Any]) -> None:
    """Something to tell the backend, in the transaction that made it true."""
    connection.execute(insert(outbox).values(state=DeliveryState.WAITING, attempts=0, **values))


def lease_deliveries(connection: Connection, *, now: datetime, until: datetime, limit: int) -> Sequence[AnyRow]:
    """Takes deliveries whose time has come, so that no other process brings them meanwhile."""
    waiting = (outbox.c.state == DeliveryState.WAITING, outbox.c.due_at <= now)
    chosen = select(outbox.c.id).where(*waiting).order_by(outbox.c.due_at).limit(limit)
    statement = update(outbox).where(outbox.c.id.in_(chosen), *waiting).values(due_at=until)
    return connection.execute(statement.returning(outbox)).all()


def hasten_deliveries(connection: Connection, now: datetime) -> None:
    """Makes whatever waits to be delivered due now, also what a process took and never brought."""
    waiting = (outbox.c.state == DeliveryState.WAITING, outbox.c.due_at > now)
    connection.execute(update(outbox).where(*waiting).values(due_at=now))


def settle_delivery(
    connection: Connection, delivery_id: str, *, state: DeliveryState, attempts: int, due_at: datetime
) -> None:
    """What became of an attempt."""
    at = (outbox.c.id == delivery_id, outbox.c.state == DeliveryState.WAITING)
    connection.execute(update(outbox).where(*at).values(state=state, attempts=attempts, due_at=due_at))


def deliveries_of(connection: Connection, task_id: str) -> Sequence[AnyRow]:
    """Everything that was or is to be told about a task."""
    statement = select(outbox).where(outbox.c.task_id == task_id).order_by(outbox.c.created_at, outbox.c.id)
    return connection.execute(statement).all()


def consume_nonce(connection: Connection, value: str, expires_at: datetime) -> bool:
    """Whether `value` was never used before; from now on it was."""
    statement = _insert(connection, nonce).values(value=value, expires_at=expires_at).on_conflict_do_nothing()
    return connection.execute(statement.returning(nonce.c.value)).first() is not None


def append_audit(connection: Connection, task_id: str, *, at: datetime, kind: str, detail: str) -> None:
    """One more line of the record; nothing ever changes or deletes one."""
    connection.execute(_APPEND_AUDIT, {"task_id": task_id, "at": at, "kind": kind, "detail": detail})


def audit_of(connection: Connection, task_id: str) -> Sequence[AnyRow]:
    """The record of a task, also after the task is gone."""
    return connection.execute(select(audit).where(audit.c.task_id == task_id).order_by(audit.c.seq)).all()


# Workers ------------------------------------------------------------------------------------------------------------


def insert_worker(connection: Connection, epoch: str, *, instance: str | None, now: datetime) -> None:
    """A process that may hold claims."""
    connection.execute(insert(worker_table).values(epoch=epoch, instance=instance, started_at=now))


def instance_of(connection: Connection, epoch: str) -> str | None:
    """The configured name of the process behind an epoch."""
    return connection.execute(select(worker_table.c.instance).where(worker_table.c.epoch == epoch)).scalar()


def is_alive(connection: Connection) -> bool:
    """Whether the database answers."""
    return connection.execute(select(literal(1))).scalar() == 1
