"""Create the tables of the service."""

import sqlalchemy as sa

from alembic import op

revision = "service_0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this step."""
    _audit()
    _denials()
    _people()
    _keys()
    _tasks()
    _decisions()
    _deliveries()


def downgrade() -> None:
    """Undo this step."""
    for table in (
        "delivery_attempt",
        "delivery",
        "execution",
        "approval",
        "vote",
        "step_voice",
        "step_state",
        "task",
        "signing_key",
        "web_session",
        "account",
        "membership",
        "identity",
        "person",
        "tombstone",
        "idempotency_key",
        "jti_use",
        "denial",
        "audit_head",
        "audit_entry",
    ):
        op.drop_table(table)


def _audit() -> None:
    """The audit log."""
    op.create_table(
        "audit_entry",
        sa.Column("chain", sa.String(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("actor", sa.String(), nullable=False),
        sa.Column("evaluation_id", sa.String(), nullable=True),
        sa.Column("detail", sa.String(), nullable=False),
        sa.Column("previous", sa.String(), nullable=False),
        sa.Column("hash", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("chain", "seq", name=op.f("pk_audit_entry")),
    )
    op.create_index(op.f("ix_audit_entry_evaluation_id"), "audit_entry", ["evaluation_id"])
    op.create_table(
        "audit_head",
        sa.Column("chain", sa.String(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("hash", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("chain", name=op.f("pk_audit_head")),
    )


def _denials() -> None:
    """Denials and what a submission must not repeat."""
    op.create_table(
        "denial",
        sa.Column("evaluation_id", sa.String(), nullable=False),
        sa.Column("client_id", sa.String(), nullable=False),
        sa.Column("caller", sa.String(), nullable=False),
        sa.Column("template_id", sa.String(), nullable=False),
        sa.Column("rule_id", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("policy_version", sa.String(), nullable=False),
        sa.Column("agent", sa.String(), nullable=True),
        sa.Column("token_issued", sa.Boolean(), nullable=False),
        sa.Column("jti", sa.String(), nullable=True),
        sa.Column("binding_hash", sa.String(), nullable=False),
        sa.Column("binding_members", sa.JSON(), nullable=False),
        sa.Column("evaluated_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("data_key", sa.LargeBinary(), nullable=False),
        sa.Column("tuple_sealed", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("evaluation_id", name=op.f("pk_denial")),
    )
    op.create_index(op.f("ix_denial_expires_at"), "denial", ["expires_at"])
    op.create_table(
        "jti_use",
        sa.Column("iss", sa.String(), nullable=False),
        sa.Column("jti", sa.String(), nullable=False),
        sa.Column("task_id", sa.String(), nullable=False),
        sa.Column("keep_until", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("iss", "jti", name=op.f("pk_jti_use")),
    )
    op.create_index(op.f("ix_jti_use_keep_until"), "jti_use", ["keep_until"])
    op.create_table(
        "idempotency_key",
        sa.Column("caller", sa.String(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("body_digest", sa.String(), nullable=False),
        sa.Column("task_id", sa.String(), nullable=False),
        sa.Column("status_code", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("keep_until", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("caller", "key", name=op.f("pk_idempotency_key")),
    )
    op.create_index(op.f("ix_idempotency_key_keep_until"), "idempotency_key", ["keep_until"])
    op.create_index(op.f("ix_idempotency_key_task_id"), "idempotency_key", ["task_id"])
    op.create_table(
        "tombstone",
        sa.Column("task_id", sa.String(), nullable=False),
        sa.Column("submitter", sa.String(), nullable=False),
        sa.Column("client_id", sa.String(), nullable=False),
        sa.Column("removed_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("keep_until", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("task_id", name=op.f("pk_tombstone")),
    )
    op.create_index(op.f("ix_tombstone_keep_until"), "tombstone", ["keep_until"])


def _people() -> None:
    """People, and how they log in."""
    op.create_table(
        "person",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("email", sa.String(), nullable=True),
        sa.Column("active", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_person")),
    )
    op.create_table(
        "identity",
        sa.Column("iss", sa.String(), nullable=False),
        sa.Column("sub", sa.String(), nullable=False),
        sa.Column("person_id", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(
            ["person_id"], ["person.id"], name=op.f("fk_identity_person_id_person"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("iss", "sub", name=op.f("pk_identity")),
    )
    op.create_index(op.f("ix_identity_person_id"), "identity", ["person_id"])
    op.create_table(
        "membership",
        sa.Column("person_id", sa.String(), nullable=False),
        sa.Column("group_name", sa.String(), nullable=False),
        sa.Column("source", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(
            ["person_id"], ["person.id"], name=op.f("fk_membership_person_id_person"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("person_id", "group_name", name=op.f("pk_membership")),
    )
    op.create_index(op.f("ix_membership_group_name"), "membership", ["group_name"])
    op.create_table(
        "account",
        sa.Column("login", sa.String(), nullable=False),
        sa.Column("person_id", sa.String(), nullable=False),
        sa.Column("password_hash", sa.String(), nullable=False),
        sa.Column("active", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("changed_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["person_id"], ["person.id"], name=op.f("fk_account_person_id_person"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("login", name=op.f("pk_account")),
    )
    op.create_index(op.f("ix_account_person_id"), "account", ["person_id"])
    op.create_table(
        "web_session",
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("person_id", sa.String(), nullable=False),
        sa.Column("iss", sa.String(), nullable=False),
        sa.Column("sub", sa.String(), nullable=False),
        sa.Column("csrf", sa.String(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["person_id"], ["person.id"], name=op.f("fk_web_session_person_id_person"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_web_session")),
    )
    op.create_index(op.f("ix_web_session_expires_at"), "web_session", ["expires_at"])
    op.create_index(op.f("ix_web_session_person_id"), "web_session", ["person_id"])


def _keys() -> None:
    """The keys of the service."""
    op.create_table(
        "signing_key",
        sa.Column("kid", sa.String(), nullable=False),
        sa.Column("use", sa.String(), nullable=False),
        sa.Column("alg", sa.String(), nullable=False),
        sa.Column("public_jwk", sa.JSON(), nullable=False),
        sa.Column("private_sealed", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("active_from", sa.DateTime(timezone=True), nullable=False),
        sa.Column("retired_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("remove_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("use IN ('binding', 'approval', 'access-token')", name=op.f("ck_signing_key_use")),
        sa.PrimaryKeyConstraint("kid", name=op.f("pk_signing_key")),
    )
    op.create_index(op.f("ix_signing_key_use"), "signing_key", ["use"])


def _tasks() -> None:
    """Access requests."""
    op.create_table(
        "task",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("template_id", sa.String(), nullable=False),
        sa.Column("policy_version", sa.String(), nullable=False),
        sa.Column("rule_id", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("template", sa.JSON(), nullable=False),
        sa.Column("subject_type", sa.String(), nullable=False),
        sa.Column("subject_id", sa.String(), nullable=False),
        sa.Column("resource_type", sa.String(), nullable=False),
        sa.Column("resource_id", sa.String(), nullable=False),
        sa.Column("action_name", sa.String(), nullable=False),
        sa.Column("submitter_iss", sa.String(), nullable=False),
        sa.Column("submitter_sub", sa.String(), nullable=False),
        sa.Column("submitter", sa.String(), nullable=False),
        sa.Column("client_id", sa.String(), nullable=False),
        sa.Column("agent", sa.String(), nullable=True),
        sa.Column("actors", sa.JSON(), nullable=False),
        sa.Column("channel", sa.String(), nullable=False),
        sa.Column("server", sa.String(), nullable=True),
        sa.Column("tool", sa.String(), nullable=True),
        sa.Column("evaluation_id", sa.String(), nullable=True),
        sa.Column("binding", sa.String(), nullable=False),
        sa.Column("binding_iss", sa.String(), nullable=True),
        sa.Column("binding_jti", sa.String(), nullable=True),
        sa.Column("binding_hash", sa.String(), nullable=False),
        sa.Column("binding_members", sa.JSON(), nullable=False),
        sa.Column("arguments_hash", sa.String(), nullable=True),
        sa.Column("body_digest", sa.String(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("pending_until", sa.DateTime(timezone=True), nullable=False),
        sa.Column("requested_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ended_by", sa.String(), nullable=True),
        sa.Column("callback_endpoint", sa.String(), nullable=True),
        sa.Column("callback_events", sa.JSON(), nullable=False),
        sa.Column("data_key", sa.LargeBinary(), nullable=False),
        sa.Column("tuple_sealed", sa.LargeBinary(), nullable=False),
        sa.Column("request_sealed", sa.LargeBinary(), nullable=False),
        sa.Column("effect_sealed", sa.LargeBinary(), nullable=True),
        sa.Column("callback_state_sealed", sa.LargeBinary(), nullable=True),
        sa.Column("decision_sealed", sa.LargeBinary(), nullable=True),
        sa.CheckConstraint("(status = 'pending') = (ended_at IS NULL)", name=op.f("ck_task_ended")),
        sa.CheckConstraint("binding IN ('token', 'id')", name=op.f("ck_task_binding")),
        sa.CheckConstraint(
            "status IN ('pending', 'approved', 'denied', 'expired', 'cancelled', 'failed', 'partial')",
            name=op.f("ck_task_status"),
        ),
        sa.CheckConstraint("pending_until <= expires_at", name=op.f("ck_task_clocks")),
        sa.CheckConstraint("version >= 1", name=op.f("ck_task_version")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_task")),
    )
    op.create_index(
        "ix_task_due",
        "task",
        ["pending_until"],
        sqlite_where=sa.text("status = 'pending'"),
        postgresql_where=sa.text("status = 'pending'"),
    )
    op.create_index(op.f("ix_task_evaluation_id"), "task", ["evaluation_id"])
    op.create_index(op.f("ix_task_expires_at"), "task", ["expires_at"])
    op.create_index("ix_task_newest", "task", ["created_at", "id"])
    op.create_index("ix_task_queue", "task", ["status", "pending_until", "id"])
    op.create_index("ix_task_subject", "task", ["subject_id", "created_at"])
    op.create_index(
        "uq_task_open",
        "task",
        ["evaluation_id", "submitter", "client_id"],
        unique=True,
        sqlite_where=sa.text("status = 'pending'"),
        postgresql_where=sa.text("status = 'pending'"),
    )


def _decisions() -> None:
    """Steps, votes and what they lead to."""
    op.create_table(
        "step_state",
        sa.Column("task_id", sa.String(), nullable=False),
        sa.Column("item", sa.Integer(), nullable=False),
        sa.Column("step_id", sa.String(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("title", sa.String(), nullable=False),
        sa.Column("quorum", sa.Integer(), nullable=False),
        sa.Column("veto", sa.Integer(), nullable=False),
        sa.Column("repeat", sa.Boolean(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.CheckConstraint("status IN ('waiting', 'completed', 'ended')", name=op.f("ck_step_state_status")),
        sa.CheckConstraint("quorum >= 1 AND veto >= 1", name=op.f("ck_step_state_counts")),
        sa.ForeignKeyConstraint(["task_id"], ["task.id"], name=op.f("fk_step_state_task_id_task"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("task_id", "item", "step_id", name=op.f("pk_step_state")),
    )
    op.create_table(
        "step_voice",
        sa.Column("task_id", sa.String(), nullable=False),
        sa.Column("item", sa.Integer(), nullable=False),
        sa.Column("step_id", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.CheckConstraint("kind IN ('group', 'person', 'resolver')", name=op.f("ck_step_voice_kind")),
        sa.ForeignKeyConstraint(
            ["task_id", "item", "step_id"],
            ["step_state.task_id", "step_state.item", "step_state.step_id"],
            name=op.f("fk_step_voice_task_id_item_step_id_step_state"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("task_id", "item", "step_id", "kind", "name", name=op.f("pk_step_voice")),
    )
    op.create_index("ix_step_voice_name", "step_voice", ["kind", "name", "task_id"])
    op.create_table(
        "vote",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("task_id", sa.String(), nullable=False),
        sa.Column("item", sa.Integer(), nullable=False),
        sa.Column("step_id", sa.String(), nullable=False),
        sa.Column("voter", sa.String(), nullable=False),
        sa.Column("voter_kind", sa.String(), nullable=False),
        sa.Column("decision", sa.String(), nullable=False),
        sa.Column("version_seen", sa.Integer(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("channel", sa.String(), nullable=False),
        sa.Column("approved_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("reason_sealed", sa.LargeBinary(), nullable=True),
        sa.CheckConstraint("decision IN ('approve', 'deny')", name=op.f("ck_vote_decision")),
        sa.CheckConstraint("voter_kind IN ('person', 'resolver', 'evaluator')", name=op.f("ck_vote_voter_kind")),
        sa.ForeignKeyConstraint(["task_id"], ["task.id"], name=op.f("fk_vote_task_id_task"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_vote")),
    )
    op.create_index("uq_vote_voter", "vote", ["task_id", "item", "step_id", "voter"], unique=True)
    op.create_table(
        "approval",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("task_id", sa.String(), nullable=False),
        sa.Column("item", sa.Integer(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("approved_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("approved_until", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ended_by", sa.String(), nullable=True),
        sa.Column("reason_sealed", sa.LargeBinary(), nullable=True),
        sa.Column("state", sa.String(), nullable=False),
        sa.CheckConstraint("(status = 'active') = (ended_at IS NULL)", name=op.f("ck_approval_ended")),
        sa.CheckConstraint("status IN ('active', 'revoked', 'superseded')", name=op.f("ck_approval_status")),
        sa.CheckConstraint("approved_at < approved_until", name=op.f("ck_approval_lifetime")),
        sa.ForeignKeyConstraint(["task_id"], ["task.id"], name=op.f("fk_approval_task_id_task"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_approval")),
    )
    op.create_index(op.f("ix_approval_task_id"), "approval", ["task_id"])
    op.create_index(
        "uq_approval_active",
        "approval",
        ["task_id", "item"],
        unique=True,
        sqlite_where=sa.text("status = 'active'"),
        postgresql_where=sa.text("status = 'active'"),
    )
    op.create_table(
        "execution",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("task_id", sa.String(), nullable=False),
        sa.Column("approval_id", sa.String(), nullable=True),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("disposition", sa.String(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("received_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("reported_by", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["task_id"], ["task.id"], name=op.f("fk_execution_task_id_task"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_execution")),
    )
    op.create_index("uq_execution_generation", "execution", ["task_id", "generation", "disposition"], unique=True)


def _deliveries() -> None:
    """Notifications."""
    op.create_table(
        "delivery",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("task_id", sa.String(), nullable=False),
        sa.Column("client_id", sa.String(), nullable=False),
        sa.Column("endpoint", sa.String(), nullable=False),
        sa.Column("event", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("next_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_error", sa.String(), nullable=True),
        sa.Column("lease_owner", sa.String(), nullable=True),
        sa.Column("lease_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("body_sealed", sa.LargeBinary(), nullable=False),
        sa.CheckConstraint("status IN ('pending', 'delivered', 'dead', 'disabled')", name=op.f("ck_delivery_status")),
        sa.CheckConstraint("(lease_owner IS NULL) = (lease_until IS NULL)", name=op.f("ck_delivery_lease")),
        sa.ForeignKeyConstraint(["task_id"], ["task.id"], name=op.f("fk_delivery_task_id_task"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_delivery")),
    )
    op.create_index(
        "ix_delivery_due",
        "delivery",
        ["next_at"],
        sqlite_where=sa.text("status = 'pending'"),
        postgresql_where=sa.text("status = 'pending'"),
    )
    op.create_index(op.f("ix_delivery_task_id"), "delivery", ["task_id"])
    op.create_table(
        "delivery_attempt",
        sa.Column("delivery_id", sa.String(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("outcome", sa.String(), nullable=False),
        sa.Column("http_status", sa.Integer(), nullable=True),
        sa.Column("error", sa.String(), nullable=True),
        sa.ForeignKeyConstraint(
            ["delivery_id"], ["delivery.id"], name=op.f("fk_delivery_attempt_delivery_id_delivery"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("delivery_id", "number", name=op.f("pk_delivery_attempt")),
    )
