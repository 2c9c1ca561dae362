"""Let one request ask for several things, each with a life of its own."""

import sqlalchemy as sa

from alembic import op

revision = "service_0003"
down_revision = "service_0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this step."""
    op.add_column("task", sa.Column("item_count", sa.Integer(), server_default=sa.text("0"), nullable=False))
    _items()
    # Each item has an approval of its own, and each approval is reported on by itself.
    op.drop_index("uq_execution_generation", "execution")
    op.create_index(
        "uq_execution_generation", "execution", ["task_id", "approval_id", "generation", "disposition"], unique=True
    )


def downgrade() -> None:
    """Undo this step."""
    op.drop_index("uq_execution_generation", "execution")
    op.create_index("uq_execution_generation", "execution", ["task_id", "generation", "disposition"], unique=True)
    op.drop_table("task_item")
    op.drop_column("task", "item_count")


def _items() -> None:
    """The items of bundled requests."""
    op.create_table(
        "task_item",
        sa.Column("task_id", sa.String(), nullable=False),
        sa.Column("item", sa.Integer(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("template_id", sa.String(), nullable=False),
        sa.Column("rule_id", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("template", sa.JSON(), nullable=False),
        sa.Column("resource_type", sa.String(), nullable=False),
        sa.Column("resource_id", sa.String(), nullable=False),
        sa.Column("action_name", sa.String(), nullable=False),
        sa.Column("evaluation_id", sa.String(), nullable=True),
        sa.Column("binding", sa.String(), nullable=False),
        sa.Column("binding_iss", sa.String(), nullable=True),
        sa.Column("binding_jti", sa.String(), nullable=True),
        sa.Column("binding_hash", sa.String(), nullable=False),
        sa.Column("binding_members", sa.JSON(), nullable=False),
        sa.Column("pending_until", sa.DateTime(timezone=True), nullable=False),
        sa.Column("requested_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ended_by", sa.String(), nullable=True),
        sa.Column("asked_sealed", sa.LargeBinary(), nullable=False),
        sa.Column("effect_sealed", sa.LargeBinary(), nullable=True),
        sa.Column("decision_sealed", sa.LargeBinary(), nullable=True),
        sa.CheckConstraint(
            "status IN ('pending', 'approved', 'denied', 'expired', 'cancelled', 'failed')",
            name=op.f("ck_task_item_status"),
        ),
        sa.CheckConstraint("(status = 'pending') = (ended_at IS NULL)", name=op.f("ck_task_item_ended")),
        sa.CheckConstraint("item >= 1 AND version >= 1", name=op.f("ck_task_item_counts")),
        sa.CheckConstraint("binding IN ('token', 'id')", name=op.f("ck_task_item_binding")),
        sa.ForeignKeyConstraint(["task_id"], ["task.id"], name=op.f("fk_task_item_task_id_task"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("task_id", "item", name=op.f("pk_task_item")),
    )
    op.create_index(
        "ix_task_item_open",
        "task_item",
        ["evaluation_id"],
        sqlite_where=sa.text("status = 'pending'"),
        postgresql_where=sa.text("status = 'pending'"),
    )
