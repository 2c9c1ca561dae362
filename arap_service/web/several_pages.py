"""Deciding several requests at once: the list that was chosen in the queue, one form for all, and what became of each.

Nothing is chosen for the reader, and nothing can be added on these pages: the requests and the versions in the form are
those that he ticked. Whether each counts is decided in `requests.several`. See design.md section 7.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from arap_service.domain.errors import InvalidRequest
from arap_service.requests.several import MOST, Picked, are_alike, decide_several, look_at
from arap_service.views import RequestDetail
from arap_service.web.edge import DeskRoute, Visit, visit
from arap_service.web.forms import Mistakes, UnreadableForm, lifetimes, read_decision, whole
from arap_service.web.rendering import render
from arap_service.web.request_pages import Notice, is_id

router: Final = APIRouter(route_class=DeskRoute, include_in_schema=False)
_PICK: Final = "pick-"
NOTHING: Final = Notice("bad", "Nothing was chosen", "Tick the requests in the list that you want to decide together.")
MANY: Final = Notice("bad", "That is too much at once", f"Please choose {MOST} requests at most.")
UNLIKE: Final = Notice(
    "bad",
    "Nothing was approved",
    "Several can be approved together only if they are of one kind and one risk. Deny, or decide them one by one.",
)


@router.post("/desk/several", response_model=None)
async def several_page(request: Request) -> Response:
    """What was ticked, and the form to decide all of it; nothing is changed by looking."""
    asked = visit(request)
    return await _page(asked, _picked(asked))


@router.post("/desk/several/decision", response_model=None)
async def decide(request: Request) -> Response:
    """Decide each of them, and say for each what became of it."""
    asked = visit(request)
    picked, caller = _picked(asked), asked.caller
    found = await look_at(asked.ctx, caller, picked)
    needed = frozenset(decision for each in found for decision in each.reason_required)
    rules = found[0].reasons if found and are_alike(found) else {}
    chosen = read_decision({**asked.fields, "version": "1"}, reason_required=needed, reasons=rules)
    if isinstance(chosen, Mistakes):
        return await _page(asked, picked, status=422, mistakes=chosen)
    until = None if chosen.seconds is None else asked.ctx.clock() + timedelta(seconds=chosen.seconds)
    try:
        results = await decide_several(
            asked.ctx, caller, picked, decision=chosen.decision, reason=chosen.reason, approved_until=until
        )
    except InvalidRequest:
        kept = Mistakes({}, {"reason": chosen.reason or ""})
        return await _page(asked, picked, status=422, mistakes=kept, notice=UNLIKE if picked else NOTHING)
    return render(
        "several_done.html",
        asked.page,
        results=results,
        decision=chosen.decision,
        recorded=sum(result.code == "recorded" for result in results),
    )


def _picked(asked: Visit) -> tuple[Picked, ...]:
    """The requests that the form lists, each with the version that was on the page."""
    found = []
    for name, value in asked.fields.items():
        if name.startswith(_PICK):
            task_id = name.removeprefix(_PICK)
            if not is_id(task_id):
                raise UnreadableForm
            found.append(Picked(task_id, whole(value)))
    return tuple(found)


async def _page(
    asked: Visit,
    picked: Sequence[Picked],
    *,
    status: int = 200,
    mistakes: Mistakes | None = None,
    notice: Notice | None = None,
) -> Response:
    caller = asked.caller
    too_many = len(picked) > MOST
    found = () if too_many else await look_at(asked.ctx, caller, picked)
    if not found:
        return render("several.html", asked.page, status=422, **_values(asked, (), {}, MANY if too_many else NOTHING))
    seen = {each.task_id: each.version for each in picked}
    return render(
        "several.html", asked.page, status=status, **{**_values(asked, found, seen, notice), "mistakes": mistakes}
    )


def _values(
    asked: Visit, found: Sequence[RequestDetail], seen: dict[str, int], notice: Notice | None
) -> dict[str, Any]:
    now = asked.page.now
    ends = [each.max_approved_until for each in found if each.max_approved_until is not None]
    longest = int((min(ends) - now).total_seconds()) if ends and len(ends) == len(found) else 0
    return {
        "found": found,
        "seen": seen,
        "alike": bool(found) and are_alike(found),
        "longest": max(0, longest),
        "choices": lifetimes(max(0, longest)),
        "needed": frozenset(decision for each in found for decision in each.reason_required),
        "rules": found[0].reasons if found and are_alike(found) else {},
        "step_up": any(each.step_up for each in found),
        "notice": notice,
        "mistakes": None,
    }
