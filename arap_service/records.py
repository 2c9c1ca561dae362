"""Stored denials and approvals as the rules of `domain/` see them, and denials as they are stored.

Conversion only: what was sealed is opened, names of columns become names of the domain. It decides nothing.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from arap_service.domain.actors import Chain, subject_chain
from arap_service.domain.binding import RecordedDenial
from arap_service.domain.reevaluation import ApprovalRecord, ApprovalStatus
from arap_service.protocol.canonical import Tuple4, binding_hash
from arap_service.protocol.sealing import KeyRing
from arap_service.sealed import RowSeal
from arap_service.store.item_tables import TaskItem
from arap_service.store.tables import Approval, Denial, Task


@dataclass(frozen=True, slots=True)
class Part:
    """What one decision is about: a whole single request, or one item of a bundle (`row`)."""

    task: Task
    row: TaskItem | None = None

    @property
    def item(self) -> int:
        """The position within a bundle, counted from 1; 0 for a single request."""
        return 0 if self.row is None else self.row.item

    @property
    def own(self) -> Task | TaskItem:
        """The row that holds its status, version, template, binding and deadlines."""
        return self.task if self.row is None else self.row

    def column(self, name: str) -> str:
        """The place that a sealed column of its own row is sealed for, under the key of the task."""
        return name if self.row is None else f"item:{self.row.item}:{name}"


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


def tuple_of(part: Part, seal: RowSeal) -> Tuple4:
    """Subject, resource, action and context of a request or item, as they were submitted."""
    whole = Tuple4(**seal.open("tuple_sealed", part.task.tuple_sealed))
    if part.row is None:
        return whole
    asked = asked_of(part, seal)
    return whole._replace(resource=asked["resource"], action=asked["action"])


def asked_of(part: Part, seal: RowSeal) -> dict[str, Any]:
    """What was asked beside the context: for an item with resource and action, `requested_access` being effective."""
    asked: dict[str, Any] = seal.open("request_sealed", part.task.request_sealed)
    if part.row is None:
        return asked
    own: dict[str, Any] = seal.open(part.column("asked_sealed"), part.row.asked_sealed)
    return {**asked, **own}


def chain_of_task(task: Task) -> Chain:
    """The verified chain of actors of a task, the current actor first."""
    return tuple((issuer, subject) for issuer, subject in task.actors)


def approval_record(approval: Approval, part: Part, ring: KeyRing) -> ApprovalRecord:
    """A stored approval with the scope that it covers: that of its own item and of no other (ARS-85).

    Raises:
        SealBroken: The row was tampered with.
    """
    task, own = part.task, part.own
    scope = approval.scope or {}
    return ApprovalRecord(
        id=approval.id,
        task_id=task.id,
        evaluation_id=own.evaluation_id,
        status=ApprovalStatus(approval.status),
        approved_until=approval.approved_until,
        about=tuple_of(part, task_seal(task, ring)),
        members=tuple(own.binding_members),
        client_id=task.client_id,
        template=own.template_id,
        agent=task.agent,
        actor=chain_of_task(task),
        may_vary=tuple(scope.get("may_vary", ())),
        within=scope.get("within"),
    )
