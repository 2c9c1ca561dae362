"""Every statement about steps, votes, approvals and reports: what a reader of one request needs beside the task."""

from collections.abc import Collection, Sequence

from sqlmodel import Session, col, select

from arap_service.store.tables import Approval, Delivery, Execution, StepState, StepVoice, Task, Vote
from arap_service.store.tasks import is_storable


def steps_of(session: Session, task_ids: Collection[str]) -> Sequence[StepState]:
    """The steps of these tasks, of each in the order of its template."""
    return session.exec(
        select(StepState)
        .where(col(StepState.task_id).in_(task_ids))
        .order_by(col(StepState.task_id), col(StepState.item), col(StepState.position))
    ).all()


def voices_of(session: Session, task_ids: Collection[str]) -> Sequence[StepVoice]:
    """Who may speak in the steps of these tasks."""
    return session.exec(select(StepVoice).where(col(StepVoice.task_id).in_(task_ids))).all()


def votes_of(session: Session, task_ids: Collection[str]) -> Sequence[Vote]:
    """The votes on these tasks, oldest first."""
    return session.exec(
        select(Vote).where(col(Vote.task_id).in_(task_ids)).order_by(col(Vote.at), col(Vote.version_seen), col(Vote.id))
    ).all()


def approval_of(session: Session, task_id: str, *, item: int = 0) -> Approval | None:
    """The latest approval that the task led to, whether in force or not."""
    return session.exec(
        select(Approval)
        .where(Approval.task_id == task_id, Approval.item == item)
        .order_by(col(Approval.approved_at).desc(), col(Approval.id))
    ).first()


def find_approval(session: Session, approval_id: str, *, for_update: bool = False) -> tuple[Approval, Task] | None:
    """An approval with the task that it belongs to; `for_update` keeps others from ending it in this transaction."""
    if not is_storable(approval_id):
        return None
    wanted = select(Approval, Task).join(Task, col(Task.id) == col(Approval.task_id)).where(Approval.id == approval_id)
    found = session.exec(wanted.with_for_update(of=Approval) if for_update else wanted).first()
    return None if found is None else (found[0], found[1])


def executions_of(session: Session, task_id: str, *, item: int = 0) -> Sequence[Execution]:
    """What was reported about the use of the approval of a task or item, oldest first."""
    return session.exec(
        select(Execution)
        .join(Approval, col(Approval.id) == col(Execution.approval_id))
        .where(Execution.task_id == task_id, Approval.item == item)
        .order_by(col(Execution.received_at), col(Execution.id))
    ).all()


def find_execution(session: Session, approval: Approval, *, generation: int, disposition: str) -> Execution | None:
    """The same report on this approval, if it was made before."""
    return session.exec(
        select(Execution).where(
            Execution.task_id == approval.task_id,
            Execution.approval_id == approval.id,
            Execution.generation == generation,
            Execution.disposition == disposition,
        )
    ).first()


def approvals_of(session: Session, task_id: str) -> dict[int, Approval]:
    """The latest approval of each item of a task, whether in force or not."""
    found = session.exec(
        select(Approval).where(Approval.task_id == task_id).order_by(col(Approval.approved_at), col(Approval.id).desc())
    ).all()
    return {approval.item: approval for approval in found}


def deliveries_of(session: Session, task_id: str) -> Sequence[Delivery]:
    """The notifications about a task, oldest first."""
    return session.exec(
        select(Delivery).where(Delivery.task_id == task_id).order_by(col(Delivery.created_at), col(Delivery.id))
    ).all()
