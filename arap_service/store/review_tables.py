"""The table of emergencies that were used: each is looked at afterwards by somebody who did not approve it.

A row stands for one approval; it is opened by the first use and closed once. What was written on closing is sealed
with the key of the task. Nothing is decided here. See ARS-119.
"""

from datetime import datetime

from sqlalchemy import CheckConstraint, Index, text
from sqlmodel import Field

from arap_service.store.tables import Row

_OPEN = text("closed_at IS NULL")


class EmergencyReview(Row, table=True):
    """The review of one emergency approval that was used."""

    __table_args__ = (
        CheckConstraint("(closed_at IS NULL) = (closed_by IS NULL)", name="closed"),
        CheckConstraint("(closed_at IS NULL) = (outcome IS NULL)", name="judged"),
        CheckConstraint("outcome IN ('justified', 'unjustified')", name="outcome"),
        Index("ix_emergency_review_open", "due_at", sqlite_where=_OPEN, postgresql_where=_OPEN),
    )

    approval_id: str = Field(primary_key=True, foreign_key="approval.id", ondelete="CASCADE")
    task_id: str = Field(foreign_key="task.id", ondelete="CASCADE", index=True)
    item: int = 0
    opened_at: datetime
    due_at: datetime
    closed_at: datetime | None = None
    closed_by: str | None = None
    outcome: str | None = None
    note_sealed: bytes | None = None
