"""Enforcement point and resolver over HTTP against an application in this process, with plain dictionaries."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import httpx2

from arap_service.context import Context
from tests.service import app_for, bearer, http

POLICY = """
version: 1
clients:
  - {client: gate, may: 'subject.id != "mallory"'}
  - {client: other-gate, may: 'true'}
rules:
  - {id: internal-rule-1, when: resource.id == "wire_transfer", request: transfer}
  - {id: internal-rule-2, when: resource.id == "small_transfer", request: small}
templates:
  transfer:
    title: Wire transfer
    explanation: Money leaves the company.
    approval_seconds: 600
    steps: [{id: risk, title: Risk engine, resolvers: [resolver, second-resolver]}]
  small:
    title: Small transfer
    explanation: Nobody needs to look.
    evaluators: [{id: always, when: 'true', decision: approve, reason: small enough}]
    steps: [{id: risk, title: Risk engine, resolvers: [resolver]}]
"""
EVALUATION = "/access/v1/evaluation"
REQUEST = "/access/v1/request"
RESOLVER = "/resolver/v1"


def question(
    amount: int = 50_000, *, subject: str = "alice@example.com", tool: str = "wire_transfer"
) -> dict[str, Any]:
    """What is asked before a transfer of this amount."""
    arguments = {"amount": amount, "to": "ACME"}
    canonical = json.dumps(arguments, sort_keys=True, separators=(",", ":")).encode()
    return {
        "subject": {"type": "user", "id": subject},
        "resource": {"type": "tool", "id": tool},
        "action": {"name": "tools/call"},
        "context": {
            "arguments_hash": "sha256:" + hashlib.sha256(canonical).hexdigest(),
            "urn:x-arap:tool_call": {"server": "treasury", "tool": tool, "arguments": arguments},
        },
    }


@dataclass(frozen=True, slots=True)
class Peers:
    """Both sides of a service: `gate` and `resolver` are HTTP clients that are authenticated as these."""

    context: Context
    gate: httpx2.AsyncClient
    resolver: httpx2.AsyncClient
    stranger: httpx2.AsyncClient

    def authenticated(self, client_id: str, *, scope: str | None = None) -> dict[str, str]:
        """Headers that make a call one of another client, or of another scope."""
        return bearer(self.context, client_id, scope=scope)

    async def denied(self, asked: dict[str, Any]) -> dict[str, Any]:
        """A body that requests what was denied just now."""
        context = (await self.gate.post(EVALUATION, json=asked)).json()["context"]
        offer = context["access_request"]
        echo = {"binding_token": offer["binding_token"], "expires_at": offer["expires_at"]}
        return asked | {"denial": {**echo, "evaluation_id": context["evaluation_id"]}}

    async def submit(self, asked: dict[str, Any] | None = None, **more: Any) -> httpx2.Response:
        """Request access after a fresh denial; `more` goes into the body."""
        return await self.gate.post(REQUEST, json=await self.denied(asked or question()) | more)

    async def task(self, asked: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
        """The handle of a new request."""
        accepted = await self.submit(asked, **more)
        assert accepted.status_code == 202, accepted.text
        task: dict[str, Any] = accepted.json()["task"]
        return task

    async def decide(self, task_id: str, decision: str = "approve", **more: Any) -> httpx2.Response:
        """Decide on the version that is current now."""
        version = (await self.resolver.get(f"{RESOLVER}/requests/{task_id}")).json()["version"]
        body = {"decision": decision, "version": version} | ({"reason": "no"} if decision == "deny" else {}) | more
        return await self.resolver.post(f"{RESOLVER}/requests/{task_id}/decisions", json=body)

    async def aclose(self) -> None:
        """Close the clients."""
        for client in (self.gate, self.resolver, self.stranger):
            await client.aclose()


def peers(context: Context) -> Peers:
    """Peers of a service on `context`; its own background work does not run."""
    app = app_for(context)
    return Peers(
        context,
        http(app, headers=bearer(context, "gate")),
        http(app, headers=bearer(context, "resolver")),
        http(app, headers=bearer(context, "other-gate")),
    )
