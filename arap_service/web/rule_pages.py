"""The page of standing rules, and the forms that propose, confirm and end one."""

import re
from typing import Any, Final
from urllib.parse import quote

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from arap_service.domain.errors import (
    IneligibleApprover,
    InputInvalid,
    InvalidRequest,
    InvalidTaskState,
    NotFound,
    StepUpRequired,
    UnknownTask,
)
from arap_service.requests import standing_rules
from arap_service.web.edge import READING, DeskRoute, Visit, visit
from arap_service.web.forms import read_scope
from arap_service.web.rendering import render
from arap_service.web.request_pages import Notice, is_id, page_of
from arap_service.web.words import why_not

router: Final = APIRouter(route_class=DeskRoute, include_in_schema=False)
_DAYS: Final = re.compile(r"[0-9]{1,3}", re.ASCII)
_NOTHING: Final = "Nothing was recorded"


@router.api_route("/desk/rules", methods=sorted(READING), response_model=None)
async def rules_page(request: Request) -> Response:
    """What waits for an administrator, what is in force, and what has ended."""
    return await _page(visit(request))


@router.post("/desk/requests/{task_id}/rule", response_model=None)
async def propose(request: Request, task_id: str) -> Response:
    """Propose to approve requests like this one at once."""
    asked = visit(request)
    days = asked.fields.get("days", "").strip()
    if not is_id(task_id):
        raise UnknownTask
    try:
        if not _DAYS.fullmatch(days):
            raise InvalidRequest(pointer="/days")
        wide = sorted(read_scope(asked.fields) or ())
        await standing_rules.propose_rule(asked.ctx, asked.caller, task_id, may_vary=wide, days=int(days))
    except (InvalidRequest, InputInvalid):
        text = "Please say for how many days, within what is allowed for requests of this kind."
        return await page_of(asked, task_id, status=422, notice=Notice("bad", _NOTHING, text))
    except InvalidTaskState:
        notice = Notice("bad", _NOTHING, "Only what was approved can be a rule.")
        return await page_of(asked, task_id, status=409, notice=notice)
    except StepUpRequired:
        return _to_prove(asked, target=f"/desk/requests/{task_id}")
    except IneligibleApprover as refused:
        notice = Notice("bad", _NOTHING, why_not(str(refused.extra.get("code", ""))))
        return await page_of(asked, task_id, status=403, notice=notice)
    return _to_rules(asked)


@router.post("/desk/rules/{rule_id}/{action}", response_model=None)
async def change(request: Request, rule_id: str, action: str) -> Response:
    """Confirm a proposal, or end a rule."""
    asked = visit(request)
    do = {"confirm": standing_rules.confirm_rule, "end": standing_rules.end_rule}.get(action)
    if do is None or not is_id(rule_id):
        raise NotFound
    try:
        await do(asked.ctx, asked.caller, rule_id)
    except InvalidTaskState:
        text = "Somebody else was faster, or the rules file allows it no more; see below how it stands."
        return await _page(asked, status=409, notice=Notice("bad", _NOTHING, text))
    except StepUpRequired:
        return _to_prove(asked, target="/desk/rules")
    except IneligibleApprover as refused:
        notice = Notice("bad", _NOTHING, why_not(str(refused.extra.get("code", ""))))
        return await _page(asked, status=403, notice=notice)
    return _to_rules(asked)


def _to_rules(asked: Visit) -> Response:
    return RedirectResponse(f"{asked.page.root}/desk/rules", status_code=303)


def _to_prove(asked: Visit, *, target: str) -> Response:
    """Lead to where one logs in once more, and back; a form of one field and a button is soon filled in again."""
    return RedirectResponse(f"{asked.page.root}/desk/again?next={quote(target, safe='')}", status_code=303)


async def _page(asked: Visit, *, status: int = 200, notice: Notice | None = None) -> Response:
    listed: dict[str, Any] = {}
    states: tuple[standing_rules.State, ...] = ("proposed", "active", "expired", "ended")
    for state in states:
        page = await standing_rules.list_rules(asked.ctx, asked.caller, status=state, limit=100)
        listed[state] = page.items
    return render("rules.html", asked.page, status=status, heading="Standing rules", notice=notice, listed=listed)
