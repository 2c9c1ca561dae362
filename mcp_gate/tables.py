"""The gate's tables, and the constraints that make impossible states unstorable. Design section 8.

Every name begins with `gate_`, so that gate and service may share one database. Sealed columns are bytes under the
task's own key, which `data_key` holds wrapped; deleting the row destroys the key.
"""

from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    Dialect,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    text,
)
from sqlalchemy.types import TypeDecorator

from mcp_gate.lifecycle import Ending, Phase

metadata: Final = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


class Instant(TypeDecorator[datetime]):
    """An aware UTC instant on both engines; SQLite keeps no zone, so it is put back on reading."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Refuses a naive instant."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("an instant needs a zone")
        value = value.astimezone(UTC)
        return value.replace(tzinfo=None) if dialect.name == "sqlite" else value

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Gives the zone back."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if dialect.name == "sqlite" else value.astimezone(UTC)


class SubmissionState(StrEnum):
    """What became of one submission under its key."""

    SENDING = "sending"
    ACCEPTED = "accepted"
    REFUSED = "refused"
    CONSUMED = "consumed"


class InputState(StrEnum):
    """What became of one question to the client."""

    OPEN = "open"
    ANSWERED = "answered"
    DECLINED = "declined"
    WITHDRAWN = "withdrawn"


class Delivery(StrEnum):
    """What an outbox row is to bring to the backend."""

    CANCEL = "cancel"
    REPORT = "report"
    ANSWER = "answer"


class DeliveryState(StrEnum):
    """How far an outbox row is."""

    WAITING = "waiting"
    SENT = "sent"
    DEAD = "dead"


def _one_of(column: str, values: type[StrEnum]) -> CheckConstraint:
    listed = ", ".join(f"'{value}'" for value in values)
    return CheckConstraint(f"{column} IN ({listed})", name=column)


def _of_task(**options: Any) -> Column[str]:
    return Column("task_id", String(64), ForeignKey("gate_task.id", ondelete="CASCADE"), nullable=False, **options)


_OPEN: Final = text(f"phase <> '{Phase.DONE}'")
_DONE: Final = text(f"phase = '{Phase.DONE}'")
_RAN: Final = ", ".join(f"'{e}'" for e in (Ending.APPROVED_EXECUTED, Ending.EXECUTION_ERROR, Ending.OUTCOME_UNKNOWN))

task: Final = Table(
    "gate_task",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("version", Integer, nullable=False),
    Column("phase", String(16), nullable=False),
    Column("generation", Integer, nullable=False),
    Column("ending", String(24)),
    Column("cause", String(32)),
    Column("announced", Boolean, nullable=False),
    Column("attempts", Integer, nullable=False),
    # The call binding, immutable after the first request (PEP-67).
    Column("digest", String(64), nullable=False),
    Column("fingerprint", String(64), nullable=False),
    Column("server", Text, nullable=False),
    Column("tool", Text, nullable=False),
    Column("iss", Text, nullable=False),
    Column("sub", Text, nullable=False),
    Column("client_id", Text),
    Column("agent", Text),
    Column("data_key", LargeBinary, nullable=False),
    Column("binding", LargeBinary, nullable=False),
    Column("approval", LargeBinary),
    # The three clocks, all of them separate (SEP-2848, "Lifecycle and task status").
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
    Column("ttl_ms", BigInteger, nullable=False),
    Column("pending_deadline", Instant, nullable=False),
    Column("approved_until", Instant),
    Column("execution_deadline", Instant),
    Column("terminalized_at", Instant),
    Column("next_due", Instant),
    Column("purge_at", Instant),
    # The claim; it stays after the end, because it says that the tool may have run.
    Column("worker", String(64)),
    Column("invoked_at", Instant),
    _one_of("phase", Phase),
    CheckConstraint(f"ending IS NULL OR ending IN ({', '.join(repr(str(e)) for e in Ending)})", name="ending"),
    CheckConstraint(f"(phase = '{Phase.DONE}') = (ending IS NOT NULL)", name="done_has_ending"),
    CheckConstraint(f"(phase = '{Phase.DONE}') = (terminalized_at IS NOT NULL)", name="done_has_instant"),
    CheckConstraint(
        f"phase <> '{Phase.CLAIMED}' OR (worker IS NOT NULL AND execution_deadline IS NOT NULL)", name="claim"
    ),
    # PEP-89, PEP-116: only a claimed task ran, and only an unclaimed one is denied, failed or cancelled.
    CheckConstraint(
        f"phase <> '{Phase.DONE}' OR (ending IN ({_RAN})) = (worker IS NOT NULL)", name="ran_only_if_claimed"
    ),
    CheckConstraint(f"announced OR phase IN ('{Phase.INTENT}', '{Phase.DONE}')", name="announced"),
    Index("ux_gate_task_open_digest", "digest", unique=True, sqlite_where=_OPEN, postgresql_where=_OPEN),
    Index("ix_gate_task_next_due", "next_due", sqlite_where=_OPEN, postgresql_where=_OPEN),
    Index("ix_gate_task_purge_at", "purge_at", sqlite_where=_DONE, postgresql_where=_DONE),
    Index("ix_gate_task_owner", "iss", "sub", "created_at"),
)

submission: Final = Table(
    "gate_submission",
    metadata,
    _of_task(primary_key=True),
    Column("generation", Integer, primary_key=True),
    Column("key", String(64), nullable=False),
    Column("state", String(16), nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("handle", LargeBinary),
    Column("handle_ref", String(64)),
    Column("state_ref", String(64), nullable=False),
    Column("created_at", Instant, nullable=False),
    _one_of("state", SubmissionState),
    CheckConstraint("(state = 'accepted') <= (handle IS NOT NULL)", name="accepted_has_handle"),
    Index("ux_gate_submission_key", "key", unique=True),
    Index("ux_gate_submission_state_ref", "state_ref", unique=True),
    Index("ix_gate_submission_handle_ref", "handle_ref"),
    Index("ix_gate_submission_created_at", "created_at"),
)

question: Final = Table(
    "gate_input",
    metadata,
    _of_task(primary_key=True),
    Column("key", String(64), primary_key=True),  # never reused (PEP-85)
    Column("generation", Integer, nullable=False),
    Column("question_version", Integer, nullable=False),
    Column("state", String(16), nullable=False),
    Column("request", LargeBinary, nullable=False),
    Column("answer", LargeBinary),
    Column("created_at", Instant, nullable=False),
    _one_of("state", InputState),
)

outcome: Final = Table(
    "gate_outcome",
    metadata,
    _of_task(primary_key=True),  # PEP-70: the primary key makes it write-once
    Column("result", LargeBinary, nullable=False),
    Column("stored_at", Instant, nullable=False),
)

outbox: Final = Table(
    "gate_outbox",
    metadata,
    Column("id", String(64), primary_key=True),
    _of_task(),
    Column("kind", String(16), nullable=False),
    Column("generation", Integer, nullable=False),
    Column("reference", Text),  # the disposition of a report, the input's key of an answer
    Column("state", String(16), nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("due_at", Instant, nullable=False),
    Column("created_at", Instant, nullable=False),
    _one_of("kind", Delivery),
    _one_of("state", DeliveryState),
    Index(
        "ix_gate_outbox_due_at",
        "due_at",
        sqlite_where=text("state = 'waiting'"),
        postgresql_where=text("state = 'waiting'"),
    ),
    Index("ix_gate_outbox_task_id", "task_id"),
)

nonce: Final = Table(
    "gate_nonce",
    metadata,
    Column("value", String(128), primary_key=True),
    Column("expires_at", Instant, nullable=False),
    Index("ix_gate_nonce_expires_at", "expires_at"),
)

audit: Final = Table(
    "gate_audit",
    metadata,
    Column("seq", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("task_id", String(64), nullable=False),  # no foreign key: the record outlives the task (PEP-136)
    Column("at", Instant, nullable=False),
    Column("kind", String(32), nullable=False),
    Column("detail", Text, nullable=False),
    Index("ix_gate_audit_task_id", "task_id", "seq"),
)

worker: Final = Table(
    "gate_worker",
    metadata,
    Column("epoch", String(64), primary_key=True),
    Column("instance", String(128)),
    Column("started_at", Instant, nullable=False),
)
