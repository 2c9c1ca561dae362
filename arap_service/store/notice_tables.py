"""The tables of notices: what is to be told, to whom it was told and how, and how people want to be told.

An announcement is written with what it tells about; its notices follow when somebody works it off, one for each person
and channel, so that nobody is told twice. No column holds what was asked for, only names, codes and moments. Nothing
is decided here. See design.md section 7.
"""

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, CheckConstraint, Index, text
from sqlmodel import Field

from arap_service.store.tables import Row

_OPEN = text("settled_at IS NULL")
_PENDING = text("status = 'pending'")


class Announcement(Row, table=True):
    """Something that people are to be told of; `key` makes that one announcement however often it is made."""

    __table_args__ = (Index("ix_announcement_open", "at", sqlite_where=_OPEN, postgresql_where=_OPEN),)

    id: str = Field(primary_key=True)
    key: str = Field(unique=True)
    kind: str
    task_id: str | None = Field(default=None, foreign_key="task.id", ondelete="CASCADE", index=True)
    item: int = 0
    step_id: str | None = None
    people: list[str] = Field(sa_type=JSON)  # ids of persons that are named; for deciders a narrower choice
    groups: list[str] = Field(sa_type=JSON)  # the same, by group
    actor: str | None = None  # who caused it, and is not told
    at: datetime
    settled_at: datetime | None = None  # when its notices were written


class Notice(Row, table=True):
    """One message to one person by one channel, or to the room behind a channel, for which the person is empty."""

    __table_args__ = (
        CheckConstraint("status IN ('pending', 'sent', 'dead', 'dropped')", name="status"),
        CheckConstraint("(status = 'pending') = (finished_at IS NULL)", name="finished"),
        CheckConstraint("(lease_owner IS NULL) = (lease_until IS NULL)", name="lease"),
        Index("uq_notice_recipient", "announcement_id", "person_id", "channel", unique=True),
        Index("ix_notice_due", "next_at", sqlite_where=_PENDING, postgresql_where=_PENDING),
        Index("ix_notice_newest", "created_at", "id"),
    )

    id: str = Field(primary_key=True)
    announcement_id: str = Field(foreign_key="announcement.id", ondelete="CASCADE")
    person_id: str
    channel: str
    status: str = "pending"
    version: int = 1
    attempts: int = 0
    created_at: datetime
    next_at: datetime
    finished_at: datetime | None = None
    last_error: str | None = None  # a code, never what the receiver said
    message: str | None = None  # the message that it went out in; several notices of a digest share one
    restarted_at: datetime | None = None
    earlier_attempts: int = 0
    lease_owner: str | None = None
    lease_until: datetime | None = None


class NoticePreference(Row, table=True):
    """How one person wants to be told; who has no row is told as the administrator has it."""

    __table_args__ = (CheckConstraint("digest IN ('none', 'hourly', 'daily')", name="digest"),)

    person_id: str = Field(primary_key=True, foreign_key="person.id", ondelete="CASCADE")
    chosen: dict[str, Any] = Field(sa_type=JSON)  # channels and kinds
    digest: str = "none"
    digest_at: str = "08:00"  # of a daily one, in the zone
    quiet_from: str | None = None
    quiet_until: str | None = None
    zone: str = "UTC"
    changed_at: datetime
