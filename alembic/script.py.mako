"""${message}."""

import sqlalchemy as sa
from alembic import op
${"import sqlmodel.sql.sqltypes\n" if "sqlmodel" in (upgrades or "") else ""}${imports if imports else ""}
revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = ${repr(branch_labels)}
depends_on = ${repr(depends_on)}


def upgrade() -> None:
    """Apply this step."""
    ${upgrades if upgrades else "pass"}


def downgrade() -> None:
    """Undo this step."""
    ${downgrades if downgrades else "pass"}
