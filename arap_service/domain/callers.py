"""Who calls: the authenticated principal, its client, its scopes and the agents that act for it.

A `Caller` is a result of authentication (bearer token, desk session, command line) and never of a request body; labels
that a request asserts about itself are not in here. Which caller may do what with a request is decided elsewhere.
Access Request and Approval Profile, "Protect the Endpoints"; RFC 9068 for the token it usually comes from.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Literal

from arap_service.domain.errors import Forbidden

Channel = Literal["api", "desk", "cli"]


class Scope(StrEnum):
    """What a caller may be allowed to do; each operation checks its own."""

    EVALUATE = "authzen:evaluate"
    SEARCH = "authzen:search"
    SUBMIT = "arap:submit"
    STATUS = "arap:status"
    RESULT = "arap:result"
    CANCEL = "arap:cancel"
    CATALOG = "arap:catalog"
    REPORT = "arap:report"
    APPROVAL_READ = "approval:read"
    APPROVAL_RESOLVE = "approval:resolve"
    APPROVAL_REVOKE = "approval:revoke"
    AUDIT_READ = "audit:read"
    OPERATE = "operate"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """An authenticated caller.

    `agent` is the current actor and `act` the whole verified chain, (iss, sub) each, the current actor first.
    `person_id` is set when the caller is a known person; `proved_at` is when he last proved who he is, where known.
    """

    iss: str
    sub: str
    client_id: str
    scopes: frozenset[str]
    channel: Channel
    agent: str | None = None
    act: tuple[tuple[str, str], ...] = ()
    person_id: str | None = None
    proved_at: datetime | None = None

    @property
    def principal(self) -> str:
        """The identity that rights follow, whatever token or instance presents it (ARS-67)."""
        return f"{self.iss}|{self.sub}"

    def owner_of(self, operation: str) -> str:
        """Whose idempotency keys for `operation` these are: this principal by this client, and nobody else's (ARS-42).

        The bar that parts the names is written out where it is part of one.
        """
        parts = (operation, self.iss, self.sub, self.client_id)
        return "|".join(part.replace("%", "%25").replace("|", "%7C") for part in parts)

    def may(self, scope: Scope) -> bool:
        """Whether the caller holds `scope`."""
        return scope in self.scopes

    def require(self, scope: Scope) -> None:
        """Insist on `scope`.

        Raises:
            Forbidden: The caller lacks it.
        """
        if scope not in self.scopes:
            raise Forbidden("The access token lacks the scope that this operation needs.", scope=scope)
