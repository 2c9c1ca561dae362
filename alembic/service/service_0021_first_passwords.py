"""Remember which passwords were set for somebody, until when they count, and which log-ins have to replace one."""

import sqlalchemy as sa

from alembic import op

revision = "service_0021"
down_revision = "service_0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this step."""
    op.add_column("account", sa.Column("first_until", sa.DateTime(timezone=True), nullable=True))
    op.add_column("web_session", sa.Column("must_change", sa.Boolean(), nullable=False, server_default=sa.false()))


def downgrade() -> None:
    """Undo this step."""
    op.drop_column("web_session", "must_change")
    op.drop_column("account", "first_until")
