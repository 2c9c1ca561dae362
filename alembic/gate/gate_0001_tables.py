"""Create the tables of the gate."""

import sqlalchemy as sa

from alembic import op

revision = "gate_0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this step."""
    _tasks()
    _task_indexes()
    _parts_of_tasks()
    _outbox()
    _records()


def downgrade() -> None:
    """Undo this step."""
    for table in ("worker", "audit", "nonce", "outbox", "outcome", "input", "submission", "task"):
        op.drop_table(f"gate_{table}")


def _tasks() -> None:
    """Tasks, with the constraints of their lifecycle."""
    op.create_table(
        "gate_task",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("phase", sa.String(length=16), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("ending", sa.String(length=24), nullable=True),
        sa.Column("cause", sa.String(length=32), nullable=True),
        sa.Column("announced", sa.Boolean(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("fingerprint", sa.String(length=64), nullable=False),
        sa.Column("server", sa.Text(), nullable=False),
        sa.Column("tool", sa.Text(), nullable=False),
        sa.Column("iss", sa.Text(), nullable=False),
        sa.Column("sub", sa.Text(), nullable=False),
        sa.Column("client_id", sa.Text(), nullable=True),
        sa.Column("agent", sa.Text(), nullable=True),
        sa.Column("data_key", sa.LargeBinary(), nullable=False),
        sa.Column("binding", sa.LargeBinary(), nullable=False),
        sa.Column("approval", sa.LargeBinary(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ttl_ms", sa.BigInteger(), nullable=False),
        sa.Column("pending_deadline", sa.DateTime(timezone=True), nullable=False),
        sa.Column("approved_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("execution_deadline", sa.DateTime(timezone=True), nullable=True),
        sa.Column("terminalized_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("next_due", sa.DateTime(timezone=True), nullable=True),
        sa.Column("purge_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("worker", sa.String(length=64), nullable=True),
        sa.Column("invoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("(phase = 'done') = (ending IS NOT NULL)", name=op.f("ck_gate_task_done_has_ending")),
        sa.CheckConstraint(
            "(phase = 'done') = (terminalized_at IS NOT NULL)", name=op.f("ck_gate_task_done_has_instant")
        ),
        sa.CheckConstraint("announced OR phase IN ('intent', 'done')", name=op.f("ck_gate_task_announced")),
        sa.CheckConstraint(
            "ending IS NULL OR ending IN ('approved-executed', 'denied-not-executed', 'execution-error', "
            "'outcome-unknown', 'cancelled', 'failed')",
            name=op.f("ck_gate_task_ending"),
        ),
        sa.CheckConstraint(
            "phase <> 'claimed' OR (worker IS NOT NULL AND execution_deadline IS NOT NULL)",
            name=op.f("ck_gate_task_claim"),
        ),
        sa.CheckConstraint(
            "phase <> 'done' OR (ending IN ('approved-executed', 'execution-error', 'outcome-unknown')) = "
            "(worker IS NOT NULL)",
            name=op.f("ck_gate_task_ran_only_if_claimed"),
        ),
        sa.CheckConstraint(
            "phase IN ('intent', 'input', 'pending', 'granted', 'waiting', 'resubmitting', 'claimed', 'done')",
            name=op.f("ck_gate_task_phase"),
        ),
        sa.PrimaryKeyConstraint("id", name="pk_gate_task"),
    )


def _task_indexes() -> None:
    """How tasks are found, and the lock against a second open task for one call."""
    op.create_index(
        "ix_gate_task_next_due",
        "gate_task",
        ["next_due"],
        unique=False,
        sqlite_where=sa.text("phase <> 'done'"),
        postgresql_where=sa.text("phase <> 'done'"),
    )
    op.create_index("ix_gate_task_owner", "gate_task", ["iss", "sub", "created_at"], unique=False)
    op.create_index(
        "ix_gate_task_purge_at",
        "gate_task",
        ["purge_at"],
        unique=False,
        sqlite_where=sa.text("phase = 'done'"),
        postgresql_where=sa.text("phase = 'done'"),
    )
    op.create_index(
        "ux_gate_task_open_digest",
        "gate_task",
        ["digest"],
        unique=True,
        sqlite_where=sa.text("phase <> 'done'"),
        postgresql_where=sa.text("phase <> 'done'"),
    )


def _parts_of_tasks() -> None:
    """What belongs to a task and goes with it."""
    op.create_table(
        "gate_input",
        sa.Column("task_id", sa.String(length=64), nullable=False),
        sa.Column("key", sa.String(length=64), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("question_version", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("request", sa.LargeBinary(), nullable=False),
        sa.Column("answer", sa.LargeBinary(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("state IN ('open', 'answered', 'declined', 'withdrawn')", name=op.f("ck_gate_input_state")),
        sa.ForeignKeyConstraint(["task_id"], ["gate_task.id"], name="fk_gate_input_task_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("task_id", "key", name="pk_gate_input"),
    )
    op.create_table(
        "gate_outcome",
        sa.Column("task_id", sa.String(length=64), nullable=False),
        sa.Column("result", sa.LargeBinary(), nullable=False),
        sa.Column("stored_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["task_id"], ["gate_task.id"], name="fk_gate_outcome_task_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("task_id", name="pk_gate_outcome"),
    )
    op.create_table(
        "gate_submission",
        sa.Column("task_id", sa.String(length=64), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("key", sa.String(length=64), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("handle", sa.LargeBinary(), nullable=True),
        sa.Column("handle_ref", sa.String(length=64), nullable=True),
        sa.Column("state_ref", sa.String(length=64), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint(
            "(state = 'accepted') <= (handle IS NOT NULL)", name=op.f("ck_gate_submission_accepted_has_handle")
        ),
        sa.CheckConstraint(
            "state IN ('sending', 'accepted', 'refused', 'consumed')", name=op.f("ck_gate_submission_state")
        ),
        sa.ForeignKeyConstraint(["task_id"], ["gate_task.id"], name="fk_gate_submission_task_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("task_id", "generation", name="pk_gate_submission"),
    )
    op.create_index("ix_gate_submission_created_at", "gate_submission", ["created_at"], unique=False)
    op.create_index("ix_gate_submission_handle_ref", "gate_submission", ["handle_ref"], unique=False)
    op.create_index("ux_gate_submission_key", "gate_submission", ["key"], unique=True)
    op.create_index("ux_gate_submission_state_ref", "gate_submission", ["state_ref"], unique=True)


def _outbox() -> None:
    """What is still to be told to the backend."""
    op.create_table(
        "gate_outbox",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("task_id", sa.String(length=64), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("reference", sa.Text(), nullable=True),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("due_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("kind IN ('cancel', 'report', 'answer')", name=op.f("ck_gate_outbox_kind")),
        sa.CheckConstraint("state IN ('waiting', 'sent', 'dead')", name=op.f("ck_gate_outbox_state")),
        sa.ForeignKeyConstraint(["task_id"], ["gate_task.id"], name="fk_gate_outbox_task_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_gate_outbox"),
    )
    op.create_index(
        "ix_gate_outbox_due_at",
        "gate_outbox",
        ["due_at"],
        unique=False,
        sqlite_where=sa.text("state = 'waiting'"),
        postgresql_where=sa.text("state = 'waiting'"),
    )
    op.create_index("ix_gate_outbox_task_id", "gate_outbox", ["task_id"], unique=False)


def _records() -> None:
    """What outlives tasks."""
    op.create_table(
        "gate_audit",
        sa.Column("seq", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("task_id", sa.String(length=64), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name="pk_gate_audit"),
    )
    op.create_index("ix_gate_audit_task_id", "gate_audit", ["task_id", "seq"], unique=False)
    op.create_table(
        "gate_nonce",
        sa.Column("value", sa.String(length=128), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("value", name="pk_gate_nonce"),
    )
    op.create_index("ix_gate_nonce_expires_at", "gate_nonce", ["expires_at"], unique=False)
    op.create_table(
        "gate_worker",
        sa.Column("epoch", sa.String(length=64), nullable=False),
        sa.Column("instance", sa.String(length=128), nullable=True),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("epoch", name="pk_gate_worker"),
    )
