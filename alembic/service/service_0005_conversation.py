"""Let reviewers ask the requester, comment on a request and say that they work on it."""

import sqlalchemy as sa

from alembic import op

revision = "service_0005"
down_revision = "service_0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply this step."""
    _questions()
    op.create_table(
        "comment",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("task_id", sa.String(), nullable=False),
        sa.Column("by", sa.String(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("text_sealed", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["task_id"], ["task.id"], name=op.f("fk_comment_task_id_task"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_comment")),
    )
    op.create_index(op.f("ix_comment_task_id"), "comment", ["task_id"])
    op.create_table(
        "claim",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("task_id", sa.String(), nullable=False),
        sa.Column("by", sa.String(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("released_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["task_id"], ["task.id"], name=op.f("fk_claim_task_id_task"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_claim")),
    )
    held = sa.text("released_at IS NULL")
    op.create_index("uq_claim_held", "claim", ["task_id"], unique=True, sqlite_where=held, postgresql_where=held)


def downgrade() -> None:
    """Undo this step."""
    for table in ("claim", "comment", "question"):
        op.drop_table(table)


def _questions() -> None:
    op.create_table(
        "question",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("task_id", sa.String(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("asked_by", sa.String(), nullable=False),
        sa.Column("asked_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("asked_sealed", sa.LargeBinary(), nullable=False),
        sa.Column("answered_by", sa.String(), nullable=True),
        sa.Column("answered_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("answer_sealed", sa.LargeBinary(), nullable=True),
        sa.CheckConstraint("number >= 1", name=op.f("ck_question_number")),
        sa.CheckConstraint("(answered_at IS NULL) = (answer_sealed IS NULL)", name=op.f("ck_question_answer")),
        sa.ForeignKeyConstraint(["task_id"], ["task.id"], name=op.f("fk_question_task_id_task"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_question")),
    )
    unanswered = sa.text("answered_at IS NULL")
    op.create_index("uq_question_number", "question", ["task_id", "number"], unique=True)
    op.create_index(
        "uq_question_open", "question", ["task_id"], unique=True, sqlite_where=unanswered, postgresql_where=unanswered
    )
