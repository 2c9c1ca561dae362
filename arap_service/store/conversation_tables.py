"""The tables of what people say to one another about an open request: questions, comments, and who works on it.

Rows are added and closed, never overwritten; what was said is sealed with the key of the task. Nothing in here decides
a request. See design.md sections 5 and 6.
"""

from datetime import datetime

from sqlalchemy import CheckConstraint, Index, text
from sqlmodel import Field

from arap_service.store.tables import Row

_OPEN = text("answered_at IS NULL")
_HELD = text("released_at IS NULL")


class Question(Row, table=True):
    """What a reviewer wants to know of the requester; one at a time, counted from 1 within its request."""

    __table_args__ = (
        CheckConstraint("number >= 1", name="number"),
        CheckConstraint("(answered_at IS NULL) = (answer_sealed IS NULL)", name="answer"),
        Index("uq_question_number", "task_id", "number", unique=True),
        Index("uq_question_open", "task_id", unique=True, sqlite_where=_OPEN, postgresql_where=_OPEN),
    )

    id: str = Field(primary_key=True)
    task_id: str = Field(foreign_key="task.id", ondelete="CASCADE")
    number: int
    asked_by: str
    asked_at: datetime
    asked_sealed: bytes  # message and schema
    answered_by: str | None = None
    answered_at: datetime | None = None
    answer_sealed: bytes | None = None


class Comment(Row, table=True):
    """What a reviewer wants other reviewers to know; the requester never sees it."""

    id: str = Field(primary_key=True)
    task_id: str = Field(foreign_key="task.id", ondelete="CASCADE", index=True)
    by: str
    at: datetime
    text_sealed: bytes


class Claim(Row, table=True):
    """That somebody works on a request; it keeps nobody from deciding."""

    __table_args__ = (Index("uq_claim_held", "task_id", unique=True, sqlite_where=_HELD, postgresql_where=_HELD),)

    id: str = Field(primary_key=True)
    task_id: str = Field(foreign_key="task.id", ondelete="CASCADE")
    by: str
    at: datetime
    released_at: datetime | None = None
