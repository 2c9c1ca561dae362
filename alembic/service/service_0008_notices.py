"""Keep what people are to be told, and how they want to be told."""

import sqlalchemy as sa

from alembic import op

revision = "service_0008"
down_revision = "service_0007"
branch_labels = None
depends_on = None

_AT = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Apply this step."""
    op.create_table(
        "announcement",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("task_id", sa.String(), nullable=True),
        sa.Column("item", sa.Integer(), nullable=False),
        sa.Column("step_id", sa.String(), nullable=True),
        sa.Column("people", sa.JSON(), nullable=False),
        sa.Column("groups", sa.JSON(), nullable=False),
        sa.Column("actor", sa.String(), nullable=True),
        sa.Column("at", _AT, nullable=False),
        sa.Column("settled_at", _AT, nullable=True),
        sa.ForeignKeyConstraint(
            ["task_id"], ["task.id"], name=op.f("fk_announcement_task_id_task"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_announcement")),
        sa.UniqueConstraint("key", name=op.f("uq_announcement_key")),
    )
    is_open = sa.text("settled_at IS NULL")
    op.create_index("ix_announcement_open", "announcement", ["at"], sqlite_where=is_open, postgresql_where=is_open)
    op.create_index(op.f("ix_announcement_task_id"), "announcement", ["task_id"])
    _create_notice()
    op.create_table(
        "notice_preference",
        sa.Column("person_id", sa.String(), nullable=False),
        sa.Column("chosen", sa.JSON(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("digest_at", sa.String(), nullable=False),
        sa.Column("quiet_from", sa.String(), nullable=True),
        sa.Column("quiet_until", sa.String(), nullable=True),
        sa.Column("zone", sa.String(), nullable=False),
        sa.Column("changed_at", _AT, nullable=False),
        sa.CheckConstraint("digest IN ('none', 'hourly', 'daily')", name=op.f("ck_notice_preference_digest")),
        sa.ForeignKeyConstraint(
            ["person_id"], ["person.id"], name=op.f("fk_notice_preference_person_id_person"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("person_id", name=op.f("pk_notice_preference")),
    )


def _create_notice() -> None:
    op.create_table(
        "notice",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("announcement_id", sa.String(), nullable=False),
        sa.Column("person_id", sa.String(), nullable=False),
        sa.Column("channel", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("created_at", _AT, nullable=False),
        sa.Column("next_at", _AT, nullable=False),
        sa.Column("finished_at", _AT, nullable=True),
        sa.Column("last_error", sa.String(), nullable=True),
        sa.Column("message", sa.String(), nullable=True),
        sa.Column("restarted_at", _AT, nullable=True),
        sa.Column("earlier_attempts", sa.Integer(), nullable=False),
        sa.Column("lease_owner", sa.String(), nullable=True),
        sa.Column("lease_until", _AT, nullable=True),
        sa.CheckConstraint("status IN ('pending', 'sent', 'dead', 'dropped')", name=op.f("ck_notice_status")),
        sa.CheckConstraint("(status = 'pending') = (finished_at IS NULL)", name=op.f("ck_notice_finished")),
        sa.CheckConstraint("(lease_owner IS NULL) = (lease_until IS NULL)", name=op.f("ck_notice_lease")),
        sa.ForeignKeyConstraint(
            ["announcement_id"],
            ["announcement.id"],
            name=op.f("fk_notice_announcement_id_announcement"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_notice")),
    )
    op.create_index("uq_notice_recipient", "notice", ["announcement_id", "person_id", "channel"], unique=True)
    is_pending = sa.text("status = 'pending'")
    op.create_index("ix_notice_due", "notice", ["next_at"], sqlite_where=is_pending, postgresql_where=is_pending)
    op.create_index("ix_notice_newest", "notice", ["created_at", "id"])


def downgrade() -> None:
    """Undo this step."""
    op.drop_table("notice_preference")
    op.drop_table("notice")
    op.drop_table("announcement")
