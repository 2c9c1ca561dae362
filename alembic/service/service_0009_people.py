"""Keep where groups come from, who reports to whom, and how and when each session was last logged in to."""

from collections.abc import Sequence

import sqlalchemy as sa

from alembic import op

revision = "service_0009"
down_revision = "service_0008"
branch_labels = None
depends_on = None

_AT = sa.DateTime(timezone=True)
_SESSION: Sequence[str] = ("digest", "person_id", "iss", "sub", "csrf")


def upgrade() -> None:
    """Apply this step; everybody logs in again."""
    _membership("person_id", "group_name", "source")
    op.create_table(
        "manager",
        sa.Column("person_id", sa.String(), nullable=False),
        sa.Column("manager_id", sa.String(), nullable=False),
        _of_person("manager", "person_id"),
        _of_person("manager", "manager_id"),
        sa.PrimaryKeyConstraint("person_id", name=op.f("pk_manager")),
    )
    op.create_index(op.f("ix_manager_manager_id"), "manager", ["manager_id"])
    op.drop_table("web_session")
    _web_session(
        sa.Column("authenticated_at", _AT, nullable=False),
        sa.Column("method", sa.String(), nullable=False),
        sa.Column("browser", sa.String(), nullable=False),
        sa.Column("provider_sub", sa.String(), nullable=True),
        sa.Column("provider_sid", sa.String(), nullable=True),
        sa.Column("typed_sealed", sa.LargeBinary(), nullable=True),
        sa.CheckConstraint("method IN ('local', 'provider')", name=op.f("ck_web_session_method")),
    )
    op.create_index(op.f("ix_web_session_provider_sub"), "web_session", ["provider_sub"])
    op.create_index(op.f("ix_web_session_provider_sid"), "web_session", ["provider_sid"])
    op.create_table(
        "login_attempt",
        sa.Column("state_digest", sa.String(), nullable=False),
        sa.Column("browser_digest", sa.String(), nullable=False),
        sa.Column("target", sa.String(), nullable=False),
        sa.Column("person_id", sa.String(), nullable=True),
        sa.Column("started_at", _AT, nullable=False),
        sa.Column("expires_at", _AT, nullable=False),
        _of_person("login_attempt", "person_id"),
        sa.PrimaryKeyConstraint("state_digest", name=op.f("pk_login_attempt")),
    )
    op.create_index(op.f("ix_login_attempt_expires_at"), "login_attempt", ["expires_at"])
    op.create_index(op.f("ix_login_attempt_person_id"), "login_attempt", ["person_id"])
    op.create_table(
        "spent_logout",
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("expires_at", _AT, nullable=False),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_spent_logout")),
    )
    op.create_index(op.f("ix_spent_logout_expires_at"), "spent_logout", ["expires_at"])


def downgrade() -> None:
    """Undo this step."""
    for table in ("spent_logout", "login_attempt", "web_session", "manager"):
        op.drop_table(table)
    _web_session()
    _membership("person_id", "group_name")


def _of_person(table: str, column: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        [column], ["person.id"], name=op.f(f"fk_{table}_{column}_person"), ondelete="CASCADE"
    )


def _web_session(*more: sa.schema.SchemaItem) -> None:
    op.create_table(
        "web_session",
        *(sa.Column(name, sa.String(), nullable=False) for name in _SESSION),
        *(sa.Column(name, _AT, nullable=False) for name in ("created_at", "seen_at", "expires_at")),
        *more,
        _of_person("web_session", "person_id"),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_web_session")),
    )
    op.create_index(op.f("ix_web_session_expires_at"), "web_session", ["expires_at"])
    op.create_index(op.f("ix_web_session_person_id"), "web_session", ["person_id"])


def _membership(*key: str) -> None:
    """Make the table anew under another key: not every engine can change one."""
    names = ("person_id", "group_name", "source")
    old = sa.table("membership", *(sa.column(name) for name in names))
    rows = {tuple(getattr(row, name) for name in key): row._asdict() for row in op.get_bind().execute(sa.select(old))}
    op.drop_table("membership")
    made = op.create_table(
        "membership",
        *(sa.Column(name, sa.String(), nullable=False) for name in names),
        _of_person("membership", "person_id"),
        sa.PrimaryKeyConstraint(*key, name=op.f("pk_membership")),
    )
    op.create_index(op.f("ix_membership_group_name"), "membership", ["group_name"])
    op.bulk_insert(made, list(rows.values()))
