"""What happens to requests, as far as a caller may know, in the order of the log and resumable at any place of it.

Events are entries of the audit log: nothing is kept for a stream, so that any instance goes on where another one
stopped. Who may see which requests is judged at every look, by the rules of the queue. An event names a request and
what happened; everything else is asked for. See design.md section 6; ARS-63, ARS-98.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import ColumnElement, select
from sqlmodel import Session, col

from arap_service.auditing.places import place_entries
from arap_service.context import Context
from arap_service.domain.callers import Caller, Scope
from arap_service.domain.errors import Forbidden, InvalidRequest
from arap_service.domain.events import EVENT_KINDS, EVENTS
from arap_service.requests.grounds import grounds_of
from arap_service.requests.voters import decider_of
from arap_service.store import log, queueing
from arap_service.store.tables import AuditEntry, Task

BATCH: Final = 100


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a request; `position` is its place in the log."""

    position: int
    name: str
    request_id: str
    evaluation_id: str | None
    at: datetime


@dataclass(frozen=True, slots=True)
class Look:
    """What a look brought: events, the place to go on from, and whether there is more at once."""

    events: tuple[Event, ...]
    position: int
    more: bool


async def beginning(ctx: Context, caller: Caller, last_event_id: str | None) -> int:
    """Where a stream begins: after the event that the caller has seen last, or now.

    Raises:
        Forbidden: The caller may neither read nor decide requests.
        InvalidRequest: There is no such event.
    """
    if not (caller.may(Scope.APPROVAL_READ) or caller.may(Scope.APPROVAL_RESOLVE)):
        raise Forbidden(scope=Scope.APPROVAL_READ)
    await place_entries(ctx.database)
    newest = await ctx.database.read(log.last_position)
    if last_event_id is None:
        return newest
    known = last_event_id.isascii() and last_event_id.isdigit() and len(last_event_id) <= 18
    if not known or int(last_event_id) > newest:
        raise InvalidRequest("There is no such event; begin without one.", pointer="/Last-Event-ID")
    return int(last_event_id)


async def look(ctx: Context, caller: Caller, *, after: int) -> Look:
    """What has happened since a place, at most `BATCH` events of it.

    Raises:
        StoreUnavailable: The database is locked or cannot be reached.
    """
    await place_entries(ctx.database)
    return await ctx.database.read(
        lambda session: events_after(session, after=after, seen_by=_seen_by(ctx, session, caller))
    )


def events_after(session: Session, *, after: int, seen_by: Sequence[ColumnElement[bool]] = ()) -> Look:
    """Events after a place, of requests that satisfy all conditions."""
    until = log.last_position(session)
    kinds = col(AuditEntry.kind).in_(EVENT_KINDS)
    found = log.placed_entries(session, after=after, until=until, limit=BATCH, conditions=(kinds, *seen_by))
    events = tuple(
        Event(place.position, EVENTS[entry.kind], entry.chain, entry.evaluation_id, entry.at)
        for place, entry in found
        if entry is not None
    )
    more = len(found) == BATCH
    return Look(events, events[-1].position if more else max(until, after), more)


def _seen_by(ctx: Context, session: Session, caller: Caller) -> Sequence[ColumnElement[bool]]:
    if caller.may(Scope.APPROVAL_READ):
        return ()
    voiced = queueing.is_voiced(decider_of(session, caller, grounds_of(ctx)).voices)
    return (col(AuditEntry.chain).in_(select(col(Task.id)).where(voiced)),)
