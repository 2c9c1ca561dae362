"""Tell evaluations of the same name apart by the decision point that minted the name."""

import sqlalchemy as sa

from alembic import op

revision = "service_0006"
down_revision = "service_0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this step."""
    op.drop_index("uq_task_open", "task")
    _unique("uq_task_open_id", "evaluation_id", "submitter", "client_id", where="status = 'pending' AND binding = 'id'")
    _unique(
        "uq_task_open_token",
        "evaluation_id",
        "binding_iss",
        "submitter",
        "client_id",
        where="status = 'pending' AND binding = 'token'",
    )


def downgrade() -> None:
    """Undo this step."""
    op.drop_index("uq_task_open_token", "task")
    op.drop_index("uq_task_open_id", "task")
    _unique("uq_task_open", "evaluation_id", "submitter", "client_id", where="status = 'pending'")


def _unique(name: str, *columns: str, where: str) -> None:
    op.create_index(
        name, "task", list(columns), unique=True, sqlite_where=sa.text(where), postgresql_where=sa.text(where)
    )
