"""A world whose templates say what a decision carries: reasons, scopes, emergencies, standing rules."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from arap_service.outbound import Outbound
from tests.clock import FakeClock
from tests.requests.world import World, public
from tests.service import service_context, settings_for

TERMS = """
version: 1
clients:
  - {client: gate, may: 'true'}
rules:
  - {id: rule-ticket, when: resource.id == "restart", request: ticket}
  - {id: rule-wide, when: resource.id == "pay", request: wide}
  - {id: rule-urgent, when: resource.id == "unlock", request: urgent}
  - {id: rule-plain, when: resource.id == "plain", request: plain}
  - {id: rule-silent, when: resource.id == "silent", request: silent}
  - {id: rule-dataset, when: resource.type == "dataset", request: data}
templates:
  wide:
    title: Payments
    explanation: Money leaves.
    mask: [pin]
    steps:
      - {id: treasury, title: Treasury, groups: [treasury], quorum: 2}
    scope:
      may_vary: [/context/arguments_hash, /context/cost_centre]
      words: Any payment up to 50000, from any cost centre.
      within: 'call.?arguments.?amount.orValue(1.0e9) <= 50000'
  urgent:
    title: Unlock
    explanation: A vault is opened.
    approval_seconds: 900
    evaluators:
      - {id: harmless, when: 'true', decision: approve, reason: harmless}
      - {id: fraud, when: 'call.?arguments.?to.orValue("") == "X"', decision: deny, reason: fraud}
    steps: [{id: treasury, title: Treasury, groups: [treasury], quorum: 2}]
    emergency:
      title: On call tonight
      groups: [legal]
      people: [carl, alice]
      owners: [board, treasury]
      approval_seconds: 120
      pending_seconds: 600
      review_seconds: 3600
  plain:
    title: Plain
    explanation: Nothing special.
    standing_days: 10
    evaluators:
      - {id: fraud, when: 'call.?arguments.?to.orValue("") == "X"', decision: deny, reason: fraud}
      - {id: rush, when: 'context.?rush.orValue(false) == true', decision: hold, reason: People look at it.}
    mask: [pin]
    steps: [{id: treasury, title: Treasury, groups: [treasury]}]
  silent:
    title: Silent
    explanation: Tells nothing.
    standing_days: 0
    reveal_reason: false
    steps: [{id: treasury, title: Treasury, groups: [treasury]}]
  data:
    title: Data
    explanation: Somebody reads data.
    steps: [{id: treasury, title: Treasury, groups: [treasury]}]
    scope: {may_vary: [/resource/id, /resource/properties/region], words: Every data set of this kind.}
  ticket:
    title: Restart
    explanation: A restart interrupts people.
    steps: [{id: treasury, title: Treasury, groups: [treasury]}]
    reason_required: []
    reasons:
      approve: {pattern: '\\bCHG-[0-9]{4,}\\b', hint: 'Name the change, such as CHG-1234.'}
      revoke: {pattern: 'INC', hint: Name the incident.}
"""


@asynccontextmanager
async def open_terms(
    folder: Path, database: str, clock: FakeClock, *, policy: str = TERMS, **settings: Any
) -> AsyncIterator[World]:
    """A world on a migrated database with the rules above."""
    settings = {"desk": {"administrators": ["board"]}, **settings}
    given = settings_for(folder, database=database, policy=policy, **settings)
    async with service_context(given, clock=clock, outbound=Outbound(resolver=public)) as ctx:
        yield World(ctx, clock)
