"""What an operator configures: one YAML file, overridden by `MCP_GATE_…` variables of the environment.

Says what is wrong by key and how to mend it, and refuses to go on. Reads no clock and opens no connection.
"""

import base64
import os
import secrets
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

import yaml
from pydantic import (
    Field,
    SecretStr,
    ValidationError,
    model_validator,
)
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from arap_service.protocol.sealing import KeyRing
from mcp_gate.methods import METHODS
from mcp_gate.prefixes import SERVER_NAME
from mcp_gate.settings_local import Local
from mcp_gate.settings_tools import ToolSettings, Upstream
from mcp_gate.values import (
    CallbackKey,
    DatabaseUrl,
    LoopbackBind,
    Mapping,
    Name,
    Origin,
    Seconds,
    Section,
    ShortSeconds,
    Url,
    decode_key,
    is_loopback,
    is_secure,
    split_bind,
)

KEY_BYTES: Final = 32


class ConfigurationInvalid(ValueError):
    """The configuration cannot be used; the text names the key and the fix."""


class Issuer(Section):
    """An authorization server whose access tokens the front accepts."""

    issuer: Url
    jwks_uri: Url


class StdioPrincipal(Section):
    """Who is calling on stdio, where there is no token (design section 3)."""

    iss: str = Field(min_length=1)
    sub: str = Field(min_length=1)
    client: str = Field(min_length=1)
    agent: str | None = None


class Stdio(Section):
    """Settings of the stdio front."""

    principal: StdioPrincipal


class Front(Section):
    """Where clients connect: `http: HOST:PORT` or `stdio: true`."""

    http: str | None = None
    stdio: bool = False
    path: str = Field(default="/mcp", pattern="^/")
    allowed_hosts: tuple[str, ...] = ()
    required_scopes: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _one_front(self) -> Self:
        if (self.http is None) == (not self.stdio):
            raise ValueError("needs exactly one of `http: HOST:PORT` and `stdio: true`")
        if self.http is not None:
            self.bind()
        return self

    def bind(self) -> tuple[str, int]:
        """Host and port of the HTTP front."""
        try:
            return split_bind(self.http or "")
        except ValueError as error:
            raise ValueError(f"http {error}") from None


class Callback(Section):
    """Where the backend may wake us, and the key that proves that it is the backend."""

    endpoint: Url
    key: CallbackKey
    previous_key: CallbackKey | None = None

    def keys(self) -> tuple[bytes, ...]:
        """The keys that verify a delivery, the current one first."""
        given = [self.key] if self.previous_key is None else [self.key, self.previous_key]
        return tuple(decode_key(key.get_secret_value()) for key in given)


class Backend(Section):
    """The decision point and the access request service, reached through one identifier (ARAP, Discovery)."""

    identifier: Url
    client_id: str | None = None
    client_secret: SecretStr | None = None
    token_endpoint: Url | None = None
    scope: str | None = None
    trusted_origins: tuple[Origin, ...] = ()
    callback: Callback | None = None
    # The lease that keeps other instances off a task covers up to three exchanges.
    timeout_seconds: float = Field(default=10, gt=0, le=30)
    # Declared by the operator, because no backend announces it; PEP-62 wants it to outlive reconciliation.
    idempotency_retention_seconds: Seconds

    @model_validator(mode="after")
    def _whole_credentials(self) -> Self:
        if (self.client_id is None) != (self.client_secret is None):
            raise ValueError("needs client_id and client_secret, or neither")
        return self


class Limits(Section):
    """Bounds of what the gate keeps and how long it waits; seconds unless the name says otherwise."""

    reconciliation_seconds: Seconds = 86_400
    result_retention_seconds: Seconds = 86_400
    execution_seconds: Seconds = 600
    pending_seconds: Seconds = 604_800
    input_seconds: Seconds = 3600
    # After how long others take over a task or delivery that an instance took and did not end; it may have frozen.
    lease_seconds: Seconds = 90
    chain: int = Field(default=3, ge=0)
    open_tasks: int = Field(default=50, gt=0)
    submissions_per_minute: int = Field(default=30, gt=0)
    argument_bytes: int = Field(default=1_048_576, gt=0)
    poll_interval_seconds: ShortSeconds = 5


class GateSettings(BaseSettings):
    """The whole configuration of a gate."""

    model_config = SettingsConfigDict(
        env_prefix="MCP_GATE_", env_nested_delimiter="__", extra="forbid", frozen=True, env_ignore_empty=True
    )

    server_name: Name
    # The operator's word that one process at a time bears this name; it proves an earlier one dead (design section 8).
    instance: str | None = Field(default=None, min_length=1, max_length=128)
    # Exactly one of these two decides calls and brokers approvals.
    backend: Backend | None = None
    local: Local | None = None
    resource: Url | None = None
    issuers: tuple[Issuer, ...] = ()
    front: Front = Field(default_factory=lambda: Front(stdio=True))
    stdio: Stdio | None = None
    anonymous: StdioPrincipal | None = None
    subject_claim: Name = "sub"
    agent_claim: Name = "client_id"
    upstream: Upstream | None = None
    # Several servers behind one gateway, by name; a tool of one is shown as `name_tool`, a resource as `name+uri`.
    upstreams: dict[Annotated[str, Field(pattern=SERVER_NAME)], Upstream] = Field(default_factory=dict)
    # Where an operator finds /healthz, /readyz and /metrics; without it there is no such listener.
    operation: LoopbackBind | None = None
    database: DatabaseUrl = "sqlite:///mcp-gate.sqlite"
    key_file: Path = Path("mcp-gate.keys.yaml")
    tools: dict[str, ToolSettings] = Field(default_factory=dict)
    limits: Limits = Field(default_factory=Limits)
    envelope: bool = True
    # Ties a task also to the client and the agent that made the call, not to the person alone (PEP-135).
    match_client: bool = True
    # Quotes a decider's words to the model, sanitised and cut; they are untrusted text (PEP-127).
    show_decision_text: bool = False
    # Shows ADR-017's typed pending approval to clients that declare it (GOV-13, GOV-14).
    serve_approvals: bool = False
    # Offers the tools `request_access` and `get_request_status` to clients that declare no tasks (PEP-05, PEP-06).
    request_tools: bool = False
    # Seals what clients carry between rounds. Instances that share a database share these, newest first; without them
    # a round that was begun before a restart, or at another instance, begins again.
    request_state_keys: tuple[SecretStr, ...] = ()
    deny_unknown_methods: bool = True
    # What the decision point is asked about besides tool calls: whatever reaches one thing behind the server
    # (`reaching`), or every method that COAZ has a mapping for, listings and tasks included (`all`).
    decide: Literal["reaching", "all"] = "reaching"
    # `filtered` leaves out of listings what the caller is plainly denied; it asks once for each entry.
    listings: Literal["whole", "filtered"] = "whole"
    # Mappings of methods that MCP does not define; without one such a method is denied.
    methods: dict[str, Mapping] = Field(default_factory=dict)
    insecure_loopback: bool = False
    clock_skew_seconds: int = Field(default=30, ge=0, le=60)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003 - the framework's signature
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - as above
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - as above
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The environment overrides the file, and nothing else is read."""
        return env_settings, init_settings

    @property
    def behind(self) -> dict[str, Upstream]:
        """The servers behind a gateway, by name; the only one of `upstream` has an empty name."""
        return dict(self.upstreams) if self.upstream is None else {"": self.upstream}

    @model_validator(mode="after")
    def _behind_and_mapped(self) -> Self:
        if self.upstream is not None and self.upstreams:
            raise ValueError("upstream and upstreams are both there: name the one among the others")
        if known := self.methods.keys() & {"tools/call", "ping", "initialize", *METHODS}:
            raise ValueError(f"methods.{min(known)}: MCP's own methods have a mapping; only tools declare another")
        return self

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        self._require_one_backend()
        if self.backend is not None and self.limits.lease_seconds < 3 * self.backend.timeout_seconds:
            raise ValueError("limits.lease_seconds is shorter than three times backend.timeout_seconds: raise it")
        if self.front.stdio and self.stdio is None and self.behind:
            raise ValueError("stdio.principal is missing: on stdio nobody authenticates the caller, so name it")
        if self.anonymous is not None and not (self.insecure_loopback and self._is_local()):
            raise ValueError("anonymous is for tests on a loopback address, and only with insecure_loopback: true")
        if any(len(key.get_secret_value().encode()) < KEY_BYTES for key in self.request_state_keys):
            raise ValueError(f"request_state_keys: a key has at least {KEY_BYTES} bytes of secret randomness")
        if len({key.get_secret_value() for key in self.request_state_keys}) != len(self.request_state_keys):
            raise ValueError("request_state_keys: a key is there twice; keep each once, the newest first")
        identified = self.anonymous is not None or (self.issuers and self.resource)
        if self.front.http is not None and self.behind and not identified:
            raise ValueError("issuers and resource are missing: an HTTP front needs them to verify bearer tokens")
        if len({issuer.issuer for issuer in self.issuers}) != len(self.issuers):
            raise ValueError("issuers: one of them is there twice; keep the entry with the right jwks_uri")
        for key, url in self._urls():
            self._require_secure(key, url)
        return self

    def _require_one_backend(self) -> None:
        if (self.backend is None) == (self.local is None):
            raise ValueError("needs exactly one of `backend`, a decision point, and `local`, rules of the gate's own")
        key, kept = ("local.retention_seconds", self.local.retention_seconds) if self.local is not None else ("", 0)
        if self.backend is not None:
            key, kept = "backend.idempotency_retention_seconds", self.backend.idempotency_retention_seconds
        if kept < self.limits.reconciliation_seconds:  # PEP-62
            raise ValueError(
                f"{key} is shorter than limits.reconciliation_seconds: a submission could be repeated after the "
                "backend forgot its key; raise the backend's retention or lower the horizon"
            )

    def _is_local(self) -> bool:
        return self.front.http is None or is_loopback(self.front.bind()[0])

    def _urls(self) -> list[tuple[str, str]]:
        found: list[tuple[str, str | None]] = [
            ("resource", self.resource),
            ("backend.callback.endpoint", self.callback.endpoint if self.callback else None),
            *[("issuers.issuer", issuer.issuer) for issuer in self.issuers],
            *[("issuers.jwks_uri", issuer.jwks_uri) for issuer in self.issuers],
        ]
        if self.backend is not None:
            found += [
                ("backend.identifier", self.backend.identifier),
                ("backend.token_endpoint", self.backend.token_endpoint),
                *[("backend.trusted_origins", origin) for origin in self.backend.trusted_origins],
            ]
        return [(key, url) for key, url in found if url is not None]

    @property
    def callback(self) -> Callback | None:
        """Where the backend may wake the gate, if it may."""
        return None if self.backend is None else self.backend.callback

    def _require_secure(self, key: str, url: str) -> None:
        if not is_secure(url, insecure_loopback=self.insecure_loopback):
            raise ValueError(
                f"{key} is not https; http is for loopback addresses, and only with insecure_loopback: true"
            )


def load_settings(path: Path) -> GateSettings:
    """Read the configuration of a gate from a YAML file.

    Raises:
        ConfigurationInvalid: naming the key that is wrong, never its value.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise ConfigurationInvalid(f"{path}: cannot be read; give the path of a YAML file") from None
    try:
        document = yaml.load(text, Loader=_UniqueKeyLoader)  # noqa: S506 - derived from SafeLoader
    except (yaml.YAMLError, ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        # The errors of Python are what PyYAML meets in values such as `!!bool maybe`.
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}" if mark is not None else "the file"
        raise ConfigurationInvalid(f"{path}: {where} is not YAML that we accept (repeated keys are refused)") from None
    if not isinstance(document, dict):
        raise ConfigurationInvalid(f"{path}: must be a mapping of settings")
    return parse_settings(document, source=str(path))


def parse_settings(document: dict[str, Any], *, source: str = "settings") -> GateSettings:
    """Check a configuration that is already a mapping.

    Raises:
        ConfigurationInvalid: naming the key that is wrong, never its value.
    """
    try:
        return GateSettings(**document)
    except ValidationError as error:
        problems = "; ".join(_problem(item) for item in error.errors(include_input=False, include_url=False))
        raise ConfigurationInvalid(f"{source}: {problems}") from None


def _problem(error: Any) -> str:
    key = ".".join(str(part) for part in error["loc"])
    message = str(error["msg"]).removeprefix("Value error, ").replace("valid tuple", "list")
    return f"{key}: {message}" if key else message


class _UniqueKeyLoader(yaml.SafeLoader):
    """YAML that refuses a repeated key, because the last one would win in silence."""


def _unique_mapping(loader: yaml.SafeLoader, node: yaml.MappingNode) -> dict[Any, Any]:
    keys = [loader.construct_object(key, deep=True) for key, _ in node.value]
    if len({str(key) for key in keys}) != len(keys):
        raise yaml.constructor.ConstructorError(None, None, "repeated key", node.start_mark)
    return loader.construct_mapping(node, deep=True)


_UniqueKeyLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _unique_mapping)


def load_ring(path: Path, *, create: bool) -> KeyRing:
    """The keys that seal what the gate stores, see `read_keys`; with `create`, a missing file is made for its owner.

    Raises:
        ConfigurationInvalid: the file is missing, or is not such a file.
    """
    if create and not path.exists():
        _create_ring(path)
    current, keys = read_keys(path)
    return KeyRing(keys, current)


def read_keys(path: Path) -> tuple[str, dict[str, bytes]]:
    """The name of the key that seals, and all that open: `current: NAME` and `keys: {NAME: base64 of 32 bytes}`.

    Raises:
        ConfigurationInvalid: the file is missing, or is not such a file.
    """
    try:
        document = yaml.load(path.read_text(encoding="utf-8"), Loader=_UniqueKeyLoader)  # noqa: S506 - see above
        keys = {str(name): decode_key(key, length=KEY_BYTES) for name, key in document["keys"].items()}
        current = str(document["current"])
        KeyRing(keys, current)
    except FileNotFoundError:
        raise ConfigurationInvalid(f"key_file: {path} does not exist; run `mcp-gate migrate` to create it") from None
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError, yaml.YAMLError):
        raise ConfigurationInvalid(f"key_file: {path} must hold `current` and `keys` of 32 bytes in base64") from None
    return current, keys


def _create_ring(path: Path) -> None:
    key = base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode()
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return  # another process made it first
    except OSError:
        raise ConfigurationInvalid(f"key_file: {path} cannot be created") from None
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(f"current: k1\nkeys:\n  k1: {key}\n")
