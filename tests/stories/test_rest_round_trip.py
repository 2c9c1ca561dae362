"""Story: an enforcement point of somebody else's making gets a denial turned into an approval, by machines alone.

The enforcement point is written out here with plain dictionaries over HTTP, as a stranger would write it from the
specifications; only the resolver uses our client library. AuthZEN Authorization API; Access Request and Approval
Profile with its callback companion.
"""

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from arap_service.client import AsyncResolver
from arap_service.protocol.callback import CallbackReceiver
from arap_service.surroundings import utc_now
from tests.live import Live, serving
from tests.receiver import Receiver, receiving

POLICY = """
version: 1
clients: [{client: gate, may: 'subject.type == "user"'}]
rules:
  - {id: reads, when: action.name == "read", permit: true}
  - {id: transfers, when: resource.id == "wire_transfer", request: transfer}
templates:
  transfer:
    title: Wire transfer
    explanation: Money leaves the company.
    approval_seconds: 600
    steps: [{id: risk, title: Risk engine, resolvers: [resolver]}]
"""
KEY = b"a key that both sides know: 32 by"


def question(amount: int) -> dict[str, Any]:
    """What is asked before a transfer of this amount."""
    arguments = {"amount": amount, "to": "ACME"}
    # The canonical form, which for this object is its compact form with sorted names.
    canonical = json.dumps(arguments, sort_keys=True, separators=(",", ":")).encode()
    return {
        "subject": {"type": "user", "id": "alice@example.com"},
        "resource": {"type": "tool", "id": "wire_transfer"},
        "action": {"name": "tools/call"},
        "context": {
            "server": "treasury",
            "agent": "agent-7",
            "arguments_hash": "sha256:" + hashlib.sha256(canonical).hexdigest(),
            "urn:x-arap:tool_call": {"server": "treasury", "tool": "wire_transfer", "arguments": arguments},
        },
    }


@pytest.mark.anyio
@pytest.mark.requirement(
    "PDP-01", "PDP-29", "PDP-59", "PDP-75", "ARS-50", "ARS-53", "ARS-57", "ARS-59", "ARS-93", "ARS-94", "ARS-95",
    "ARS-96", "ARS-121",
)  # fmt: skip
async def test_denial_becomes_an_approval_and_ends_when_it_is_revoked(service_url: str, tmp_path: Path) -> None:
    async with receiving() as receiver:
        callback = f"http://127.0.0.1:{receiver.port}/callbacks/arap"
        callbacks = {
            "gate": {
                "endpoints": [callback],
                "keys": [base64.b64encode(KEY).decode()],
                "allow_destinations": [f"127.0.0.1:{receiver.port}"],
            }
        }
        async with (
            serving(tmp_path, database=service_url, policy=POLICY, callbacks=callbacks) as live,
            httpx2.AsyncClient(auth=live.credentials("gate")) as gate,
            AsyncResolver(live.url, auth=live.credentials("resolver")) as resolver,
        ):
            with anyio.fail_after(55):
                await tell(live, gate, resolver, receiver, callback)


async def tell(
    live: Live, gate: httpx2.AsyncClient, resolver: AsyncResolver, receiver: Receiver, callback: str
) -> None:
    # The enforcement point learns where everything is.
    metadata = (await gate.get(f"{live.url}/.well-known/authzen-configuration")).json()
    assert metadata["policy_decision_point"] == live.url

    # It asks, and is denied, but in a way that somebody could change.
    answer = (await gate.post(metadata["access_evaluation_endpoint"], json=question(50_000))).json()
    assert answer["decision"] is False
    offer = answer["context"]["access_request"]

    # It asks for access, echoing the denial, and says where it wants to be told.
    submission = question(50_000) | {
        "denial": {
            "binding_token": offer["binding_token"],
            "expires_at": offer["expires_at"],
            "evaluation_id": answer["context"]["evaluation_id"],
        },
        "callback": {"endpoint": callback, "state": "opaque to you\u2009"},
    }
    endpoint = offer.get("endpoint", metadata["access_request_endpoint"])
    accepted = await gate.post(endpoint, json=submission, headers={"Idempotency-Key": '"first"'})
    assert accepted.status_code == 202
    assert accepted.headers["location"] == accepted.json()["task"]["status_endpoint"]
    assert int(accepted.headers["retry-after"]) >= 1
    assert accepted.headers["cache-control"] == "no-store"
    task = accepted.json()["task"]
    assert set(task) == {"id", "status", "status_endpoint", "expires_at", "links"}
    assert task["status"] == "pending"

    # The answer got lost; asking again under the same key changes nothing.
    again = await gate.post(endpoint, json=submission, headers={"Idempotency-Key": "first"})
    assert (again.status_code, again.json()["task"]["id"]) == (202, task["id"])
    assert (await gate.get(task["status_endpoint"])).json()["task"] == task

    # The risk engine finds the request, reads the arguments and approves what it has read.
    [waiting] = [request async for request in resolver.queue(mine=True)]
    assert waiting["id"] == task["id"]
    request = await resolver.get(task["id"])
    assert {argument["pointer"]: argument["text"] for argument in request["arguments"]} == {
        "/amount": "50000",
        "/to": "ACME",
    }
    decided = await resolver.decide(task["id"], "approve", version=request["version"], reason="within limits")
    assert decided["status"] == "approved"

    # The enforcement point is woken by a callback that it can verify, and that carries no result.
    delivered = await receiver.arrivals.get()
    notice = CallbackReceiver(keys=[KEY], seen=lambda _: False).receive(
        delivered.body, delivered.headers, now=utc_now()
    )
    assert (notice.task.id, notice.task.status) == (task["id"], "approved")
    assert json.loads(delivered.body).keys() == {"task", "state"}
    assert json.loads(delivered.body)["state"] == "opaque to you\u2009"

    # It fetches the result and asks once more, presenting the approval: now it is a permit, for these arguments alone.
    result = (await gate.get(task["status_endpoint"])).json()["result"]
    assert result["mode"] == "reevaluate"
    approval = result["approval"]
    assert await decision(live, gate, question(50_000), approval) is True
    assert await decision(live, gate, question(50_001), approval) is False

    # It ran the call and says so; the risk engine sees that, changes its mind, and the next question is a denial again.
    links = (await gate.get(task["status_endpoint"])).json()["task"]["links"]
    ran = {"disposition": "approved-executed", "at": utc_now().isoformat(), "generation": 1}
    assert (await gate.post(links["urn:x-arap:report"], json=ran)).status_code == 204
    assert [each["disposition"] for each in (await resolver.get(task["id"]))["executions"]] == ["approved-executed"]
    await resolver.revoke(approval["id"], reason="the supplier was a fraud")
    assert await decision(live, gate, question(50_000), approval) is False
    assert (await gate.get(task["status_endpoint"])).json()["task"]["status"] == "approved"


async def decision(live: Live, gate: httpx2.AsyncClient, asked: dict[str, Any], approval: dict[str, Any]) -> bool:
    asked = asked | {"context": asked["context"] | {"approval": approval}}
    answer = (await gate.post(f"{live.url}/access/v1/evaluation", json=asked)).json()
    if answer["decision"]:
        assert answer["context"]["approval"].keys() == {"id", "approved_until"}
    return bool(answer["decision"])
