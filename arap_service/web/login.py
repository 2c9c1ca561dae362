"""Logging in with a local account, and logging out of any session.

An unknown account and a wrong password get the same answer after the same work, and attempts are limited, so that
neither names nor passwords can be tried out. Every attempt goes into the audit log; a name that is unknown does not,
because people type passwords into the wrong field. What a logged-in person may decide is judged elsewhere.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import anyio
import anyio.to_thread
from fastapi import APIRouter
from pydantic import JsonValue
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from arap_service import audit
from arap_service.context import Context
from arap_service.oidc import ProviderUnavailable
from arap_service.store.database import ReadSession, WriteSession
from arap_service.store.people_tables import Account
from arap_service.store.sessions import (
    account_by_login,
    active_person,
    hold_account,
    remove_web_session,
    replace_password_hash,
)
from arap_service.web import sessions
from arap_service.web.edge import READING, DeskRoute, Refused, Visit, visit
from arap_service.web.passwords import hash_password, is_outdated, is_password
from arap_service.web.rendering import render
from arap_service.web.security import form_token, safe_target
from arap_service.web.sessions import Proved, Session, browser_of
from arap_service.web.throttle import RETRY_SECONDS, Throttle

router: Final = APIRouter(route_class=DeskRoute, include_in_schema=False)
LOGIN_CHAIN: Final = "login"
WRONG: Final = "Account or password is wrong."
RAN_OUT: Final = (
    "This password was for the first log-in and does not count any more. "
    "Please ask whoever runs this service for another one."
)
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
    if not asked.ctx.settings.login.local:
        raise Refused(404, "There are no passwords here", "Please log in the way that the log-in page offers.")
    keeper: Gatekeeper = request.app.state.gatekeeper
    login = asked.fields.get("name", "").strip().casefold()[:200]
    password, target = asked.fields.get("password", ""), safe_target(asked.fields.get("next"))
    address = request.client.host if request.client else ""
    if not keeper.throttle.admits(login, address=address):
        asked.ctx.log.warning("login_throttled")
        response = _form(asked, target=target, name=login, message=TOO_MANY, status=429)
        response.headers["Retry-After"] = str(RETRY_SECONDS)
        return response
    account = await proved_account(asked.ctx, keeper, login, password=password)
    if isinstance(account, str):
        return _form(asked, target=target, name=login, message=account, status=403)
    keeper.throttle.forgive(login, address=address)
    secret, old = asked.ctx.new_id("desk"), request.cookies.get(sessions.COOKIE)
    proved = Proved(
        person_id=account.person_id,
        iss=asked.ctx.settings.identifier,
        sub=account.login,
        at=asked.ctx.clock(),
        browser=browser_of(request.headers.get("user-agent")),
    )
    work = partial(opened_by_password, asked.ctx, account=account, proved=proved, secret=secret, old=old)
    if not await asked.ctx.database.write(work):
        return _form(asked, target=target, name=login, message=WRONG, status=403)
    response = RedirectResponse(asked.page.root + target, status_code=303)
    sessions.set_cookie(response, sessions.COOKIE, secret)
    sessions.drop_cookie(response, sessions.LOGIN_COOKIE)
    return response


@router.post("/logout", response_model=None)
async def log_out(request: Request) -> Response:
    """End the session in the database, in the browser, and where it came from a provider there as well."""
    asked = visit(request)
    response: Response = RedirectResponse(asked.page.root + "/login", status_code=303)
    if asked.session is not None:
        await asked.ctx.database.write(partial(_end, asked.ctx, gone=asked.session))
        if (url := await _logout_url(asked.ctx, asked.session)) is not None:
            response = leaving(asked, url, "You are logged out here. Log out there as well?", "Log out there too")
    sessions.drop_cookie(response, sessions.COOKIE)
    response.headers["Clear-Site-Data"] = '"cache", "storage"'  # what a browser kept of pages in spite of no-store
    return response


def leaving(asked: Visit, url: str, heading: str, label: str) -> Response:
    """A page that goes on to another site by itself; a redirect would be stopped, as the forms here stay here."""
    page = replace(asked.page, person=None)
    return render("leaving.html", page, url=url, heading=heading, label=label)


async def proved_account(ctx: Context, keeper: Gatekeeper, login: str, *, password: str) -> Account | str:
    """The account whose password this is, or what to say; every failure is recorded, and costs what a success does."""
    account = await ctx.database.read(partial(_usable_account, login=login))
    stored = account.password_hash if account else None
    proved = await anyio.to_thread.run_sync(partial(is_password, password, stored=stored), limiter=keeper.checks)
    if account is None or not proved:
        await ctx.database.write(partial(_record_failure, ctx, account=account))
        return WRONG
    if account.first_until is not None and account.first_until <= ctx.clock():
        # Told to nobody but who knows the password.
        await ctx.database.write(partial(_record_failure, ctx, account=account, why="first_password_ran_out"))
        return RAN_OUT
    if is_outdated(account.password_hash):
        newer = await anyio.to_thread.run_sync(hash_password, password, limiter=keeper.checks)
        old = account.password_hash
        await ctx.database.write(partial(replace_password_hash, login=account.login, old=old, new=newer))
        account.password_hash = newer  # only here: whether it is stored is seen when it has to count
    return account


def opened_by_password(
    ctx: Context, session: WriteSession, *, account: Account, proved: Proved, secret: str, old: str | None
) -> bool:
    """Open a session for the password that was proved; not if it has been changed since, and whether it was opened."""
    if not hold_account(session, account.login, password_hash=account.password_hash):
        _record_failure(ctx, session, account=account)
        return False
    proved = replace(proved, must_change=account.first_until is not None)
    opened(ctx, session, proved=proved, secret=secret, old=old)
    return True


def opened(ctx: Context, session: WriteSession, *, proved: Proved, secret: str, old: str | None) -> None:
    """Open a session for somebody who has proved who he is, and record it."""
    now = ctx.clock()
    sessions.begin(session, proved, settings=ctx.settings.login, secret=secret, old=old, now=now)
    detail: dict[str, JsonValue] = {} if proved.method == "local" else {"by": proved.iss}
    audit.append(session, LOGIN_CHAIN, kind="login_succeeded", actor=proved.person_id, detail=detail, now=now)


async def _logout_url(ctx: Context, session: Session) -> str | None:
    if session.method != "provider" or ctx.provider is None:
        return None
    try:
        return await ctx.provider.logout_url(return_to=ctx.settings.identifier + "/login")
    except ProviderUnavailable as error:
        # Here he is logged out all the same.
        ctx.log.warning("login_provider_unavailable", code=error.code)
        ctx.metrics.provider_failed()
        return None


def _end(ctx: Context, session: WriteSession, *, gone: Session) -> None:
    remove_web_session(session, gone.digest)
    audit.append(session, LOGIN_CHAIN, kind="logged_out", actor=gone.person_id, detail={}, now=ctx.clock())


def _form(asked: Visit, *, target: str, name: str = "", message: str | None = None, status: int = 200) -> Response:
    # The secret of a session never serves the form: whoever is logged in gets one of its own here too.
    secret = asked.secret if asked.secret and asked.session is None else asked.ctx.new_id("login")
    page, ways = asked.page_with(form_token(secret)), asked.ctx.settings.login
    values = {"target": target, "login": name, "message": message}
    provider = None if ways.oidc is None else ways.oidc.label
    response = render("login.html", page, status=status, has_passwords=ways.local, provider=provider, **values)
    sessions.set_cookie(response, sessions.LOGIN_COOKIE, secret, max_age=sessions.LOGIN_SECONDS)
    return response


def _usable_account(session: ReadSession, *, login: str) -> Account | None:
    account = account_by_login(session, login)
    if account is None or not account.active or active_person(session, account.person_id) is None:
        return None
    return account


def _record_failure(ctx: Context, session: WriteSession, *, account: Account | None, why: str | None = None) -> None:
    actor = account.person_id if account else "unknown"
    detail: dict[str, JsonValue] = {} if why is None else {"why": why}
    audit.append(session, LOGIN_CHAIN, kind="login_failed", actor=actor, detail=detail, now=ctx.clock())
