"""A service with people, rules and a gate, for tests of the use cases; all of it is real but the clock and DNS."""

import json
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from arap_service import audit, requests
from arap_service.checkpoints import Checkpoint, passing
from arap_service.context import Context
from arap_service.domain.callers import Caller
from arap_service.evaluation import evaluate
from arap_service.keys import BINDING_TYP, Use
from arap_service.outbound import Outbound
from arap_service.protocol.arap import format_instant
from arap_service.protocol.canonical import TOOL_CALL, Tuple4, arguments_hash, bindable_members, binding_hash
from arap_service.records import new_denial
from arap_service.requests import Submitted
from arap_service.store.database import WriteSession
from arap_service.store.people_tables import Identity, Membership, Person
from arap_service.store.tables import AuditEntry, Task
from arap_service.views import RequestDetail
from tests.clock import FakeClock
from tests.service import GATE_SCOPES, RESOLVER_SCOPES, service_context, settings_for

POLICY = """
version: 1
clients:
  - {client: gate, may: 'subject.id != "mallory"'}
  - {client: other-gate, may: 'true'}
rules:
  - {id: rule-open, when: resource.id == "open", permit: true}
  - {id: rule-closed, when: resource.id == "closed", deny: never}
  - {id: rule-transfer, when: resource.id == "wire_transfer", request: transfer, reason: needs_approval}
  - {id: rule-board, when: resource.id == "merge", request: board, reason: needs_board}
  - {id: rule-quorum, when: resource.id == "payroll", request: quorum, reason: needs_two}
  - {id: rule-form, when: resource.id == "form", request: form, reason: needs_justification}
  - {id: rule-auto, when: resource.id == "auto", request: auto, reason: needs_check}
  - {id: rule-quiet, when: resource.id == "quiet", request: quiet, reason: needs_approval}
  - {id: rule-rated, when: resource.id == "rated", request: rated, reason: needs_rating}
templates:
  transfer:
    title: Wire transfer
    explanation: Money leaves the company.
    caution: Cannot be undone.
    risk: high
    effect: >-
      "Sends " + string(call.?arguments.?amount.orValue(0)) + " to " + string(call.?arguments.?to.orValue("?"))
    steps: [{id: treasury, title: Treasury, groups: [treasury], resolvers: [risk-engine]}]
  board:
    title: Merger
    explanation: Two offices agree.
    steps:
      - {id: legal, title: Legal, groups: [legal]}
      - {id: board, title: Board, groups: [board, legal]}
  quorum:
    title: Payroll
    explanation: Two of treasury agree, two may stop it.
    steps: [{id: treasury, title: Treasury, groups: [treasury], people: [carl], quorum: 2, veto: 2, repeat: true}]
    reason_required: [approve, deny]
  form:
    title: Needs a word
    explanation: Somebody reads why.
    steps: [{id: treasury, title: Treasury, groups: [treasury]}]
    request_schema:
      type: object
      required: [context]
      properties:
        context:
          type: object
          required: [business_justification]
          properties: {business_justification: {type: string, minLength: 3}}
        requested_access:
          type: object
          properties: {days: {type: integer, maximum: 5}}
  auto:
    title: Checked by rules
    explanation: Small ones pass.
    steps: [{id: treasury, title: Treasury, groups: [treasury]}]
    evaluators:
      - {id: small, when: 'call.arguments.amount < 100', decision: approve, reason: small}
      - {id: huge, when: 'call.arguments.amount > 1000000', decision: deny, reason: beyond every limit}
      - {id: sanctioned, when: 'call.arguments.to == "X"', decision: deny, reason: sanctioned}
      - {id: unusual, when: 'call.arguments.to == "Y"', decision: hold, reason: unusual}
  rated:
    title: Rated by rules
    explanation: What is rated low passes.
    effect: '"Moves " + string(call.?arguments.?amount.orValue(0))'
    steps: [{id: treasury, title: Treasury, groups: [treasury]}]
    evaluators:
      - {id: rating, when: 'context.?rating.orValue(99) < 10', decision: approve, reason: rated low}
      - {id: level, when: 'subject.?properties.?act.?level.orValue(0) > 5', decision: approve, reason: high level}
      - {id: bot, when: 'subject.?properties.?act.?sub.orValue("") == "trusted"', decision: approve, reason: trusted}
      - {id: small, when: 'call.?arguments.?amount.orValue(0) < 100', decision: approve, reason: small}
  quiet:
    title: Says little
    explanation: Shows and tells little.
    reveal: [/to]
    reveal_reason: false
    approval_seconds: 60
    steps: [{id: treasury, title: Treasury, groups: [treasury]}]
"""
ISSUER = "https://approvals.example/issuer"
DESK = "https://approvals.example/desk"
CALLBACK = "https://gate.example/callbacks/arap"
ARGUMENTS: Mapping[str, Any] = {"amount": 50000, "to": "DE1"}
PEOPLE = {
    "ann": ("Ann Treasurer", ("treasury",)),
    "bob": ("Bob Treasurer", ("treasury",)),
    "carl": ("Carl Payroll", ()),
    "lea": ("Lea Legal", ("legal",)),
    "mo": ("Mo Board", ("board",)),
    "zoe": ("Zoe Nobody", ()),
    "alice": ("Alice Requester", ("treasury", "legal", "board")),
}


def machine(client_id: str, *scopes: str, **changes: Any) -> Caller:
    """An authenticated client that acts for itself."""
    given: dict[str, Any] = {
        "iss": ISSUER,
        "sub": client_id,
        "client_id": client_id,
        "scopes": frozenset(scopes or GATE_SCOPES),
        "channel": "api",
        **changes,
    }
    return Caller(**given)


def person(person_id: str, **changes: Any) -> Caller:
    """A person at the desk."""
    given: dict[str, Any] = {
        "iss": DESK,
        "sub": person_id,
        "client_id": "desk",
        "scopes": frozenset(RESOLVER_SCOPES),
        "channel": "desk",
        "person_id": person_id,
        **changes,
    }
    return Caller(**given)


GATE = machine("gate")
OTHER_GATE = machine("other-gate")
RISK_ENGINE = machine("risk-engine", "approval:resolve")
READER = machine("reader", "approval:read")


def question(resource: str = "wire_transfer", *, subject: str = "alice", **context: Any) -> dict[str, Any]:
    """A tool call as a gate asks about it; `arguments` and members of the context can be given, None leaves one out."""
    arguments = context.pop("arguments", ARGUMENTS)
    members = {
        "agent": "bot",
        "server": "bank",
        "arguments_hash": arguments_hash(arguments),
        "time": "2026-04-30T20:00:00Z",
        TOOL_CALL: {"server": "bank", "tool": resource, "title": "A tool", "arguments": dict(arguments)},
        **context,
    }
    return {
        "subject": {"type": "user", "id": subject},
        "resource": {"type": "tool", "id": resource},
        "action": {"name": "tools/call"},
        "context": {name: value for name, value in members.items() if value is not None},
    }


@dataclass(frozen=True, slots=True)
class World:
    """A context with a clock that only the test moves."""

    ctx: Context
    clock: FakeClock

    async def body(
        self, asked: Mapping[str, Any] | None = None, *, caller: Caller = GATE, **more: Any
    ) -> dict[str, Any]:
        """A submission that rests on a fresh requestable denial of `asked`; `more` are its other members."""
        asked = question() if asked is None else asked
        answer = await evaluate(self.ctx, caller, asked)
        context = answer["context"]
        offer = context["access_request"]
        denial = {
            "evaluation_id": context["evaluation_id"],
            "expires_at": offer["expires_at"],
            "binding_token": offer["binding_token"],
        }
        return {**asked, "denial": denial, **more}

    async def submit(
        self, body: Mapping[str, Any] | None = None, *, key: str | None = None, caller: Caller = GATE
    ) -> Submitted:
        """Submit `body`, or a fresh request for a transfer."""
        body = await self.body(caller=caller) if body is None else body
        return await requests.submit(self.ctx, caller, json.dumps(body).encode(), idempotency_key=key)

    async def pending(self, resource: str = "wire_transfer", **more: Any) -> str:
        """The id of a fresh pending task."""
        submitted = await self.submit(await self.body(question(resource), **more))
        assert submitted.task["status"] == "pending"
        return str(submitted.task["id"])

    async def decide(
        self, task_id: str, who: str | Caller = "ann", decision: str = "approve", **more: Any
    ) -> RequestDetail:
        """Decide as a person, who has seen the current version unless `version` says otherwise."""
        caller = person(who) if isinstance(who, str) else who
        given: dict[str, Any] = {"version": await self.version(task_id), "decision": decision, **more}
        if decision == "deny":
            given.setdefault("reason", "Not like this.")
        return await requests.decide(self.ctx, caller, task_id, **given)

    async def task(self, task_id: str) -> Task:
        """The row of a task."""
        found = await self.ctx.database.read(lambda session: session.get(Task, task_id))
        assert found is not None
        return found

    async def version(self, task_id: str) -> int:
        """The current version of a task."""
        return (await self.task(task_id)).version

    async def status(self, task_id: str) -> str:
        """What the gate reads as the status of its task."""
        return str((await requests.status(self.ctx, GATE, task_id))["task"]["status"])

    async def audit(self, task_id: str) -> Sequence[AuditEntry]:
        """The audit chain of a task, which is whole."""

        def read(session: Any) -> Sequence[AuditEntry]:
            assert isinstance(audit.verify_chain(session, task_id), audit.Verified)
            return audit.entries_of(session, task_id)

        return await self.ctx.database.read(read)

    async def kinds(self, task_id: str) -> list[str]:
        """What the audit chain of a task records."""
        return [entry.kind for entry in await self.audit(task_id)]

    async def recorded(self, asked: Mapping[str, Any], *, seconds: int = 300, client: str = "gate") -> str:
        """The evaluation id of a requestable denial that was recorded without a token."""
        evaluation_id = self.ctx.keys.mint_evaluation_id("requestable")
        about = Tuple4(asked["subject"], asked["resource"], asked["action"], asked["context"])
        row = new_denial(
            self.ctx.ring,
            evaluation_id=evaluation_id,
            about=about,
            members=tuple(bindable_members(about.context)),
            client_id=client,
            caller=f"{ISSUER}|{client}",
            template_id="transfer",
            rule_id="rule-transfer",
            reason="needs_approval",
            policy_version="v",
            agent="bot",
            jti=None,
            now=self.clock(),
            expires_at=self.clock() + timedelta(seconds=seconds),
        )
        await self.ctx.database.write(lambda session: session.add(row))
        return evaluation_id

    def token(self, asked: Mapping[str, Any], *, without: Iterable[str] = (), **claims: Any) -> str:
        """A binding token of our own decision point with claims of the test's choice."""
        return self.ctx.keys.sign(Use.BINDING, self.claims(asked, without=without, **claims), BINDING_TYP)

    def claims(self, asked: Mapping[str, Any], *, without: Iterable[str] = (), **claims: Any) -> dict[str, Any]:
        """The claims of a good binding token for `asked`, changed by the test."""
        now: datetime = self.clock()
        about = (asked["subject"], asked["resource"], asked["action"], asked["context"])
        members = bindable_members(asked["context"])
        whole: dict[str, Any] = {
            "iss": self.ctx.settings.identifier,
            "aud": self.ctx.settings.access_request_endpoint,
            "iat": int(now.timestamp()),
            "exp": int(now.timestamp()) + 300,
            "jti": self.ctx.new_id("jti"),
            "denial_expires_at": format_instant(now + timedelta(seconds=300)),
            "evaluation_id": self.ctx.keys.mint_evaluation_id("requestable"),
            "binding_context_members": members,
            "binding_hash": binding_hash(*about, members),
            "template": "transfer",
            **claims,
        }
        return {name: value for name, value in whole.items() if name not in set(without)}

    def denial(self, **members: Any) -> dict[str, Any]:
        """The `denial` member of a submission."""
        return {"expires_at": format_instant(self.clock() + timedelta(seconds=300)), **members}


async def public(host: str, _port: int) -> Sequence[str]:
    """Every name leads to one public address, except those that say otherwise."""
    return ["10.0.0.7"] if host.startswith("internal") else ["93.184.216.34"]


def seed(session: WriteSession, now: datetime) -> None:
    """Everybody of PEOPLE; each has one identity at the desk and one at an identity provider."""
    for person_id, (name, groups) in PEOPLE.items():
        session.add(Person(id=person_id, name=name, created_at=now))
        session.flush()
        session.add(Identity(iss=DESK, sub=person_id, person_id=person_id))
        session.add(Identity(iss="https://idp.example", sub=f"{person_id}@corp.example", person_id=person_id))
        session.add_all(Membership(person_id=person_id, group_name=group) for group in groups)


@asynccontextmanager
async def open_world(
    folder: Path, database: str, clock: FakeClock, *, checkpoint: Checkpoint = passing, **settings: Any
) -> AsyncIterator[World]:
    """A world on a migrated database."""
    given = settings_for(folder, database=database, policy=POLICY, **settings)
    outbound = Outbound(resolver=public)
    async with service_context(given, clock=clock, checkpoint=checkpoint, outbound=outbound) as ctx:
        yield World(ctx, clock)
