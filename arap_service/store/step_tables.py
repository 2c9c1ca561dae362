"""The table of what becomes due with an open step: reminders, further people, its deadline.

A row is done by whoever sets `done_at` first, in the transaction that brings it about; so each is done once, by
whichever instance, and what nobody has done stays due.
"""

from datetime import datetime

from sqlalchemy import ForeignKeyConstraint
from sqlmodel import Field

from arap_service.store.tables import Row, _index_where, _one_of


class StepDue(Row, table=True):
    """Something to be done with a step at a moment."""

    __table_args__ = (
        _one_of("kind", "remind", "escalate", "deadline"),
        ForeignKeyConstraint(
            ["task_id", "item", "step_id"],
            ["step_state.task_id", "step_state.item", "step_state.step_id"],
            ondelete="CASCADE",
        ),
        _index_where("ix_step_due_open", "due_at", where="done_at IS NULL"),
    )

    task_id: str = Field(primary_key=True)
    item: int = Field(default=0, primary_key=True)
    step_id: str = Field(primary_key=True)
    kind: str = Field(primary_key=True)
    number: int = Field(primary_key=True)
    due_at: datetime
    done_at: datetime | None = None
