"""What operators must hear of on whatever page they are: messages given up, a trail that nobody signs, rules refused.

It looks and says; what is done about it is decided on the pages that it leads to. See design.md section 7.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from sqlmodel import Session

from arap_service.context import Context
from arap_service.domain.callers import Scope
from arap_service.store import trouble
from arap_service.web.words import counted

RECENT: Final = timedelta(days=7)
_LATE: Final = 5
"""So many times the usual pause between checkpoints may pass before it is trouble."""


@dataclass(frozen=True, slots=True)
class Alert:
    """A sentence, and where one goes on; no path where nothing at the desk helps."""

    text: str
    path: str | None = None


async def alerts_of(ctx: Context, rights: frozenset[Scope]) -> tuple[Alert, ...]:
    """What somebody with these rights has to hear of now; nothing for anybody but operators and administrators."""
    if rights.isdisjoint((Scope.OPERATE, Scope.ADMIN)):
        return ()
    return await ctx.database.read(lambda session: tuple(_found(ctx, session, now=ctx.clock())))


def _found(ctx: Context, session: Session, *, now: datetime) -> list[Alert]:
    found: list[Alert] = []
    if ctx.policy.is_newer_refused:
        found.append(Alert("The rules file has faults and was not loaded; the rules before it are still in force."))
    if dead := trouble.dead_deliveries(session):
        found.append(Alert(f"{_many(dead, 'message', 'to other systems')} given up.", "/desk/deliveries"))
    if lost := trouble.dead_notices(session, since=now - RECENT):
        text = f"{_many(lost, 'notice', 'to people')} given up in the last week."
        found.append(Alert(text, "/desk/notices"))
    if failing := trouble.failing_notices(session):
        text = f"{_many(failing, 'notice', 'to people')} refused and will be tried again."
        found.append(Alert(text, "/desk/notices?show=pending"))
    signed = trouble.unsigned_since(session)
    if signed is not None and now - signed > timedelta(seconds=_LATE * ctx.settings.limits.checkpoint_seconds):
        found.append(Alert("The audit trail has grown, but nobody has signed it for too long."))
    return found


def _many(count: int, what: str, whom: str) -> str:
    if count > trouble.MOST:
        return f"More than {trouble.MOST} {what}s {whom} were"
    return f"{counted(count, what)} {whom} {'was' if count == 1 else 'were'}"
