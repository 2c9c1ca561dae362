"""Reports for those who answer for how requests are decided: how long, how many, by whom, and what waits now.

Counted are the requests that were made in the period and are still kept, at most the newest `MOST` of them, and the
report says when there were more. It reads, names people by their decisions only, and nothing of what was asked for.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from itertools import islice
from typing import Final
from zoneinfo import ZoneInfo

from sqlmodel import Session

from arap_service.context import Context
from arap_service.domain.callers import Caller, Scope
from arap_service.domain.errors import InvalidRequest
from arap_service.domain.visible import visible
from arap_service.store import figures as statements
from arap_service.store import people, rules

MOST: Final = 50_000
MOST_RULES: Final = 500
LONGEST: Final = timedelta(days=366)
AGES: Final = (timedelta(hours=1), timedelta(hours=4), timedelta(days=1), timedelta(days=3))
"""Where the age classes of what waits are parted."""
DECIDED: Final = frozenset({"approved", "denied", "partial"})


@dataclass(frozen=True, slots=True)
class Period:
    """The days from `first` to `last`, both whole, as a zone counts them."""

    first: date
    last: date
    zone: ZoneInfo

    @property
    def since(self) -> datetime:
        """The instant at which it begins."""
        return datetime.combine(self.first, time.min, self.zone)

    @property
    def until(self) -> datetime:
        """The instant at which it is over."""
        return datetime.combine(self.last + timedelta(days=1), time.min, self.zone)

    @property
    def days(self) -> Sequence[date]:
        """Its days."""
        return [self.first + timedelta(days=n) for n in range((self.last - self.first).days + 1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateFigures:
    """The requests of one template; times to a decision in whole seconds, None where nothing was decided."""

    template: str
    title: str
    asked: int
    approved: int
    denied: int
    expired: int
    other: int
    waiting: int
    median_seconds: int | None
    p90_seconds: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonFigures:
    """How often somebody approved and denied; `kind` is person, resolver or evaluator."""

    voter: str
    name: str
    kind: str
    approved: int
    denied: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingFigures:
    """What waits now: how many of each age class, and since when the oldest does."""

    template: str
    title: str
    by_age: tuple[int, ...]
    oldest: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class DayFigures:
    """One day of the zone: how many requests were made, by what became of them."""

    day: date
    approved: int
    denied: int
    other: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFigures:
    """A standing rule that is in force: for how long it has been, until when, and how often it decided."""

    id: str
    title: str
    confirmed_at: datetime
    days_in_force: int
    expires_at: datetime
    uses: int
    last_used_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All figures of a period; `is_cut` says that only the newest requests of it are in them."""

    period: Period
    made_at: datetime
    is_cut: bool
    whole: TemplateFigures
    by_template: tuple[TemplateFigures, ...]
    by_person: tuple[PersonFigures, ...]
    by_day: tuple[DayFigures, ...]
    waiting: tuple[WaitingFigures, ...]
    rules: tuple[RuleFigures, ...]


async def report(ctx: Context, caller: Caller, period: Period) -> Report:
    """The figures of a period.

    Raises:
        Forbidden: The caller is neither administrator nor auditor.
        InvalidRequest: The period ends before it begins, or is too long.
    """
    if not caller.may(Scope.ADMIN):
        caller.require(Scope.AUDIT_READ)
    if period.last < period.first or period.last - period.first > LONGEST:
        raise InvalidRequest("The period has from 1 to 367 days.", pointer="/until")
    titles = {name: template.title for name, template in ctx.policy.current().templates.items()}
    return await ctx.database.read(lambda session: _report(session, period, titles, now=ctx.clock()))


def _report(session: Session, period: Period, titles: Mapping[str, str], *, now: datetime) -> Report:
    found = list(
        islice(statements.asked_between(session, since=period.since, until=period.until, limit=MOST + 1), MOST + 1)
    )
    asked = found[:MOST]
    templates = sorted({each.template_id for each in asked})
    return Report(
        period=period,
        made_at=now,
        is_cut=len(found) > MOST,
        whole=_figures("", "All requests", asked),
        by_template=tuple(
            _figures(name, visible(titles.get(name, name)), [each for each in asked if each.template_id == name])
            for name in templates
        ),
        by_person=_by_person(session, period),
        by_day=_by_day(period, asked),
        waiting=_waiting(session, titles, now=now),
        rules=tuple(_rules(session, titles, now=now)),
    )


def _figures(template: str, title: str, asked: Sequence[statements.Asked]) -> TemplateFigures:
    ends = Counter(each.status for each in asked)
    took = sorted(
        (each.ended_at - each.created_at).total_seconds()
        for each in asked
        if each.status in DECIDED and each.ended_at is not None
    )
    named = ("approved", "denied", "expired", "pending")
    return TemplateFigures(
        template=template,
        title=title,
        asked=len(asked),
        approved=ends["approved"],
        denied=ends["denied"],
        expired=ends["expired"],
        waiting=ends["pending"],
        other=sum(count for status, count in ends.items() if status not in named),
        median_seconds=quantile(took, 0.5),
        p90_seconds=quantile(took, 0.9),
    )


def quantile(ordered: Sequence[float], part: float) -> int | None:
    """The smallest value that at least this part of the ordered values does not exceed; None without values."""
    return int(ordered[max(0, math.ceil(part * len(ordered)) - 1)]) if ordered else None


def _by_person(session: Session, period: Period) -> tuple[PersonFigures, ...]:
    counts: dict[tuple[str, str], Counter[str]] = {}
    for voter, kind, decision, count in statements.votes_between(session, since=period.since, until=period.until):
        counts.setdefault((voter, kind), Counter())[decision] += count
    names = people.names_of(session, [voter for voter, kind in counts if kind == "person"])
    rows = [
        PersonFigures(
            voter=voter,
            name=visible(names.get(voter, voter) if kind == "person" else voter),
            kind=kind,
            approved=count["approve"],
            denied=count["deny"],
        )
        for (voter, kind), count in counts.items()
    ]
    return tuple(sorted(rows, key=lambda row: (-row.approved - row.denied, row.kind, row.name)))


def _by_day(period: Period, asked: Sequence[statements.Asked]) -> tuple[DayFigures, ...]:
    counts: Counter[tuple[date, str]] = Counter()
    for each in asked:
        kind = each.status if each.status in {"approved", "denied"} else "other"
        counts[each.created_at.astimezone(period.zone).date(), kind] += 1
    return tuple(
        DayFigures(day=day, approved=counts[day, "approved"], denied=counts[day, "denied"], other=counts[day, "other"])
        for day in period.days
    )


def _waiting(session: Session, titles: Mapping[str, str], *, now: datetime) -> tuple[WaitingFigures, ...]:
    counts: dict[str, list[int]] = {}
    oldest: dict[str, datetime] = {}
    edges = [now - age for age in AGES]
    for template, number, first, count in statements.waiting_by_age(session, now=now, edges=edges):
        counts.setdefault(template, [0] * (len(AGES) + 1))[number] += count
        oldest[template] = min(first, oldest.get(template, first))
    return tuple(
        WaitingFigures(
            template=name, title=visible(titles.get(name, name)), by_age=tuple(counts[name]), oldest=oldest[name]
        )
        for name in sorted(counts, key=oldest.__getitem__)
    )


def _rules(session: Session, titles: Mapping[str, str], *, now: datetime) -> Iterator[RuleFigures]:
    """The rules in force, the oldest first, since they are those to look at again."""
    found = rules.rules_page(session, status="active", now=now, after=None, limit=MOST_RULES)
    for row in sorted(found, key=lambda row: row.confirmed_at or row.proposed_at):
        if row.confirmed_at is not None and row.expires_at is not None:
            yield RuleFigures(
                id=row.id,
                title=visible(titles.get(row.template_id, row.template_id)),
                confirmed_at=row.confirmed_at,
                days_in_force=(now - row.confirmed_at).days,
                expires_at=row.expires_at,
                uses=row.uses,
                last_used_at=row.last_used_at,
            )
