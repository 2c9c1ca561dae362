"""How people are told: the page on which a person chooses it for himself.

What may be chosen and kept is decided in `requests.preferences`. Design.md section 7, "Notifications".
"""

from collections.abc import Mapping
from typing import Any, Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from arap_service.domain.errors import InputInvalid
from arap_service.requests.preferences import Chosen, keep_preferences, own_preferences, zones
from arap_service.web.edge import READING, DeskRoute, Visit, visit
from arap_service.web.rendering import render

router: Final = APIRouter(route_class=DeskRoute, include_in_schema=False)
KINDS: Final[Mapping[str, str]] = {
    "request_waiting": "Something waits for my decision",
    "reminder": "It still waits",
    "escalated": "It was passed on to me",
    "question_answered": "My question was answered",
    "question_asked": "A reviewer asks about a request of mine",
    "decided": "A request of mine was decided",
    "revoked": "An approval for a request of mine was taken back",
    "emergency_used": "Emergency access was used (at once, at any hour)",
    "review_due": "I have to review something afterwards",
    "delivery_failed": "Messages to other systems were given up",
}
MESSAGES: Final[Mapping[str, str]] = {
    "channels": "One of these ways is not open to you any more.",
    "kinds": "One of these is not known here.",
    "digest": "Please choose one of the three.",
    "digest_at": "Please give a time such as 08:00.",
    "quiet_from": "Please give both times, such as 22:00 and 07:00, or none.",
    "quiet_until": "Please give both times, such as 22:00 and 07:00, or none.",
    "zone": "Please choose a zone of the list.",
}
_PATH: Final = "/desk/account/notifications"


@router.api_route(_PATH, methods=sorted(READING), response_model=None)
async def preferences_page(request: Request) -> Response:
    """How the reader is told."""
    return await _page(visit(request), is_kept="kept" in request.query_params)


@router.post(_PATH, response_model=None)
async def keep(request: Request) -> Response:
    """Keep what the reader chose, or show it again with what is wrong."""
    asked = visit(request)
    fields = asked.fields
    chosen = Chosen(
        channels=_ticked(fields, "channel-"),
        kinds=_ticked(fields, "kind-"),
        digest=fields.get("digest", ""),
        digest_at=fields.get("digest_at", ""),
        quiet_from=fields.get("quiet_from", ""),
        quiet_until=fields.get("quiet_until", ""),
        zone=fields.get("zone", ""),
    )
    try:
        await keep_preferences(asked.ctx, asked.caller, chosen)
    except InputInvalid as fault:
        wrong = [str(error["pointer"]).removeprefix("/") for error in fault.extra["errors"]]
        return await _page(asked, status=422, typed=chosen, wrong=wrong)
    return RedirectResponse(f"{asked.page.root}{_PATH}?kept", status_code=303)


async def _page(
    asked: Visit,
    *,
    status: int = 200,
    is_kept: bool = False,
    typed: Chosen | None = None,
    wrong: list[str] | None = None,
) -> Response:
    own = await own_preferences(asked.ctx, asked.caller)
    values: dict[str, Any] = {
        "own": own,
        "shown": typed or own,
        "kinds": KINDS,
        "zones": zones(),
        "messages": {name: MESSAGES[name] for name in wrong or ()},
        "is_kept": is_kept,
    }
    return render("notifications.html", asked.page, status=status, **values)


def _ticked(fields: Mapping[str, str], prefix: str) -> frozenset[str]:
    return frozenset(name.removeprefix(prefix) for name in fields if name.startswith(prefix))
