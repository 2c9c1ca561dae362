"""Statements that count what somebody has to look after, each no further than it is shown."""

from datetime import datetime

from sqlalchemy import func, select
from sqlmodel import Session, col

from arap_service.store.log import has_open_heads, last_checkpoint
from arap_service.store.notice_tables import Notice
from arap_service.store.tables import Delivery

MOST = 100


def dead_deliveries(session: Session) -> int:
    """How many deliveries were given up; above `MOST` it stops counting."""
    found = select(col(Delivery.id)).where(col(Delivery.status) == "dead").limit(MOST + 1)
    return int(session.execute(select(func.count()).select_from(found.subquery())).scalar_one())


def dead_notices(session: Session, *, since: datetime) -> int:
    """How many notices of the time since then were given up; above `MOST` it stops counting."""
    found = select(col(Notice.id)).where(col(Notice.created_at) >= since, col(Notice.status) == "dead").limit(MOST + 1)
    return int(session.execute(select(func.count()).select_from(found.subquery())).scalar_one())


def failing_notices(session: Session) -> int:
    """How many notices have failed and wait to be tried again; above `MOST` it stops counting."""
    is_failing = (col(Notice.status) == "pending", col(Notice.last_error).is_not(None))
    found = select(col(Notice.id)).where(*is_failing).limit(MOST + 1)
    return int(session.execute(select(func.count()).select_from(found.subquery())).scalar_one())


def unsigned_since(session: Session) -> datetime | None:
    """When the newest checkpoint was signed, if there are entries that it does not cover; else None."""
    last = last_checkpoint(session)
    return last.at if last is not None and has_open_heads(session) else None
