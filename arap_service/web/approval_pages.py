"""The approvals in force: a list to look through, and the form beside each that takes it back.

What is listed is decided in `requests.in_force`; the form goes to the route that the page of the request uses too. See
design.md section 7, "Elsewhere".
"""

from typing import Any, Final, cast
from urllib.parse import urlencode

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from arap_service.requests.in_force import InForceFilter, Use, in_force
from arap_service.web.asking import cursor_of, searched
from arap_service.web.edge import READING, DeskRoute, visit
from arap_service.web.pages import Tab
from arap_service.web.rendering import render

router: Final = APIRouter(route_class=DeskRoute, include_in_schema=False)
PAGE_SIZE: Final = 50
TABS: Final = (("all", "All in force"), ("unused", "Not used yet"), ("used", "Used"))


@router.api_route("/desk/approvals", methods=sorted(READING), response_model=None)
async def approvals_page(request: Request) -> Response:
    """What may run at this moment, the one that runs out next first."""
    asked = visit(request)
    show, q = request.query_params.get("show", "all"), searched(request)
    show = show if show in dict(TABS) else "all"
    wanted = InForceFilter(use=cast("Use", show), q=q or None, cursor=cursor_of(request), limit=PAGE_SIZE)
    found = await in_force(asked.ctx, asked.caller, wanted)

    def href(**choice: str) -> str:
        kept = {"show": show, "q": q, **choice}
        return f"{asked.page.root}/desk/approvals?{urlencode({name: value for name, value in kept.items() if value})}"

    values: dict[str, Any] = {
        "rows": found.items,
        "more": href(cursor=found.next_cursor) if found.next_cursor else None,
        "tabs": [Tab(label, href(show=name), current=name == show) for name, label in TABS],
        "show": show,
        "q": q,
    }
    return render("approvals.html", asked.page, **values)
