"""What an operator configures: one YAML file, with `ARAP_…` environment variables going before it.

Everything is checked before the service starts, whole and together: a wrong file is refused with one line for each
fault that names the key and what to do. Unknown and repeated keys are faults, because a misspelt restriction would be
no restriction. Paths are relative to the file. Which of these values may be weaker on a developer's machine is decided
here alone (`insecure_loopback`, `authentication`). Nothing is read from the network and no secret is ever printed.
"""

import base64
import binascii
import re
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self
from urllib.parse import SplitResult, urlsplit

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, EnvSettingsSource, SettingsConfigDict, SettingsError

from arap_service.domain.callers import Scope

MAX_SKEW_SECONDS: Final = 60  # ARS-33
_DESTINATION: Final = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9.-]+):[0-9]{1,5}")
_SECRET_HASH: Final = re.compile(r"sha256:[0-9a-f]{64}")


class SettingsInvalid(Exception):
    """The configuration is refused; `problems` holds one line for each fault, none of them shows a value."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


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


def decode_key(secret: SecretStr) -> bytes:
    """The bytes of a base64 key, with or without the `whsec_` prefix of Standard Webhooks."""
    try:
        return base64.b64decode(secret.get_secret_value().removeprefix("whsec_"), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("must be base64; make one with: openssl rand -base64 32") from None


Identifier = Annotated[str, AfterValidator(_identifier)]
Endpoint = Annotated[str, AfterValidator(_endpoint)]
Key = Annotated[SecretStr, AfterValidator(_key)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class TrustedSigner(_Part):
    """Somebody whose signatures count: an identifier and where its keys are (PDP-33)."""

    issuer: str = Field(pattern=r"^[^|]+$")  # what parts issuer and subject in the name of a principal
    jwks_uri: Endpoint


class IssuerSettings(TrustedSigner):
    """An authorization server whose access tokens are accepted; `audience` defaults to our identifier."""

    audience: str | None = None


class BuiltinClient(_Part):
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


class BuiltinIssuer(_Part):
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


class CallbackSettings(_Part):
    """Where one client may be called back (exact URLs) and how it can tell that we are calling (ARS-88, ARS-95)."""

    endpoints: frozenset[Endpoint] = Field(min_length=1)
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


class TlsSettings(_Part):
    """Certificate chain and private key, as PEM files, for a service that no proxy with TLS stands before."""

    certificate: Path
    key: Path

    def under(self, folder: Path) -> Self:
        """The same files, with relative paths starting from `folder`."""
        return self.model_copy(update={"certificate": folder / self.certificate, "key": folder / self.key})


class Limits(_Part):
    """Bounds on what a caller can make us do; rates are per caller and minute."""

    max_body_bytes: int = Field(default=2_097_152, ge=1024)
    max_depth: int = Field(default=128, ge=16, le=512)
    submissions_per_minute: int = Field(default=600, ge=1)
    polls_per_minute: int = Field(default=6000, ge=1)
    evaluations_per_minute: int = Field(default=600_000, ge=1)
    requestable_denials_per_minute: int = Field(default=600, ge=1)
    poll_seconds: int = Field(default=5, ge=1)
    signed_approval_seconds: int = Field(default=900, ge=1, le=3600)  # PDP-66: nobody can revoke a signed state
    callback_timeout_seconds: float = Field(default=10.0, gt=0, le=60)
    callback_ports: frozenset[int] = frozenset({443})


class Settings(BaseSettings):
    """The whole configuration of one service."""

    model_config = SettingsConfigDict(
        env_prefix="ARAP_", env_nested_delimiter="__", frozen=True, extra="forbid", hide_input_in_errors=True
    )

    insecure_loopback: bool = False
    authentication: Literal["bearer", "none"] = "bearer"
    identifier: Identifier
    bind: str = "127.0.0.1:8400"
    tls: TlsSettings | None = None
    database: str = "sqlite:///arap.db"
    policy_path: Path
    key_file: Path
    independent: bool = False
    issuers: tuple[IssuerSettings, ...] = ()
    builtin_issuer: BuiltinIssuer = BuiltinIssuer()
    trusted_pdps: tuple[TrustedSigner, ...] = ()
    trusted_services: tuple[TrustedSigner, ...] = ()
    callbacks: Mapping[str, CallbackSettings] = {}
    clock_skew_seconds: int = Field(default=30, ge=0)
    limits: Limits = Limits()
    log_level: Annotated[str, Field(pattern=r"^(debug|info|warning|error)$")] = "info"

    @field_validator("clock_skew_seconds")
    @classmethod
    def _bounded(cls, seconds: int) -> int:
        if seconds > MAX_SKEW_SECONDS:
            raise ValueError(f"must not be above {MAX_SKEW_SECONDS}; mend the clocks instead")
        return seconds

    @field_validator("bind")
    @classmethod
    def _loopback_only(cls, bind: str, info: ValidationInfo) -> str:
        host, port = split_bind(bind)
        if not is_loopback(host):
            for key, weak in (("insecure_loopback", True), ("authentication", "none")):
                if info.data.get(key) == weak:
                    raise ValueError(f"must be a loopback address such as 127.0.0.1:8400 while {key} is {weak}")
        if not 0 <= port <= 65535:
            raise ValueError("must end in a port between 0 and 65535")
        return bind

    @model_validator(mode="after")
    def _https(self) -> Self:
        signers = (*self.issuers, *self.trusted_pdps, *self.trusted_services)
        urls = {"identifier": [self.identifier], "jwks_uri": [signer.jwks_uri for signer in signers]}
        urls["callbacks"] = [url for callback in self.callbacks.values() for url in callback.endpoints]
        for key, values in urls.items():
            for parts in map(urlsplit, values):
                if parts.scheme != "https" and not (self.insecure_loopback and is_loopback(parts.hostname)):
                    raise ValueError(
                        f"{key}: must be https; http needs insecure_loopback: true and an address such as 127.0.0.1"
                    )
        names = [issuer.issuer for issuer in self.issuers]
        if self.builtin_issuer.enabled:
            names.append(self.builtin_issuer_identifier)
        if len(set(names)) < len(names):
            raise ValueError("issuers: must not name an issuer twice")
        if not names and self.authentication == "bearer":
            raise ValueError("issuers: name at least one, or switch builtin_issuer.enabled on, else nobody can call")
        return self

    @property
    def access_request_endpoint(self) -> str:
        """Where denials are turned into requests; also what a binding token is meant for (PDP-50)."""
        return self.identifier + "/access/v1/request"

    @property
    def builtin_issuer_identifier(self) -> str:
        """The issuer that tokens of the built-in issuer name."""
        return self.identifier + "/issuer"

    @property
    def base_path(self) -> str:
        """The path that all endpoints stand under: empty, or that of the identifier."""
        return urlsplit(self.identifier).path


def split_bind(bind: str) -> tuple[str, int]:
    """Host and port of `127.0.0.1:8400` or `[::1]:8400`."""
    host, separator, port = bind.rpartition(":")
    if not separator or not host or not port.isascii() or not port.isdigit():
        raise ValueError("must have the form host:port")
    return host.removeprefix("[").removesuffix("]"), int(port)


class _UniqueKeys(yaml.SafeLoader):
    """YAML without repeated keys, since the usual loader keeps the last of them in silence."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002 - the loader's own signature
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise SettingsInvalid((f"line {key_node.start_mark.line + 1}: the key {key!r} stands there twice",))
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


def load_settings(path: Path) -> Settings:
    """Read the configuration file at `path`; relative paths in it start from its folder.

    Raises:
        SettingsInvalid: The file cannot be read, or a value in it or in the environment is refused.
    """
    values = read_yaml(path)
    folder = path.resolve().parent

    try:
        settings = Settings(**_merged(values, EnvSettingsSource(Settings)()))
    except ValidationError as refused:
        raise SettingsInvalid(tuple(_line(error["loc"], error["msg"]) for error in refused.errors())) from None
    except SettingsError:
        # What pydantic-settings says about an unparsable variable contains its value.
        raise SettingsInvalid(
            ("an ARAP_… variable does not hold valid JSON; write lists and objects as JSON",)
        ) from None
    return settings.model_copy(
        update={
            "policy_path": folder / settings.policy_path,
            "key_file": folder / settings.key_file,
            "database": _anchored(settings.database, folder),
            "tls": None if settings.tls is None else settings.tls.under(folder),
        }
    )


def _merged(lower: Mapping[str, Any], upper: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(lower)
    for key, value in upper.items():
        below = merged.get(key)
        merged[key] = _merged(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged


def read_yaml(path: Path) -> dict[str, Any]:
    """The keys and values of a YAML file in which no key stands twice.

    Raises:
        SettingsInvalid: It cannot be read or holds something else.
    """
    try:
        with path.open("rb") as file:
            values = yaml.load(file, Loader=_UniqueKeys)  # noqa: S506 - a SafeLoader with one more rule
    except OSError as error:
        raise SettingsInvalid((f"{path}: cannot be read ({error.strerror})",)) from None
    except (yaml.YAMLError, ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        # The errors of Python are what PyYAML meets in values such as `!!bool maybe`.
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f" at line {mark.line + 1}"
        raise SettingsInvalid((f"{path}: is not valid YAML{where}",)) from None
    if not isinstance(values, dict) or not all(isinstance(key, str) for key in values):
        raise SettingsInvalid((f"{path}: must hold keys and values",))
    return values


def _anchored(database: str, folder: Path) -> str:
    scheme, separator, file = database.partition(":///")
    if not separator or not scheme.startswith("sqlite") or not file or file.startswith(("/", ":memory:")):
        return database
    return f"{scheme}:///{folder / file}"


def _line(location: tuple[int | str, ...], message: str) -> str:
    text = {"Extra inputs are not permitted": "is not a key; check the spelling", "Field required": "is missing"}.get(
        message, message.removeprefix("Value error, ")
    )
    key = ".".join(str(part) for part in location)
    return f"{key}: {text}" if key else text
