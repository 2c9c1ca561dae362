"""The page of one request and its two forms: decide, and take an approval back.

The version in the form is the one that the reviewer has read; the use case refuses a decision on any other (ARS-118),
and then the page shows how the request stands now and that nothing was recorded.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from arap_service import requests
from arap_service.domain.errors import (
    IneligibleApprover,
    InputInvalid,
    InvalidTaskState,
    StaleVersion,
    StepUpRequired,
    UnknownTask,
)
from arap_service.views import RequestDetail
from arap_service.web.again import forget_typed, sent_to_prove, typed_before
from arap_service.web.edge import READING, DeskRoute, Visit, visit
from arap_service.web.forms import (
    Decision,
    Mistakes,
    lifetimes,
    offered,
    read_decision,
    read_proposal,
    read_reason,
    read_scope,
    whole,
)
from arap_service.web.outcomes import outcome_of
from arap_service.web.rendering import render
from arap_service.web.words import why_not

router: Final = APIRouter(route_class=DeskRoute, include_in_schema=False)
_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,100}", re.ASCII)
_REASON: Final = "reason"
_REVOKE: Final = "revoke-reason"


@dataclass(frozen=True, slots=True)
class Notice:
    """What the reader must know before anything else on the page."""

    tone: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Typed:
    """What was typed into the forms of an item (0: of a request) that have to be shown again."""

    item: int = 0
    mistakes: Mistakes | None = None
    lifetime: str = ""
    may_vary: frozenset[str] | None = None
    proposal: Mapping[str, str] = field(default_factory=dict)
    proposal_mistake: str | None = None


@dataclass(frozen=True, slots=True)
class Said:
    """What is wrong with a question or comment, and what had been typed there."""

    question: str | None = None
    comment: str | None = None
    typed: str = ""


APPROVED_OTHERWISE: Final = (
    "You changed a value. An approval is for the values that were asked, so nothing was recorded. "
    "Deny to propose yours, or put the values back to approve."
)
OTHER_KIND: Final = "A proposed value is not of the kind of the one that it replaces: a number stays a number."
NOTHING: Final = Typed()
NOTHING_SAID: Final = Said()


@router.api_route("/desk/requests/{task_id}", methods=sorted(READING), response_model=None)
async def request_page(request: Request, task_id: str) -> Response:
    """Everything that a decision needs, and the forms to make it."""
    asked = visit(request)
    detail = await _detail(asked, task_id)
    return _page(asked, detail, **_brought_back(asked, detail))


@router.api_route("/desk/live/requests/{task_id}", methods=sorted(READING), response_model=None)
async def live_request(request: Request, task_id: str) -> Response:
    """A notice once the request is no longer what the page shows; nothing before that."""
    asked = visit(request)
    seen = whole(request.query_params.get("version"))
    detail = await _detail(asked, task_id)
    if detail.version == seen:
        return Response(status_code=204)
    return render("changed.html", asked.page, it=detail)


@router.api_route("/desk/live/requests/{task_id}/outcome", methods=sorted(READING), response_model=None)
async def live_outcome(request: Request, task_id: str) -> Response:
    """The body of the page once a report has come or the approval has ended; nothing while both are awaited."""
    asked = visit(request)
    seen = whole(request.query_params.get("version"))
    detail = await _detail(asked, task_id)
    if detail.version == seen and outcome_of(detail, now=asked.page.now).is_awaited:
        return Response(status_code=204)
    return render("request_body.html", asked.page, **_values(asked, detail))


@router.post("/desk/requests/{task_id}/decision", response_model=None)
async def decide(request: Request, task_id: str) -> Response:
    """Record the reviewer's decision on what he has seen, or say why it was not recorded."""
    asked = visit(request)
    detail = await _detail(asked, task_id)
    part = _part(asked, detail)
    lifetime, may_vary = asked.fields.get("lifetime", ""), read_scope(asked.fields)
    changes = read_proposal(asked.fields, offered(part))
    typed = Typed(part.item, None, lifetime, may_vary, changes)
    chosen = read_decision(asked.fields, reason_required=frozenset(part.reason_required), reasons=part.reasons)
    if isinstance(chosen, Mistakes):
        return _page(asked, detail, status=422, typed=replace(typed, mistakes=_marked(chosen, _REASON, part)))
    kept = _marked(Mistakes({}, {_REASON: chosen.reason or ""}), _REASON, part)
    is_denial = chosen.decision == "deny"
    if changes and not is_denial:
        wrong = replace(typed, mistakes=kept, proposal_mistake=APPROVED_OTHERWISE)
        return _page(asked, detail, status=422, typed=wrong)
    try:
        proposed = (
            await requests.amended(asked.ctx, asked.caller, task_id, changes, item=part.item or None)
            if changes
            else None
        )
        await requests.decide(
            asked.ctx,
            asked.caller,
            task_id,
            decision=chosen.decision,
            version=chosen.version,
            reason=chosen.reason,
            approved_until=_until(asked.ctx.clock(), chosen),
            item=part.item or None,
            may_vary=None if may_vary is None or is_denial else sorted(may_vary),
            proposed_arguments=proposed,
        )
    except InputInvalid:
        if not changes:
            raise
        return _page(asked, detail, status=422, typed=replace(typed, mistakes=kept, proposal_mistake=OTHER_KIND))
    except (StaleVersion, InvalidTaskState):
        now = await _detail(asked, task_id)
        notice = _overtaken(_part(asked, now))
        return _page(asked, now, status=409, notice=notice, typed=replace(typed, mistakes=kept))
    except StepUpRequired:
        return await _to_prove(asked, part, typed, reason=chosen.reason)
    except IneligibleApprover as refused:
        reason = why_not(str(refused.extra.get("code", "")))
        notice = Notice("bad", "Your decision was not recorded", reason)
        return _page(asked, await _detail(asked, task_id), status=403, notice=notice)
    return await _decided(asked, part)


@router.post("/desk/approvals/{approval_id}/revocation", response_model=None)
async def revoke(request: Request, approval_id: str) -> Response:
    """Take an approval back, or say why that is too late."""
    asked = visit(request)
    detail = await _detail(asked, asked.fields.get("request", ""))
    parts = detail.items if detail.item_count else (detail,)
    part = next((part for part in parts if part.approval is not None and part.approval.id == approval_id), None)
    if part is None:
        raise UnknownTask
    reason = read_reason(asked.fields, needed=True, rule=part.reasons.get("revoke"))
    if isinstance(reason, Mistakes):
        return _page(asked, detail, status=422, typed=Typed(part.item, _marked(reason, _REVOKE, part)))
    try:
        await requests.revoke(asked.ctx, asked.caller, approval_id, reason=reason or "")
    except (StaleVersion, InvalidTaskState):
        notice = Notice("bad", "Nothing was taken back", "The approval is no longer in force; see below how it ended.")
        return _page(asked, await _detail(asked, detail.id), status=409, notice=notice)
    return _back(asked, part)


def _part(asked: Visit, detail: RequestDetail) -> RequestDetail:
    """What the form is about: an item of a bundle that the reader sees, else the request itself."""
    if not detail.item_count:
        return detail
    item = whole(asked.fields.get("item"))
    found = next((part for part in detail.items if part.item == item), None)
    if found is None:
        raise UnknownTask
    return found


async def _decided(asked: Visit, part: RequestDetail) -> Response:
    await forget_typed(asked.ctx, asked.session)
    return _back(asked, part)


async def _to_prove(asked: Visit, part: RequestDetail, typed: Typed, *, reason: str | None) -> Response:
    """Lead to where one logs in once more, with what was typed kept."""
    kept = {
        "item": part.item,
        "reason": reason or "",
        "lifetime": typed.lifetime,
        "may_vary": None if typed.may_vary is None else sorted(typed.may_vary),
        "proposal": dict(typed.proposal),
    }
    return await sent_to_prove(asked, kept, target=f"/desk/requests/{part.id}")


def _brought_back(asked: Visit, detail: RequestDetail) -> dict[str, Any]:
    """What had been typed before one logged in once more, and a word that nothing has been decided yet."""
    said = typed_before(asked, target=f"/desk/requests/{detail.id}")
    parts = detail.items if detail.item_count else (detail,)
    part = next((part for part in parts if said is not None and part.item == said["item"]), None)
    if said is None or part is None or part.status != "pending":
        return {}
    kept = _marked(Mistakes({}, {_REASON: said["reason"]}), _REASON, part)
    may_vary = None if said["may_vary"] is None else frozenset(said["may_vary"])
    notice = Notice(
        "plain", "You are logged in anew", "Nothing has been decided yet. Please look once more and decide."
    )
    return {"typed": Typed(part.item, kept, said["lifetime"], may_vary, said["proposal"]), "notice": notice}


def _back(asked: Visit, part: RequestDetail) -> Response:
    place = f"#item-{part.item}" if part.item else ""
    return RedirectResponse(f"{asked.page.root}/desk/requests/{part.id}{place}", status_code=303)


def is_id(text: str) -> bool:
    """Whether this can be the id of a request at all."""
    return _ID.fullmatch(text) is not None


async def page_of(
    asked: Visit, task_id: str, *, status: int, notice: Notice | None = None, said: Said | None = None
) -> Response:
    """The page of a request after a form of it that was refused."""
    return _page(asked, await _detail(asked, task_id), status=status, notice=notice, said=said or NOTHING_SAID)


async def _detail(asked: Visit, task_id: str) -> RequestDetail:
    caller = asked.caller
    if not is_id(task_id):
        raise UnknownTask
    return await requests.detail(asked.ctx, caller, task_id)


def _until(now: datetime, chosen: Decision) -> datetime | None:
    return None if chosen.seconds is None else now + timedelta(seconds=chosen.seconds)


def _marked(mistakes: Mistakes, field: str, part: RequestDetail) -> Mistakes:
    """The same about the reason, under the name that the field has on the page."""
    name = f"{field}-{part.item}" if part.item else field
    messages = {name: mistakes.messages[_REASON]} if _REASON in mistakes.messages else {}
    return Mistakes(messages, {name: mistakes.typed[_REASON]})


def _overtaken(now: RequestDetail) -> Notice:
    if now.why_not == "already_decided":
        return Notice("bad", "Only your first decision counts", "It stands below. The second one was not recorded.")
    if now.status == "pending":
        text = "It changed while you were reading it. Please look at how it stands now, then decide again."
    elif now.status == "expired":
        text = "The time to decide had run out before your decision arrived. Nothing will run."
    else:
        text = "Somebody else was faster: the request is settled as shown below."
    return Notice("bad", "Your decision was not recorded", text)


def _page(
    asked: Visit,
    detail: RequestDetail,
    *,
    status: int = 200,
    notice: Notice | None = None,
    typed: Typed = NOTHING,
    said: Said = NOTHING_SAID,
) -> Response:
    values = _values(asked, detail, typed=typed, said=said)
    heading = detail.effect or detail.template_title
    return render("request.html", asked.page, status=status, heading=heading, notice=notice, **values)


def _values(
    asked: Visit, detail: RequestDetail, *, typed: Typed = NOTHING, said: Said = NOTHING_SAID
) -> dict[str, Any]:
    cards = [_card(asked.page.now, item, typed) for item in detail.items]
    return {**_card(asked.page.now, detail, typed), "cards": cards, "said": said}


def _card(now: datetime, detail: RequestDetail, typed: Typed) -> dict[str, Any]:
    """What the forms of a request or item are made of, with what was typed into them."""
    own = typed if typed.item == detail.item else NOTHING
    longest = max(0, int((detail.max_approved_until - now).total_seconds())) if detail.max_approved_until else 0
    return {
        "it": detail,
        "mistakes": own.mistakes,
        "longest": longest,
        "choices": lifetimes(longest),
        "chosen": own.lifetime,
        "kept": own.may_vary,
        "offers": offered(detail),
        "proposal": own.proposal,
        "proposal_mistake": own.proposal_mistake,
        "outcome": outcome_of(detail, now=now),
    }
