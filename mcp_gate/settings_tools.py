"""What an operator says about the servers behind the gate and about their tools.

A part of the configuration; checks itself and connects to nothing.
"""

from pathlib import Path
from typing import Self

from pydantic import Field, SecretStr, model_validator

from mcp_gate.values import Mapping, Name, Section, ShortSeconds, Url, is_secure


class Credentials(Section):
    """How the gateway gets access tokens of its own for an upstream (OAuth 2.0, client credentials)."""

    token_endpoint: Url
    client_id: Name
    client_secret: SecretStr
    scope: Name | None = None

    @model_validator(mode="after")
    def _secret_is_safe(self) -> Self:
        if not is_secure(self.token_endpoint, insecure_loopback=True):
            raise ValueError("token_endpoint is not https: the secret would be sent in the clear")
        return self


class CallTokens(Section):
    """Short tokens that the gateway signs itself, one for each request; that of an approved call ends with it."""

    issuer: Name
    audience: Name
    key_file: Path
    lifetime_seconds: int = Field(default=60, gt=0, le=300)


class Upstream(Section):
    """The MCP server behind the gateway: `command` (stdio) or `url` (Streamable HTTP)."""

    command: str | None = None
    args: tuple[str, ...] = ()
    env: dict[str, str] = Field(default_factory=dict)
    cwd: str | None = None
    url: Url | None = None
    headers: dict[str, SecretStr] = Field(default_factory=dict)
    # The gateway's own; a caller's token is never passed on (COAZ, Token Integrity).
    credentials: Credentials | None = None
    call_tokens: CallTokens | None = None
    call_seconds: ShortSeconds = 300

    @model_validator(mode="after")
    def _one_transport(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise ValueError("needs exactly one of `command` and `url`")
        given = [
            self.credentials is not None,
            self.call_tokens is not None,
            any(name.lower() == "authorization" for name in self.headers),
        ]
        if any(given[:2]) and self.url is None:
            raise ValueError("credentials and call_tokens are for a `url`; give a command its secrets in `env`")
        if sum(given) > 1:
            raise ValueError("keep one of credentials, call_tokens and an authorization header; only one can be sent")
        has_secrets = bool(self.headers) or any(given)
        if has_secrets and self.url is not None and not is_secure(self.url, insecure_loopback=True):
            raise ValueError("headers would be sent in the clear: use https, or leave the secrets out")
        return self


class ToolSettings(Section):
    """What is known about one tool beyond what its server says."""

    mapping: Mapping | None = None
    # Lets a mapping name a subject that no claim of the token vouches for; it is warned about each time (PEP-18).
    allow_unanchored_subject: bool = False
    # The arguments that the decision point and reviewers may see; the others are bound by their hash alone.
    disclosed: tuple[Name, ...] | None = None
