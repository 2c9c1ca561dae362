"""The part of the configuration that says how people log in to the desk, and how long that lasts.

Local accounts, one OpenID provider, or both. The provider's secret comes from the file, from a file of its own, or from
the environment, and is never printed. What is asked of the provider is in `oidc.py`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from arap_service.settings_parts import Endpoint, Part

Claim = Annotated[str, Field(min_length=1, max_length=200)]
ALGORITHMS: Final = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512"})


class OidcSettings(Part):
    """An OpenID provider that people log in with, and what its claims mean here.

    `groups` maps its groups to ours, and what is not in it counts for nothing; without it its names are ours.
    """

    issuer: Endpoint
    client_id: str = Field(min_length=1)
    client_secret: SecretStr | None = None
    client_secret_file: Path | None = None
    client_authentication: Literal["client_secret_basic", "client_secret_post", "none"] = "client_secret_basic"
    label: str = Field(default="single sign-on", min_length=1, max_length=60)
    scopes: tuple[str, ...] = ("openid", "profile", "email")
    algorithms: frozenset[str] = frozenset({"RS256", "PS256", "ES256"})
    person_claim: Claim = "sub"
    name_claim: Claim = "name"
    email_claim: Claim = "email"
    email_is_verified: bool = False
    groups_claim: Claim | None = None
    groups: Mapping[str, str] = {}
    create_people: bool = False
    timeout_seconds: float = Field(default=5.0, gt=0, le=30)

    @field_validator("issuer")
    @classmethod
    def _plain(cls, issuer: str) -> str:
        if "?" in issuer or "|" in issuer:
            raise ValueError("must have neither a query nor a bar")
        return issuer

    @field_validator("algorithms")
    @classmethod
    def _asymmetric(cls, algorithms: frozenset[str]) -> frozenset[str]:
        if not algorithms or not algorithms <= ALGORITHMS:
            raise ValueError("must be among " + ", ".join(sorted(ALGORITHMS)))
        return algorithms

    @field_validator("scopes")
    @classmethod
    def _openid(cls, scopes: tuple[str, ...]) -> tuple[str, ...]:
        if "openid" not in scopes:
            raise ValueError("must hold openid")
        return scopes

    @field_validator("person_claim")
    @classmethod
    def _lasting(cls, claim: str) -> str:
        if claim in {"email", "name", "preferred_username"}:  # given to somebody else one day, or chosen at will
            raise ValueError("must be a claim that is never given to somebody else, such as sub")
        return claim

    @model_validator(mode="after")
    def _one_secret(self) -> Self:
        given = (self.client_secret is not None) + (self.client_secret_file is not None)
        if given != (self.client_authentication != "none"):
            raise ValueError("needs either client_secret or client_secret_file, and neither with none")
        if self.groups and self.groups_claim is None:
            raise ValueError("needs groups_claim where groups are mapped")
        return self

    def under(self, folder: Path) -> Self:
        """The same, with a relative file starting from `folder`."""
        file = self.client_secret_file
        return self if file is None else self.model_copy(update={"client_secret_file": folder / file})

    def secret(self) -> str | None:
        """The secret as it is now, so that a changed file counts without a new start.

        Raises:
            OSError, UnicodeError: Its file cannot be read.
        """
        if self.client_secret_file is not None:
            return self.client_secret_file.read_text(encoding="utf-8").strip()
        return None if self.client_secret is None else self.client_secret.get_secret_value()


class LoginSettings(Part):
    """How people log in, and when a session of theirs ends: after so long without use, and after so long at all."""

    local: bool = True
    oidc: OidcSettings | None = None
    breached_passwords: Path | None = None
    first_password_seconds: int = Field(default=259_200, ge=300, le=604_800)
    idle_seconds: int = Field(default=1_800, ge=60, le=86_400)
    absolute_seconds: int = Field(default=43_200, ge=300, le=604_800)

    @model_validator(mode="after")
    def _a_way_in(self) -> Self:
        if not self.local and self.oidc is None:
            raise ValueError("leave local on or name a provider under oidc, else nobody can log in")
        return self

    def under(self, folder: Path) -> Self:
        """The same, with relative files starting from `folder`."""
        oidc = None if self.oidc is None else self.oidc.under(folder)
        breached = None if self.breached_passwords is None else folder / self.breached_passwords
        return self.model_copy(update={"oidc": oidc, "breached_passwords": breached})
