"""The callback endpoint wakes and does nothing else (ARAP, Callback Completion; PEP-93 to PEP-95)."""

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.types import Message

from arap_service.protocol.callback import sign
from mcp_gate.callbacks import PATH, CallbackEndpoint, route
from tests.clock import FakeClock

pytestmark = pytest.mark.anyio

KEY, OLD_KEY, FOREIGN_KEY = b"k" * 32, b"o" * 32, b"f" * 32


class Gate:
    """Remembers what the endpoint did: ids used, states asked for, tasks woken."""

    def __init__(self, clock: FakeClock) -> None:
        self.used: set[str] = set()
        self.asked: list[tuple[str, str]] = []
        self.woken: list[str] = []
        self.waiting = {("state-1", "arq_1"): "task_1"}
        endpoint = CallbackEndpoint([KEY, OLD_KEY], use_once=self.use_once, wake=self.wake, clock=clock)
        self.app = Starlette(routes=[route(endpoint.receive)])

    async def use_once(self, value: str, _: datetime) -> bool:
        is_new = value not in self.used
        self.used.add(value)
        return is_new

    async def wake(self, state: str, backend_task: str) -> bool:
        self.asked.append((state, backend_task))
        found = self.waiting.get((state, backend_task))
        if found is not None:
            self.woken.append(found)
        return found is not None

    async def post(self, body: bytes, headers: dict[str, str]) -> int:
        transport = httpx2.ASGITransport(app=self.app)
        async with httpx2.AsyncClient(transport=transport, base_url="https://gate.example") as client:
            return (await client.post(PATH, content=body, headers=headers)).status_code


@pytest.fixture
def gate(clock: FakeClock) -> Gate:
    return Gate(clock)


@pytest.fixture
def signed(clock: FakeClock) -> Callable[..., tuple[bytes, dict[str, str]]]:
    def make(*, key: bytes = KEY, webhook_id: str = "msg_1", **members: Any) -> tuple[bytes, dict[str, str]]:
        task = {"id": "arq_1", "status": "approved", "status_endpoint": "https://evil.example/arq_1"}
        body = json.dumps({"task": task, "state": "state-1", **members}).encode()
        return body, sign(body, webhook_id=webhook_id, at=clock.now(), keys=[key])

    return make


Signed = Callable[..., tuple[bytes, dict[str, str]]]


@pytest.mark.requirement("PEP-94")
@pytest.mark.parametrize("key", [KEY, OLD_KEY])
async def test_an_authentic_delivery_wakes_the_task_and_tells_the_gate_nothing_else(
    gate: Gate, signed: Signed, key: bytes
) -> None:
    assert await gate.post(*signed(key=key)) == 204
    assert gate.woken == ["task_1"]


@pytest.mark.requirement("PEP-93")
async def test_a_forged_delivery_does_nothing(gate: Gate, signed: Signed) -> None:
    body, headers = signed()
    assert await gate.post(*signed(key=FOREIGN_KEY)) == 401
    assert await gate.post(body.replace(b"arq_1", b"arq_2"), headers) == 401
    assert await gate.post(body, {**headers, "webhook-id": "msg_2"}) == 401
    assert await gate.post(body, {}) == 401
    assert (gate.woken, gate.asked, gate.used) == ([], [], set())


@pytest.mark.requirement("PEP-93")
async def test_an_old_delivery_does_nothing(gate: Gate, signed: Signed, clock: FakeClock) -> None:
    delivery = signed()
    clock.advance(301)
    assert await gate.post(*delivery) == 401
    assert gate.woken == []


@pytest.mark.requirement("PEP-93")
async def test_a_delivery_counts_once(gate: Gate, signed: Signed) -> None:
    assert await gate.post(*signed()) == 204
    assert await gate.post(*signed()) == 204
    assert gate.woken == ["task_1"]


@pytest.mark.requirement("PEP-95")
@pytest.mark.parametrize("state", ["state-2", None, 7, {"state": "state-1"}])
async def test_a_delivery_with_another_state_wakes_nothing(gate: Gate, signed: Signed, state: object) -> None:
    assert await gate.post(*signed(state=state)) == 204
    assert gate.woken == []


@pytest.mark.requirement("PEP-95")
async def test_a_delivery_about_another_task_wakes_nothing(gate: Gate, signed: Signed) -> None:
    task = {"id": "arq_9", "status": "approved", "status_endpoint": "https://pdp.example/arq_9"}
    assert await gate.post(*signed(task=task)) == 204
    assert gate.woken == []


async def test_a_body_beyond_the_limit_is_not_read(gate: Gate) -> None:
    assert await gate.post(b"x" * 70_000, {}) == 413


async def test_a_sender_that_goes_away_halfway_is_no_fault_of_the_gate(gate: Gate) -> None:
    coming: list[Message] = [
        {"type": "http.disconnect"},
        {"type": "http.request", "body": b"{", "more_body": True},
    ]
    sent: list[Message] = []

    async def receive() -> Message:
        return coming.pop()

    async def send(message: Message) -> None:
        sent.append(message)

    about = {"method": "POST", "path": PATH, "raw_path": PATH.encode(), "query_string": b"", "headers": []}
    await gate.app({"type": "http", "http_version": "1.1", "scheme": "https", **about}, receive, send)
    assert [message.get("status") for message in sent] == [400, None]
    assert gate.used == set()


async def test_a_signed_body_that_is_no_notification_is_a_bad_request(gate: Gate, clock: FakeClock) -> None:
    body = b'{"task": 1}'
    assert await gate.post(body, sign(body, webhook_id="msg_1", at=clock.now(), keys=[KEY])) == 400
    assert gate.woken == []
