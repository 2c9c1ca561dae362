"""Remember the trace that a delivery belongs to, and count the open requests of a client by an index."""

import sqlalchemy as sa

from alembic import op

revision = "service_0004"
down_revision = "service_0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this step."""
    op.add_column("delivery", sa.Column("traceparent", sa.String(), nullable=True))
    op.create_index(
        "ix_task_open_client",
        "task",
        ["client_id"],
        sqlite_where=sa.text("status = 'pending'"),
        postgresql_where=sa.text("status = 'pending'"),
    )


def downgrade() -> None:
    """Undo this step."""
    op.drop_index("ix_task_open_client", "task")
    op.drop_column("delivery", "traceparent")
