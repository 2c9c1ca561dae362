"""Create the table of the local backend."""

import sqlalchemy as sa

from alembic import op

revision = "gate_0002"
down_revision = "gate_0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this step."""
    op.create_table(
        "gate_local_request",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("key", sa.String(length=64), nullable=False),
        sa.Column("body_digest", sa.String(length=64), nullable=False),
        sa.Column("call_digest", sa.String(length=64), nullable=False),
        sa.Column("data_key", sa.LargeBinary(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("keep_until", sa.DateTime(timezone=True), nullable=False),
        sa.Column("decided_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("decided_by", sa.Text(), nullable=True),
        sa.Column("reason", sa.LargeBinary(), nullable=True),
        sa.Column("approved_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("disposition", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "status IN ('pending', 'approved', 'denied', 'cancelled', 'expired')",
            name=op.f("ck_gate_local_request_status"),
        ),
        sa.CheckConstraint(
            "status NOT IN ('approved', 'denied') OR (decided_by IS NOT NULL AND decided_at IS NOT NULL)",
            name=op.f("ck_gate_local_request_decided"),
        ),
        sa.CheckConstraint(
            "status <> 'approved' OR approved_until IS NOT NULL", name=op.f("ck_gate_local_request_approved")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_gate_local_request")),
    )
    op.create_index("ux_gate_local_request_key", "gate_local_request", ["key"], unique=True)
    op.create_index("ix_gate_local_request_status", "gate_local_request", ["status", "created_at"])
    op.create_index("ix_gate_local_request_keep_until", "gate_local_request", ["keep_until"])


def downgrade() -> None:
    """Undo this step."""
    op.drop_table("gate_local_request")
