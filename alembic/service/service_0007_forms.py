"""Keep what a requester fills in for a denial."""

import sqlalchemy as sa

from alembic import op

revision = "service_0007"
down_revision = "service_0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this step."""
    op.create_table(
        "filled_form",
        sa.Column("evaluation_id", sa.String(), nullable=False),
        sa.Column("template_id", sa.String(), nullable=False),
        sa.Column("caller", sa.String(), nullable=False),
        sa.Column("client_id", sa.String(), nullable=False),
        sa.Column("binding_hash", sa.String(), nullable=False),
        sa.Column("evaluated_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("filled_by", sa.String(), nullable=False),
        sa.Column("filled_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("used_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("task_id", sa.String(), nullable=True),
        sa.Column("item", sa.Integer(), nullable=False),
        sa.Column("data_key", sa.LargeBinary(), nullable=False),
        sa.Column("values_sealed", sa.LargeBinary(), nullable=False),
        sa.CheckConstraint("(used_at IS NULL) = (task_id IS NULL)", name=op.f("ck_filled_form_used")),
        sa.ForeignKeyConstraint(["task_id"], ["task.id"], name=op.f("fk_filled_form_task_id_task"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("evaluation_id", name=op.f("pk_filled_form")),
    )
    unused = sa.text("used_at IS NULL")
    op.create_index(
        "ix_filled_form_unused",
        "filled_form",
        ["binding_hash", "client_id"],
        sqlite_where=unused,
        postgresql_where=unused,
    )
    op.create_index(op.f("ix_filled_form_expires_at"), "filled_form", ["expires_at"])
    op.create_index(op.f("ix_filled_form_task_id"), "filled_form", ["task_id"])


def downgrade() -> None:
    """Undo this step."""
    op.drop_table("filled_form")
