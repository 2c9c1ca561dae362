"""Remember by which way a standing rule was confirmed, since that says by what right."""

import sqlalchemy as sa

from alembic import op

revision = "service_0019"
down_revision = "service_0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this step."""
    op.add_column("standing_rule", sa.Column("confirmed_via", sa.String(), nullable=True))


def downgrade() -> None:
    """Undo this step."""
    op.drop_column("standing_rule", "confirmed_via")
