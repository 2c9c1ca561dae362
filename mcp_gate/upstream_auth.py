"""The gateway's own access tokens for a server behind it: asked for at an issuer, or signed by itself.

The tokens are the gateway's, whoever is calling: no token of a caller reaches a server behind it. A token that is made
for an approved call ends with the approval at the latest (PEP-107). COAZ-MCP, "Token Integrity"; RFC 6749 section 4.4.
"""

import json
import secrets
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import httpx2
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, OKPKey

from arap_service.client import ClientCredentials
from mcp_gate.origin import message_id
from mcp_gate.settings import ConfigurationInvalid
from mcp_gate.settings_tools import CallTokens, Credentials, Upstream

ALGORITHMS: Final = {"P-256": "ES256", "Ed25519": "Ed25519"}
Key = ECKey | OKPKey


def _now() -> datetime:
    return datetime.now(UTC)


def auth_of(settings: Upstream, bounds: Mapping[str, datetime]) -> httpx2.Auth | None:
    """How the gateway authenticates itself; `bounds` says when the approvals of requests on their way end.

    Raises:
        ConfigurationInvalid: The key file is none.
    """
    if settings.credentials is not None:
        return UpstreamCredentials.of(settings.credentials)
    if settings.call_tokens is not None:
        return SignedCalls(settings.call_tokens, bounds, key=load_call_key(settings.call_tokens.key_file))
    return None


def load_call_key(path: Path) -> Key:
    """The private key (JWK, P-256 or Ed25519) in a file.

    Raises:
        ConfigurationInvalid: It holds none.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        key: Key = ECKey.import_key(document) if document["kty"] == "EC" else OKPKey.import_key(document)
        if not key.is_private or key.as_dict(private=False).get("crv") not in ALGORITHMS:
            raise ValueError("unfit")
    except (OSError, ValueError, TypeError, LookupError, RecursionError, JoseError):
        raise ConfigurationInvalid(f"call_tokens.key_file: {path} must hold a private P-256 or Ed25519 JWK") from None
    return key


class SignedCalls(httpx2.Auth):
    """Signs a token for each request; `clock` is the time."""

    def __init__(
        self,
        settings: CallTokens,
        bounds: Mapping[str, datetime],
        *,
        key: Key,
        clock: Callable[[], datetime] = _now,
    ) -> None:
        self._settings = settings
        self._bounds = bounds
        self._key = key
        self._algorithm = ALGORITHMS[str(key.as_dict(private=False)["crv"])]
        self._clock = clock

    def __repr__(self) -> str:
        return f"SignedCalls({self._settings.issuer!r})"

    def auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
        """Send `request` with a token of its own."""
        now = self._clock()
        ends = now + timedelta(seconds=self._settings.lifetime_seconds)
        named = message_id(request)
        if isinstance(named, str) and (until := self._bounds.get(named)) is not None:
            ends = min(ends, until)  # PEP-107
        claims = {
            "iss": self._settings.issuer,
            "sub": self._settings.issuer,
            "aud": self._settings.audience,
            "iat": int(now.timestamp()),
            "exp": int(ends.timestamp()),
            "jti": secrets.token_urlsafe(16),
        }
        header = {"alg": self._algorithm, "typ": "at+jwt", **({"kid": self._key.kid} if self._key.kid else {})}
        token = jwt.encode(header, claims, self._key, algorithms=[self._algorithm])
        request.headers["Authorization"] = f"Bearer {token}"
        yield request


class UpstreamCredentials(ClientCredentials):
    """Client credentials for connections whose answers are streams, which must not be read ahead."""

    requires_response_body = False

    @classmethod
    def of(cls, settings: Credentials) -> "UpstreamCredentials":
        """The credentials that an operator configured."""
        return cls(
            settings.token_endpoint,
            client_id=settings.client_id,
            client_secret=settings.client_secret.get_secret_value(),
            scope=settings.scope,
        )

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send `request` with a token; only answers of the token endpoint are read here."""
        flow = self.auth_flow(request)
        outgoing = next(flow)
        while True:
            response = yield outgoing
            if outgoing is not request:
                await response.aread()
            try:
                outgoing = flow.send(response)
            except StopIteration:
                return
