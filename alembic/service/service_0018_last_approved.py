"""Find the last approved requests of a subject at once."""

import sqlalchemy as sa

from alembic import op

revision = "service_0018"
down_revision = "service_0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this step."""
    approved = sa.text("status = 'approved'")
    op.create_index(
        "ix_task_last_approved",
        "task",
        ["subject_id", "ended_at"],
        sqlite_where=approved,
        postgresql_where=approved,
    )


def downgrade() -> None:
    """Undo this step."""
    op.drop_index("ix_task_last_approved", "task")
