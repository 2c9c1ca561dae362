"""Let a step wait for others: which ones, and when it has opened; every step that there is has been open all along."""

import sqlalchemy as sa

from alembic import op

revision = "service_0010"
down_revision = "service_0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this step."""
    op.add_column("step_state", sa.Column("after", sa.JSON(), server_default=sa.text("'[]'"), nullable=False))
    op.add_column("step_state", sa.Column("opened_at", sa.DateTime(timezone=True), nullable=True))
    op.execute("UPDATE step_state SET opened_at = (SELECT created_at FROM task WHERE task.id = step_state.task_id)")


def downgrade() -> None:
    """Undo this step."""
    op.drop_column("step_state", "opened_at")
    op.drop_column("step_state", "after")
