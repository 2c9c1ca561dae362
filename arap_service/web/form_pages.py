"""The page on which a requester fills in what a denial lacks, and the one that sends him back to his agent.

Whether there is such a page for the reader, what it asks for and what is wrong with what was typed is decided in
`requests.forms`; nothing that was typed is lost. Access Request and Approval Profile, `form_url`; design.md section 7.
"""

from typing import Any, Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from arap_service.domain.errors import ExpiredDenial, InvalidTaskState, UnknownTask
from arap_service.requests.forms import FormView, fill_in, open_form
from arap_service.web.edge import READING, DeskRoute, Refused, Visit, visit
from arap_service.web.rendering import render
from arap_service.web.request_pages import is_id

router: Final = APIRouter(route_class=DeskRoute, include_in_schema=False)
_SHOW: Final = "show"


@router.api_route("/desk/forms/{evaluation_id}", methods=sorted(READING), response_model=None)
async def form_page(request: Request, evaluation_id: str) -> Response:
    """What is to be filled in, or that it has been."""
    asked = visit(request)
    return _page(asked, evaluation_id, await _open(asked, evaluation_id))


@router.post("/desk/forms/{evaluation_id}", response_model=None)
async def send_form(request: Request, evaluation_id: str) -> Response:
    """Keep what was filled in, or show it again with what is wrong; or only the choices that it leads to."""
    asked = visit(request)
    if _SHOW in asked.fields:
        return _page(asked, evaluation_id, await _open(asked, evaluation_id, typed=asked.fields))
    await _open(asked, evaluation_id)
    try:
        form = await fill_in(asked.ctx, asked.caller, evaluation_id, typed=asked.fields)
    except InvalidTaskState:
        return _page(asked, evaluation_id, await _open(asked, evaluation_id), status=409, is_repeated=True)
    if form.messages:
        return _page(asked, evaluation_id, form, status=422)
    return RedirectResponse(f"{asked.page.root}/desk/forms/{evaluation_id}", status_code=303)


async def _open(asked: Visit, evaluation_id: str, *, typed: dict[str, str] | None = None) -> FormView:
    caller = asked.caller
    if not is_id(evaluation_id):
        raise UnknownTask
    try:
        return await open_form(asked.ctx, caller, evaluation_id, typed=typed)
    except ExpiredDenial:
        raise Refused(
            410,
            "It is too late to fill this in",
            "What was denied can no longer be requested. Please go back to your agent and let it try once more.",
        ) from None


def _page(
    asked: Visit, evaluation_id: str, form: FormView, *, status: int = 200, is_repeated: bool = False
) -> Response:
    values: dict[str, Any] = {"form": form, "evaluation_id": evaluation_id, "is_repeated": is_repeated}
    return render("form_done.html" if form.is_filled else "form.html", asked.page, status=status, **values)
