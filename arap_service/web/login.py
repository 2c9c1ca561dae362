"""Logging in with a local account, and logging out.

An unknown account and a wrong password get the same answer after the same work, and attempts are limited, so that
neither names nor passwords can be tried out. Every attempt goes into the audit log; a name that is unknown does not,
because people type passwords into the wrong field. What a logged-in person may decide is judged elsewhere.
"""

from dataclasses import dataclass
from functools import partial
from typing import Final

import anyio
import anyio.to_thread
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from arap_service import audit
from arap_service.store.database import ReadSession, WriteSession
from arap_service.store.people_tables import Account
from arap_service.store.sessions import account_by_login, active_person, replace_password_hash
from arap_service.web import sessions
from arap_service.web.edge import READING, DeskRoute, Visit, visit
from arap_service.web.passwords import hash_password, is_outdated, is_password
from arap_service.web.rendering import render
from arap_service.web.security import form_token, safe_target
from arap_service.web.throttle import RETRY_SECONDS, Throttle

router: Final = APIRouter(route_class=DeskRoute, include_in_schema=False)
LOGIN_CHAIN: Final = "login"
WRONG: Final = "Account or password is wrong."
TOO_MANY: Final = "Too many attempts. Please wait five minutes, then try again."


@dataclass(frozen=True, slots=True)
class Gatekeeper:
    """What logging in needs beside the context: the counts of attempts, and a bound on passwords checked at once."""

    throttle: Throttle
    checks: anyio.CapacityLimiter


def gatekeeper() -> Gatekeeper:
    """A gatekeeper without a past; each check takes 64 MiB, hence two at a time."""
    return Gatekeeper(Throttle(), anyio.CapacityLimiter(2))


@router.api_route("/login", methods=sorted(READING), response_model=None)
async def login_page(request: Request) -> Response:
    """The form; somebody who is logged in goes straight on."""
    asked = visit(request)
    target = safe_target(request.query_params.get("next"))
    if asked.session is not None:
        return RedirectResponse(asked.page.root + target, status_code=303)
    return _form(asked, target=target)


@router.post("/login", response_model=None)
async def log_in(request: Request) -> Response:
    """Check name and password; a new session under a new secret, or the form again with one and the same message."""
    asked = visit(request)
    keeper: Gatekeeper = request.app.state.gatekeeper
    login = asked.fields.get("name", "").strip().casefold()[:200]
    password, target = asked.fields.get("password", ""), safe_target(asked.fields.get("next"))
    address = request.client.host if request.client else ""
    if not keeper.throttle.admits(login, address=address):
        asked.ctx.log.warning("login_throttled")
        response = _form(asked, target=target, name=login, message=TOO_MANY, status=429)
        response.headers["Retry-After"] = str(RETRY_SECONDS)
        return response
    account = await asked.ctx.database.read(partial(_usable_account, login=login))
    stored = account.password_hash if account else None
    proved = await anyio.to_thread.run_sync(partial(is_password, password, stored=stored), limiter=keeper.checks)
    if account is None or not proved:
        await asked.ctx.database.write(partial(_record_failure, asked, account=account))
        return _form(asked, target=target, name=login, message=WRONG, status=403)
    keeper.throttle.forgive(login, address=address)
    newer = None
    if is_outdated(account.password_hash):
        newer = await anyio.to_thread.run_sync(hash_password, password, limiter=keeper.checks)
    secret = asked.ctx.new_id("desk")
    old = request.cookies.get(sessions.COOKIE)
    await asked.ctx.database.write(partial(_open, asked, account=account, secret=secret, old=old, newer=newer))
    response = RedirectResponse(asked.page.root + target, status_code=303)
    sessions.set_cookie(response, sessions.COOKIE, secret)
    sessions.drop_cookie(response, sessions.LOGIN_COOKIE)
    return response


@router.post("/logout", response_model=None)
async def log_out(request: Request) -> Response:
    """End the session in the database and in the browser."""
    asked = visit(request)
    if asked.session is not None and asked.secret is not None:
        await sessions.end(asked.ctx, asked.secret)
    response = RedirectResponse(asked.page.root + "/login", status_code=303)
    sessions.drop_cookie(response, sessions.COOKIE)
    return response


def _form(asked: Visit, *, target: str, name: str = "", message: str | None = None, status: int = 200) -> Response:
    # The secret of a session never serves the form: whoever is logged in gets one of its own here too.
    secret = asked.secret if asked.secret and asked.session is None else asked.ctx.new_id("login")
    page = asked.page_with(form_token(secret))
    response = render("login.html", page, status=status, target=target, login=name, message=message)
    sessions.set_cookie(response, sessions.LOGIN_COOKIE, secret, max_age=sessions.LOGIN_SECONDS)
    return response


def _usable_account(session: ReadSession, *, login: str) -> Account | None:
    account = account_by_login(session, login)
    if account is None or not account.active or active_person(session, account.person_id) is None:
        return None
    return account


def _record_failure(asked: Visit, session: WriteSession, *, account: Account | None) -> None:
    actor = account.person_id if account else "unknown"
    audit.append(session, LOGIN_CHAIN, kind="login_failed", actor=actor, detail={}, now=asked.ctx.clock())


def _open(
    asked: Visit, session: WriteSession, *, account: Account, secret: str, old: str | None, newer: str | None
) -> None:
    now = asked.ctx.clock()
    if newer is not None:
        replace_password_hash(session, account.login, old=account.password_hash, new=newer)
    sessions.begin(session, account, iss=asked.ctx.settings.identifier, secret=secret, old=old, now=now)
    audit.append(session, LOGIN_CHAIN, kind="login_succeeded", actor=account.person_id, detail={}, now=now)
