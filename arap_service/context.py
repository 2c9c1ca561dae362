"""What a use case may rely on: one value that holds every outside thing, built in `app.py` or by a test.

Nothing in here decides; there are no globals beside it. Time, randomness, the network and the points where a crash test
may stop the process all come in through it.
"""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from opentelemetry.trace import Tracer
from structlog.typing import FilteringBoundLogger

from arap_service.checkpoints import Checkpoint
from arap_service.domain.reevaluation import ApprovalRecord, Verdict
from arap_service.keys import Clock, Keys, TrustedIssuers
from arap_service.metrics import Metrics
from arap_service.oidc import Provider
from arap_service.outbound import Outbound
from arap_service.policy_source import PolicySource
from arap_service.protocol.sealing import KeyRing
from arap_service.rates import Rates
from arap_service.settings import Settings
from arap_service.store.database import Database
from arap_service.upstream import Upstream

NewId = Callable[[str], str]


def random_id(prefix: str) -> str:
    """An unguessable id such as `task_…` with 128 random bits (ARS-52)."""
    return f"{prefix}_{secrets.token_urlsafe(16)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """Whose signatures count for which kind of token: issuer first, then key (PDP-33)."""

    binding: TrustedIssuers
    approval: TrustedIssuers
    access: TrustedIssuers
    audiences: dict[str, str]
    """For each issuer of access tokens the audience that they must be meant for."""
    acrs: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """For each issuer the ways of proving who one is that count as a fresh log-in; none named means any."""


class Rehearsal(Protocol):
    """What a simulator may do to a use case; where none is running, nothing is rehearsed."""

    async def before_reevaluation(self, approval_id: str) -> None:
        """Called when somebody presents this approval, which need not exist, before it is looked at."""

    def reconsider(self, verdict: Verdict, record: ApprovalRecord) -> Verdict:
        """`verdict`, or a denial in its place; called within the transaction that has read `record`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The surroundings of a use case."""

    settings: Settings
    database: Database
    policy: PolicySource
    keys: Keys
    ring: KeyRing
    trust: Trust
    clock: Clock
    new_id: NewId
    checkpoint: Checkpoint
    outbound: Outbound
    rates: Rates
    metrics: Metrics
    tracer: Tracer
    log: FilteringBoundLogger
    rehearsal: Rehearsal | None = None
    upstream: Upstream | None = None
    provider: Provider | None = None
    """The OpenID provider that people log in with, if there is one."""

    async def aclose(self) -> None:
        """Close what was opened for it."""
        if self.upstream is not None:
            await self.upstream.aclose()
        await self.database.aclose()
