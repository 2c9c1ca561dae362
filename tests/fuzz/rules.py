"""Rules under which every operation has something to do: tools, bundles, data sets with fields from a catalog."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

POLICY: Final = """
version: 1
entities:
  user:
    alice@example.com: {department: finance}
    bob@example.com: {department: sales}
  tool: {wire_transfer: {}, small_transfer: {}, read_balance: {}}
actions: {tool: [tools/call], account: [open, close], dataset: [read]}
clients:
  - {client: gate, may: 'subject.id != "mallory"'}
rules:
  - {id: reading, when: resource.id == "read_balance", permit: true}
  - {id: large, when: resource.id == "wire_transfer", request: transfer, reason: amount_over_threshold}
  - {id: small, when: resource.id == "small_transfer", request: small}
  - {id: accounts, when: resource.type == "account", request: account}
  - {id: vaults, when: resource.type == "vault", request: vault}
  - {id: datasets, when: resource.type == "dataset", request: access}
templates:
  transfer:
    title: Wire transfer
    explanation: Money leaves the company.
    approval_seconds: 600
    steps: [{id: risk, title: Risk engine, resolvers: [resolver]}]
  small:
    title: Small transfer
    explanation: Nobody needs to look.
    evaluators: [{id: always, when: 'true', decision: approve, reason: small enough}]
    steps: [{id: risk, title: Risk engine, resolvers: [resolver]}]
  account:
    title: Account
    explanation: Somebody gets to an account.
    standing_days: 30
    scope: {may_vary: [/context/tenant], words: Whatever the tenant is.}
    steps: [{id: risk, title: Risk engine, resolvers: [resolver]}]
  vault:
    title: Vault
    explanation: Nobody opens it but in an emergency.
    steps: [{id: risk, title: Risk engine, resolvers: [resolver]}]
    emergency: {groups: [on-call], owners: [owners], approval_seconds: 600}
  access:
    title: Access to a data set
    explanation: The owner of the data decides.
    steps: [{id: owner, title: Data office, resolvers: [resolver]}]
    request_schema:
      type: object
      required: [context, requested_access]
      properties:
        context: {type: object, required: [why], properties: {why: {type: string, minLength: 3, maxLength: 500}}}
        requested_access: {type: object, required: [role], properties: {role: {type: string}}}
    catalogs:
      /requested_access/role: {catalog: roles}
catalogs:
  roles:
    items:
      - {value: reader, label: Read the data, risk_level: low}
      - {value: owner, label: Change everything, when: 'subject.id == "bob@example.com"'}
      - {value: operator, label: Restart jobs, status: retired}
"""
_ALICE: Final = {"type": "user", "id": "alice@example.com"}


def tool(name: str, amount: int) -> dict[str, Any]:
    """What is asked before a tool is called with this amount."""
    arguments = {"amount": amount, "to": "ACME"}
    canonical = json.dumps(arguments, sort_keys=True, separators=(",", ":")).encode()
    context = {
        "arguments_hash": "sha256:" + hashlib.sha256(canonical).hexdigest(),
        "urn:x-arap:tool_call": {"server": "treasury", "tool": name, "arguments": arguments},
    }
    return {
        "subject": dict(_ALICE),
        "resource": {"type": "tool", "id": name},
        "action": {"name": "tools/call"},
        "context": context,
    }


def thing(kind: str, name: str, action: str, context: Mapping[str, Any]) -> dict[str, Any]:
    """What is asked before something else is done."""
    return {
        "subject": dict(_ALICE),
        "resource": {"type": kind, "id": name},
        "action": {"name": action},
        "context": dict(context),
    }


QUESTIONS: Final = (
    tool("wire_transfer", 50_000),
    tool("small_transfer", 60),
    thing("account", "ledger", "open", {"tenant": "acme"}),
    thing("dataset", "sales", "read", {"why": "It is the end of the quarter."}),
    thing("vault", "keys", "open", {}),
    tool("read_balance", 0),
)
"""All of these can be requested but the last, which is permitted."""
