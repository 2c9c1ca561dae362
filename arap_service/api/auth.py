"""Who is calling over HTTP: an OAuth 2.0 bearer token in the form of RFC 9068, from a configured issuer.

A token is believed when its signature, type, issuer, audience and time are right; what its bearer may do is decided by
each operation through `Caller.require`. A refusal says nothing about the reason, which goes to the log as a code.
Verified tokens are remembered by digest, for at most a minute and never past their end. RFC 6750, RFC 9068; ARS-01,
PDP-10.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final

import structlog
from fastapi import Depends, Request

from arap_service.context import Context, Trust
from arap_service.domain.callers import Caller, Scope
from arap_service.domain.errors import Unauthenticated
from arap_service.keys import ACCESS_TYP, Claims, Clock, TokenInvalid, verify

REMEMBER_FOR: Final = timedelta(seconds=60)
REMEMBER_MOST: Final = 8192
_MAX_ACTORS: Final = 16
ANYBODY: Final = Caller(
    iss="urn:x-arap:anybody",
    sub="anybody",
    client_id="anybody",
    scopes=frozenset({Scope.EVALUATE, Scope.SEARCH}),
    channel="api",
)
"""Who calls while `authentication` is none: may ask the decision point, and nothing that touches requests."""


class Authenticator:
    """Turns a bearer token into a `Caller`."""

    def __init__(self, trust: Trust, *, clock: Clock, skew_seconds: int = 30) -> None:
        self._trust = trust
        self._clock = clock
        self._skew = timedelta(seconds=skew_seconds)
        self._known: OrderedDict[bytes, tuple[Caller, datetime]] = OrderedDict()
        self._log = structlog.get_logger("arap.auth")

    async def caller(self, token: str) -> Caller:
        """Who presents `token`.

        Raises:
            Unauthenticated: It does not prove anybody.
        """
        digest = hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
        now = self._clock()
        known = self._known.get(digest)
        if known is not None and now < known[1]:
            return known[0]
        try:
            await self._trust.access.prepare(token)
            claims = verify(token, typ=ACCESS_TYP, issuers=self._trust.access)
            caller, ends = self._judged(claims, now)
        except TokenInvalid as refused:
            self._known.pop(digest, None)
            self._log.info("access_token_refused", code=refused.code)
            raise Unauthenticated(error="invalid_token") from None
        self._known[digest] = (caller, min(ends, now + REMEMBER_FOR))
        self._known.move_to_end(digest)
        if len(self._known) > REMEMBER_MOST:
            self._known.popitem(last=False)
        return caller

    def _judged(self, claims: Claims, now: datetime) -> tuple[Caller, datetime]:
        audience = claims.get("aud")
        meant = [audience] if isinstance(audience, str) else audience
        if not isinstance(meant, list) or self._trust.audiences[claims["iss"]] not in meant:
            raise TokenInvalid("aud")
        ends = _instant(claims, "exp")
        if ends is None or ends <= now:
            raise TokenInvalid("exp")
        for name in ("nbf", "iat"):
            begins = _instant(claims, name)
            if begins is not None and begins > now + self._skew:
                raise TokenInvalid(name)
        act = _actors(claims)
        caller = Caller(
            iss=claims["iss"],
            sub=_text(claims, "sub"),
            client_id=_text(claims, "client_id"),
            scopes=frozenset(_text(claims, "scope").split(" ")),
            channel="api",
            agent=act[0][1] if act else None,
            act=act,
            proved_at=self._proved_at(claims, now),
        )
        return caller, ends

    def _proved_at(self, claims: Claims, now: datetime) -> datetime | None:
        """When the person behind the token proved who he is, if he did so in a way that counts (RFC 9068, RFC 9470)."""
        ways = self._trust.acrs.get(claims["iss"], frozenset())
        if ways and claims.get("acr") not in ways:
            return None
        at = _instant(claims, "auth_time")
        return None if at is None or at > now + self._skew else min(at, now)


def _text(claims: Mapping[str, Any], name: str) -> str:
    value = claims.get(name)
    if not isinstance(value, str) or not value:
        raise TokenInvalid(name)
    return value


def _instant(claims: Mapping[str, Any], name: str) -> datetime | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TokenInvalid(name)
    try:
        return datetime.fromtimestamp(value, UTC)
    except (OverflowError, ValueError, OSError):
        raise TokenInvalid(name) from None


def _actors(claims: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """The chain of RFC 8693, the current actor first; an actor without `iss` is one of the token's issuer."""
    chain: list[tuple[str, str]] = []
    actor = claims.get("act")
    while actor is not None:
        if not isinstance(actor, dict) or len(chain) == _MAX_ACTORS:
            raise TokenInvalid("act")
        issuer = actor.get("iss", claims["iss"])
        if not isinstance(issuer, str):
            raise TokenInvalid("act")
        chain.append((issuer, _text(actor, "sub")))
        actor = actor.get("act")
    return tuple(chain)


def bearer_token(headers: list[tuple[bytes, bytes]]) -> str:
    """The token of the one Authorization header in `headers`, as an ASGI server delivers them.

    Raises:
        Unauthenticated: There is none, more than one, or another scheme.
    """
    values = [value for name, value in headers if name == b"authorization"]
    scheme, _, token = values[0].partition(b" ") if values else (b"", b"", b"")
    if scheme.lower() != b"bearer":
        raise Unauthenticated
    token = token.strip(b" ")
    if len(values) > 1 or not token.isascii() or not token or b" " in token:
        raise Unauthenticated(error="invalid_token")
    return token.decode("ascii")


async def authenticate(request: Request) -> Caller:
    """The caller of `request`.

    Raises:
        Unauthenticated: Nobody whom we know.
    """
    if context(request).settings.authentication == "none":
        return ANYBODY
    authenticator: Authenticator = request.app.state.authenticator
    caller = await authenticator.caller(bearer_token(request.headers.raw))
    request.scope["arap.client_id"] = caller.client_id  # for layers around the application
    return caller


def context(request: Request) -> Context:
    """The surroundings that `create_app` has built."""
    found: Context = request.app.state.context
    return found


async def _context(request: Request) -> Context:
    # A dependency that is no coroutine is called in another thread, which costs more than all the rest of it.
    return context(request)


CallerDep = Annotated[Caller, Depends(authenticate)]
ContextDep = Annotated[Context, Depends(_context)]
