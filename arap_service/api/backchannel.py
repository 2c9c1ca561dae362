"""Where the OpenID provider says that a session has ended: back-channel log-out.

Called by the provider and not by a browser, so there is no cookie and no form token; the signed token alone counts, and
counts once. The sessions end with the transaction. OpenID Connect Back-Channel Logout 1.0, sections 2.5 to 2.8.
"""

from datetime import timedelta
from functools import partial
from typing import Final

from fastapi import APIRouter
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from arap_service import audit
from arap_service.api.auth import ContextDep
from arap_service.context import Context
from arap_service.oidc import ProviderUnavailable, digest
from arap_service.oidc_tokens import LOGOUT_SECONDS, MAX_TOKEN, Logout, Unbelievable
from arap_service.store.database import StoreUnavailable, WriteSession
from arap_service.store.sessions import remove_web_sessions_of_provider, spend_logout

router: Final = APIRouter(include_in_schema=False)
CHAIN: Final = "login"
_HEADERS: Final = {"Cache-Control": "no-store"}


@router.post("/login/backchannel", response_model=None)
async def provider_logout(request: Request, ctx: ContextDep) -> Response:
    """End the sessions that the token names."""
    try:
        async with request.form(max_files=0, max_fields=8) as form:
            sent = form.getlist("logout_token")
    except HTTPException:
        sent = []
    token = sent[0] if len(sent) == 1 else None
    if ctx.provider is None or ctx.settings.login.oidc is None or not isinstance(token, str) or len(token) > MAX_TOKEN:
        return _refused(ctx, "form")
    try:
        said = await ctx.provider.logout(token)
        is_new = await ctx.database.write(partial(_ended, ctx, issuer=ctx.settings.login.oidc.issuer, said=said))
    except Unbelievable as error:
        return _refused(ctx, error.code)
    except ProviderUnavailable as error:
        ctx.metrics.provider_failed()
        ctx.log.warning("login_provider_unavailable", code=error.code)
        return JSONResponse({"error": "temporarily_unavailable"}, status_code=503, headers=_HEADERS)
    except StoreUnavailable:
        return JSONResponse({"error": "temporarily_unavailable"}, status_code=503, headers=_HEADERS)
    return Response(status_code=200, headers=_HEADERS) if is_new else _refused(ctx, "jti")


def _ended(ctx: Context, session: WriteSession, *, issuer: str, said: Logout) -> bool:
    now = ctx.clock()
    until = now + timedelta(seconds=LOGOUT_SECONDS + 2 * ctx.settings.clock_skew_seconds)
    if not spend_logout(session, digest(f"{issuer}|{said.jti}"), until=until, now=now):
        return False
    for person_id in remove_web_sessions_of_provider(session, iss=issuer, sub=said.sub, sid=said.sid):
        audit.append(session, CHAIN, kind="logged_out", actor=person_id, detail={"by": issuer}, now=now)
    return True


def _refused(ctx: Context, code: str) -> Response:
    ctx.log.warning("provider_logout_refused", code=code)
    return JSONResponse({"error": "invalid_request"}, status_code=400, headers=_HEADERS)
