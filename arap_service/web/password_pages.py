"""Another password for one's own local account: the page on which its owner chooses it.

The password that counts now is asked for and tried no more often than at a log-in. With the new one every other session
of the person ends and this one gets a new secret, in one transaction. Whoever logs in by a provider has no password
here. What a password has to be like is judged in `passwords`.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

import anyio.to_thread
from fastapi import APIRouter
from pydantic import JsonValue
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from arap_service import audit
from arap_service.breached import ListUnusable
from arap_service.context import Context
from arap_service.requests.announcing import announce_password
from arap_service.store.database import WriteSession
from arap_service.store.people_tables import Account
from arap_service.store.sessions import change_password_hash, remove_web_sessions_of
from arap_service.web import sessions
from arap_service.web.edge import READING, REPLACE_PATH, DeskRoute, LoginNeeded, Refused, Visit, visit
from arap_service.web.login import LOGIN_CHAIN, RAN_OUT, TOO_MANY, Gatekeeper, proved_account
from arap_service.web.passwords import WeakPassword, check_new, hash_password
from arap_service.web.rendering import render
from arap_service.web.security import safe_target
from arap_service.web.sessions import Proved, Session, browser_of
from arap_service.web.throttle import RETRY_SECONDS

router: Final = APIRouter(route_class=DeskRoute, include_in_schema=False)
PATH: Final = REPLACE_PATH
DONE: Final = "/desk/account?changed"
NOT_NOW: Final = "This is not the password that you have now."
SAME: Final = "Please choose another one than you have now."
UNLIKE: Final = "The two new passwords are not the same. Please type both again."
UNCHECKED: Final = "New passwords cannot be checked now. Please try again later, and tell whoever runs this service."
OVERTAKEN: Final = "Your password was changed elsewhere in the meantime. Please type the one that you have now."


@router.api_route(PATH, methods=sorted(READING), response_model=None)
async def password_page(request: Request) -> Response:
    """The form, for somebody with a password of ours."""
    asked = visit(request)
    _own(asked)
    return _page(asked, target=safe_target(request.query_params.get("next"), default=DONE))


@router.post(PATH, response_model=None)
async def change_password(request: Request) -> Response:
    """Give the account its new password, or say what is wrong and change nothing."""
    asked = visit(request)
    session, fields = _own(asked), asked.fields
    current, new = fields.get("current", ""), fields.get("new", "")
    look = partial(_faults, asked.ctx, session, current=current, new=new, again=fields.get("again", ""))
    try:
        messages = await anyio.to_thread.run_sync(look)
    except ListUnusable as error:
        asked.ctx.log.warning("breached_passwords_unusable", reason=str(error))
        return _page(asked, status=503, messages={"new": UNCHECKED})
    if messages:
        return _page(asked, status=422, messages=messages)
    keeper: Gatekeeper = request.app.state.gatekeeper
    address = request.client.host if request.client else ""
    if not keeper.throttle.admits(session.sub, address=address):
        asked.ctx.log.warning("login_throttled")
        response = _page(asked, status=429, messages={"current": TOO_MANY})
        response.headers["Retry-After"] = str(RETRY_SECONDS)
        return response
    account = await proved_account(asked.ctx, keeper, session.sub, password=current)
    if isinstance(account, str) or account.person_id != session.person_id:
        return _page(asked, status=403, messages={"current": RAN_OUT if account == RAN_OUT else NOT_NOW})
    keeper.throttle.forgive(session.sub, address=address)
    hashed = await anyio.to_thread.run_sync(hash_password, new, limiter=keeper.checks)
    secret, browser = asked.ctx.new_id("desk"), browser_of(request.headers.get("user-agent"))
    work = partial(_change, asked, account=account, hashed=hashed, secret=secret, browser=browser)
    if not await asked.ctx.database.write(work):
        return _page(asked, status=409, messages={"current": OVERTAKEN})
    response = RedirectResponse(asked.page.root + safe_target(fields.get("next"), default=DONE), status_code=303)
    sessions.set_cookie(response, sessions.COOKIE, secret)
    return response


def _change(asked: Visit, session: WriteSession, *, account: Account, hashed: str, secret: str, browser: str) -> bool:
    """Whether it was done: what was proved still counted."""
    ctx, now = asked.ctx, asked.ctx.clock()
    if not change_password_hash(session, account.login, old=account.password_hash, new=hashed, now=now):
        return False
    proved = Proved(
        person_id=account.person_id, iss=ctx.settings.identifier, sub=account.login, at=now, browser=browser
    )
    sessions.begin(session, proved, settings=ctx.settings.login, secret=secret, old=asked.secret, now=now)
    ended = remove_web_sessions_of(session, account.person_id, but=sessions.digest(secret))
    detail: dict[str, JsonValue] = {"account": account.login, "sessions": ended}
    audit.append(session, LOGIN_CHAIN, kind="password_changed", actor=account.person_id, detail=detail, now=now)
    announce_password(session, ctx.settings.notifications, account.person_id, new_id=ctx.new_id, now=now)
    return True


def _faults(ctx: Context, session: Session, *, current: str, new: str, again: str) -> dict[str, str]:
    """What is wrong with what was typed, by field, before anything is tried."""
    if not current:
        return {"current": "Please type the password that you have now."}
    if new != again:
        return {"again": UNLIKE}
    if new == current:
        return {"new": SAME}
    try:
        about = (session.sub, session.person_id, urlsplit(ctx.settings.identifier).hostname or "")
        check_new(new, about=about, breached=ctx.settings.login.breached_passwords)
    except WeakPassword as weak:
        return {"new": str(weak)}
    return {}


def _own(asked: Visit) -> Session:
    """The session of somebody who has a password here.

    Raises:
        LoginNeeded: Nobody is logged in.
        Refused: He has logged in by a provider.
    """
    if asked.session is None:
        raise LoginNeeded
    if asked.session.method != "local":
        raise Refused(
            404, "You have no password here", "You log in by another service. Your password is changed there."
        )
    return asked.session


def _page(
    asked: Visit, *, target: str | None = None, status: int = 200, messages: Mapping[str, str] | None = None
) -> Response:
    session = _own(asked)
    values: dict[str, Any] = {
        "login": session.sub,
        "is_first": session.must_change,
        "target": target or safe_target(asked.fields.get("next"), default=DONE),
        "messages": messages or {},
    }
    return render("password.html", asked.page, status=status, **values)
