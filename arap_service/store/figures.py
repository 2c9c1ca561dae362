"""Every statement of reports: over the requests of a period, and over what waits now. They only read.

The period is one of `task.created_at`, which has an index; what belongs to a request is found by the request.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import case, func, literal
from sqlmodel import Session, col, select

from arap_service.store.tables import Task, Vote


@dataclass(frozen=True, slots=True)
class Asked:
    """What a report needs of one request."""

    template_id: str
    status: str
    created_at: datetime
    ended_at: datetime | None


def asked_between(session: Session, *, since: datetime, until: datetime, limit: int) -> Iterator[Asked]:
    """At most `limit` requests of a period, the newest first."""
    at = col(Task.created_at)
    found = (
        select(Task.template_id, Task.status, Task.created_at, Task.ended_at)
        .where(at >= since, at < until)
        .order_by(at.desc(), col(Task.id).desc())
        .limit(limit)
    )
    return (Asked(*row) for row in session.exec(found.execution_options(yield_per=1_000)))


def votes_between(session: Session, *, since: datetime, until: datetime) -> Sequence[tuple[str, str, str, int]]:
    """Voter, kind of voter, decision and how often, over the requests of a period."""
    at = col(Task.created_at)
    counted = (
        select(Vote.voter, Vote.voter_kind, Vote.decision, func.count())
        .join(Task, col(Task.id) == col(Vote.task_id))
        .where(at >= since, at < until)
        .group_by(Vote.voter, Vote.voter_kind, Vote.decision)
    )
    return [(voter, kind, decision, count) for voter, kind, decision, count in session.exec(counted)]


def waiting_by_age(
    session: Session, *, now: datetime, edges: Sequence[datetime]
) -> Sequence[tuple[str, int, datetime, int]]:
    """What waits now by template and age: the template, the age class, its oldest request and how many there are.

    `edges` part the classes, the latest first; class 0 is younger than all of them.
    """
    made = col(Task.created_at)
    age = case(*((made > edge, number) for number, edge in enumerate(edges)), else_=len(edges))
    counted = (
        select(Task.template_id, age, func.min(made), func.count())
        .where(Task.status == "pending", col(Task.pending_until) > literal(now))
        .group_by(Task.template_id, age)
    )
    return [(template, number, oldest, count) for template, number, oldest, count in session.exec(counted)]
