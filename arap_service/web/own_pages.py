"""The pages of somebody who asks: his own requests, how one stands, the question that waits for him, withdrawing it.

What he may see of it is decided in `requests.mine`; a request of somebody else looks like one that does not exist. See
design.md section 7.
"""

from dataclasses import dataclass
from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from arap_service import requests
from arap_service.domain.errors import Forbidden, InvalidTaskState, StaleVersion, UnknownTask
from arap_service.requests.mine import OwnPart, OwnQuestion, OwnRequest, answer_own, own_request, own_requests_page
from arap_service.web.asking import cursor_of
from arap_service.web.edge import READING, DeskRoute, Visit, visit
from arap_service.web.forms import whole
from arap_service.web.rendering import render
from arap_service.web.request_pages import Notice, is_id
from arap_service.web.words import USED

router: Final = APIRouter(route_class=DeskRoute, include_in_schema=False)
PAGE_SIZE: Final = 50
_BUTTONS: Final = frozenset({"question"})


@dataclass(frozen=True, slots=True)
class Stand:
    """How a request, or one thing of it, stands for who asked: in a word, and what happens next."""

    part: OwnPart
    status: str
    next: str


@router.api_route("/desk/my", methods=sorted(READING), response_model=None)
async def own_list(request: Request) -> Response:
    """Everything that the reader asked for, or that was asked for in his name, the newest first."""
    asked = visit(request)
    found = await own_requests_page(asked.ctx, asked.caller, after=cursor_of(request), limit=PAGE_SIZE)
    more = f"{asked.page.root}/desk/my?cursor={found.next_cursor}" if found.next_cursor else None
    return render("own_list.html", asked.page, rows=found.items, more=more)


@router.api_route("/desk/my/{task_id}", methods=sorted(READING), response_model=None)
async def own_page(request: Request, task_id: str) -> Response:
    """How one request stands."""
    asked = visit(request)
    return _page(asked, await _own(asked, task_id))


@router.post("/desk/my/{task_id}/answer", response_model=None)
async def answer(request: Request, task_id: str) -> Response:
    """Keep the answer to the question, or show it again with what is wrong with it."""
    asked = visit(request)
    it = await _own(asked, task_id)
    number = whole(asked.fields.get("question"))
    typed = {name: value for name, value in asked.fields.items() if name not in _BUTTONS}
    try:
        wrong = await answer_own(asked.ctx, asked.caller, task_id, number=number, typed=typed)
    except (InvalidTaskState, StaleVersion):
        notice = Notice("bad", "Your answer was not kept", "The question is no longer open.")
        return _page(asked, await _own(asked, task_id), status=409, notice=notice)
    if wrong is not None:
        return _page(asked, it, status=422, question=wrong)
    return RedirectResponse(f"{asked.page.root}/desk/my/{task_id}", status_code=303)


@router.post("/desk/my/{task_id}/withdrawal", response_model=None)
async def withdraw(request: Request, task_id: str) -> Response:
    """Withdraw the request, or say why that is too late."""
    asked = visit(request)
    await _own(asked, task_id)
    try:
        await requests.cancel(asked.ctx, asked.caller, task_id, None)
    except (InvalidTaskState, Forbidden):
        notice = Notice("bad", "Nothing was withdrawn", "The request was settled before; see below how.")
        return _page(asked, await _own(asked, task_id), status=409, notice=notice)
    return RedirectResponse(f"{asked.page.root}/desk/my/{task_id}", status_code=303)


async def _own(asked: Visit, task_id: str) -> OwnRequest:
    caller = asked.caller
    if not is_id(task_id):
        raise UnknownTask
    return await own_request(asked.ctx, caller, task_id)


def _page(
    asked: Visit,
    it: OwnRequest,
    *,
    status: int = 200,
    notice: Notice | None = None,
    question: OwnQuestion | None = None,
) -> Response:
    stands = [Stand(part, *_said(asked, it, part)) for part in it.parts]
    values = {"it": it, "stands": stands, "notice": notice, "question": question or it.question}
    return render("own_request.html", asked.page, status=status, **values)


def _said(asked: Visit, it: OwnRequest, part: OwnPart) -> tuple[str, str]:
    """The state of a part for its badge, and what happens next."""
    match part.status:
        case "pending":
            if it.question is not None:
                return (
                    part.status,
                    "A reviewer waits for your answer, and the time keeps running.",
                )
            return part.status, "You need not do anything. Whoever may decide it has been asked."
        case "approved":
            return part.status, _after_approval(asked, part)
        case "denied":
            return part.status, "It will not be done. If you still need it, change what was asked for and ask again."
        case "expired":
            return part.status, "Nobody decided in time, so it will not be done. You can ask again."
        case "cancelled":
            return part.status, "It was withdrawn, so nothing will be done."
        case _:
            return part.status, "It could not be handled, so nothing will be done. You can ask again."


def _after_approval(asked: Visit, part: OwnPart) -> str:
    if part.reported in USED:
        return {
            "approved-executed": "It has been done. There is nothing left to do.",
            "execution-error": "It was started and reported an error. It will not be started again; you can ask anew.",
        }.get(str(part.reported), "It was started, but nobody knows how it ended. Look before you ask again.")
    if part.approval == "revoked":
        return "The approval was taken back before it was used, so it will not be done."
    if part.until is None or part.approval != "active" or asked.page.now >= part.until:
        return "The approval ran out before it was used. You can ask again."
    return "It can be done now: your agent goes on by itself, or you repeat what you were doing."
