"""Logging in once more, for a decision that demands it: by password or at the provider, and back to where one was.

The session gets a new secret, and what was typed into the form that had to wait is kept in it, sealed, never in an
address. Whether a log-in is fresh enough is judged where requests are decided. See design.md section 3.
"""

import json
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final
from urllib.parse import quote

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from arap_service.context import Context
from arap_service.protocol.sealing import SealBroken
from arap_service.store.sessions import keep_typed
from arap_service.web import sessions
from arap_service.web.edge import READING, DeskRoute, LoginNeeded, Visit, visit
from arap_service.web.login import TOO_MANY, WRONG, Gatekeeper, opened_by_password, proved_account
from arap_service.web.provider_login import to_provider
from arap_service.web.rendering import render
from arap_service.web.security import safe_target
from arap_service.web.sessions import Proved, Session, browser_of
from arap_service.web.throttle import RETRY_SECONDS

router: Final = APIRouter(route_class=DeskRoute, include_in_schema=False)
KEPT: Final = timedelta(minutes=15)


@router.api_route("/desk/again", methods=sorted(READING), response_model=None)
async def again_page(request: Request) -> Response:
    """Why one has to log in again, and the form or button to do it."""
    asked = visit(request)
    return _page(asked, _session(asked), target=safe_target(request.query_params.get("next")))


@router.post("/desk/again", response_model=None)
async def prove_again(request: Request) -> Response:
    """Check the password of who is logged in; a new secret for the session, and back."""
    asked = visit(request)
    session, target = _session(asked), safe_target(asked.fields.get("next"))
    if session.method != "local":
        return _page(asked, session, target=target, status=422)
    keeper: Gatekeeper = request.app.state.gatekeeper
    address = request.client.host if request.client else ""
    if not keeper.throttle.admits(session.sub, address=address):
        asked.ctx.log.warning("login_throttled")
        response = _page(asked, session, target=target, message=TOO_MANY, status=429)
        response.headers["Retry-After"] = str(RETRY_SECONDS)
        return response
    password = asked.fields.get("password", "")
    account = await proved_account(asked.ctx, keeper, session.sub, password=password)
    if isinstance(account, str) or account.person_id != session.person_id:
        message = account if isinstance(account, str) else WRONG
        return _page(asked, session, target=target, message=message, status=403)
    keeper.throttle.forgive(session.sub, address=address)
    secret = asked.ctx.new_id("desk")
    proved = Proved(
        person_id=session.person_id,
        iss=session.iss,
        sub=session.sub,
        at=asked.ctx.clock(),
        browser=browser_of(request.headers.get("user-agent")),
    )
    work = partial(opened_by_password, asked.ctx, account=account, proved=proved, secret=secret, old=asked.secret)
    if not await asked.ctx.database.write(work):
        return _page(asked, session, target=target, message=WRONG, status=403)
    response = RedirectResponse(asked.page.root + target, status_code=303)
    sessions.set_cookie(response, sessions.COOKIE, secret)
    return response


@router.post("/desk/again/provider", response_model=None)
async def prove_at_provider(request: Request) -> Response:
    """Send the browser to the provider, which must ask anew who is there."""
    asked = visit(request)
    session, target = _session(asked), safe_target(asked.fields.get("next"))
    if session.method != "provider":
        return _page(asked, session, target=target, status=422)
    return await to_provider(request, target=target, person_id=session.person_id)


async def sent_to_prove(asked: Visit, typed: dict[str, Any], *, target: str) -> Response:
    """Keep what was typed, and lead to the page above."""
    session = _session(asked)
    said = json.dumps({**typed, "target": target, "at": asked.ctx.clock().isoformat()})
    sealed = asked.ctx.ring.seal(said.encode(), aad=_place(session))
    await asked.ctx.database.write(partial(keep_typed, digest=session.digest, sealed=sealed))
    location = f"{asked.page.root}/desk/again?next={quote(target, safe='')}"
    return RedirectResponse(location, status_code=303)


def typed_before(asked: Visit, *, target: str) -> dict[str, Any] | None:
    """What this person had typed into the form at `target` before he had to log in again, if he has done so."""
    session = asked.session
    if session is None or session.typed_sealed is None:
        return None
    try:
        said: dict[str, Any] = json.loads(asked.ctx.ring.open_(session.typed_sealed, aad=_place(session)))
    except (SealBroken, ValueError):
        return None
    at = datetime.fromisoformat(said["at"])
    is_back = at <= session.authenticated_at and asked.ctx.clock() - at <= KEPT
    return said if said["target"] == target and is_back else None


async def forget_typed(ctx: Context, session: Session | None) -> None:
    """Keep nothing of what was typed: it has served."""
    if session is not None and session.typed_sealed is not None:
        await ctx.database.write(partial(keep_typed, digest=session.digest, sealed=None))


def _session(asked: Visit) -> Session:
    if asked.session is None:
        raise LoginNeeded
    return asked.session


def _place(session: Session) -> str:
    # By person and not by digest: the secret changes while he proves who he is.
    return f"web_session:{session.person_id}:typed_sealed"


def _page(asked: Visit, session: Session, *, target: str, message: str | None = None, status: int = 200) -> Response:
    provider = asked.ctx.settings.login.oidc
    return render(
        "again.html",
        asked.page,
        status=status,
        target=target,
        account=session.sub if session.method == "local" else None,
        provider=provider.label if provider is not None else "",
        message=message,
    )
