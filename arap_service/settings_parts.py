"""The parts of the configuration: what an identifier, a key or a client may look like, each checked by itself.

What must fit between parts is checked in `settings.py`. Nothing is read from a file or the network here.
"""

import base64
import binascii
import re
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Final, Self
from urllib.parse import SplitResult, urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

from arap_service.domain.callers import Scope
from arap_service.domain.events import EVENT_NAMES

_DESTINATION: Final = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9.-]+):[0-9]{1,5}")
_SECRET_HASH: Final = re.compile(r"sha256:[0-9a-f]{64}")


def is_loopback(host: str | None) -> bool:
    """Whether `host` is a literal loopback address; a name never is, since it can resolve to anything."""
    try:
        return host is not None and ip_address(host).is_loopback
    except ValueError:
        return False


def _split(url: str) -> SplitResult:
    parts = urlsplit(url)
    if parts.scheme not in {"https", "http"} or not parts.hostname or parts.username is not None or parts.fragment:
        raise ValueError("must be an absolute https URL without user information and fragment")
    if parts.port == 0:
        raise ValueError("must name a usable port")
    return parts


def _identifier(url: str) -> str:
    parts = _split(url)
    if parts.query or url.endswith(("/", "?", "#")) or "|" in url:
        raise ValueError("must have neither a query nor a trailing slash nor a bar")  # PDP-27
    return url


def _endpoint(url: str) -> str:
    _split(url)
    return url


def _key(secret: SecretStr) -> SecretStr:
    if len(decode_key(secret)) < 24:
        raise ValueError("must decode to at least 24 bytes; make one with: openssl rand -base64 32")
    return secret


def split_bind(bind: str) -> tuple[str, int]:
    """Host and port of `127.0.0.1:8400` or `[::1]:8400`."""
    host, separator, port = bind.rpartition(":")
    if not separator or not host or not port.isascii() or not port.isdigit():
        raise ValueError("must have the form host:port")
    return host.removeprefix("[").removesuffix("]"), int(port)


def decode_key(secret: SecretStr) -> bytes:
    """The bytes of a base64 key, with or without the `whsec_` prefix of Standard Webhooks."""
    try:
        return base64.b64decode(secret.get_secret_value().removeprefix("whsec_"), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("must be base64; make one with: openssl rand -base64 32") from None


Identifier = Annotated[str, AfterValidator(_identifier)]
Endpoint = Annotated[str, AfterValidator(_endpoint)]
Key = Annotated[SecretStr, AfterValidator(_key)]


class Part(BaseModel):
    """A part of the configuration: unknown keys are faults, and no fault shows a value."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class TrustedSigner(Part):
    """Somebody whose signatures count: an identifier and where its keys are (PDP-33)."""

    issuer: str = Field(pattern=r"^[^|]+$")  # what parts issuer and subject in the name of a principal
    jwks_uri: Endpoint


class IssuerSettings(TrustedSigner):
    """An authorization server whose access tokens are accepted; `audience` defaults to our identifier."""

    audience: str | None = None
    step_up_acr: frozenset[str] = frozenset()


class BuiltinClient(Part):
    """A machine that the built-in issuer gives tokens to, with its secret or the secret's SHA-256.

    `subject` is who it acts for, itself by default; `audience` is another resource server, such as a gate, that its
    tokens are meant for instead of this service.
    """

    client_id: str = Field(min_length=1, pattern=r"^[\x21-\x7e]+$")
    secret: SecretStr | None = None
    secret_hash: str | None = None
    scopes: frozenset[Scope] = frozenset()
    subject: str | None = Field(default=None, min_length=1)
    audience: Endpoint | None = None
    agent: str | None = None

    @model_validator(mode="after")
    def _one_secret(self) -> Self:
        if (self.secret is None) == (self.secret_hash is None):
            raise ValueError("needs either secret or secret_hash")
        if self.secret is not None and len(self.secret.get_secret_value()) < 16:
            raise ValueError("needs a secret of at least 16 characters; make one with: openssl rand -base64 32")
        if self.secret_hash is not None and not _SECRET_HASH.fullmatch(self.secret_hash):
            raise ValueError("needs a secret_hash of the form sha256:<64 hexadecimal digits>")
        if bool(self.scopes) == (self.audience is not None):
            raise ValueError("needs either scopes, for this service, or the audience of another one")
        return self


class BuiltinIssuer(Part):
    """The issuer for machines without an identity provider; off unless somebody asks for it."""

    enabled: bool = False
    clients: tuple[BuiltinClient, ...] = ()
    token_seconds: int = Field(default=600, ge=30, le=3600)

    @field_validator("clients")
    @classmethod
    def _unique(cls, clients: tuple[BuiltinClient, ...]) -> tuple[BuiltinClient, ...]:
        if len({client.client_id for client in clients}) < len(clients):
            raise ValueError("must not name a client_id twice")
        return clients


class Authenticated(Part):
    """How a receiver can tell that we are calling (ARS-95), and which internal destinations are allowed to be one."""

    keys: tuple[Key, ...] = Field(default=(), max_length=2)
    bearer: SecretStr | None = None
    allow_destinations: frozenset[str] = frozenset()

    @field_validator("allow_destinations")
    @classmethod
    def _exact(cls, destinations: frozenset[str]) -> frozenset[str]:
        if not all(_DESTINATION.fullmatch(destination) for destination in destinations):
            raise ValueError("must hold exact destinations such as gate.internal:8443, in lower case")
        return destinations

    @model_validator(mode="after")
    def _authenticated(self) -> Self:
        if not self.keys and self.bearer is None:
            raise ValueError("needs keys or bearer, because no callback is sent without proof of who sends it")
        return self

    @property
    def signing_keys(self) -> tuple[bytes, ...]:
        """The shared keys, the newest first."""
        return tuple(decode_key(key) for key in self.keys)


class UpstreamClient(Part):
    """How to get a token for the decision point upstream: by client credentials."""

    token_endpoint: Endpoint
    client_id: str = Field(min_length=1)
    client_secret: SecretStr
    scope: str | None = None


class UpstreamSettings(Part):
    """Another decision point whose answers stand; `evaluation_endpoint` is for one without metadata.

    `timeout_seconds` is for one question with everything that it takes, `batch_seconds` for a whole batch.
    """

    identifier: Identifier
    evaluation_endpoint: Endpoint | None = None
    timeout_seconds: float = Field(default=2.0, gt=0, le=30)
    batch_seconds: float = Field(default=10.0, gt=0, le=60)
    connections: int = Field(default=32, ge=1, le=1000)
    bearer: SecretStr | None = None
    client: UpstreamClient | None = None

    @model_validator(mode="after")
    def _one_credential(self) -> Self:
        if self.bearer is not None and self.client is not None:
            raise ValueError("takes either bearer or client")
        return self

    @property
    def urls(self) -> tuple[str, ...]:
        """Every address that is called."""
        token_endpoint = None if self.client is None else self.client.token_endpoint
        return tuple(filter(None, (self.identifier, self.evaluation_endpoint, token_endpoint)))


class TlsSettings(Part):
    """Certificate chain and private key, as PEM files, for a service that no proxy with TLS stands before."""

    certificate: Path
    key: Path

    def under(self, folder: Path) -> Self:
        """The same files, with relative paths starting from `folder`."""
        return self.model_copy(update={"certificate": folder / self.certificate, "key": folder / self.key})


class CallbackSettings(Authenticated):
    """Where one client may be called back: exact URLs (ARS-88)."""

    endpoints: frozenset[Endpoint] = Field(min_length=1)


class SubscriptionSettings(Authenticated):
    """Where events of all requests are sent to, whoever submitted them; no `events` means all of them (ARS-98)."""

    endpoint: Endpoint
    events: frozenset[str] = frozenset()

    @field_validator("events")
    @classmethod
    def _known(cls, events: frozenset[str]) -> frozenset[str]:
        if not events <= EVENT_NAMES:
            raise ValueError("must be among " + ", ".join(sorted(EVENT_NAMES)))
        return events

    @property
    def endpoints(self) -> frozenset[str]:
        """The one endpoint, as callbacks have theirs."""
        return frozenset({self.endpoint})


class DeskSettings(Part):
    """Which groups open which parts of the desk; a part that names no group is open to nobody.

    `readers` see every request; without it everybody does who can log in.
    """

    readers: frozenset[str] | None = None
    operators: frozenset[str] = frozenset()
    auditors: frozenset[str] = frozenset()
    administrators: frozenset[str] = frozenset()


class Limits(Part):
    """Bounds on what a caller can make us do.

    Rates are per caller and minute, and each instance counts for itself; open requests are counted over all of them.
    """

    max_body_bytes: int = Field(default=2_097_152, ge=1024)
    max_depth: int = Field(default=128, ge=16, le=512)
    max_items: int = Field(default=50, ge=1, le=500)
    submissions_per_minute: int = Field(default=600, ge=1)
    polls_per_minute: int = Field(default=6000, ge=1)
    evaluations_per_minute: int = Field(default=600_000, ge=1)
    requestable_denials_per_minute: int = Field(default=600, ge=1)
    open_requests_per_client: int = Field(default=10_000, ge=1)
    catalog_calls_per_minute: int = Field(default=300, ge=1)
    poll_seconds: int = Field(default=5, ge=1)
    checkpoint_seconds: int = Field(default=60, ge=1, le=86400)
    signed_approval_seconds: int = Field(default=900, ge=1, le=3600)  # PDP-66: nobody can revoke a signed state
    callback_timeout_seconds: float = Field(default=10.0, gt=0, le=60)
    callback_ports: frozenset[int] = frozenset({443})
