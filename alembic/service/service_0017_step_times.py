"""Let steps remind, ask further people and run out."""

import sqlalchemy as sa

from alembic import op

revision = "service_0017"
down_revision = "service_0016"
branch_labels = None
depends_on = None

_AT = sa.DateTime(timezone=True)
_OPEN = sa.text("done_at IS NULL")


def upgrade() -> None:
    """Apply this step."""
    op.add_column("step_state", sa.Column("timing", sa.JSON(), nullable=True))
    op.add_column("step_state", sa.Column("escalated_at", _AT, nullable=True))
    op.create_table(
        "step_due",
        sa.Column("task_id", sa.String(), nullable=False),
        sa.Column("item", sa.Integer(), nullable=False),
        sa.Column("step_id", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("due_at", _AT, nullable=False),
        sa.Column("done_at", _AT, nullable=True),
        sa.CheckConstraint("kind IN ('remind', 'escalate', 'deadline')", name=op.f("ck_step_due_kind")),
        sa.ForeignKeyConstraint(
            ["task_id", "item", "step_id"],
            ["step_state.task_id", "step_state.item", "step_state.step_id"],
            name=op.f("fk_step_due_task_id_item_step_id_step_state"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("task_id", "item", "step_id", "kind", "number", name=op.f("pk_step_due")),
    )
    op.create_index("ix_step_due_open", "step_due", ["due_at"], sqlite_where=_OPEN, postgresql_where=_OPEN)


def downgrade() -> None:
    """Undo this step."""
    op.drop_table("step_due")
    op.drop_column("step_state", "escalated_at")
    op.drop_column("step_state", "timing")
