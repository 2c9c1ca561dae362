"""Let an approval be wider than what was asked, and a denial propose other arguments."""

import sqlalchemy as sa

from alembic import op

revision = "service_0011"
down_revision = "service_0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this step."""
    op.add_column("vote", sa.Column("may_vary", sa.JSON(none_as_null=True), nullable=True))
    op.add_column("vote", sa.Column("proposed_sealed", sa.LargeBinary(), nullable=True))
    op.add_column("approval", sa.Column("scope", sa.JSON(none_as_null=True), nullable=True))


def downgrade() -> None:
    """Undo this step."""
    op.drop_column("approval", "scope")
    op.drop_column("vote", "proposed_sealed")
    op.drop_column("vote", "may_vary")
