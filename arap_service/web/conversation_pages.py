"""The forms of a request's page that decide nothing: ask the requester, comment, say that one works on it.

Each answers with the page of the request, or leads back to it; what is wrong with a text stands beside its field.
"""

from typing import Final, Literal

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from arap_service import requests
from arap_service.domain.errors import IneligibleApprover, InvalidRequest, InvalidTaskState, UnknownTask
from arap_service.web.edge import DeskRoute, Visit, visit
from arap_service.web.forms import text
from arap_service.web.request_pages import Notice, Said, is_id, page_of
from arap_service.web.words import why_not

router: Final = APIRouter(route_class=DeskRoute, include_in_schema=False)
_WANTED: Final = "Please write between 1 and 2,000 characters that can be shown."


@router.post("/desk/requests/{task_id}/question", response_model=None)
async def ask(request: Request, task_id: str) -> Response:
    """Send a question to the requester."""
    return await _say(visit(request), task_id, "question")


@router.post("/desk/requests/{task_id}/comment", response_model=None)
async def comment(request: Request, task_id: str) -> Response:
    """Leave a comment for the other reviewers."""
    return await _say(visit(request), task_id, "comment")


@router.post("/desk/requests/{task_id}/claim", response_model=None)
async def claim(request: Request, task_id: str) -> Response:
    """Tell the others that one works on it."""
    return await _say(visit(request), task_id, "claim")


@router.post("/desk/requests/{task_id}/release", response_model=None)
async def release(request: Request, task_id: str) -> Response:
    """Tell the others that nobody does any more."""
    return await _say(visit(request), task_id, "release")


async def _say(asked: Visit, task_id: str, what: Literal["question", "comment", "claim", "release"]) -> Response:
    caller, typed = asked.caller, text(asked.fields.get("text", ""))
    if not is_id(task_id):
        raise UnknownTask
    try:
        match what:
            case "question":
                await requests.ask(asked.ctx, caller, task_id, message=typed)
            case "comment":
                await requests.comment(asked.ctx, caller, task_id, text=typed)
            case "claim":
                await requests.claim(asked.ctx, caller, task_id)
            case "release":
                await requests.release(asked.ctx, caller, task_id)
    except InvalidRequest:
        said = Said(question=_WANTED, typed=typed) if what == "question" else Said(comment=_WANTED, typed=typed)
        return await page_of(asked, task_id, status=422, said=said)
    except InvalidTaskState:
        notice = Notice("bad", "Nothing was recorded", "Somebody else was faster; see below how the request stands.")
        return await page_of(asked, task_id, status=409, notice=notice)
    except IneligibleApprover as refused:
        reason = why_not(str(refused.extra.get("code", "")))
        return await page_of(asked, task_id, status=403, notice=Notice("bad", "Nothing was recorded", reason))
    place = "questions-title" if what == "question" else "notes-title"
    return RedirectResponse(f"{asked.page.root}/desk/requests/{task_id}#{place}", status_code=303)
