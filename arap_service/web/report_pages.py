"""Reports as a page, and the same figures as CSV and JSON.

What is counted is decided in `reports`. A cell of a CSV file that a spreadsheet would take for a formula is marked as
text. See design.md section 7.
"""

import csv
import io
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import date, timedelta
from itertools import pairwise
from typing import Any, Final
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from arap_service.domain.callers import Scope
from arap_service.domain.errors import InvalidRequest
from arap_service.reports import AGES, Period, Report, report
from arap_service.web.asking import ZONES
from arap_service.web.charts import HEIGHT, WIDTH, chart_of
from arap_service.web.edge import READING, DeskRoute, Visit, visit
from arap_service.web.rendering import render
from arap_service.web.words import span

router: Final = APIRouter(route_class=DeskRoute, include_in_schema=False)
_PATH: Final = "/desk/reports"
_DAYS: Final = 30
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


@router.api_route(_PATH, methods=sorted(READING), response_model=None)
async def reports_page(request: Request) -> Response:
    """The figures of a period, the last thirty days if none is named."""
    asked = visit(request)
    found = await _report(asked, request)
    chosen = {"since": str(found.period.first), "until": str(found.period.last), "zone": found.period.zone.key}
    values: dict[str, Any] = {
        "it": found,
        "chosen": chosen,
        "zones": ZONES,
        "query": urlencode(chosen),
        "chart": chart_of(found.by_day),
        "size": (WIDTH, HEIGHT),
        "ages": ages(),
    }
    return render("reports.html", asked.page, **values)


@router.api_route(_PATH + "/figures.csv", methods=sorted(READING), response_model=None)
async def as_csv(request: Request) -> Response:
    """Every figure on a line of its own: which table, of what, which figure, how much."""
    found = await _report(visit(request), request)
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\r\n")
    writer.writerow(("table", "of", "figure", "value"))
    writer.writerows([_cell(value) for value in row] for row in _rows(found))
    return _file(file.getvalue(), found, "csv", "text/csv")


@router.api_route(_PATH + "/figures.json", methods=sorted(READING), response_model=None)
async def as_json(request: Request) -> Response:
    """The same as one object."""
    found = await _report(visit(request), request)
    period = found.period
    body = {
        "period": {"first": str(period.first), "last": str(period.last), "zone": period.zone.key},
        "made_at": found.made_at.isoformat(),
        "is_cut": found.is_cut,
        "all": asdict(found.whole),
        "by_template": [asdict(row) for row in found.by_template],
        "by_person": [asdict(row) for row in found.by_person],
        "by_day": [asdict(row) for row in found.by_day],
        "waiting": [asdict(row) for row in found.waiting],
        "standing_rules": [asdict(row) for row in found.rules],
    }
    return _file(json.dumps(body, default=_plain, indent=2) + "\n", found, "json", "application/json")


def ages() -> Sequence[str]:
    """The age classes of what waits, in words."""
    ends = [span(age.total_seconds()) for age in AGES]
    middle = [f"{young} to {old}" for young, old in pairwise(ends)]
    return (f"under {ends[0]}", *middle, f"over {ends[-1]}")


async def _report(asked: Visit, request: Request) -> Report:
    asked.require("administrators and auditors", Scope.ADMIN, Scope.AUDIT_READ)
    query = request.query_params
    name = query.get("zone", "UTC")
    if name not in ZONES:
        raise InvalidRequest
    zone = ZoneInfo(name)
    last = _day(query.get("until")) or asked.page.now.astimezone(zone).date()
    first = _day(query.get("since")) or last - timedelta(days=_DAYS - 1)
    return await report(asked.ctx, asked.caller, Period(first, last, zone))


def _day(text: str | None) -> date | None:
    if not text:
        return None
    try:
        if _DATE.fullmatch(text):
            found = date.fromisoformat(text)
            if 1970 <= found.year <= 9000:
                return found
    except ValueError:
        pass
    raise InvalidRequest


def _rows(found: Report) -> Iterator[tuple[Any, ...]]:
    yield ("period", found.period.zone.key, "first", found.period.first)
    yield ("period", found.period.zone.key, "last", found.period.last)
    for figures in (found.whole, *found.by_template):
        table, of = ("template", figures.template) if figures.template else ("all", "")
        for name, value in asdict(figures).items():
            if name not in {"template", "title"}:
                yield (table, of, name, "" if value is None else value)
    for person in found.by_person:
        yield (person.kind, person.name, "approved", person.approved)
        yield (person.kind, person.name, "denied", person.denied)
    for day in found.by_day:
        for name in ("approved", "denied", "other"):
            yield ("day", day.day, name, getattr(day, name))
    for waiting in found.waiting:
        for label, count in zip(ages(), waiting.by_age, strict=True):
            yield ("waiting", waiting.template, label, count)
    for rule in found.rules:
        yield ("standing rule", rule.id, "days in force", rule.days_in_force)
        yield ("standing rule", rule.id, "uses", rule.uses)


def _cell(value: Any) -> str:
    text = str(value)
    return f"'{text}" if isinstance(value, str) and text.startswith(_FORMULA) else text


def _plain(value: Any) -> str:
    return str(value.isoformat())


def _file(text: str, found: Report, suffix: str, media_type: str) -> Response:
    name = f"requests-{found.period.first}-{found.period.last}.{suffix}"
    return Response(
        text.encode(),
        media_type=f"{media_type}; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )
