"""The table of delegations: who decides in whose place, from when until when.

Rows are ended, never removed, while their people exist. Whether one counts is judged when somebody decides.
"""

from datetime import datetime

from sqlalchemy import JSON, CheckConstraint, Index
from sqlmodel import Field

from arap_service.store.tables import Row


class Delegation(Row, table=True):
    """`deputy_id` takes the seat of `person_id`; empty `groups` and `templates` mean all."""

    __table_args__ = (
        CheckConstraint("starts_at < ends_at", name="period"),
        CheckConstraint("person_id <> deputy_id", name="others"),
        CheckConstraint("(ended_at IS NULL) = (ended_by IS NULL)", name="ended"),
        Index("ix_delegation_deputy", "deputy_id", "ends_at"),
        Index("ix_delegation_person", "person_id", "ends_at"),
    )

    id: str = Field(primary_key=True)
    person_id: str = Field(foreign_key="person.id", ondelete="CASCADE")
    deputy_id: str = Field(foreign_key="person.id", ondelete="CASCADE")
    starts_at: datetime
    ends_at: datetime
    groups: list[str] = Field(default_factory=list, sa_type=JSON)
    templates: list[str] = Field(default_factory=list, sa_type=JSON)
    created_at: datetime
    created_by: str
    ended_at: datetime | None = None
    ended_by: str | None = None
