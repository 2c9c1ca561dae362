"""A service of ours behind a decision point of somebody else's, both in the process of the test."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from arap_service.context import Context
from arap_service.settings_parts import UpstreamSettings
from arap_service.upstream import Upstream
from tests.clock import FakeClock
from tests.foreign.decision_point import IDENTIFIER, ForeignDecisionPoint
from tests.service import service_context, settings_for

RULES = """
version: 1
upstream: {convertible: [over_limit]}
entities:
  user:
    alice@example.com: {suspended: false}
    mallory: {suspended: true}
  tool:
    ledger: {granted: false}
clients:
  - {client: gate, may: 'true'}
rules:
  - {id: suspended, when: 'subject_entity.?suspended.orValue(false) == true', deny: subject_suspended}
  - {id: ours-alone, when: resource.id == "ours_alone", permit: true}
  - {id: transfers, when: resource.id == "wire_transfer", request: auto}
  - {id: ledger, when: resource.id == "ledger", request: granted}
templates:
  auto:
    title: Wire transfer
    explanation: Money leaves the company.
    evaluators: [{id: always, when: 'true', decision: approve, reason: Tests approve everything}]
    steps: [{id: one, title: One, groups: [reviewers]}]
  granted:
    title: Ledger entry
    explanation: Writes to the ledger.
    evaluators: [{id: always, when: 'true', decision: approve, reason: Tests approve everything}]
    steps: [{id: one, title: One, groups: [reviewers]}]
    provisioned: resource_entity.granted == true
"""


@asynccontextmanager
async def behind(
    other: ForeignDecisionPoint,
    folder: Path,
    *,
    database: str,
    clock: FakeClock,
    policy: str = RULES,
    upstream: dict[str, Any] | None = None,
    **changes: Any,
) -> AsyncIterator[Context]:
    """A context of a service whose decisions rest on `other`; `upstream` is added to that part of its settings.

    `changes` go into the others.
    """
    part = {"identifier": IDENTIFIER, **(upstream or {})}
    settings = settings_for(folder, database=database, policy=policy, upstream=part, **changes)
    asking = Upstream(UpstreamSettings(**part), clock=clock, transport=other.transport())
    async with service_context(settings, clock=clock, upstream=asking) as context:
        yield context
