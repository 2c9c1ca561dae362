"""Let people decide in the place of others for a time, and keep in whose place somebody has decided."""

import sqlalchemy as sa

from alembic import op

revision = "service_0016"
down_revision = "service_0015"
branch_labels = None
depends_on = None

_AT = sa.DateTime(timezone=True)
_IN_PLACE = sa.text("in_place_of IS NOT NULL")


def upgrade() -> None:
    """Apply this step."""
    op.create_table(
        "delegation",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("person_id", sa.String(), nullable=False),
        sa.Column("deputy_id", sa.String(), nullable=False),
        sa.Column("starts_at", _AT, nullable=False),
        sa.Column("ends_at", _AT, nullable=False),
        sa.Column("groups", sa.JSON(), nullable=False),
        sa.Column("templates", sa.JSON(), nullable=False),
        sa.Column("created_at", _AT, nullable=False),
        sa.Column("created_by", sa.String(), nullable=False),
        sa.Column("ended_at", _AT, nullable=True),
        sa.Column("ended_by", sa.String(), nullable=True),
        sa.CheckConstraint("starts_at < ends_at", name=op.f("ck_delegation_period")),
        sa.CheckConstraint("person_id <> deputy_id", name=op.f("ck_delegation_others")),
        sa.CheckConstraint("(ended_at IS NULL) = (ended_by IS NULL)", name=op.f("ck_delegation_ended")),
        sa.ForeignKeyConstraint(
            ["person_id"], ["person.id"], name=op.f("fk_delegation_person_id_person"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["deputy_id"], ["person.id"], name=op.f("fk_delegation_deputy_id_person"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_delegation")),
    )
    op.create_index("ix_delegation_deputy", "delegation", ["deputy_id", "ends_at"])
    op.create_index("ix_delegation_person", "delegation", ["person_id", "ends_at"])
    op.add_column("vote", sa.Column("in_place_of", sa.String(), nullable=True))
    op.create_index(
        "uq_vote_seat",
        "vote",
        ["task_id", "item", "step_id", "in_place_of"],
        unique=True,
        sqlite_where=_IN_PLACE,
        postgresql_where=_IN_PLACE,
    )


def downgrade() -> None:
    """Undo this step."""
    op.drop_index("uq_vote_seat", "vote")
    op.drop_column("vote", "in_place_of")
    op.drop_table("delegation")
