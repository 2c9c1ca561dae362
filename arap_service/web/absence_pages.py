"""Who decides in the reader's place while he is away: what is entered, a form to enter more, and buttons to end it.

Each enters and ends his own; an administrator sees everybody's and may end any. What may be entered, and what such an
entry allows, is decided in `requests.delegations` and at the moment of deciding. See design.md sections 4 and 7.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from fastapi import APIRouter
from sqlmodel import Session
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from arap_service.domain.callers import Scope
from arap_service.domain.errors import InvalidRequest, InvalidTaskState, UnknownTask
from arap_service.requests.delegations import Wanted, delegate, delegations, end_delegation
from arap_service.store.people import groups_of, people_called
from arap_service.store.tasks import is_storable
from arap_service.web.asking import ZONES, moment_of
from arap_service.web.edge import READING, DeskRoute, Visit, visit
from arap_service.web.rendering import render
from arap_service.web.request_pages import Notice, is_id

router: Final = APIRouter(route_class=DeskRoute, include_in_schema=False)
_PATH: Final = "/desk/absence"
_LONGEST: Final = 200
_FIELDS: Final = {"/deputy": "deputy", "/starts_at": "from", "/ends_at": "until", "/groups": "group"}


@router.api_route(_PATH, methods=sorted(READING), response_model=None)
async def absence_page(request: Request) -> Response:
    """What is entered, and the form."""
    return await _page(visit(request))


@router.post(_PATH, response_model=None)
async def enter(request: Request) -> Response:
    """Let somebody decide in the reader's place, or say what is wrong with that."""
    asked = visit(request)
    try:
        await delegate(asked.ctx, asked.caller, await _wanted(asked))
    except InvalidRequest as refused:
        pointer = str(refused.extra.get("pointer", ""))
        messages = {_FIELDS.get(pointer, ""): refused.detail or "This is not accepted."}
        return await _page(asked, status=422, messages=messages, typed=asked.fields)
    return RedirectResponse(asked.page.root + _PATH, status_code=303)


@router.post(_PATH + "/{delegation_id}/end", response_model=None)
async def end(request: Request, delegation_id: str) -> Response:
    """End one at once."""
    asked = visit(request)
    caller = asked.caller
    if not is_id(delegation_id):
        raise UnknownTask
    try:
        await end_delegation(asked.ctx, caller, delegation_id)
    except InvalidTaskState:
        return await _page(asked, status=409, notice=Notice("bad", "Nothing was changed", "It was over already."))
    return RedirectResponse(asked.page.root + _PATH, status_code=303)


async def _wanted(asked: Visit) -> Wanted:
    fields, person_id = asked.fields, asked.caller.person_id or ""
    name = fields.get("deputy", "").strip()
    if not 0 < len(name) <= _LONGEST or not is_storable(name):
        raise InvalidRequest("Please name who decides for you.", pointer="/deputy")
    found = await asked.ctx.database.read(partial(people_called, name=name))
    if len(found) != 1:
        raise InvalidRequest("Nobody here, or more than one, has this name, account or address.", pointer="/deputy")
    zone = fields.get("zone", "UTC")
    if zone not in ZONES:
        raise InvalidRequest
    moments = {}
    for name_, pointer in (("from", "/starts_at"), ("until", "/ends_at")):
        try:
            moments[name_] = moment_of(fields.get(name_, ""), zone=zone)
        except InvalidRequest:
            raise InvalidRequest("This is no date and time.", pointer=pointer) from None
    starts_at, ends_at = moments["from"] or asked.ctx.clock(), moments["until"]
    if ends_at is None:
        raise InvalidRequest("Please say until when.", pointer="/ends_at")
    group = fields.get("group", "")
    return Wanted(
        person_id=person_id,
        deputy_id=next(iter(found)),
        starts_at=starts_at,
        ends_at=ends_at,
        groups=(group,) if group else (),
    )


async def _page(
    asked: Visit,
    *,
    status: int = 200,
    messages: Mapping[str, str] | None = None,
    typed: Mapping[str, str] | None = None,
    notice: Notice | None = None,
) -> Response:
    caller = asked.caller
    is_administrator = caller.may(Scope.ADMIN)
    rows = await delegations(asked.ctx, caller)
    everybody = await delegations(asked.ctx, caller, everybody=True) if is_administrator else ()
    own = {row.id for row in rows}

    def groups(session: Session) -> frozenset[str]:
        return groups_of(session, caller.person_id or "")

    values: dict[str, Any] = {
        "rows": rows,
        "others": [row for row in everybody if row.id not in own],
        "is_administrator": is_administrator,
        "me": caller.person_id,
        "groups": sorted(await asked.ctx.database.read(groups)),
        "titles": asked.ctx.policy.current().groups,
        "zones": ZONES,
        "messages": messages or {},
        "typed": typed or {},
        "notice": notice,
    }
    return render("absence.html", asked.page, status=status, **values)
