"""The queue: what waits for the reader, what waits for others, what has been decided.

It shows what `requests.queue` lets this person see, in that order; the lists refresh themselves where scripts run. See
design.md section 7.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from types import MappingProxyType
from typing import Final
from urllib.parse import urlencode

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from arap_service import requests
from arap_service.domain.callers import Scope
from arap_service.domain.errors import InvalidRequest
from arap_service.requests.details import RISKS
from arap_service.views import QueueFilter, QueueRow
from arap_service.web.asking import cursor_of, searched
from arap_service.web.edge import READING, DeskRoute, Visit, visit
from arap_service.web.rendering import render
from arap_service.web.words import RISK

router: Final = APIRouter(route_class=DeskRoute, include_in_schema=False)
PAGE_SIZE: Final = 50
TABS: Final = (
    ("mine", "For you"),
    ("waiting", "All waiting"),
    ("approved", "Approved"),
    ("denied", "Denied"),
    ("all", "Everything"),
)
DUE: Final[Mapping[str, tuple[str, timedelta]]] = MappingProxyType(
    {
        "hour": ("within an hour", timedelta(hours=1)),
        "day": ("within a day", timedelta(days=1)),
        "week": ("within a week", timedelta(days=7)),
    }
)
_STATUS: Final = {"waiting": "pending", "approved": "approved", "denied": "denied", "all": None}


@dataclass(frozen=True, slots=True)
class Tab:
    """One choice above the queue."""

    label: str
    href: str
    current: bool


@dataclass(frozen=True, slots=True)
class Part:
    """One list of the queue page; `more` links to its next page, `mixed` says that settled requests are among it."""

    title: str | None
    rows: Sequence[QueueRow]
    more: str | None
    empty_title: str
    empty_text: str
    mixed: bool = False


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which requests the reader wants to see; an empty text leaves out nothing."""

    show: str
    q: str
    cursor: str | None
    template: str = ""
    risk: str = ""
    subject: str = ""
    step: str = ""
    due: str = ""

    @property
    def narrows(self) -> Mapping[str, str]:
        """The filters that are set, apart from the search."""
        named = {name: getattr(self, name) for name in ("template", "risk", "subject", "step", "due")}
        return {name: value for name, value in named.items() if value}

    def href(self, path: str, **others: str) -> str:
        """A link to `path` with this choice."""
        chosen = {"show": self.show, "q": self.q, **self.narrows, **others}
        return f"{path}?{urlencode({name: value for name, value in chosen.items() if value})}"


@router.api_route("/", methods=sorted(READING), response_model=None)
async def front_door(request: Request) -> Response:
    """Whoever opens the bare address is looking for the desk."""
    return RedirectResponse(visit(request).page.root + "/desk", status_code=303)


@router.api_route("/desk", methods=sorted(READING), response_model=None)
async def queue_page(request: Request) -> Response:
    """What waits for a decision, the reader's own first; or what has been decided."""
    asked = visit(request)
    wanted = _wanted(request)
    parts = await _parts(asked, wanted)
    path = asked.page.root + "/desk"
    tabs = [
        Tab(label, replace(wanted, show=show, cursor=None).href(path), current=show == wanted.show)
        for show, label in TABS
    ]
    return render(
        "queue.html",
        asked.page,
        heading="Requests",
        show=wanted.show,
        q=wanted.q,
        wanted=wanted,
        choices=_choices(asked),
        bare=Wanted(wanted.show, wanted.q, None).href(path),
        tabs=tabs,
        parts=parts,
        live=_live(asked, wanted, parts),
    )


@router.api_route("/desk/live/queue", methods=sorted(READING), response_model=None)
async def live_queue(request: Request) -> Response:
    """The lists alone, or nothing while they are as the page has them."""
    asked = visit(request)
    wanted = _wanted(request)
    parts = await _parts(asked, wanted)
    if request.query_params.get("seen") == _fingerprint(parts):
        return Response(status_code=204)
    return render("queue_list.html", asked.page, parts=parts, live=_live(asked, wanted, parts))


def _wanted(request: Request) -> Wanted:
    show = request.query_params.get("show", "mine")
    due = request.query_params.get("due", "")
    risk = request.query_params.get("risk", "")
    if (due and due not in DUE) or (risk and risk not in RISKS):
        raise InvalidRequest
    return Wanted(
        show if show in dict(TABS) else "mine",
        searched(request),
        cursor_of(request),
        template=searched(request, "template"),
        risk=risk,
        subject=searched(request, "subject"),
        step=searched(request, "step"),
        due=due,
    )


def _choices(asked: Visit) -> dict[str, Mapping[str, str]]:
    """What the filters offer: the kinds and steps of the rules in force, by the words for them."""
    templates = asked.ctx.policy.current().templates
    steps = sorted({step.title for template in templates.values() for step in template.steps})
    return {
        "template": {name: template.title for name, template in sorted(templates.items())},
        "risk": {risk: RISK[risk] for risk in RISKS},
        "step": {title: title for title in steps},
        "due": {name: label for name, (label, _) in DUE.items()},
    }


@router.api_route("/desk/help", methods=sorted(READING), response_model=None)
async def help_page(request: Request) -> Response:
    """How the desk is used, keys and times included, for whoever has no scripts as well."""
    asked = visit(request)
    asked.require("people who are logged in", *Scope)
    return render("help.html", asked.page)


async def _parts(asked: Visit, wanted: Wanted) -> list[Part]:
    """The lists for this choice: one, or for `mine` the reader's own and then what waits for others."""
    caller = asked.caller
    if wanted.show != "mine":
        status = _STATUS[wanted.show]
        found = await requests.queue(asked.ctx, caller, _filter(asked, wanted, status=status, mine=False))
        return [_part(asked, wanted, found.items, found.next_cursor, title=None)]
    mine = await requests.queue(asked.ctx, caller, _filter(asked, wanted, status="pending", mine=True))
    parts = [_part(asked, wanted, mine.items, mine.next_cursor, title="For you to decide")]
    if wanted.cursor is None:
        every = await requests.queue(asked.ctx, caller, _filter(asked, wanted, status="pending", mine=False))
        own = {row.id for row in mine.items}
        others = [row for row in every.items if row.id not in own and not row.may_decide]
        if others:
            more = replace(wanted, show="waiting", cursor=None) if every.next_cursor else None
            link = more.href(asked.page.root + "/desk") if more else None
            parts.append(Part("Waiting for others", others, link, "", ""))
    return parts


def _filter(asked: Visit, wanted: Wanted, *, status: str | None, mine: bool) -> QueueFilter:
    within = DUE[wanted.due][1] if wanted.due and status == "pending" else None
    return QueueFilter(
        status=status,
        mine=mine,
        q=wanted.q or None,
        template=wanted.template or None,
        subject=wanted.subject or None,
        risk=wanted.risk or None,
        step=wanted.step or None,
        due_before=None if within is None else asked.page.now + within,
        cursor=wanted.cursor,
        limit=PAGE_SIZE,
    )


def _part(asked: Visit, wanted: Wanted, rows: Sequence[QueueRow], cursor: str | None, *, title: str | None) -> Part:
    more = wanted.href(asked.page.root + "/desk", cursor=cursor) if cursor else None
    if wanted.q:
        empty = (
            "Nothing found",
            "No request matches what you searched for. Names, agents, tools and references are searched.",
        )
    elif wanted.narrows:
        empty = ("Nothing found", "No request here fits what you chose above.")
    elif title:
        empty = (
            "Nothing waits for you",
            "When an agent asks for something that you may allow, it appears here by itself, the most urgent first.",
        )
    else:
        empty = ("No requests here", "Requests stay listed for as long as the rules keep them.")
    return Part(title, rows, more, *empty, mixed=wanted.show == "all")


def _fingerprint(parts: Sequence[Part]) -> str:
    text = repr([(part.title, bool(part.more), [(row.id, row.version) for row in part.rows]) for part in parts])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _live(asked: Visit, wanted: Wanted, parts: Sequence[Part]) -> str | None:
    """Where the lists refresh themselves; further pages stay as they are."""
    if wanted.cursor is not None:
        return None
    return wanted.href(asked.page.root + "/desk/live/queue", seen=_fingerprint(parts))
