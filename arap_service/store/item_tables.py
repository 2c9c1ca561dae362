"""The table of what a bundled request asks for: one row for each item, living like a small task of its own.

What all items share (subject, context, submitter, client, callback, the key that seals) is in the row of the task; its
`item_count` says that there are items, and columns that they have as well hold what the first of them has. Steps, votes
and approvals name the item that they belong to. See ARS-82.
"""

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, CheckConstraint, Index, text
from sqlmodel import Field

from arap_service.store.tables import TASK_STATUSES, Row

_STATUSES = ", ".join(f"'{status}'" for status in TASK_STATUSES if status != "partial")
_PENDING = text("status = 'pending'")


class TaskItem(Row, table=True):
    """One resource and action of a bundle; `item` is its position, counted from 1, and `version` its own."""

    __table_args__ = (
        CheckConstraint(f"status IN ({_STATUSES})", name="status"),
        CheckConstraint("(status = 'pending') = (ended_at IS NULL)", name="ended"),
        CheckConstraint("item >= 1 AND version >= 1", name="counts"),
        CheckConstraint("binding IN ('token', 'id')", name="binding"),
        Index("ix_task_item_open", "evaluation_id", sqlite_where=_PENDING, postgresql_where=_PENDING),
    )

    task_id: str = Field(primary_key=True, foreign_key="task.id", ondelete="CASCADE")
    item: int = Field(primary_key=True)
    status: str = "pending"
    version: int = 1
    template_id: str
    rule_id: str
    reason: str
    template: dict[str, Any] = Field(sa_type=JSON)  # as it stood at submission, like that of a task
    resource_type: str
    resource_id: str
    action_name: str
    evaluation_id: str | None = None
    binding: str
    binding_iss: str | None = None
    binding_jti: str | None = None
    binding_hash: str
    binding_members: list[str] = Field(sa_type=JSON)
    pending_until: datetime
    requested_until: datetime | None = None
    ended_at: datetime | None = None
    ended_by: str | None = None
    asked_sealed: bytes  # resource, action and effective requested_access
    effect_sealed: bytes | None = None
    decision_sealed: bytes | None = None
