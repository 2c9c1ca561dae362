"""What an operator configures: one YAML file, with `ARAP_…` environment variables going before it.

Everything is checked before the service starts, whole and together: a wrong file is refused with one line for each
fault that names the key and what to do. Unknown and repeated keys are faults, because a misspelt restriction would be
no restriction. Paths are relative to the file. Which of these values may be weaker on a developer's machine is decided
here alone (`insecure_loopback`, `authentication`). Nothing is read from the network and no secret is ever printed.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, ValidationError, ValidationInfo, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from arap_service.settings_login import LoginSettings
from arap_service.settings_notifications import NotificationSettings
from arap_service.settings_parts import (
    BuiltinIssuer,
    CallbackSettings,
    DeskSettings,
    Endpoint,
    Identifier,
    IssuerSettings,
    Limits,
    SubscriptionSettings,
    TlsSettings,
    TrustedSigner,
    UpstreamSettings,
    is_loopback,
    split_bind,
)
from arap_service.yaml_files import SettingsInvalid, read_yaml

MAX_SKEW_SECONDS: Final = 60  # ARS-33


class Settings(BaseSettings):
    """The whole configuration of one service."""

    model_config = SettingsConfigDict(
        env_prefix="ARAP_", env_nested_delimiter="__", frozen=True, extra="forbid", hide_input_in_errors=True
    )

    insecure_loopback: bool = False
    authentication: Literal["bearer", "none"] = "bearer"
    simulator: bool = False
    """Rehearse instead of decide: see docs/simulator.md."""
    identifier: Identifier
    bind: str = "127.0.0.1:8400"
    tls: TlsSettings | None = None
    database: str = "sqlite:///arap.db"
    policy_path: Path
    key_file: Path
    independent: bool = False
    request_endpoint: Endpoint | None = None
    """The request service of somebody else that our denials are requested at; ours by default."""
    bulk: bool = True
    issuers: tuple[IssuerSettings, ...] = ()
    builtin_issuer: BuiltinIssuer = BuiltinIssuer()
    trusted_pdps: tuple[TrustedSigner, ...] = ()
    trusted_services: tuple[TrustedSigner, ...] = ()
    upstream: UpstreamSettings | None = None
    callbacks: Mapping[str, CallbackSettings] = {}
    subscriptions: Mapping[Annotated[str, Field(pattern=r"^[a-z0-9-]{1,64}$")], SubscriptionSettings] = {}
    notifications: NotificationSettings = NotificationSettings()
    desk: DeskSettings = DeskSettings()
    login: LoginSettings = LoginSettings()
    clock_skew_seconds: int = Field(default=30, ge=0)
    limits: Limits = Limits()
    metrics_bind: str | None = None
    """A loopback address such as `127.0.0.1:9464` where figures are served without authentication; none by default."""
    trace_collector: Endpoint | None = None
    """OTLP over HTTP, such as `http://127.0.0.1:4318/v1/traces`; needs the extra `otel`."""
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
            for key, weak in (("insecure_loopback", True), ("authentication", "none"), ("simulator", True)):
                if info.data.get(key) == weak:
                    raise ValueError(f"must be a loopback address such as 127.0.0.1:8400 while {key} is {weak}")
        if not 0 <= port <= 65535:
            raise ValueError("must end in a port between 0 and 65535")
        return bind

    @field_validator("metrics_bind")
    @classmethod
    def _monitored_on_loopback(cls, bind: str | None) -> str | None:
        if bind is not None:
            host, port = split_bind(bind)
            if not is_loopback(host) or not 0 <= port <= 65535:
                raise ValueError("must be a loopback address such as 127.0.0.1:9464; elsewhere ask the main port")
        return bind

    @model_validator(mode="after")
    def _https(self) -> Self:
        signers = (*self.issuers, *self.trusted_pdps, *self.trusted_services)
        urls = {"identifier": [self.identifier], "jwks_uri": [signer.jwks_uri for signer in signers]}
        urls["subscriptions"] = [subscription.endpoint for subscription in self.subscriptions.values()]
        urls["callbacks"] = [url for callback in self.callbacks.values() for url in callback.endpoints]
        urls["request_endpoint"] = [self.offered_endpoint]
        urls["login.oidc.issuer"] = [] if self.login.oidc is None else [self.login.oidc.issuer]
        urls["upstream"] = [] if self.upstream is None else list(self.upstream.urls)
        for key, values in urls.items():
            for parts in map(urlsplit, values):
                if parts.scheme != "https" and not (self.insecure_loopback and is_loopback(parts.hostname)):
                    raise ValueError(
                        f"{key}: must be https; http needs insecure_loopback: true and an address such as 127.0.0.1"
                    )
        if self.request_endpoint is not None and not self.independent:
            raise ValueError("request_endpoint: needs independent: true, since another service knows tokens only")
        names = [issuer.issuer for issuer in self.issuers]
        if self.builtin_issuer.enabled:
            names.append(self.builtin_issuer_identifier)
        if len(set(names)) < len(names):
            raise ValueError("issuers: must not name an issuer twice")
        if self.simulator and self.issuers:
            raise ValueError("simulator: must not run beside an issuer of real tokens; use builtin_issuer alone")
        if not names and self.authentication == "bearer":
            raise ValueError("issuers: name at least one, or switch builtin_issuer.enabled on, else nobody can call")
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003 - the framework's signature
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - as above
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - as above
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """What is given, then the environment; nothing else is read."""
        return init_settings, env_settings

    @property
    def access_request_endpoint(self) -> str:
        """Where this service turns denials into requests, and the name that it signs approvals with."""
        return self.identifier + "/access/v1/request"

    @property
    def offered_endpoint(self) -> str:
        """Where our denials say that they can be requested; also what their binding tokens are meant for (PDP-50)."""
        return self.request_endpoint or self.access_request_endpoint

    @property
    def builtin_issuer_identifier(self) -> str:
        """The issuer that tokens of the built-in issuer name."""
        return self.identifier + "/issuer"

    @property
    def base_path(self) -> str:
        """The path that all endpoints stand under: empty, or that of the identifier."""
        return urlsplit(self.identifier).path


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
            "login": settings.login.under(folder),
            "notifications": settings.notifications.under(folder),
        }
    )


def _merged(lower: Mapping[str, Any], upper: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(lower)
    for key, value in upper.items():
        below = merged.get(key)
        merged[key] = _merged(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged


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
