"""What it takes for a token of an OpenID provider to be believed: ID tokens and logout tokens.

Pure: the keys, the moment and what was asked for come in as arguments. Which person a believed token is about is
decided elsewhere. OpenID Connect Core 1.0, section 3.1.3.7; OpenID Connect Back-Channel Logout 1.0, section 2.6.
"""

import base64
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, NewType, TypeGuard

from authlib.oidc.core import CodeIDToken
from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, RSAKey

from arap_service.protocol.canonical import InvalidJson, strict_loads

IdClaims = NewType("IdClaims", dict[str, Any])
"""The claims of an ID token that was proven to be the provider's, for us, for this log-in, and in time."""

MAX_TOKEN: Final = 65_536
VERIFIED: Final = "email_verified"
"""The claim that says whether the address in `email` was shown to be the person's."""
LOGOUT_EVENT: Final = "http://schemas.openid.net/event/backchannel-logout"
LOGOUT_TYP: Final = "logout+jwt"
LOGOUT_SECONDS: Final = 300
"""How old the provider's word that a session has ended may be."""
MIN_RSA_BITS: Final = 2048


class Unbelievable(Exception):
    """The token proves nothing; `code` says why, for the log and never for the reader."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True, slots=True)
class ProviderKey:
    """A published key: its id, and the one algorithm that it is for, where the provider says so."""

    kid: str | None
    alg: str | None
    key: RSAKey | ECKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What a token must say: who made it, for whom, under which algorithms, and how far the clocks may be apart."""

    issuer: str
    client_id: str
    algorithms: frozenset[str]
    skew_seconds: int


@dataclass(frozen=True, slots=True)
class Logout:
    """A believed word that a session, or all sessions of somebody, have ended; `jti` counts once."""

    jti: str
    sub: str | None
    sid: str | None


def read_keys(body: bytes) -> tuple[ProviderKey, ...]:
    """The keys in a key set that can verify signatures; others are left out.

    Raises:
        Unbelievable: It is no key set.
    """
    try:
        document = strict_loads(body)
    except InvalidJson:
        raise Unbelievable("key_set") from None
    entries = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise Unbelievable("key_set")
    found = (_key(entry) for entry in entries if isinstance(entry, dict) and entry.get("use", "sig") == "sig")
    return tuple(key for key in found if key is not None)


def _key(entry: Mapping[str, Any]) -> ProviderKey | None:
    kid, alg = entry.get("kid"), entry.get("alg")
    public = {name: value for name, value in entry.items() if name in {"kty", "crv", "x", "y", "n", "e"}}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # joserfc warns of keys that are refused below
            key = ECKey.import_key(public) if entry.get("kty") == "EC" else RSAKey.import_key(public)
    except (JoseError, KeyError, ValueError, TypeError):
        return None
    if isinstance(key, RSAKey) and key.public_key.key_size < MIN_RSA_BITS:
        return None
    return ProviderKey(kid if isinstance(kid, str) else None, alg if isinstance(alg, str) else None, key)


def key_id(token: str) -> str | None:
    """The id of the key that `token` says it was signed with; proves nothing."""
    kid = _header(token).get("kid")
    return kid if isinstance(kid, str) else None


def can_sign(key: ProviderKey, algorithms: Collection[str]) -> bool:
    """Whether a token under one of `algorithms` can be signed with `key`."""
    kinds = ("ES",) if isinstance(key.key, ECKey) else ("RS", "PS")
    return any(name.startswith(kinds) and key.alg in {None, name} for name in algorithms)


def id_claims(
    token: str, keys: Sequence[ProviderKey], expected: Expected, *, nonce: str, access_token: str | None, now: datetime
) -> IdClaims:
    """The claims of an ID token once everything about it is right.

    Raises:
        Unbelievable: Anything at all is wrong with it.
    """
    header, claims = _verified(token, keys, expected.algorithms)
    if str(header.get("typ", "JWT")).lower() not in {"jwt", "application/jwt"} or "events" in claims:
        raise Unbelievable("typ")  # a logout token is no proof of who somebody is
    _check_sender(claims, expected)
    judged = CodeIDToken(
        claims, header, None, {"nonce": nonce, "client_id": expected.client_id, "access_token": access_token}
    )
    try:
        judged.validate(now=int(now.timestamp()), leeway=expected.skew_seconds)
    except JoseError as error:
        raise Unbelievable(f"{error.error}:{getattr(error, 'claim', None) or ''}".rstrip(":")) from None
    if not _is_text(claims["sub"]) or not _is_instant(claims["exp"]) or not _is_instant(claims["iat"]):
        raise Unbelievable("claims")
    return IdClaims(claims)


def logout_claims(token: str, keys: Sequence[ProviderKey], expected: Expected, *, now: datetime) -> Logout:
    """What a logout token says once everything about it is right.

    Raises:
        Unbelievable: Anything at all is wrong with it.
    """
    header, claims = _verified(token, keys, expected.algorithms)
    if str(header.get("typ", LOGOUT_TYP)).lower().removeprefix("application/") not in {LOGOUT_TYP, "jwt"}:
        raise Unbelievable("typ")
    _check_sender(claims, expected)
    events = claims.get("events")
    if not isinstance(events, dict) or not isinstance(events.get(LOGOUT_EVENT), dict):
        raise Unbelievable("events")
    if "nonce" in claims:  # else an ID token could pass for one
        raise Unbelievable("nonce")
    issued, ends, moment = claims.get("iat"), claims.get("exp"), now.timestamp()
    if not _is_instant(issued) or not -expected.skew_seconds <= moment - issued <= LOGOUT_SECONDS:
        raise Unbelievable("iat")
    if ends is not None and (not _is_instant(ends) or ends <= moment - expected.skew_seconds):
        raise Unbelievable("exp")
    jti, sub, sid = claims.get("jti"), claims.get("sub"), claims.get("sid")
    if not _is_text(jti):
        raise Unbelievable("jti")
    if not any(_is_text(each) for each in (sub, sid)) or not all(each is None or _is_text(each) for each in (sub, sid)):
        raise Unbelievable("sub")
    return Logout(jti, sub, sid)


def authenticated_at(claims: Mapping[str, Any], *, now: datetime, skew_seconds: int) -> datetime | None:
    """When the provider says that the person proved who he is; None where it says nothing of use."""
    said = claims.get("auth_time")
    if not _is_instant(said) or said > now.timestamp() + skew_seconds:
        return None
    return min(datetime.fromtimestamp(said, UTC), now)


def _verified(
    token: str, keys: Sequence[ProviderKey], algorithms: Collection[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    header = _header(token)
    alg, kid = header.get("alg"), header.get("kid")
    if not isinstance(alg, str) or alg not in algorithms:
        raise Unbelievable("alg")
    if any(name in header for name in ("jwk", "jku", "x5u", "crit", "b64")):
        raise Unbelievable("header")
    # Without an id the key must be beyond doubt.
    found = [key for key in keys if key.kid == kid] if kid is not None else list(keys)
    usable = [key for key in found if key.alg in {None, alg}]
    if len(usable) != 1:
        raise Unbelievable("kid")
    try:
        payload = jws.deserialize_compact(token, usable[0].key, algorithms=[alg]).payload
        claims = strict_loads(payload)
    except (JoseError, ValueError, TypeError):
        raise Unbelievable("signature") from None
    except InvalidJson:
        raise Unbelievable("format") from None
    if not isinstance(claims, dict):
        raise Unbelievable("format")
    return header, claims


def _header(token: str) -> dict[str, Any]:
    if len(token) > MAX_TOKEN or token.count(".") != 2 or not token.isascii():
        raise Unbelievable("format")
    first = token.partition(".")[0]
    try:
        header = strict_loads(base64.b64decode(first + "=" * (-len(first) % 4), altchars=b"-_", validate=True))
    except (ValueError, InvalidJson):
        raise Unbelievable("format") from None
    if not isinstance(header, dict):
        raise Unbelievable("format")
    return header


def _check_sender(claims: Mapping[str, Any], expected: Expected) -> None:
    if claims.get("iss") != expected.issuer:
        raise Unbelievable("iss")
    audience = claims.get("aud")
    meant = [audience] if isinstance(audience, str) else audience
    if not isinstance(meant, list) or expected.client_id not in meant:
        raise Unbelievable("aud")


def _is_text(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and 0 < len(value) <= 255 and value.isprintable()


def _is_instant(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e11
