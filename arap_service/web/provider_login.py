"""Logging in by the OpenID provider: the way there, the way back, and the pages for what goes wrong.

A log-in belongs to the browser that began it: the state is stored by digest, counts once and for ten minutes, and
everything else that binds it comes from a secret in that browser's cookie. Whatever is refused gets one and the same
page; the reason is in the log and the audit. OpenID Connect Core 1.0, section 3.1; RFC 6819, section 4.4.1.8.
"""

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from arap_service import audit
from arap_service.context import Context
from arap_service.oidc import LoginRefused, Proof, Provider, ProviderUnavailable
from arap_service.oidc_tokens import IdClaims, authenticated_at
from arap_service.provider_people import received, subject_of
from arap_service.settings_login import OidcSettings
from arap_service.store.database import WriteSession
from arap_service.store.people_tables import LoginAttempt
from arap_service.store.sessions import begin_attempt, take_attempt
from arap_service.web import sessions
from arap_service.web.edge import READING, DeskRoute, Refused, Visit, error_page, visit
from arap_service.web.login import LOGIN_CHAIN, Gatekeeper, leaving, opened
from arap_service.web.security import safe_target
from arap_service.web.sessions import Proved, browser_of

router: Final = APIRouter(route_class=DeskRoute, include_in_schema=False)
CALLBACK: Final = "/login/callback"
ATTEMPT: Final = timedelta(minutes=10)
NEVER: Final = datetime.fromtimestamp(0, UTC)
"""When somebody proved who he is of whom the provider does not say it."""
_MOST: Final = 4_096


@router.post("/login/provider", response_model=None)
async def leave(request: Request) -> Response:
    """Send the browser to the provider."""
    asked = visit(request)
    target = safe_target(asked.fields.get("next"))
    if asked.session is not None:
        return RedirectResponse(asked.page.root + target, status_code=303)
    return await to_provider(request, target=target)


async def to_provider(request: Request, *, target: str, person_id: str | None = None) -> Response:
    """A page that goes on to the provider; with `person_id` that very person has to prove anew who he is."""
    asked = visit(request)
    provider, _ = _provider(asked.ctx)
    keeper: Gatekeeper = request.app.state.gatekeeper
    if not keeper.throttle.admits_away(request.client.host if request.client else ""):
        asked.ctx.log.warning("login_throttled")
        return error_page(asked.page, 429)
    secret = asked.secret or ""  # the form token has been checked against it
    proof, now = Proof.of(asked.ctx.new_id("state"), secret=secret), asked.ctx.clock()
    try:
        url = await provider.login_url(
            proof, redirect_uri=asked.ctx.settings.identifier + CALLBACK, fresh=person_id is not None
        )
    except ProviderUnavailable as error:
        return _unavailable(asked, error)

    def begun(session: WriteSession) -> None:
        attempt = LoginAttempt(
            state_digest=sessions.digest(proof.state),
            browser_digest=sessions.digest(secret),
            target=target,
            person_id=person_id,
            started_at=now,
            expires_at=now + ATTEMPT,
        )
        begin_attempt(session, attempt, now=now)

    await asked.ctx.database.write(begun)
    return leaving(asked, url, "Going on to log in", "Go on to log in")


@router.api_route(CALLBACK, methods=sorted(READING), response_model=None)
async def come_back(request: Request) -> Response:
    """Where the provider sends the browser back to: a new session, or the one page for whatever is refused."""
    asked = visit(request)
    ctx = asked.ctx
    provider, settings = _provider(ctx)
    if request.method != "GET":
        return Response(status_code=204)  # a scanner or preview, which must not use up anything
    brought = _brought(request)
    try:
        attempt, secret = await _attempt(ctx, request, brought.get("state"))
        proof = Proof.of(brought["state"], secret=secret)
        await provider.check_sender(brought.get("iss"))
        if "error" in brought or not brought.get("code"):
            raise LoginRefused("refused_by_provider")
        claims = await provider.claims_for(brought["code"], proof, redirect_uri=ctx.settings.identifier + CALLBACK)
        proved_at = _proved_at(ctx, claims, attempt)
        new = ctx.new_id("desk")
        work = partial(
            _opened,
            ctx,
            settings=settings,
            claims=claims,
            attempt=attempt,
            at=proved_at,
            browser=browser_of(request.headers.get("user-agent")),
            secret=new,
            old=request.cookies.get(sessions.COOKIE),
        )
        await ctx.database.write(work)
    except ProviderUnavailable as error:
        return _unavailable(asked, error)
    except LoginRefused as error:
        return await _refused(asked, error)
    response = RedirectResponse(asked.page.root + attempt.target, status_code=303)
    sessions.set_cookie(response, sessions.COOKIE, new)
    sessions.drop_cookie(response, sessions.LOGIN_COOKIE)
    return response


def _provider(ctx: Context) -> tuple[Provider, OidcSettings]:
    if ctx.provider is None or ctx.settings.login.oidc is None:
        raise Refused(404, "There is nothing here", "Please log in the way that the log-in page offers.")
    return ctx.provider, ctx.settings.login.oidc


def _brought(request: Request) -> dict[str, str]:
    """What stands in the address, without anything that stands there twice or is beyond measure."""
    pairs = request.query_params.multi_items()
    names = [name for name, _ in pairs]
    return {name: value for name, value in pairs if names.count(name) == 1 and len(value) <= _MOST}


async def _attempt(ctx: Context, request: Request, state: str | None) -> tuple[LoginAttempt, str]:
    """The log-in that this browser began under `state`, with the secret of the cookie that it began with."""
    cookies = [request.cookies.get(name) for name in (sessions.LOGIN_COOKIE, sessions.COOKIE)]
    secrets = {sessions.digest(secret): secret for secret in cookies if secret}
    if not state or not secrets:
        raise LoginRefused("state_missing")
    found = await ctx.database.write(
        partial(take_attempt, state_digest=sessions.digest(state), browser_digests=tuple(secrets))
    )
    if found is None:
        raise LoginRefused("state_unknown")
    if ctx.clock() >= found.expires_at:
        raise LoginRefused("state_expired")
    return found, secrets[found.browser_digest]


def _proved_at(ctx: Context, claims: IdClaims, attempt: LoginAttempt) -> datetime:
    skew = ctx.settings.clock_skew_seconds
    at = authenticated_at(claims, now=ctx.clock(), skew_seconds=skew)
    if attempt.person_id is not None and (at is None or at < attempt.started_at - timedelta(seconds=skew)):
        raise LoginRefused("not_fresh")
    return at or NEVER


def _opened(
    ctx: Context,
    session: WriteSession,
    *,
    settings: OidcSettings,
    claims: IdClaims,
    attempt: LoginAttempt,
    at: datetime,
    browser: str,
    secret: str,
    old: str | None,
) -> None:
    person = received(session, settings, claims, now=ctx.clock())
    if attempt.person_id not in {None, person.id}:
        raise LoginRefused("another_person")
    sid = claims.get("sid")
    proved = Proved(
        person_id=person.id,
        iss=settings.issuer,
        sub=subject_of(settings, claims),
        at=at,
        method="provider",
        provider_sub=claims["sub"],
        provider_sid=sid if isinstance(sid, str) else None,
        browser=browser,
    )
    opened(ctx, session, proved=proved, secret=secret, old=old)


async def _refused(asked: Visit, error: LoginRefused) -> Response:
    ctx = asked.ctx
    ctx.log.warning("login_refused", code=error.code)

    def record(session: WriteSession) -> None:
        audit.append(
            session, LOGIN_CHAIN, kind="login_failed", actor="unknown", detail={"code": error.code}, now=ctx.clock()
        )

    # Without a state of ours nobody has begun to log in: a stranger must not fill the log.
    if error.code not in {"state_missing", "state_unknown"}:
        await ctx.database.write(record)
    return error_page(
        asked.page,
        403,
        title="You could not be logged in",
        text="Please try once more from the log-in page. If it happens again, ask whoever runs this service whether "
        "you have been given access.",
    )


def _unavailable(asked: Visit, error: ProviderUnavailable) -> Response:
    asked.ctx.log.warning("login_provider_unavailable", code=error.code)
    asked.ctx.metrics.provider_failed()
    return error_page(
        asked.page,
        503,
        title="Logging in is not possible now",
        text="The service that says who you are gives no answer. Please try again in a minute.",
    )
