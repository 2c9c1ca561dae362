"""The page of emergencies that were used, and the form that closes the review of one."""

from typing import Any, Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from arap_service.domain.errors import IneligibleApprover, InvalidRequest, InvalidTaskState, NotFound
from arap_service.requests import reviews
from arap_service.web.edge import READING, DeskRoute, Visit, visit
from arap_service.web.forms import text
from arap_service.web.rendering import render
from arap_service.web.request_pages import Notice, is_id
from arap_service.web.words import why_not

router: Final = APIRouter(route_class=DeskRoute, include_in_schema=False)
_WANTED: Final = "Please choose what you found and write between 1 and 4,000 characters that can be shown."


@router.api_route("/desk/reviews", methods=sorted(READING), response_model=None)
async def reviews_page(request: Request) -> Response:
    """What is to be looked at, the one that is due first before the others; then what has been."""
    return await _page(visit(request))


@router.post("/desk/reviews/{approval_id}", response_model=None)
async def close(request: Request, approval_id: str) -> Response:
    """Close a review, or say why it stays as it is."""
    asked = visit(request)
    note, outcome = text(asked.fields.get("note", "")), asked.fields.get("outcome", "")
    if not is_id(approval_id):
        raise NotFound
    try:
        await reviews.close_review(asked.ctx, asked.caller, approval_id, outcome=outcome, note=note)
    except InvalidRequest:
        typed = {"approval_id": approval_id, "note": note, "outcome": outcome, "message": _WANTED}
        return await _page(asked, status=422, typed=typed)
    except InvalidTaskState:
        notice = Notice("bad", "Nothing was recorded", "Somebody else has closed this review; see below.")
        return await _page(asked, status=409, notice=notice)
    except IneligibleApprover as refused:
        reason = why_not(str(refused.extra.get("code", "")))
        return await _page(asked, status=403, notice=Notice("bad", "Nothing was recorded", reason))
    return RedirectResponse(f"{asked.page.root}/desk/reviews", status_code=303)


async def _page(
    asked: Visit, *, status: int = 200, notice: Notice | None = None, typed: dict[str, str] | None = None
) -> Response:
    waiting = await reviews.list_reviews(asked.ctx, asked.caller, state="open", limit=100)
    closed = await reviews.list_reviews(asked.ctx, asked.caller, state="closed", limit=50)
    values: dict[str, Any] = {"waiting": waiting.items, "closed": closed.items, "notice": notice, "typed": typed or {}}
    return render("reviews.html", asked.page, status=status, heading="Emergencies to look at", **values)
