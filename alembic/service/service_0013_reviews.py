"""Review emergencies after their use."""

import sqlalchemy as sa

from alembic import op

revision = "service_0013"
down_revision = "service_0012"
branch_labels = None
depends_on = None

_AT = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Apply this step."""
    op.create_table(
        "emergency_review",
        sa.Column("approval_id", sa.String(), nullable=False),
        sa.Column("task_id", sa.String(), nullable=False),
        sa.Column("item", sa.Integer(), nullable=False),
        sa.Column("opened_at", _AT, nullable=False),
        sa.Column("due_at", _AT, nullable=False),
        sa.Column("closed_at", _AT, nullable=True),
        sa.Column("closed_by", sa.String(), nullable=True),
        sa.Column("outcome", sa.String(), nullable=True),
        sa.Column("note_sealed", sa.LargeBinary(), nullable=True),
        sa.CheckConstraint("(closed_at IS NULL) = (closed_by IS NULL)", name=op.f("ck_emergency_review_closed")),
        sa.CheckConstraint("(closed_at IS NULL) = (outcome IS NULL)", name=op.f("ck_emergency_review_judged")),
        sa.CheckConstraint("outcome IN ('justified', 'unjustified')", name=op.f("ck_emergency_review_outcome")),
        sa.ForeignKeyConstraint(
            ["approval_id"],
            ["approval.id"],
            name=op.f("fk_emergency_review_approval_id_approval"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["task_id"], ["task.id"], name=op.f("fk_emergency_review_task_id_task"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("approval_id", name=op.f("pk_emergency_review")),
    )
    is_open = sa.text("closed_at IS NULL")
    op.create_index(
        "ix_emergency_review_open", "emergency_review", ["due_at"], sqlite_where=is_open, postgresql_where=is_open
    )
    op.create_index(op.f("ix_emergency_review_task_id"), "emergency_review", ["task_id"])


def downgrade() -> None:
    """Undo this step."""
    op.drop_table("emergency_review")
