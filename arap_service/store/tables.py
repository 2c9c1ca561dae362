"""The tables of the service: what may be stored, and which states are unstorable.

CHECKs and partial unique indexes defend the state machines of `domain/`; columns that hold what people or tools said
are sealed bytes (`*_sealed`, opened with the row's wrapped `data_key`) and are never searched. `item` is the position
within a bulk request and 0 for a single one. No table decides anything. See design.md sections 3, 5 and 12.
"""

import re
from datetime import datetime
from typing import Any, ClassVar, Final

from sqlalchemy import JSON, CheckConstraint, ForeignKeyConstraint, Index, MetaData, text
from sqlalchemy.orm import declared_attr
from sqlmodel import Field, SQLModel

TASK_STATUSES: Final = ("pending", "approved", "denied", "expired", "cancelled", "failed", "partial")
NAMING: Final = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}

ONLY_ON: Final = "only_on"
"""In `info`: the one engine that an index is made on."""
JSON_OR_NULL: Final = JSON(none_as_null=True)
_ZERO: Final = {"server_default": text("0")}


def _one_of(column: str, *values: str) -> CheckConstraint:
    return CheckConstraint(column + " IN (" + ", ".join(f"'{value}'" for value in values) + ")", name=column)


def _index_where(name: str, *columns: str, where: str, unique: bool = False) -> Index:
    return Index(name, *columns, unique=unique, sqlite_where=text(where), postgresql_where=text(where))


class Row(SQLModel):
    """Common ancestor: names for every constraint, so that migrations can name them, and for every table."""

    metadata: ClassVar[MetaData] = MetaData(naming_convention=NAMING)

    @declared_attr.directive
    def __tablename__(cls) -> str:  # noqa: N805  # SQLAlchemy calls it with the class
        """The name of the class in snake case."""
        return re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()


class Task(Row, table=True):
    """One access request and its state; `version` counts every change that a decider must have seen."""

    __table_args__ = (
        _one_of("status", *TASK_STATUSES),
        _one_of("binding", "token", "id"),
        CheckConstraint("(status = 'pending') = (ended_at IS NULL)", name="ended"),
        CheckConstraint("version >= 1", name="version"),
        CheckConstraint("pending_until <= expires_at", name="clocks"),
        # ARS-37: the path by evaluation id has no jti, so this index is its replay marker.
        _index_where(
            "uq_task_open_id",
            "evaluation_id",
            "submitter",
            "client_id",
            where="status = 'pending' AND binding = 'id'",
            unique=True,
        ),
        # An evaluation id means nothing without the decision point that minted it.
        _index_where(
            "uq_task_open_token",
            "evaluation_id",
            "binding_iss",
            "submitter",
            "client_id",
            where="status = 'pending' AND binding = 'token'",
            unique=True,
        ),
        _index_where("ix_task_due", "pending_until", where="status = 'pending'"),
        _index_where("ix_task_open_client", "client_id", where="status = 'pending'"),
        Index("ix_task_queue", "status", "pending_until", "id"),
        Index("ix_task_newest", "created_at", "id"),
        Index("ix_task_subject", "subject_id", "created_at"),
        Index("ix_task_submitter", "submitter", "created_at"),
        # By one name only: several that are as long as they may be are more than an index of PostgreSQL holds.
        _index_where("ix_task_last_approved", "subject_id", "ended_at", where="status = 'approved'"),
    )

    id: str = Field(primary_key=True)
    status: str
    version: int
    template_id: str
    policy_version: str
    rule_id: str
    reason: str
    template: dict[str, Any] = Field(sa_type=JSON)  # as it stood at submission: later edits change no open request
    subject_type: str
    subject_id: str
    resource_type: str
    resource_id: str
    action_name: str
    submitter_iss: str
    submitter_sub: str
    submitter: str  # iss|sub, for the indexes
    client_id: str
    agent: str | None = None
    actors: list[Any] = Field(default_factory=list, sa_type=JSON)  # verified chain of [iss, sub]
    channel: str
    server: str | None = None
    tool: str | None = None
    item_count: int = Field(default=0, sa_column_kwargs={"server_default": "0"})  # see item_tables.py
    evaluation_id: str | None = Field(default=None, index=True)
    binding: str
    binding_iss: str | None = None
    binding_jti: str | None = None
    binding_hash: str
    binding_members: list[str] = Field(sa_type=JSON)
    arguments_hash: str | None = None
    body_digest: str
    created_at: datetime
    pending_until: datetime
    requested_until: datetime | None = None
    expires_at: datetime = Field(index=True)
    ended_at: datetime | None = None
    ended_by: str | None = None  # code of the cause, such as quorum, veto, deadline, requester
    callback_endpoint: str | None = None
    callback_events: list[str] = Field(default_factory=list, sa_type=JSON)
    data_key: bytes
    tuple_sealed: bytes  # subject, resource, action, context as submitted
    request_sealed: bytes  # requested_access, display, client and tool call
    effect_sealed: bytes | None = None  # the sentence that the template makes of the arguments
    callback_state_sealed: bytes | None = None
    decision_sealed: bytes | None = None  # what a denier wrote for the requester


class Tombstone(Row, table=True):
    """That a task existed, for those who could see it; kept until `keep_until` (ARS-62)."""

    task_id: str = Field(primary_key=True)
    submitter: str
    client_id: str
    removed_at: datetime
    keep_until: datetime = Field(index=True)


class Denial(Row, table=True):
    """A requestable denial that was issued, for the path by evaluation id and for the audit."""

    evaluation_id: str = Field(primary_key=True)  # PDP-42
    client_id: str
    caller: str
    template_id: str
    rule_id: str
    reason: str
    policy_version: str
    agent: str | None = None
    token_issued: bool
    jti: str | None = None
    binding_hash: str
    binding_members: list[str] = Field(sa_type=JSON)
    evaluated_at: datetime
    expires_at: datetime = Field(index=True)
    data_key: bytes
    tuple_sealed: bytes


class JtiUse(Row, table=True):
    """A binding token that created a task; the primary key spends it once (ARS-36)."""

    iss: str = Field(primary_key=True)
    jti: str = Field(primary_key=True)
    task_id: str
    keep_until: datetime = Field(index=True)


class IdempotencyKey(Row, table=True):
    """A key under which one caller created one task (ARS-39, ARS-42); outlives the task."""

    caller: str = Field(primary_key=True)  # operation|iss|sub|client
    key: str = Field(primary_key=True)
    body_digest: str
    task_id: str = Field(index=True)
    status_code: int
    created_at: datetime
    keep_until: datetime = Field(index=True)


class StepState(Row, table=True):
    """One step of a task's workflow as it was defined at submission, and how it stands."""

    __table_args__ = (
        _one_of("status", "waiting", "completed", "ended"),
        CheckConstraint("quorum >= 1 AND veto >= 1", name="counts"),
        _index_where("ix_step_state_who", "task_id", where="who IS NOT NULL AND status = 'waiting'"),
    )

    task_id: str = Field(primary_key=True, foreign_key="task.id", ondelete="CASCADE")
    item: int = Field(default=0, primary_key=True)
    step_id: str = Field(primary_key=True)
    position: int
    title: str
    quorum: int
    veto: int
    repeat: bool = False  # whether somebody who has counted elsewhere may count here too
    status: str = "waiting"
    after: list[str] = Field(default_factory=list, sa_type=JSON, sa_column_kwargs={"server_default": text("'[]'")})
    opened_at: datetime | None = None  # None while it waits for the steps of `after`
    who: str | None = None  # the expression that names deciders
    timing: dict[str, Any] | None = Field(default=None, sa_type=JSON)  # when it reminds, escalates and ends
    escalated_at: datetime | None = None


class StepVoice(Row, table=True):
    """Who may speak in a step; indexed, so that "mine to decide" is one look-up.

    A group, a person, a resolver, whoever bears a relation (its bond), or perhaps anybody, which an expression decides.
    """

    __table_args__ = (
        _one_of("kind", "group", "person", "resolver", "relation", "anybody"),
        ForeignKeyConstraint(
            ["task_id", "item", "step_id"],
            ["step_state.task_id", "step_state.item", "step_state.step_id"],
            ondelete="CASCADE",
        ),
        Index("ix_step_voice_name", "kind", "name", "task_id"),
    )

    task_id: str = Field(primary_key=True)
    item: int = Field(default=0, primary_key=True)
    step_id: str = Field(primary_key=True)
    kind: str = Field(primary_key=True)
    name: str = Field(primary_key=True)


class Vote(Row, table=True):
    """One voice in one step; a voter has one per step and it never changes."""

    __table_args__ = (
        _one_of("decision", "approve", "deny"),
        _one_of("voter_kind", "person", "resolver", "evaluator"),
        Index("uq_vote_voter", "task_id", "item", "step_id", "voter", unique=True),
        _index_where(
            "uq_vote_seat", "task_id", "item", "step_id", "in_place_of", where="in_place_of IS NOT NULL", unique=True
        ),
    )

    id: str = Field(primary_key=True)
    task_id: str = Field(foreign_key="task.id", ondelete="CASCADE")
    item: int = 0
    step_id: str
    voter: str  # person id, resolver's client id or evaluator id
    voter_kind: str
    in_place_of: str | None = None  # the person whose seat the voter took, being his deputy
    decision: str
    version_seen: int
    at: datetime
    channel: str
    approved_until: datetime | None = None
    reason_sealed: bytes | None = None
    may_vary: list[str] | None = Field(default=None, sa_type=JSON_OR_NULL)  # the scope that the approver leaves wide
    proposed_sealed: bytes | None = None  # other arguments that the denier would rather see


class Approval(Row, table=True):
    """What an approved task or item grants, until it ends or is revoked (ARS-121)."""

    __table_args__ = (
        _one_of("status", "active", "revoked", "superseded"),
        CheckConstraint("(status = 'active') = (ended_at IS NULL)", name="ended"),
        CheckConstraint("approved_at < approved_until", name="lifetime"),
        _index_where("uq_approval_active", "task_id", "item", where="status = 'active'", unique=True),
        _index_where("ix_approval_in_force", "approved_until", "id", where="status = 'active'"),
    )

    id: str = Field(primary_key=True)
    task_id: str = Field(foreign_key="task.id", ondelete="CASCADE", index=True)
    item: int = 0
    status: str = "active"
    approved_at: datetime
    approved_until: datetime
    ended_at: datetime | None = None
    ended_by: str | None = None
    reason_sealed: bytes | None = None
    state: str  # the signed proof, PDP-69
    scope: dict[str, Any] | None = Field(default=None, sa_type=JSON_OR_NULL)  # how it is wider than what was asked


class Execution(Row, table=True):
    """What an enforcement point says became of an approval; a repeated report is the same row."""

    __table_args__ = (
        Index("uq_execution_generation", "task_id", "approval_id", "generation", "disposition", unique=True),
    )

    id: str = Field(primary_key=True)
    task_id: str = Field(foreign_key="task.id", ondelete="CASCADE")
    approval_id: str | None = None
    generation: int
    disposition: str
    at: datetime
    received_at: datetime
    reported_by: str


class AuditEntry(Row, table=True):
    """One link of one audit chain; appended by `arap_service.audit` only, never changed."""

    chain: str = Field(primary_key=True)
    seq: int = Field(primary_key=True)
    at: datetime
    kind: str
    actor: str
    evaluation_id: str | None = Field(default=None, index=True)
    detail: str  # canonical JSON, exactly what was hashed
    previous: str
    hash: str


class AuditHead(Row, table=True):
    """The last link of each chain: serialises appends to one chain and shows a cut-off tail."""

    __table_args__ = (_index_where("ix_audit_head_open", "chain", where="placed < seq"),)

    chain: str = Field(primary_key=True)
    seq: int
    hash: str
    placed: int = Field(default=0, sa_column_kwargs=_ZERO)  # how many entries of the chain have a place in the log


class Delivery(Row, table=True):
    """A notification to a callback endpoint, written with the decision and sent by the courier (ARS-97)."""

    __table_args__ = (
        _one_of("status", "pending", "delivered", "dead", "disabled"),
        CheckConstraint("(lease_owner IS NULL) = (lease_until IS NULL)", name="lease"),
        _index_where("ix_delivery_due", "next_at", where="status = 'pending'"),
        _index_where("ix_delivery_dead", "created_at", where="status = 'dead'"),
    )

    id: str = Field(primary_key=True)  # also the webhook-id of every attempt
    task_id: str = Field(foreign_key="task.id", ondelete="CASCADE", index=True)
    client_id: str
    endpoint: str
    event: str
    status: str = "pending"
    version: int = 1
    attempts: int = 0
    created_at: datetime
    next_at: datetime
    finished_at: datetime | None = None
    last_error: str | None = None  # a code, never what the receiver said
    subscription: str | None = None  # the deployment's own subscription that this is for, instead of the client
    restarted_at: datetime | None = None  # when an operator had it sent again: the schedule runs from there
    earlier_attempts: int = Field(default=0, sa_column_kwargs=_ZERO)  # those before that
    lease_owner: str | None = None
    lease_until: datetime | None = None
    traceparent: str | None = None  # the trace of what caused it, in the form of W3C Trace Context
    body_sealed: bytes  # with the task's data key


class DeliveryAttempt(Row, table=True):
    """One attempt to deliver, kept so that an operator sees what happened."""

    delivery_id: str = Field(primary_key=True, foreign_key="delivery.id", ondelete="CASCADE")
    number: int = Field(primary_key=True)
    at: datetime
    outcome: str
    http_status: int | None = None
    error: str | None = None


class SigningKey(Row, table=True):
    """A key of the service: signs from `active_from` to `retired_at`, published until `remove_at` (PDP-34)."""

    __table_args__ = (_one_of("use", "binding", "approval", "access-token"),)

    kid: str = Field(primary_key=True)
    use: str = Field(index=True)
    alg: str
    public_jwk: dict[str, Any] = Field(sa_type=JSON)
    private_sealed: bytes
    created_at: datetime
    active_from: datetime
    retired_at: datetime | None = None
    remove_at: datetime | None = None
