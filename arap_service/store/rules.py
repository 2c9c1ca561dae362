"""Every statement about standing rules: guarded transitions, the look-up for a new request, the list."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import bindparam, literal_column, update
from sqlmodel import Session, col, select

from arap_service.store.database import WriteSession, connection_of
from arap_service.store.rule_tables import StandingRule
from arap_service.store.tasks import is_storable

_MOST: Final = 100
_FOR: Final = (  # made once, since making it takes longer than running it, and every submission asks
    select(StandingRule)
    .where(
        col(StandingRule.status) == literal_column("'active'"),
        col(StandingRule.template_id) == bindparam("template_id"),
        col(StandingRule.subject_id) == bindparam("subject_id"),
        col(StandingRule.subject_type) == bindparam("subject_type"),
        col(StandingRule.client_id) == bindparam("client_id"),
        col(StandingRule.expires_at) > bindparam("now"),
    )
    .order_by(col(StandingRule.confirmed_at), col(StandingRule.id))
    .limit(_MOST)
)
_HAS: Final = _FOR.with_only_columns(col(StandingRule.id)).order_by(None).limit(1)


def find_rule(session: Session, rule_id: str) -> StandingRule | None:
    """The rule with this id."""
    return session.get(StandingRule, rule_id) if is_storable(rule_id) else None


def rules_for(
    session: Session, *, template_id: str, subject: tuple[str, str], client_id: str, now: datetime
) -> Sequence[StandingRule]:
    """The rules in force that may be about a request of this subject by this client, the oldest first."""
    kind, subject_id = subject
    asked = {
        "template_id": template_id,
        "subject_id": subject_id,
        "subject_type": kind,
        "client_id": client_id,
        "now": now,
    }
    if connection_of(session).execute(_HAS, asked).first() is None:
        return ()  # as nearly always; to ask for objects takes several times as long
    return session.exec(_FOR, params=asked).all()


def use_rule(session: WriteSession, rule_id: str, *, now: datetime) -> bool:
    """Count a use; whether the rule still is in force, which nobody can end then before this transaction has."""
    done = session.execute(
        update(StandingRule)
        .where(
            col(StandingRule.id) == rule_id,
            col(StandingRule.status) == "active",
            col(StandingRule.expires_at) > now,
        )
        .values(uses=col(StandingRule.uses) + 1, last_used_at=now)
        .returning(col(StandingRule.id))
    )
    return done.first() is not None


def confirm_rule(session: WriteSession, rule: StandingRule, *, by: str, via: str, at: datetime, days: int) -> bool:
    """Proposed → active; whether it still was proposed."""
    done = session.execute(
        update(StandingRule)
        .where(col(StandingRule.id) == rule.id, col(StandingRule.status) == "proposed")
        .values(
            status="active",
            confirmed_by=by,
            confirmed_via=via,
            confirmed_at=at,
            days=days,
            expires_at=at + timedelta(days=days),
        )
        .returning(col(StandingRule.id))
    )
    return done.first() is not None


def end_rule(session: WriteSession, rule_id: str, *, by: str, at: datetime) -> bool:
    """Proposed or active → ended; whether it was not ended before."""
    done = session.execute(
        update(StandingRule)
        .where(col(StandingRule.id) == rule_id, col(StandingRule.status) != "ended")
        .values(status="ended", ended_by=by, ended_at=at)
        .returning(col(StandingRule.id))
    )
    return done.first() is not None


def rules_page(
    session: Session, *, status: str | None, now: datetime, after: tuple[datetime, str] | None, limit: int
) -> Sequence[StandingRule]:
    """Rules, the newest first, after a place in that order; an active one that has run out is `expired`."""
    wanted = select(StandingRule)
    if status in {"active", "expired"}:
        until = col(StandingRule.expires_at)
        wanted = wanted.where(StandingRule.status == "active", until > now if status == "active" else until <= now)
    elif status is not None:
        wanted = wanted.where(StandingRule.status == status)
    at, rule_id = col(StandingRule.proposed_at), col(StandingRule.id)
    if after is not None:
        wanted = wanted.where((at < after[0]) | ((at == after[0]) & (rule_id < after[1])))
    return session.exec(wanted.order_by(at.desc(), rule_id.desc()).limit(limit)).all()
