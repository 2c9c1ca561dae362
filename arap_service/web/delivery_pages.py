"""Deliveries for operators: what is on its way, what was given up and why, and the forms that send again.

What may be seen and done is decided in `outbox`; nobody else finds these pages. See design.md section 7, "Elsewhere".
"""

from typing import Any, Final
from urllib.parse import urlencode

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from arap_service import outbox
from arap_service.domain.callers import Scope
from arap_service.domain.errors import InvalidTaskState, NotFound, UnknownTask
from arap_service.outbox import DeliveryFilter
from arap_service.web.asking import cursor_of, searched
from arap_service.web.edge import READING, DeskRoute, Visit, visit
from arap_service.web.pages import Tab
from arap_service.web.rendering import render
from arap_service.web.request_pages import Notice, is_id

router: Final = APIRouter(route_class=DeskRoute, include_in_schema=False)
PAGE_SIZE: Final = 50
TABS: Final = (
    ("dead", "Given up"),
    ("pending", "On their way"),
    ("disabled", "Switched off"),
    ("delivered", "Delivered"),
    ("all", "Everything"),
)
_PATH: Final = "/desk/deliveries"


@router.api_route(_PATH, methods=sorted(READING), response_model=None)
async def deliveries_page(request: Request) -> Response:
    """A list of deliveries, the newest first, and the receivers that want nothing more."""
    asked = visit(request)
    asked.require("operators", Scope.OPERATE, Scope.ADMIN)
    show, about = request.query_params.get("show", "dead"), searched(request, "request")
    show = show if show in dict(TABS) else "dead"
    wanted = DeliveryFilter(
        status=None if show == "all" else show, request=about or None, cursor=cursor_of(request), limit=PAGE_SIZE
    )
    found = await outbox.page(asked.ctx, asked.caller, wanted)

    def href(**choice: str) -> str:
        kept = {"show": show, "request": about, **choice}
        return f"{asked.page.root}{_PATH}?{urlencode({name: value for name, value in kept.items() if value})}"

    values: dict[str, Any] = {
        "rows": found.items,
        "more": href(cursor=found.next_cursor) if found.next_cursor else None,
        "tabs": [Tab(label, href(show=name), current=name == show) for name, label in TABS],
        "show": show,
        "about": about,
        "silenced": await outbox.silenced(asked.ctx, asked.caller),
    }
    return render("deliveries.html", asked.page, **values)


@router.api_route(_PATH + "/{delivery_id}", methods=sorted(READING), response_model=None)
async def delivery_page(request: Request, delivery_id: str) -> Response:
    """One delivery with every attempt."""
    asked = visit(request)
    asked.require("operators", Scope.OPERATE, Scope.ADMIN)
    return await _page(asked, delivery_id)


@router.post(_PATH + "/{delivery_id}/redelivery", response_model=None)
async def redeliver(request: Request, delivery_id: str) -> Response:
    """Have one sent again."""
    asked = visit(request)
    asked.require("operators", Scope.OPERATE, Scope.ADMIN)
    try:
        await outbox.redeliver(asked.ctx, asked.caller, _id(delivery_id))
    except InvalidTaskState:
        notice = Notice("bad", "Nothing was changed", "It is being sent at this very moment. Please look again.")
        return await _page(asked, delivery_id, status=409, notice=notice)
    except NotFound:
        raise UnknownTask from None
    return RedirectResponse(f"{asked.page.root}{_PATH}/{delivery_id}", status_code=303)


@router.post("/desk/receivers/enabling", response_model=None)
async def enable(request: Request) -> Response:
    """Send to a receiver again."""
    asked = visit(request)
    asked.require("operators", Scope.OPERATE, Scope.ADMIN)
    client_id, endpoint = asked.fields.get("client", ""), asked.fields.get("endpoint", "")
    try:
        await outbox.enable(asked.ctx, asked.caller, client_id=client_id, endpoint=endpoint)
    except NotFound:
        raise UnknownTask from None
    return RedirectResponse(f"{asked.page.root}{_PATH}?show=disabled", status_code=303)


async def _page(asked: Visit, delivery_id: str, *, status: int = 200, notice: Notice | None = None) -> Response:
    try:
        it = await outbox.detail(asked.ctx, asked.caller, _id(delivery_id))
    except NotFound:
        raise UnknownTask from None
    return render("delivery.html", asked.page, status=status, it=it, notice=notice)


def _id(delivery_id: str) -> str:
    if not is_id(delivery_id):
        raise UnknownTask
    return delivery_id
