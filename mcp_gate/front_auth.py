"""Who is calling the gateway: verifies the bearer tokens of the HTTP front (RFC 9068) against configured issuers.

Signature by the issuer's key set, issuer, audience, expiry and type are all checked before a claim is used. The token
itself is dropped once verified, so nothing behind this module could pass it on. COAZ, "Token Integrity"; PEP-16.
"""

import base64
import hashlib
import json
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import anyio
import httpx2
import structlog
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet
from mcp.server.auth.provider import AccessToken

from mcp_gate.settings import Issuer

ALGORITHMS: Final = ("ES256", "ES384", "EdDSA", "Ed25519", "RS256", "PS256")
TYPES: Final = frozenset({"at+jwt", "application/at+jwt"})
KEYS_LIVE: Final = timedelta(minutes=5)
# A key may have been withdrawn since the set was fetched, so an issuer that is away is trusted no longer than this.
KEYS_BELIEVED: Final = timedelta(minutes=15)
REFETCH_AFTER: Final = timedelta(seconds=30)
CACHE_SECONDS: Final = 60
CACHE_ENTRIES: Final = 1024
TOKEN_LIMIT: Final = 16_384
KEY_SET_LIMIT: Final = 262_144

log = structlog.get_logger(__name__)


class TokenInvalid(Exception):
    """The token proves nothing; `code` is for the log."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class KeySource:
    """The key set of one issuer: fetched when first needed, again when it is old or when a key is unknown."""

    def __init__(self, issuer: Issuer, *, http: httpx2.AsyncClient, clock: Callable[[], datetime]) -> None:
        self._issuer = issuer
        self._http = http
        self._clock = clock
        self._keys: KeySet | None = None
        self._fetched: datetime | None = None
        self._tried: datetime | None = None
        self._lock = anyio.Lock()

    async def key(self, kid: str) -> Any:
        """The verification key `kid`.

        Raises:
            TokenInvalid: the issuer has no such key, or its key set cannot be had.
        """
        found = self._find(kid, within=KEYS_LIVE)
        if found is None:
            await self._fetch()
            found = self._find(kid, within=KEYS_BELIEVED)
        if found is None:
            raise TokenInvalid("unknown_key")
        return found

    def _find(self, kid: str, *, within: timedelta) -> Any:
        if self._keys is None or self._fetched is None or self._clock() - self._fetched >= within:
            return None
        keys = [key for key in self._keys.keys if key.kid == kid]
        return keys[0] if len(keys) == 1 else None

    async def _fetch(self) -> None:
        async with self._lock:
            now = self._clock()
            if self._tried is not None and now - self._tried < REFETCH_AFTER:
                return  # unknown keys must not turn every bad token into a request
            self._tried = now
            try:
                response = await self._http.get(self._issuer.jwks_uri, headers={"accept": "application/json"})
                if response.status_code != 200 or len(response.content) > KEY_SET_LIMIT:
                    raise ValueError("not a key set")
                self._keys = KeySet.import_key_set(response.json())
                self._fetched = now
            except (httpx2.HTTPError, ValueError, TypeError, KeyError, JoseError) as error:
                log.warning("key_set_unavailable", issuer=self._issuer.issuer, error=type(error).__name__)


class JwtVerifier:
    """The SDK's TokenVerifier over JWT access tokens of several issuers; `resource` is the audience we accept."""

    def __init__(
        self,
        issuers: Sequence[Issuer],
        *,
        resource: str,
        http: httpx2.AsyncClient,
        clock: Callable[[], datetime],
        leeway_seconds: int = 30,
    ) -> None:
        self._sources = {issuer.issuer: KeySource(issuer, http=http, clock=clock) for issuer in issuers}
        self._resource = resource
        self._clock = clock
        self._leeway = timedelta(seconds=leeway_seconds)
        self._cache: OrderedDict[bytes, tuple[datetime, AccessToken]] = OrderedDict()

    async def verify_token(self, token: str) -> AccessToken | None:
        """The token's verified facts, or None; why not is in the log, without the token."""
        digest = hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
        now = self._clock()
        if (hit := self._cache.get(digest)) is not None and now < hit[0]:
            return hit[1]
        try:
            verified, expires = await self._verify(token)
        except TokenInvalid as error:
            log.info("token_refused", reason=error.code)
            return None
        self._cache[digest] = (min(expires, now + timedelta(seconds=CACHE_SECONDS)), verified)
        while len(self._cache) > CACHE_ENTRIES:
            self._cache.popitem(last=False)
        return verified

    async def _verify(self, token: str) -> tuple[AccessToken, datetime]:
        header, unverified = _peek(token)
        if header.get("alg") not in ALGORITHMS or str(header.get("typ", "")).lower() not in TYPES:
            raise TokenInvalid("algorithm_or_type")
        issuer = unverified.get("iss")
        source = self._sources.get(issuer) if isinstance(issuer, str) else None
        kid = header.get("kid")
        if source is None or not isinstance(kid, str):
            raise TokenInvalid("unknown_issuer" if source is None else "no_key_named")
        key = await source.key(kid)
        try:
            # The key must fit the algorithm, so a public key cannot be abused as a shared secret.
            claims = jwt.decode(token, key, algorithms=list(ALGORITHMS)).claims
        except (JoseError, ValueError, TypeError):
            raise TokenInvalid("signature") from None
        return self._facts(claims)

    def _facts(self, claims: Mapping[str, Any]) -> tuple[AccessToken, datetime]:
        now = self._clock()
        expires = _instant(claims.get("exp"))
        not_before = _instant(claims["nbf"]) if "nbf" in claims else None
        if now >= expires or (not_before is not None and now + self._leeway < not_before):
            raise TokenInvalid("expired_or_early")
        audience = claims.get("aud")
        audiences = [audience] if isinstance(audience, str) else audience
        if not isinstance(audiences, list) or self._resource not in audiences:
            raise TokenInvalid("audience")
        subject, client = claims.get("sub"), claims.get("client_id", claims.get("azp"))
        if not (isinstance(subject, str) and subject and isinstance(client, str) and client):
            raise TokenInvalid("no_principal")
        scope = claims.get("scope", "")
        verified = AccessToken(
            token="",  # never kept: there is no token to pass on
            client_id=client,
            scopes=scope.split() if isinstance(scope, str) else [],
            expires_at=int(expires.timestamp()),
            resource=self._resource,
            subject=subject,
            claims=dict(claims),
        )
        return verified, expires


def _peek(token: str) -> tuple[dict[str, Any], dict[str, Any]]:
    parts = token.split(".")
    if len(parts) != 3 or len(token) > TOKEN_LIMIT:
        raise TokenInvalid("shape")
    try:
        decoded = [json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))) for part in parts[:2]]
    except (ValueError, RecursionError):
        raise TokenInvalid("shape") from None
    header, claims = decoded
    if not isinstance(header, dict) or not isinstance(claims, dict) or "crit" in header:
        raise TokenInvalid("shape")
    return header, claims


def _instant(value: object) -> datetime:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TokenInvalid("no_expiry")
    try:
        return datetime.fromtimestamp(value, tz=UTC)
    except (OverflowError, ValueError, OSError):
        raise TokenInvalid("no_expiry") from None
