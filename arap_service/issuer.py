"""The built-in token issuer: the client-credentials grant for machines that have no identity provider yet.

Off unless the configuration switches it on, and then the log says so at every start. It knows configured clients only
and validates the grant with Authlib; the tokens are those of RFC 9068, signed with a key of their own and short-lived.
There are no users, no refresh tokens and no other grants. RFC 6749 section 4.4, RFC 8414.
"""

import hashlib
import hmac
import logging
from collections.abc import Mapping
from typing import Any, Final, cast
from urllib.parse import parse_qsl

import structlog
from authlib.oauth2.rfc6749 import AuthorizationServer, ClientCredentialsGrant, ClientMixin, OAuth2Request
from authlib.oauth2.rfc6749.errors import InvalidClientError, InvalidRequestError, InvalidScopeError, OAuth2Error
from authlib.oauth2.rfc6749.requests import BasicOAuth2Payload

from arap_service.context import NewId
from arap_service.keys import ACCESS_TYP, Clock, Keys, Use
from arap_service.settings import Settings
from arap_service.settings_parts import BuiltinClient

_NO_STORE: Final = {"Cache-Control": "no-store", "Pragma": "no-cache"}

Reply = tuple[int, dict[str, Any], dict[str, str]]
"""Status, JSON body and headers."""


class Issuer:
    """Answers token requests of configured clients."""

    def __init__(self, settings: Settings, keys: Keys, *, clock: Clock, new_id: NewId) -> None:
        self._settings = settings
        self._keys = keys
        self._server = _Server(settings, keys, clock=clock, new_id=new_id)
        # Authlib logs whole tokens at DEBUG.
        logging.getLogger("authlib").setLevel(logging.CRITICAL)

    @property
    def identifier(self) -> str:
        """What tokens name as `iss`."""
        return self._settings.builtin_issuer_identifier

    def metadata(self) -> dict[str, Any]:
        """The document of RFC 8414."""
        return {
            "issuer": self.identifier,
            "token_endpoint": self.identifier + "/token",
            "jwks_uri": self.identifier + "/jwks.json",
            "grant_types_supported": ["client_credentials"],
            "response_types_supported": [],
            "token_endpoint_auth_methods_supported": list(_Grant.TOKEN_ENDPOINT_AUTH_METHODS),
        }

    def jwks(self) -> dict[str, Any]:
        """The keys that verify its tokens."""
        return self._keys.jwks(Use.ACCESS_TOKEN)

    def token(self, body: bytes, headers: Mapping[str, str]) -> Reply:
        """Answer a token request; `body` is the form as it came."""
        try:
            return cast("Reply", self._server.create_token_response((_form(body), headers)))
        except OAuth2Error as error:
            return _refused(error)
        except ValueError:
            # Credentials that are no text at all are wrong credentials.
            return _refused(InvalidClientError(status_code=401))


def _refused(error: OAuth2Error) -> Reply:
    return error.status_code, dict(error.get_body()), {**dict(error.get_headers()), **_NO_STORE}


def _form(body: bytes) -> dict[str, str]:
    try:
        pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, strict_parsing=bool(body), errors="strict")
    except ValueError:
        raise InvalidRequestError("The form cannot be read.") from None
    if len({name for name, _ in pairs}) < len(pairs):
        raise InvalidRequestError("A parameter stands in the form twice.")
    return dict(pairs)


class _Client(ClientMixin):
    """A configured client, or with None the one that stands for all unknown ones and has no secret that fits."""

    def __init__(self, configured: BuiltinClient | None) -> None:
        self.configured = configured

    def check_client_secret(self, client_secret: str) -> bool:
        stored = "" if self.configured is None else self.configured.secret_hash or ""
        if self.configured is not None and self.configured.secret is not None:
            stored = _hashed(self.configured.secret.get_secret_value())
        return hmac.compare_digest(_hashed(client_secret), stored)

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
        return method in _Grant.TOKEN_ENDPOINT_AUTH_METHODS and endpoint == "token"

    def check_grant_type(self, grant_type: str) -> bool:
        return grant_type == _Grant.GRANT_TYPE


class _Request(OAuth2Request):
    def __init__(self, uri: str, form: dict[str, str], headers: Mapping[str, str]) -> None:
        # The configured address: behind a proxy the request's own may read http.
        super().__init__("POST", uri, headers=headers)
        self.payload = BasicOAuth2Payload(form)
        self._parameters = form

    @property
    def form(self) -> dict[str, str]:
        return self._parameters


class _Grant(ClientCredentialsGrant):
    TOKEN_ENDPOINT_AUTH_METHODS = ["client_secret_basic", "client_secret_post"]  # noqa: RUF012 - Authlib declares it so

    def validate_requested_scope(self) -> None:
        allowed = {str(scope) for scope in _configured(self.request).scopes}
        asked = self.request.form.get("scope")
        if asked is not None and (not asked.split() or not set(asked.split()) <= allowed):
            raise InvalidScopeError


class _Server(AuthorizationServer):
    def __init__(self, settings: Settings, keys: Keys, *, clock: Clock, new_id: NewId) -> None:
        super().__init__()
        self._settings = settings
        self._keys = keys
        self._clock = clock
        self._new_id = new_id
        self._clients = {client.client_id: client for client in settings.builtin_issuer.clients}
        self._log = structlog.get_logger("arap.issuer")
        self.register_grant(_Grant)
        self.register_token_generator("default", cast("Any", self._generate))

    def query_client(self, client_id: str) -> _Client:
        return _Client(self._clients.get(client_id))

    def save_token(self, token: dict[str, Any], request: OAuth2Request) -> None:
        self._log.info("access_token_issued", client_id=_configured(request).client_id, scope=token["scope"])

    def send_signal(self, name: str, *args: Any, **kwargs: Any) -> None:
        """Nobody listens."""

    def create_oauth2_request(self, request: tuple[dict[str, str], Mapping[str, str]]) -> OAuth2Request:
        form, headers = request
        return _Request(self._settings.builtin_issuer_identifier + "/token", form, headers)

    def handle_response(self, status: int, body: Any, headers: Any) -> Reply:
        if status >= 400:
            self._log.info("access_token_denied", error=body.get("error"))
        return status, dict(body), {**dict(headers), **_NO_STORE}

    def _generate(self, *, client: _Client, scope: str | None, **_others: Any) -> dict[str, Any]:
        configured = _known(client)
        issued = int(self._clock().timestamp())
        seconds = self._settings.builtin_issuer.token_seconds
        granted = " ".join(sorted(scope.split() if scope else map(str, configured.scopes)))
        claims: dict[str, Any] = {
            "iss": self._settings.builtin_issuer_identifier,
            "sub": configured.subject or configured.client_id,
            "client_id": configured.client_id,
            "aud": configured.audience or self._settings.identifier,
            "iat": issued,
            "exp": issued + seconds,
            "jti": self._new_id("at"),
            "scope": granted,
        }
        if configured.agent is not None:
            claims["act"] = {"sub": configured.agent}
        token = self._keys.sign(Use.ACCESS_TOKEN, claims, ACCESS_TYP)
        return {"access_token": token, "token_type": "Bearer", "expires_in": seconds, "scope": granted}


def _configured(request: OAuth2Request) -> BuiltinClient:
    return _known(request.client)


def _known(client: object) -> BuiltinClient:
    if not isinstance(client, _Client) or client.configured is None:
        raise InvalidClientError(status_code=401)
    return client.configured


def _hashed(secret: str) -> str:
    return "sha256:" + hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
