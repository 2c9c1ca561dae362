"""The table of what requesters filled in for a denial, before anything was requested.

One row for each denial: filled in once, used once, gone with the denial or with the request that used it. The values
are sealed under a key of the row's own. Nothing in here decides anything. See design.md section 5.
"""

from datetime import datetime

from sqlalchemy import CheckConstraint, Index, text
from sqlmodel import Field

from arap_service.store.tables import Row

_UNUSED = text("used_at IS NULL")


class FilledForm(Row, table=True):
    """What was filled in for one denial; the binding says which later denials are of the same thing."""

    __table_args__ = (
        CheckConstraint("(used_at IS NULL) = (task_id IS NULL)", name="used"),
        Index(
            "ix_filled_form_unused",
            "binding_hash",
            "client_id",
            sqlite_where=_UNUSED,
            postgresql_where=_UNUSED,
        ),
    )

    evaluation_id: str = Field(primary_key=True)
    template_id: str
    caller: str
    client_id: str
    binding_hash: str
    evaluated_at: datetime  # when the denial was made that the values were chosen for
    expires_at: datetime = Field(index=True)
    filled_by: str
    filled_at: datetime
    used_at: datetime | None = None
    task_id: str | None = Field(default=None, foreign_key="task.id", ondelete="CASCADE", index=True)
    item: int = 0
    data_key: bytes
    values_sealed: bytes
