"""The whole audit log as somebody looks through it: the newest entries first, by kind and time, page by page.

Looks at a bounded part of the log at a time, so a page may hold fewer entries than asked for and still have a next one.
Everything that became of one request or evaluation is `reading.entries`; the right is the same. Design.md section 5.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from sqlalchemy import ColumnElement
from sqlmodel import Session, col

from arap_service.auditing.places import place_entries
from arap_service.auditing.reading import MAX_LIMIT, EntryView, view_of
from arap_service.context import Context
from arap_service.cursors import cursor, read_cursor
from arap_service.domain.callers import Caller, Scope
from arap_service.domain.errors import InvalidRequest
from arap_service.store import log
from arap_service.store.tables import AuditEntry
from arap_service.views import Page

_KIND: Final = "trail"
_PART: Final = 2_000
_MOST_PARTS: Final = 10
# Places are given after the fact, by chain, so times along them are only nearly in order.
_SLACK: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrailFilter:
    """Which entries; `since` and `until` are instants, the latter not included."""

    kind: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    cursor: str | None = None
    limit: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How far signed checkpoints cover the log: the newest one, and how many entries have a place by now."""

    number: int | None
    at: datetime | None
    covered: int
    size: int


async def standing(ctx: Context, caller: Caller) -> Standing:
    """How far checkpoints cover the log now.

    Raises:
        Forbidden: The caller may not read it.
    """
    caller.require(Scope.AUDIT_READ)

    def look(session: Session) -> Standing:
        last, size = log.last_checkpoint(session), log.last_position(session)
        if last is None:
            return Standing(number=None, at=None, covered=0, size=size)
        return Standing(number=last.number, at=last.at, covered=last.size, size=size)

    return await ctx.database.read(look)


async def trail(ctx: Context, caller: Caller, wanted: TrailFilter) -> Page[EntryView]:
    """A page of the log, the newest entries first.

    Raises:
        Forbidden: The caller may not read it.
        InvalidRequest: A part of the selection is malformed.
    """
    caller.require(Scope.AUDIT_READ)
    if not 1 <= wanted.limit <= MAX_LIMIT:
        raise InvalidRequest(f"The limit is a number from 1 to {MAX_LIMIT}.", pointer="/limit")
    before = None if wanted.cursor is None else int(read_cursor(wanted.cursor, _KIND, int)[0])
    if before is None:
        await place_entries(ctx.database)
    return await ctx.database.read(partial(_page, wanted=wanted, before=before))


def _page(session: Session, *, wanted: TrailFilter, before: int | None) -> Page[EntryView]:
    last = log.last_position(session)
    top = min(last, (before or last + 1) - 1)
    if wanted.until is not None and before is None:
        top = min(top, _position_at(session, wanted.until + _SLACK, last=top))
    bottom = 0 if wanted.since is None else _position_at(session, wanted.since - _SLACK, last=top)
    rows: list[EntryView] = []
    for _ in range(_MOST_PARTS):
        low = max(bottom, top - _PART)
        found = log.placed_entries_down(
            session, after=low, until=top, limit=wanted.limit - len(rows), conditions=_conditions(wanted)
        )
        rows += [view_of(entry) for _, entry in found]
        top = found[-1][0] - 1 if found and len(rows) == wanted.limit else low
        if len(rows) == wanted.limit or top <= bottom:
            break
    return Page(tuple(rows), cursor(_KIND, top + 1) if top > bottom else None)


def _conditions(wanted: TrailFilter) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if wanted.kind is not None:
        conditions.append(col(AuditEntry.kind) == wanted.kind)
    if wanted.since is not None:
        conditions.append(col(AuditEntry.at) >= wanted.since)
    if wanted.until is not None:
        conditions.append(col(AuditEntry.at) < wanted.until)
    return conditions


def _position_at(session: Session, moment: datetime, *, last: int) -> int:
    """About the place of the last entry that is not later than `moment`, found by halving."""
    low, high = 0, last
    while low < high:
        middle = (low + high + 1) // 2
        at = log.time_at(session, middle)
        # An entry that is gone says nothing; taking it for an early one looks at more, never at less, from below.
        if at is None or at <= moment:
            low = middle
        else:
            high = middle - 1
    return low
