"""Keep the standing rules that reviewers propose and administrators confirm."""

import sqlalchemy as sa

from alembic import op

revision = "service_0015"
down_revision = "service_0014"
branch_labels = None
depends_on = None

_AT = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Apply this step."""
    op.create_table(
        "standing_rule",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("template_id", sa.String(), nullable=False),
        sa.Column("subject_type", sa.String(), nullable=False),
        sa.Column("subject_id", sa.String(), nullable=False),
        sa.Column("resource_type", sa.String(), nullable=False),
        sa.Column("resource_id", sa.String(), nullable=False),
        sa.Column("action_name", sa.String(), nullable=False),
        sa.Column("client_id", sa.String(), nullable=False),
        sa.Column("task_id", sa.String(), nullable=False),
        sa.Column("may_vary", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("days", sa.Integer(), nullable=False),
        sa.Column("proposed_by", sa.String(), nullable=False),
        sa.Column("proposed_at", _AT, nullable=False),
        sa.Column("confirmed_by", sa.String(), nullable=True),
        sa.Column("confirmed_at", _AT, nullable=True),
        sa.Column("expires_at", _AT, nullable=True),
        sa.Column("ended_by", sa.String(), nullable=True),
        sa.Column("ended_at", _AT, nullable=True),
        sa.Column("uses", sa.Integer(), nullable=False),
        sa.Column("last_used_at", _AT, nullable=True),
        sa.Column("data_key", sa.LargeBinary(), nullable=False),
        sa.Column("about_sealed", sa.LargeBinary(), nullable=False),
        sa.CheckConstraint("status IN ('proposed', 'active', 'ended')", name=op.f("ck_standing_rule_status")),
        sa.CheckConstraint("(status = 'ended') = (ended_at IS NOT NULL)", name=op.f("ck_standing_rule_over")),
        sa.CheckConstraint(
            "status <> 'active' OR (confirmed_at IS NOT NULL AND expires_at IS NOT NULL)",
            name=op.f("ck_standing_rule_confirmed"),
        ),
        sa.CheckConstraint("days >= 1 AND uses >= 0", name=op.f("ck_standing_rule_counts")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_standing_rule")),
    )
    is_active = sa.text("status = 'active'")
    op.create_index(
        "ix_standing_rule_active",
        "standing_rule",
        ["template_id", "subject_id", "client_id"],
        sqlite_where=is_active,
        postgresql_where=is_active,
    )
    op.create_index("ix_standing_rule_newest", "standing_rule", ["proposed_at", "id"])


def downgrade() -> None:
    """Undo this step."""
    op.drop_table("standing_rule")
