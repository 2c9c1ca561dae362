"""Let a step name deciders by relations and by an expression."""

import sqlalchemy as sa

from alembic import op

revision = "service_0014"
down_revision = "service_0013"
branch_labels = None
depends_on = None

_BEFORE = "kind IN ('group', 'person', 'resolver')"
_AFTER = "kind IN ('group', 'person', 'resolver', 'relation', 'anybody')"


def upgrade() -> None:
    """Apply this step."""
    op.add_column("step_state", sa.Column("who", sa.String(), nullable=True))
    _kinds(_AFTER)


def downgrade() -> None:
    """Undo this step."""
    op.execute("DELETE FROM step_voice WHERE kind IN ('relation', 'anybody')")
    _kinds(_BEFORE)
    op.drop_column("step_state", "who")


def _kinds(condition: str) -> None:
    with op.batch_alter_table("step_voice") as table:
        table.drop_constraint(op.f("ck_step_voice_kind"), type_="check")
        table.create_check_constraint(op.f("ck_step_voice_kind"), condition)
