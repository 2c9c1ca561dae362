"""The OpenID provider that people log in with: what it publishes, and the exchange of a code for who somebody is.

Only the configured issuer is asked, and its metadata must name that very issuer. No redirects, no proxies, bounded
time. Tokens are judged in `oidc_tokens.py`; what a log-in means for people is decided in `provider_people.py`. OpenID
Connect Core 1.0, Discovery 1.0, RP-Initiated Logout 1.0; RFC 7636, RFC 9207.
"""

import base64
import hashlib
import hmac
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

import anyio
import httpx2
from authlib.common.urls import add_params_to_uri
from authlib.integrations.base_client import OAuthError
from authlib.integrations.httpx_client import AsyncOAuth2Client

from arap_service.jwks import KeysUnavailable, fetch_keys
from arap_service.keys import Clock
from arap_service.oidc_tokens import (
    VERIFIED,
    Expected,
    IdClaims,
    Logout,
    ProviderKey,
    Unbelievable,
    can_sign,
    id_claims,
    key_id,
    logout_claims,
    read_keys,
)
from arap_service.protocol.canonical import InvalidJson, strict_loads
from arap_service.settings_login import OidcSettings
from arap_service.settings_parts import is_loopback

FRESH_FOR: Final = timedelta(minutes=10)
STALE_AFTER: Final = timedelta(hours=24)
REFETCH_AFTER: Final = timedelta(seconds=30)
_DISCOVERY: Final = "/.well-known/openid-configuration"


class ProviderUnavailable(Exception):
    """No usable answer came from the provider; `code` says why and shows nothing of it."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class LoginRefused(Exception):
    """What came back proves nobody; `code` is for the log and the audit, and never for the reader."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """What of the provider's metadata is used."""

    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str | None
    end_session_endpoint: str | None
    names_itself: bool
    """Its answers carry `iss`, so one without it comes from somebody else (RFC 9207)."""


@dataclass(frozen=True, slots=True)
class Proof:
    """What binds one log-in to one browser: derived from a secret in its cookie, so that the database holds neither."""

    state: str
    nonce: str
    verifier: str

    @classmethod
    def of(cls, state: str, *, secret: str) -> "Proof":
        """The proof for `state` in the browser whose cookie holds `secret`."""

        def derived(purpose: bytes) -> str:
            code = hmac.digest(secret.encode(errors="replace"), purpose + state.encode(errors="replace"), "sha256")
            return base64.urlsafe_b64encode(code).rstrip(b"=").decode()

        return cls(state, derived(b"nonce:"), derived(b"verifier:"))


def digest(secret: str) -> str:
    """What is stored of a secret."""
    return hashlib.sha256(secret.encode(errors="replace")).hexdigest()


class Fetch(Protocol):
    """Gets what the provider publishes."""

    def __call__(self, url: str, *, seconds: float) -> Awaitable[bytes]:
        """The body of the answer.

        Raises:
            KeysUnavailable: No such answer came.
        """
        ...


class Provider:
    """One OpenID provider; safe to use by many log-ins at once."""

    def __init__(
        self,
        settings: OidcSettings,
        *,
        clock: Clock,
        skew_seconds: int,
        insecure_loopback: bool,
        fetch: Fetch = fetch_keys,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._insecure_loopback = insecure_loopback
        self._fetch = fetch
        self._expected = Expected(
            issuer=settings.issuer,
            client_id=settings.client_id,
            algorithms=settings.algorithms,
            skew_seconds=skew_seconds,
        )
        self._metadata: Metadata | None = None
        self._read_at: datetime | None = None
        self._keys: tuple[ProviderKey, ...] = ()
        self._keys_at: datetime | None = None
        self._lock = anyio.Lock()

    async def login_url(self, proof: Proof, *, redirect_uri: str, fresh: bool) -> str:
        """Where to send a browser; `fresh` demands that the person proves anew who he is.

        Raises:
            ProviderUnavailable: The provider cannot be asked where that is.
        """
        metadata = await self.metadata()
        more = {"prompt": "login", "max_age": "0"} if fresh else {}
        async with self._client(redirect_uri) as client:
            url, _ = client.create_authorization_url(
                metadata.authorization_endpoint,
                state=proof.state,
                nonce=proof.nonce,
                code_verifier=proof.verifier,
                **more,
            )
        return str(url)

    async def logout_url(self, *, return_to: str) -> str | None:
        """Where the session at the provider is ended, if it offers that.

        Raises:
            ProviderUnavailable: The provider cannot be asked where that is.
        """
        endpoint = (await self.metadata()).end_session_endpoint
        if endpoint is None:
            return None
        params = [("client_id", self._settings.client_id), ("post_logout_redirect_uri", return_to)]
        return str(add_params_to_uri(endpoint, params))

    async def check_sender(self, issuer: str | None) -> None:
        """Refuse an answer that another provider sent (mix-up).

        Raises:
            LoginRefused: It is not from the configured issuer.
            ProviderUnavailable: It cannot be known whether it must name its sender.
        """
        if issuer is None:
            if (await self.metadata()).names_itself:
                raise LoginRefused("issuer_missing")
        elif issuer != self._settings.issuer:
            raise LoginRefused("issuer_mix_up")

    async def claims_for(self, code: str, proof: Proof, *, redirect_uri: str) -> IdClaims:
        """Who has logged in, as the provider says in exchange for `code`.

        Raises:
            LoginRefused: The code or what came for it is not to be believed.
            ProviderUnavailable: No usable answer came.
        """
        metadata = await self.metadata()
        token = await self._exchange(metadata, code, proof, redirect_uri)
        id_token, access_token = token.get("id_token"), token.get("access_token")
        if not isinstance(id_token, str):
            raise LoginRefused("id_token_missing")
        try:
            keys = await self._keys_for(key_id(id_token), is_asked=True)
            claims = id_claims(
                id_token,
                keys,
                self._expected,
                nonce=proof.nonce,
                access_token=access_token if isinstance(access_token, str) else None,
                now=self._clock(),
            )
        except Unbelievable as error:
            raise LoginRefused(f"id_token_{error.code}") from None
        return await self._completed(metadata, claims, access_token)

    async def logout(self, token: str) -> Logout:
        """What a logout token says.

        Raises:
            Unbelievable: It is not to be believed.
            ProviderUnavailable: The provider's keys cannot be had.
        """
        # Anybody can send us one, so an unknown key is looked for once in a while only.
        keys = await self._keys_for(key_id(token), is_asked=False)
        return logout_claims(token, keys, self._expected, now=self._clock())

    async def check(self) -> None:
        """See whether the provider can be asked, and has a key that its tokens may be signed with.

        Raises:
            ProviderUnavailable: It cannot, or has none.
        """
        keys = await self._keys_for(None, is_asked=True)
        if not any(can_sign(key, self._settings.algorithms) for key in keys):
            raise ProviderUnavailable("no_usable_key")

    async def metadata(self) -> Metadata:
        """What the provider says of itself, at most ten minutes old, or a day while it cannot be asked.

        Raises:
            ProviderUnavailable: It cannot be asked, or what it says is not to be used.
        """
        if self._metadata is not None and self._is_within(self._read_at, FRESH_FOR):
            return self._metadata
        async with self._lock:
            if self._metadata is not None and self._is_within(self._read_at, FRESH_FOR):
                return self._metadata
            try:
                self._metadata, self._read_at = await self._discovered(), self._clock()
            except ProviderUnavailable:
                if self._metadata is None or not self._is_within(self._read_at, STALE_AFTER):
                    raise
            return self._metadata

    async def _discovered(self) -> Metadata:
        try:
            body = await self._fetch(
                self._settings.issuer.removesuffix("/") + _DISCOVERY, seconds=self._settings.timeout_seconds
            )
            said = strict_loads(body)
        except KeysUnavailable as error:
            raise ProviderUnavailable(f"metadata_{error.code}") from None
        except InvalidJson:
            raise ProviderUnavailable("metadata_not_json") from None
        if not isinstance(said, dict) or said.get("issuer") != self._settings.issuer:
            raise ProviderUnavailable("metadata_issuer")
        return Metadata(
            authorization_endpoint=self._endpoint(said, "authorization_endpoint"),
            token_endpoint=self._endpoint(said, "token_endpoint"),
            jwks_uri=self._endpoint(said, "jwks_uri"),
            userinfo_endpoint=self._optional(said, "userinfo_endpoint"),
            end_session_endpoint=self._optional(said, "end_session_endpoint"),
            names_itself=said.get("authorization_response_iss_parameter_supported") is True,
        )

    def _optional(self, said: Mapping[str, Any], name: str) -> str | None:
        return self._endpoint(said, name) if said.get(name) is not None else None

    def _endpoint(self, said: Mapping[str, Any], name: str) -> str:
        url = said.get(name)
        try:
            parts = urlsplit(url) if isinstance(url, str) and url.isascii() and url.isprintable() else None
        except ValueError:
            parts = None
        if parts is None or not parts.hostname or parts.username is not None or parts.fragment:
            raise ProviderUnavailable(f"metadata_{name}")
        if parts.scheme != "https" and not (
            parts.scheme == "http" and self._insecure_loopback and (is_loopback(parts.hostname))
        ):
            raise ProviderUnavailable(f"metadata_{name}")
        return str(url)

    async def _keys_for(self, kid: str | None, *, is_asked: bool) -> tuple[ProviderKey, ...]:
        """The published keys, read anew where they are old or, as often as allowed, where `kid` is not among them."""
        async with self._lock:
            is_known = kid is None or any(key.kid == kid for key in self._keys)
            if self._is_within(self._keys_at, FRESH_FOR) and is_known:
                return self._keys
            if not is_asked and self._is_within(self._keys_at, REFETCH_AFTER):
                return self._keys
        metadata = await self.metadata()
        async with self._lock:
            try:
                self._keys = read_keys(await self._fetch(metadata.jwks_uri, seconds=self._settings.timeout_seconds))
            except (KeysUnavailable, Unbelievable) as error:
                if not self._is_within(self._keys_at, STALE_AFTER):
                    raise ProviderUnavailable(f"keys_{error.code}") from None
                return self._keys
            self._keys_at = self._clock()
            return self._keys

    async def _exchange(self, metadata: Metadata, code: str, proof: Proof, redirect_uri: str) -> Mapping[str, Any]:
        try:
            with anyio.fail_after(self._settings.timeout_seconds):
                async with self._client(redirect_uri) as client:
                    found = await client.fetch_token(
                        metadata.token_endpoint,
                        grant_type="authorization_code",
                        code=code,
                        code_verifier=proof.verifier,
                        redirect_uri=redirect_uri,
                    )
        except OAuthError as error:
            # A wrong secret of ours is for the operator to mend; anything else is about this one code.
            if error.error in {"invalid_client", "unauthorized_client"}:
                raise ProviderUnavailable("client_refused") from None
            raise LoginRefused("code_refused") from None
        except TimeoutError:
            raise ProviderUnavailable("token_timeout") from None
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError, TypeError, AttributeError):
            raise ProviderUnavailable("token_exchange") from None
        if not isinstance(found, dict):
            raise ProviderUnavailable("token_exchange")
        return found

    async def _completed(self, metadata: Metadata, claims: IdClaims, access_token: object) -> IdClaims:
        """The claims with those that the provider tells on request only; what the token says goes first."""
        wanted = {self._settings.name_claim, self._settings.email_claim, self._settings.groups_claim or "sub"}
        if metadata.userinfo_endpoint is None or not isinstance(access_token, str) or wanted <= claims.keys():
            return claims
        try:
            with anyio.fail_after(self._settings.timeout_seconds):
                async with httpx2.AsyncClient(
                    timeout=self._settings.timeout_seconds, follow_redirects=False, trust_env=False
                ) as client:
                    answer = await client.get(
                        metadata.userinfo_endpoint,
                        headers={"Authorization": f"Bearer {access_token}", "Accept": "application/json"},
                    )
            told = strict_loads(answer.content) if answer.status_code == 200 else None
        except (TimeoutError, httpx2.HTTPError, httpx2.InvalidURL):
            raise ProviderUnavailable("userinfo") from None
        except InvalidJson:
            raise ProviderUnavailable("userinfo_not_json") from None
        if not isinstance(told, dict):
            raise ProviderUnavailable("userinfo")
        if told.get("sub") != claims["sub"]:  # OpenID Connect Core 1.0, section 5.3.2
            raise LoginRefused("userinfo_sub")
        added = {name: told[name] for name in wanted if name in told and name not in claims}
        if self._settings.email_claim in added and VERIFIED in told:  # said of this address, and of no other
            added[VERIFIED] = told[VERIFIED]
        return IdClaims({**claims, **added})

    def _client(self, redirect_uri: str) -> AsyncOAuth2Client:
        try:
            secret = self._settings.secret()
        except (OSError, UnicodeError):
            raise ProviderUnavailable("client_secret_file") from None
        return AsyncOAuth2Client(
            client_id=self._settings.client_id,
            client_secret=secret,
            token_endpoint_auth_method=self._settings.client_authentication,
            scope=" ".join(self._settings.scopes),
            redirect_uri=redirect_uri,
            code_challenge_method="S256",
            timeout=self._settings.timeout_seconds,
            follow_redirects=False,
            trust_env=False,
        )

    def _is_within(self, moment: datetime | None, span: timedelta) -> bool:
        """Whether `moment` is no further from now than `span`; one in the future (a clock set back) is no fresher."""
        return moment is not None and abs(self._clock() - moment) <= span
