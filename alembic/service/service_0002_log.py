"""Give every audit entry a place in one log, sign checkpoints over it, and keep more about deliveries."""

import sqlalchemy as sa

from alembic import op

revision = "service_0002"
down_revision = "service_0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this step."""
    _log()
    _deliveries()


def downgrade() -> None:
    """Undo this step."""
    op.drop_index("ix_audit_head_open", "audit_head")
    with op.batch_alter_table("audit_head") as batch:
        batch.drop_column("placed")
    with op.batch_alter_table("delivery") as batch:
        for column in ("subscription", "restarted_at", "earlier_attempts"):
            batch.drop_column(column)
    for table in ("audit_place", "audit_checkpoint", "lease", "follower", "silenced_endpoint"):
        op.drop_table(table)


def _log() -> None:
    """Places, checkpoints, and who works on them."""
    op.add_column("audit_head", sa.Column("placed", sa.Integer(), server_default=sa.text("0"), nullable=False))
    op.create_index(
        "ix_audit_head_open",
        "audit_head",
        ["chain"],
        sqlite_where=sa.text("placed < seq"),
        postgresql_where=sa.text("placed < seq"),
    )
    op.create_table(
        "audit_place",
        sa.Column("position", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("chain", sa.String(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("hash", sa.String(), nullable=False),
        sa.CheckConstraint("position >= 1", name=op.f("ck_audit_place_position")),
        sa.PrimaryKeyConstraint("position", name=op.f("pk_audit_place")),
    )
    op.create_index("uq_audit_place_entry", "audit_place", ["chain", "seq"], unique=True)
    op.create_table(
        "audit_checkpoint",
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("root", sa.String(), nullable=False),
        sa.Column("peaks", sa.String(), nullable=False),
        sa.Column("signature", sa.String(), nullable=False),
        sa.CheckConstraint("number >= 1 AND size >= 1", name=op.f("ck_audit_checkpoint_counts")),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_audit_checkpoint")),
    )
    op.create_table(
        "lease",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("until", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_lease")),
    )
    op.create_table(
        "follower",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_follower")),
    )


def _deliveries() -> None:
    """Subscriptions, deliveries that are sent again, and endpoints that want nothing more."""
    op.add_column("delivery", sa.Column("subscription", sa.String(), nullable=True))
    op.add_column("delivery", sa.Column("restarted_at", sa.DateTime(timezone=True), nullable=True))
    op.add_column("delivery", sa.Column("earlier_attempts", sa.Integer(), server_default=sa.text("0"), nullable=False))
    op.create_table(
        "silenced_endpoint",
        sa.Column("client_id", sa.String(), nullable=False),
        sa.Column("endpoint", sa.String(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("client_id", "endpoint", name=op.f("pk_silenced_endpoint")),
    )
