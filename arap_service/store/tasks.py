"""Every statement about tasks: what a submission must find, the guarded transitions, and what becomes due.

A transition names the version and the status that its decider has seen and returns the row; no row means that somebody
else was faster. Nothing is decided here.
"""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import ColumnElement, String, and_, bindparam, delete, exists, or_, select, update
from sqlmodel import Session, col
from sqlmodel import select as select_rows

from arap_service.store.database import WriteSession
from arap_service.store.form_tables import FilledForm
from arap_service.store.item_tables import TaskItem
from arap_service.store.review_tables import EmergencyReview
from arap_service.store.tables import (
    Approval,
    Delivery,
    Denial,
    IdempotencyKey,
    JtiUse,
    StepState,
    Task,
    Tombstone,
)


def is_storable(text: str) -> bool:
    """Whether `text` can be in the database at all: PostgreSQL complains when asked for a NUL, both of half a pair."""
    try:
        return b"\x00" not in text.encode()
    except UnicodeEncodeError:
        return False


# What a submission must find


def find_task(session: Session, task_id: str, *, for_update: bool = False) -> Task | None:
    """The task with this id; `for_update` keeps others from changing it in this transaction, and waits for them."""
    # Not the stronger lock: that would also wait for rows that merely refer to the task.
    lock = {"key_share": True} if for_update else None
    return session.get(Task, task_id, with_for_update=lock) if is_storable(task_id) else None


def these(session: Session, task_ids: Collection[str]) -> Sequence[Task]:
    """The tasks with these ids."""
    return session.exec(select_rows(Task).where(col(Task.id).in_(task_ids))).all()


def find_tombstone(session: Session, task_id: str) -> Tombstone | None:
    """What is left of a task that was removed."""
    return session.get(Tombstone, task_id) if is_storable(task_id) else None


def find_denial(session: Session, evaluation_id: str, *, for_update: bool = False) -> Denial | None:
    """The requestable denial that was recorded under this evaluation id; `for_update` makes others wait who ask so."""
    return (
        session.get(Denial, evaluation_id, with_for_update=for_update or None) if is_storable(evaluation_id) else None
    )


def find_key(session: Session, caller: str, key: str) -> IdempotencyKey | None:
    """What `caller` did under this idempotency key."""
    return session.get(IdempotencyKey, (caller, key))


def find_jti(session: Session, iss: str, jti: str) -> JtiUse | None:
    """The use that was made of a binding token."""
    return session.get(JtiUse, (iss, jti))


_OPEN_TASK: Final = select_rows(Task).where(  # made once, since making it takes longer than running it
    Task.evaluation_id == bindparam("evaluation_id"),
    Task.submitter == bindparam("submitter"),
    Task.client_id == bindparam("client_id"),
    col(Task.binding_iss).is_not_distinct_from(bindparam("issuer", type_=String())),
    Task.status == "pending",
)


def find_open_task(
    session: Session, *, evaluation_id: str, issuer: str | None, submitter: str, client_id: str
) -> Task | None:
    """The one open task of this requester about this evaluation (ARS-37).

    `issuer` is whose token proved it, since two decision points may mint one id; None for our own record.
    """
    who = {"evaluation_id": evaluation_id, "issuer": issuer, "submitter": submitter, "client_id": client_id}
    return session.exec(_OPEN_TASK, params=who).first()


# Guarded transitions


def end_task(
    session: WriteSession, task_id: str, *, seen: int, to: str, at: datetime, by: str, decision: bytes | None = None
) -> Task | None:
    """Pending → `to`, if the task still is what the decider has seen; the new row, or None for a lost race."""
    return session.scalars(
        update(Task)
        .where(col(Task.id) == task_id, col(Task.version) == seen, col(Task.status) == "pending")
        .values(status=to, version=seen + 1, ended_at=at, ended_by=by, decision_sealed=decision)
        .returning(Task),
        execution_options={"populate_existing": True},
    ).one_or_none()


def touch_task(session: WriteSession, task_id: str, *, seen: int) -> Task | None:
    """Pending → pending with the next version, for a vote that ends nothing; None for a lost race."""
    return session.scalars(
        update(Task)
        .where(col(Task.id) == task_id, col(Task.version) == seen, col(Task.status) == "pending")
        .values(version=seen + 1)
        .returning(Task),
        execution_options={"populate_existing": True},
    ).one_or_none()


def bump_task(session: WriteSession, task_id: str) -> None:
    """Give an ended task its next version, because what belongs to it has changed."""
    session.execute(update(Task).where(col(Task.id) == task_id).values(version=col(Task.version) + 1))


def set_step(session: WriteSession, task_id: str, *, item: int, step_id: str, status: str) -> None:
    """Record how a step of the workflow stands."""
    session.execute(
        update(StepState)
        .where(col(StepState.task_id) == task_id, col(StepState.item) == item, col(StepState.step_id) == step_id)
        .values(status=status)
    )


def open_step(session: WriteSession, task_id: str, *, item: int, step_id: str, at: datetime) -> None:
    """Record that a step of the workflow takes decisions from now on."""
    session.execute(
        update(StepState)
        .where(col(StepState.task_id) == task_id, col(StepState.item) == item, col(StepState.step_id) == step_id)
        .values(opened_at=at)
    )


def cut_pending(session: WriteSession, task_id: str, *, item: int, at: datetime) -> None:
    """Bring the deadline of a request, or of one item of it, forward to a moment."""
    table: Any = TaskItem if item else Task
    key = [col(TaskItem.task_id) == task_id, col(TaskItem.item) == item] if item else [col(Task.id) == task_id]
    session.execute(update(table).where(*key, col(table.pending_until) > at).values(pending_until=at))


def end_approval(
    session: WriteSession, approval_id: str, *, to: str, at: datetime, by: str, reason: bytes | None
) -> Approval | None:
    """Active → `to`; the new row, or None when it was not active any more."""
    return session.scalars(
        update(Approval)
        .where(col(Approval.id) == approval_id, col(Approval.status) == "active")
        .values(status=to, ended_at=at, ended_by=by, reason_sealed=reason)
        .returning(Approval),
        execution_options={"populate_existing": True},
    ).one_or_none()


# What becomes due


def due_tasks(session: Session, *, now: datetime, limit: int) -> list[tuple[str, int]]:
    """Id and version of tasks whose pending deadline has come, the oldest first."""
    found = session.execute(
        select(col(Task.id), col(Task.version))
        .where(col(Task.status) == "pending", col(Task.pending_until) <= now)
        .order_by(col(Task.pending_until))
        .limit(limit)
    )
    return [(task_id, version) for task_id, version in found]


def purgeable_tasks(session: Session, *, now: datetime, limit: int) -> Sequence[Task]:
    """Ended tasks whose retention is over and that no approval in force, no open delivery and no open review needs."""
    in_force = exists().where(
        col(Approval.task_id) == col(Task.id), col(Approval.status) == "active", col(Approval.approved_until) > now
    )
    to_review = exists().where(col(EmergencyReview.task_id) == col(Task.id), col(EmergencyReview.closed_at).is_(None))
    sending = exists().where(col(Delivery.task_id) == col(Task.id), col(Delivery.status) == "pending")
    return session.exec(
        select_rows(Task)
        .where(col(Task.expires_at) <= now, Task.status != "pending", ~in_force, ~sending, ~to_review)
        .order_by(col(Task.expires_at))
        .limit(limit)
    ).all()


def remove_task(session: WriteSession, task_id: str) -> bool:
    """Delete the task with everything that hangs on it, its data key first of all; whether it was still there."""
    return bool(session.execute(delete(Task).where(col(Task.id) == task_id).returning(col(Task.id))).all())


def forget_old(session: WriteSession, *, now: datetime, denials_before: datetime) -> None:
    """Drop keys, spent tokens and tombstones past their time, denials that nobody can request, and their forms."""
    session.execute(delete(IdempotencyKey).where(col(IdempotencyKey.keep_until) <= now))
    session.execute(delete(JtiUse).where(col(JtiUse.keep_until) <= now))
    session.execute(delete(Tombstone).where(col(Tombstone.keep_until) <= now))
    session.execute(delete(Denial).where(col(Denial.expires_at) <= denials_before))
    unused = col(FilledForm.used_at).is_(None)
    session.execute(delete(FilledForm).where(unused, col(FilledForm.expires_at) <= denials_before))


# The queue


def may_have_risk(risk: str) -> ColumnElement[bool]:
    """A condition: the request has this risk, or is a bundle, whose items each have their own."""
    return or_(col(Task.item_count) > 0, col(Task.template)["risk"].as_string() == risk)


def has_open_step(title: str) -> ColumnElement[bool]:
    """A condition: a step of this title takes decisions now."""
    return exists().where(
        col(StepState.task_id) == col(Task.id),
        col(StepState.title) == title,
        col(StepState.status) == "waiting",
        col(StepState.opened_at).is_not(None),
        col(Task.status) == "pending",
    )


def queue_page(
    session: Session,
    *,
    conditions: Sequence[ColumnElement[bool]],
    oldest_deadline_first: bool,
    after: tuple[datetime, str] | None,
    limit: int,
) -> Sequence[Task]:
    """At most `limit` tasks that satisfy all conditions, after a place in the order."""
    place: Any = col(Task.pending_until) if oldest_deadline_first else col(Task.created_at)
    statement = select_rows(Task).where(*conditions)
    if after is not None:
        at, task_id = after
        further = place > at if oldest_deadline_first else place < at
        beyond = col(Task.id) > task_id if oldest_deadline_first else col(Task.id) < task_id
        statement = statement.where(or_(further, and_(place == at, beyond)))
    order = (place, col(Task.id)) if oldest_deadline_first else (place.desc(), col(Task.id).desc())
    return session.exec(statement.order_by(*order).limit(limit)).all()
