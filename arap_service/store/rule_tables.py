"""The table of standing rules: proposed from a decided request, confirmed by an administrator, in force for a while.

A rule is policy, not an approval: it is a voice in later requests and grants nothing itself. What it is about is sealed
under a key of the row's own; the columns are what a new request is looked up by. Nothing is decided here.
"""

from datetime import datetime
from typing import Any

from sqlalchemy import CheckConstraint, Index, text
from sqlmodel import Field

from arap_service.store.tables import JSON_OR_NULL, Row

_ACTIVE = text("status = 'active'")


class StandingRule(Row, table=True):
    """One rule; `may_vary` are the members in which a later request may differ from the one that it was made of."""

    __table_args__ = (
        CheckConstraint("status IN ('proposed', 'active', 'ended')", name="status"),
        CheckConstraint("(status = 'ended') = (ended_at IS NOT NULL)", name="over"),
        CheckConstraint(
            "status <> 'active' OR (confirmed_at IS NOT NULL AND expires_at IS NOT NULL)", name="confirmed"
        ),
        CheckConstraint("days >= 1 AND uses >= 0", name="counts"),
        Index(
            "ix_standing_rule_active",
            "template_id",
            "subject_id",
            "client_id",
            sqlite_where=_ACTIVE,
            postgresql_where=_ACTIVE,
        ),
        Index("ix_standing_rule_newest", "proposed_at", "id"),
    )

    id: str = Field(primary_key=True)
    status: str = "proposed"
    template_id: str
    subject_type: str
    subject_id: str
    resource_type: str
    resource_id: str
    action_name: str
    client_id: str
    task_id: str  # the request that it was made of, which may be gone by now
    may_vary: list[str] | None = Field(default=None, sa_type=JSON_OR_NULL)
    days: int
    proposed_by: str
    proposed_at: datetime
    confirmed_by: str | None = None
    confirmed_at: datetime | None = None
    confirmed_via: str | None = None  # desk, cli or api
    expires_at: datetime | None = None
    ended_by: str | None = None
    ended_at: datetime | None = None
    uses: int = 0
    last_used_at: datetime | None = None
    data_key: bytes
    about_sealed: bytes

    @property
    def varying(self) -> tuple[str, ...]:
        """The members that may vary."""
        found: list[Any] = self.may_vary or []
        return tuple(found)
