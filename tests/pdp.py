"""What the tests of the decision point share: rules, questions, and approvals that were really requested and given."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from arap_service.context import Context
from arap_service.domain.callers import Caller
from arap_service.evaluation import evaluate
from arap_service.protocol.canonical import TOOL_CALL, arguments_hash
from arap_service.requests import Submitted, submit
from tests.service import GATE_SCOPES
from tests.tokens import decoded

POLICY = """
version: 1
entities:
  user:
    alice@example.com: {suspended: false}
    bob: {role: admin}
  tool:
    ledger: {granted: false}
clients:
  - {client: gate, may: 'subject.type == "user"'}
  - {client: other-gate, may: 'subject.type == "user"'}
rules:
  - {id: internal-rule-0, when: 'subject_entity.?suspended.orValue(false) == true', deny: subject_suspended}
  - id: internal-rule-1
    when: resource.?id.orValue("") == "record-1" && action.name == "read" && subject.id in ["alice", "bob"]
    permit: true
  - id: internal-rule-2
    when: >-
      action.name == "write" && resource.?properties.?status.orValue("") == "archived"
      && subject.?properties.?role.orValue("") == "admin"
    permit: true
  - id: internal-rule-3
    when: >-
      action.name == "write" && subject.id == "alice" && resource.id == "record-1"
      && resource.?properties.?status.orValue("") != "archived"
    permit: true
  - id: internal-rule-4
    when: >-
      action.name == "delete" && subject.id == "alice" && resource.id == "record-1"
      && action.?properties.?soft.orValue(false) == true
    permit: true
  - {id: internal-rule-5, when: resource.id == "open_tool", permit: true}
  - {id: internal-rule-6, when: resource.id == "wire_transfer", request: auto}
  - {id: internal-rule-7, when: resource.id == "ledger", request: granted}
  - {id: internal-rule-8, when: resource.id == "form_tool", request: form, reason: needs_justification}
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
    provisioned_retry_seconds: 7
  form:
    title: Needs a word
    explanation: Somebody reads why.
    steps: [{id: one, title: One, groups: [reviewers]}]
    request_schema:
      type: object
      properties:
        context: {type: object, required: [justification], properties: {justification: {type: string}}}
"""
GATE = Caller(
    iss="https://approvals.example/issuer",
    sub="gate",
    client_id="gate",
    scopes=frozenset(GATE_SCOPES),
    channel="api",
)
ARGUMENTS = {"to": "acct-991", "amount": 50000}


def question(tool: str = "wire_transfer", /, **changes: Any) -> dict[str, Any]:
    """A tool call as a gate asks about it; `changes` replace whole members."""
    asked = {
        "subject": {"type": "user", "id": "alice@example.com"},
        "resource": {"type": "tool", "id": tool},
        "action": {"name": "tools/call"},
        "context": call_context(tool),
    }
    return {**asked, **changes}


def call_context(tool: str = "wire_transfer", /, **changes: Any) -> dict[str, Any]:
    """The context of that question; a change to None leaves a member out."""
    members = {
        "agent": "agent-A",
        "arguments_hash": arguments_hash(ARGUMENTS),
        "server": "bank",
        "time": "2026-04-30T20:00:00Z",
        TOOL_CALL: {"server": "bank", "tool": tool, "arguments": ARGUMENTS},
        **changes,
    }
    return {name: value for name, value in members.items() if value is not None}


async def denied(ctx: Context, asked: Mapping[str, Any], caller: Caller = GATE) -> dict[str, Any]:
    """The decision context of a requestable denial."""
    answer = await evaluate(ctx, caller, asked)
    assert answer["decision"] is False
    assert "access_request" in answer["context"], answer
    context: dict[str, Any] = answer["context"]
    return context


def submission(asked: Mapping[str, Any], denial: Mapping[str, Any]) -> dict[str, Any]:
    """The access request that rests on a denial."""
    echoed = {name: denial[name] for name in ("evaluation_id", "evaluated_at", "reason") if name in denial}
    offered = denial["access_request"]
    echoed |= {name: offered[name] for name in ("expires_at", "binding_token", "template") if name in offered}
    return {**asked, "denial": echoed}


async def submitted(ctx: Context, body: Mapping[str, Any], caller: Caller = GATE) -> Submitted:
    """What a submission of `body` leads to."""
    return await submit(ctx, caller, json.dumps(body).encode(), idempotency_key=None)


async def approved(ctx: Context, asked: Mapping[str, Any], caller: Caller = GATE) -> dict[str, Any]:
    """The approval that requesting `asked` leads to; its template approves by itself."""
    made = await submitted(ctx, submission(asked, await denied(ctx, asked, caller)), caller)
    assert made.status_code == 201
    assert made.result is not None
    approval: dict[str, Any] = made.result["approval"]
    return approval


def presenting(asked: Mapping[str, Any], approval: object) -> dict[str, Any]:
    """The question with an approval, or whatever else, in its place."""
    return {**asked, "context": {**asked["context"], "approval": approval}}


def claims_of(token: str) -> dict[str, Any]:
    """What a compact JWS says, unverified."""
    return decoded(token.split(".")[1])


def header_of(token: str) -> dict[str, Any]:
    """How a compact JWS says it was made."""
    return decoded(token.split(".", maxsplit=1)[0])


def change_rules(ctx: Context, path: Path, old: str, new: str) -> None:
    """Edit the rules file and have it taken over."""
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new) + "\n", encoding="utf-8")
    assert ctx.policy.refresh()
