"""Stored denials and approvals as the rules of `domain/` see them, and denials as they are stored.

Conversion only: what was sealed is opened, names of columns become names of the domain. It decides nothing.
"""

from datetime import datetime

from arap_service.domain.actors import Chain, subject_chain
from arap_service.domain.binding import RecordedDenial
from arap_service.domain.reevaluation import ApprovalRecord, ApprovalStatus
from arap_service.protocol.canonical import Tuple4, binding_hash
from arap_service.protocol.sealing import KeyRing
from arap_service.sealed import RowSeal
from arap_service.store.tables import Approval, Denial, Task


def new_denial(
    ring: KeyRing,
    *,
    evaluation_id: str,
    about: Tuple4,
    members: tuple[str, ...],
    client_id: str,
    caller: str,
    template_id: str,
    rule_id: str,
    reason: str,
    policy_version: str,
    agent: str | None,
    jti: str | None,
    now: datetime,
    expires_at: datetime,
) -> Denial:
    """The row of a requestable denial; `jti` is that of the token that was issued with it, if any."""
    seal = RowSeal.new(ring, table="denial", row_id=evaluation_id)
    return Denial(
        evaluation_id=evaluation_id,
        client_id=client_id,
        caller=caller,
        template_id=template_id,
        rule_id=rule_id,
        reason=reason,
        policy_version=policy_version,
        agent=agent,
        token_issued=jti is not None,
        jti=jti,
        binding_hash=binding_hash(*about, members),
        binding_members=list(members),
        evaluated_at=now,
        expires_at=expires_at,
        data_key=seal.wrapped,
        tuple_sealed=seal.seal("tuple_sealed", about._asdict()),
    )


def recorded_denial(denial: Denial, ring: KeyRing) -> RecordedDenial:
    """A stored denial with its tuple opened.

    Raises:
        SealBroken: The row was tampered with.
    """
    seal = RowSeal(ring, denial.data_key, table="denial", row_id=denial.evaluation_id)
    about = Tuple4(**seal.open("tuple_sealed", denial.tuple_sealed))
    return RecordedDenial(
        evaluation_id=denial.evaluation_id,
        expires_at=denial.expires_at,
        about=about,
        members=tuple(denial.binding_members),
        client_id=denial.client_id,
        template=denial.template_id,
        reason=denial.reason,
        token_issued=denial.token_issued,
        agent=denial.agent,
        actor=subject_chain(about.subject),
    )


def task_seal(task: Task, ring: KeyRing) -> RowSeal:
    """What opens the sealed columns of a task and of the rows that hang on it.

    Raises:
        SealBroken: The row was tampered with.
    """
    return RowSeal(ring, task.data_key, table="task", row_id=task.id)


def tuple_of(task: Task, seal: RowSeal) -> Tuple4:
    """Subject, resource, action and context of a task, as they were submitted."""
    return Tuple4(**seal.open("tuple_sealed", task.tuple_sealed))


def chain_of_task(task: Task) -> Chain:
    """The verified chain of actors of a task, the current actor first."""
    return tuple((issuer, subject) for issuer, subject in task.actors)


def approval_record(approval: Approval, task: Task, ring: KeyRing) -> ApprovalRecord:
    """A stored approval with the scope that it covers.

    Raises:
        SealBroken: The row was tampered with.
    """
    return ApprovalRecord(
        id=approval.id,
        task_id=task.id,
        evaluation_id=task.evaluation_id,
        status=ApprovalStatus(approval.status),
        approved_until=approval.approved_until,
        about=tuple_of(task, task_seal(task, ring)),
        members=tuple(task.binding_members),
        client_id=task.client_id,
        template=task.template_id,
        agent=task.agent,
        actor=chain_of_task(task),
    )
