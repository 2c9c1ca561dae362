"""Find approvals in force, dead deliveries and somebody's own requests without looking through all of them."""

import sqlalchemy as sa

from alembic import op

revision = "service_0012"
down_revision = "service_0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this step."""
    active = sa.text("status = 'active'")
    op.create_index(
        "ix_approval_in_force", "approval", ["approved_until", "id"], sqlite_where=active, postgresql_where=active
    )
    dead = sa.text("status = 'dead'")
    op.create_index("ix_delivery_dead", "delivery", ["created_at"], sqlite_where=dead, postgresql_where=dead)
    op.create_index("ix_task_submitter", "task", ["submitter", "created_at"])


def downgrade() -> None:
    """Undo this step."""
    op.drop_index("ix_task_submitter", "task")
    op.drop_index("ix_delivery_dead", "delivery")
    op.drop_index("ix_approval_in_force", "approval")
