"""The page about oneself: who one is here, in which browsers one is logged in, and the buttons that end that.

It shows and ends sessions of the reader alone. Who people are and what groups they are in is changed elsewhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from arap_service import audit
from arap_service.store.database import ReadSession, WriteSession
from arap_service.store.people import groups_of
from arap_service.store.sessions import remove_web_session, remove_web_sessions_of, web_sessions_of
from arap_service.web import sessions
from arap_service.web.edge import READING, DeskRoute, LoginNeeded, Visit, visit
from arap_service.web.forms import UnreadableForm
from arap_service.web.login import LOGIN_CHAIN
from arap_service.web.rendering import render
from arap_service.web.sessions import Session, is_good

router: Final = APIRouter(route_class=DeskRoute, include_in_schema=False)
_SHOWN: Final = 16


@dataclass(frozen=True, slots=True)
class Place:
    """One browser in which the reader is logged in; `mark` names it in a form and opens nothing."""

    mark: str
    browser: str
    since: datetime
    used: datetime
    is_this: bool


@router.api_route("/desk/account", methods=sorted(READING), response_model=None)
async def account_page(request: Request) -> Response:
    """Who the reader is, and where he is logged in."""
    asked = visit(request)
    session = _session(asked)

    def work(reading: ReadSession) -> tuple[frozenset[str], Sequence[Place]]:
        return groups_of(reading, session.person_id), _places(asked, reading, session)

    groups, places = await asked.ctx.database.read(work)
    values: dict[str, Any] = {"who": session.name, "groups": sorted(groups), "places": places}
    has_password, is_changed = session.method == "local", "changed" in request.query_params
    return render("account.html", asked.page, has_password=has_password, is_changed=is_changed, **values)


@router.post("/desk/account/sessions", response_model=None)
async def end_sessions(request: Request) -> Response:
    """End one session of the reader's, all others, or all."""
    asked = visit(request)
    session = _session(asked)
    which = asked.fields.get("which", "")
    if not which:
        raise UnreadableForm
    is_out = await asked.ctx.database.write(partial(_end, asked, own=session, which=which))
    if not is_out:
        return RedirectResponse(asked.page.root + "/desk/account", status_code=303)
    response = RedirectResponse(asked.page.root + "/login", status_code=303)
    sessions.drop_cookie(response, sessions.COOKIE)
    return response


def _end(asked: Visit, session: WriteSession, *, own: Session, which: str) -> bool:
    """Whether the session of this very browser has ended with the others."""
    ended = 0
    if which in {"others", "all"}:
        ended = remove_web_sessions_of(session, own.person_id, but=own.digest if which == "others" else None)
    else:
        for row in web_sessions_of(session, own.person_id):
            if row.digest[:_SHOWN] == which:
                remove_web_session(session, row.digest)
                ended += 1
    if ended:
        detail = {"sessions": ended}
        audit.append(session, LOGIN_CHAIN, kind="logged_out", actor=own.person_id, detail=detail, now=asked.ctx.clock())
    return which == "all" or (ended > 0 and own.digest[:_SHOWN] == which)


def _places(asked: Visit, reading: ReadSession, session: Session) -> list[Place]:
    ctx, now = asked.ctx, asked.ctx.clock()
    return [
        Place(
            row.digest[:_SHOWN], row.browser or "A browser", row.created_at, row.seen_at, row.digest == session.digest
        )
        for row in web_sessions_of(reading, session.person_id)
        if is_good(row, settings=ctx.settings.login, now=now)
    ]


def _session(asked: Visit) -> Session:
    if asked.session is None:
        raise LoginNeeded
    return asked.session
