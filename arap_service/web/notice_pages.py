"""Notices to people, for operators: what is on its way, what was given up and why, and the form that sends again.

What may be seen and done is decided in `notice_box`. See design.md section 7.
"""

from typing import Any, Final, cast
from urllib.parse import urlencode

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from arap_service import notice_box
from arap_service.domain.callers import Scope
from arap_service.domain.errors import InvalidTaskState, NotFound, UnknownTask
from arap_service.notice_box import Status
from arap_service.web.asking import cursor_of
from arap_service.web.edge import READING, DeskRoute, Visit, visit
from arap_service.web.pages import Tab
from arap_service.web.rendering import render
from arap_service.web.request_pages import Notice, is_id

router: Final = APIRouter(route_class=DeskRoute, include_in_schema=False)
PAGE_SIZE: Final = 50
TABS: Final = (
    ("dead", "Given up"),
    ("pending", "On their way"),
    ("sent", "Sent"),
    ("dropped", "No longer needed"),
    ("all", "Everything"),
)
_PATH: Final = "/desk/notices"


@router.api_route(_PATH, methods=sorted(READING), response_model=None)
async def notices_page(request: Request) -> Response:
    """A list of notices, the newest first."""
    asked = visit(request)
    show = request.query_params.get("show", "dead")
    return await _page(asked, show if show in dict(TABS) else "dead", cursor_of(request))


@router.post(_PATH + "/{notice_id}/again", response_model=None)
async def send_again(request: Request, notice_id: str) -> Response:
    """Have one sent again."""
    asked = visit(request)
    _require(asked)
    if not is_id(notice_id):
        raise UnknownTask
    try:
        await notice_box.send_again(asked.ctx, asked.caller, notice_id)
    except NotFound:
        raise UnknownTask from None
    except InvalidTaskState:
        notice = Notice("bad", "Nothing was changed", "It is being sent at this very moment. Please look again.")
        return await _page(asked, "pending", None, status=409, notice=notice)
    return RedirectResponse(f"{asked.page.root}{_PATH}?show=pending", status_code=303)


def _require(asked: Visit) -> None:
    asked.require("operators", Scope.OPERATE, Scope.ADMIN)


async def _page(
    asked: Visit, show: str, cursor: str | None, *, status: int = 200, notice: Notice | None = None
) -> Response:
    _require(asked)
    wanted = None if show == "all" else cast("Status", show)
    found = await notice_box.page(asked.ctx, asked.caller, status=wanted, after=cursor, limit=PAGE_SIZE)

    def href(**choice: str) -> str:
        return f"{asked.page.root}{_PATH}?{urlencode({'show': show, **choice})}"

    values: dict[str, Any] = {
        "rows": found.items,
        "more": href(cursor=found.next_cursor) if found.next_cursor else None,
        "tabs": [Tab(label, href(show=name), current=name == show) for name, label in TABS],
        "show": show,
        "notice": notice,
    }
    return render("notices.html", asked.page, status=status, **values)
