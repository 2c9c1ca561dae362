"""The queue: what waits for the reader, what waits for others, what has been decided.

It shows what `requests.queue` lets this person see, in that order; the lists refresh themselves where scripts run. See
design.md section 7.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from arap_service import requests
from arap_service.views import QueueFilter, QueueRow
from arap_service.web.asking import cursor_of, searched
from arap_service.web.edge import READING, DeskRoute, Visit, visit
from arap_service.web.rendering import render

router: Final = APIRouter(route_class=DeskRoute, include_in_schema=False)
PAGE_SIZE: Final = 50
TABS: Final = (
    ("mine", "For you"),
    ("waiting", "All waiting"),
    ("approved", "Approved"),
    ("denied", "Denied"),
    ("all", "Everything"),
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
    """Which requests the reader wants to see."""

    show: str
    q: str
    cursor: str | None

    def href(self, path: str, **others: str) -> str:
        """A link to `path` with this choice."""
        chosen = {"show": self.show, "q": self.q, **others}
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
    tabs = [Tab(label, Wanted(show, wanted.q, None).href(path), current=show == wanted.show) for show, label in TABS]
    return render(
        "queue.html",
        asked.page,
        heading="Requests",
        show=wanted.show,
        q=wanted.q,
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
    return Wanted(show if show in dict(TABS) else "mine", searched(request), cursor_of(request))


async def _parts(asked: Visit, wanted: Wanted) -> list[Part]:
    """The lists for this choice: one, or for `mine` the reader's own and then what waits for others."""
    caller = asked.caller
    if wanted.show != "mine":
        status = _STATUS[wanted.show]
        found = await requests.queue(asked.ctx, caller, _filter(wanted, status=status, mine=False))
        return [_part(asked, wanted, found.items, found.next_cursor, title=None)]
    mine = await requests.queue(asked.ctx, caller, _filter(wanted, status="pending", mine=True))
    parts = [_part(asked, wanted, mine.items, mine.next_cursor, title="For you to decide")]
    if wanted.cursor is None:
        every = await requests.queue(asked.ctx, caller, _filter(wanted, status="pending", mine=False))
        own = {row.id for row in mine.items}
        others = [row for row in every.items if row.id not in own and not row.may_decide]
        if others:
            more = Wanted("waiting", wanted.q, None) if every.next_cursor else None
            link = more.href(asked.page.root + "/desk") if more else None
            parts.append(Part("Waiting for others", others, link, "", ""))
    return parts


def _filter(wanted: Wanted, *, status: str | None, mine: bool) -> QueueFilter:
    return QueueFilter(status=status, mine=mine, q=wanted.q or None, cursor=wanted.cursor, limit=PAGE_SIZE)


def _part(asked: Visit, wanted: Wanted, rows: Sequence[QueueRow], cursor: str | None, *, title: str | None) -> Part:
    more = wanted.href(asked.page.root + "/desk", cursor=cursor) if cursor else None
    if wanted.q:
        empty = (
            "Nothing found",
            "No request matches what you searched for. Names, agents, tools and references are searched.",
        )
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
