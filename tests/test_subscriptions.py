"""The deployment's own subscriptions: ARS-98, apart from callbacks, told and never enforced."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic import ValidationError
from sqlmodel import select

from arap_service import requests
from arap_service.context import Context
from arap_service.courier import Courier
from arap_service.domain.callers import Scope
from arap_service.domain.events import EVENT_NAMES
from arap_service.outbound import Outbound
from arap_service.protocol.callback import EventReceiver, verify
from arap_service.requests.reviews import close_review
from arap_service.requests.step_times import keep_time
from arap_service.store.tables import Delivery, Task
from arap_service.subscriptions import follow_subscriptions
from tests.clock import FakeClock
from tests.peers import POLICY, Peers, peers, question
from tests.receiver import Receiver, certificate, receiving, status
from tests.requests.world import GATE, World, person, seed
from tests.service import CALLBACK_KEY, service_context, settings_for

ESCALATING = """
version: 1
clients:
  - {client: gate, may: 'true'}
rules:
  - {id: rule-plain, when: resource.id == "plain", request: plain}
  - {id: rule-unlock, when: resource.id == "unlock", request: unlock}
templates:
  plain:
    title: Plain
    explanation: Nothing special.
    steps: [{id: legal, title: Legal, groups: [legal], escalate: {after_seconds: 60, groups: [board]}}]
  unlock:
    title: Unlock
    explanation: The vault.
    steps: [{id: legal, title: Legal, groups: [legal]}]
    emergency: {title: On call, groups: [treasury], owners: [board], approval_seconds: 300}
"""


@dataclass(frozen=True, slots=True)
class Desk:
    """A service with two subscriptions at one receiver: `all` of everything, `ends` of two events."""

    context: Context
    peers: Peers
    receiver: Receiver
    courier: Courier

    def received(self, target: str) -> list[dict[str, Any]]:
        """What arrived there."""
        return [json.loads(each.body) for each in self.receiver.received if each.target == target]

    async def deliver(self) -> None:
        """Follow and send."""
        await follow_subscriptions(self.context)
        await self.courier.round()


async def resolving(host: str, port: int) -> list[str]:
    return ["127.0.0.1"]


@pytest.fixture
async def desk(service_url: str, tmp_path: Path, clock: FakeClock) -> AsyncIterator[Desk]:
    server, trusting = certificate(tmp_path, "events.example")
    async with receiving(server) as receiver:
        base = f"https://events.example:{receiver.port}"
        common = {"keys": [CALLBACK_KEY], "allow_destinations": [f"events.example:{receiver.port}"]}
        subscriptions = {
            "all": {"endpoint": f"{base}/all", **common},
            "ends": {"endpoint": f"{base}/ends", "events": ["approved", "denied"], **common},
        }
        settings = settings_for(tmp_path, database=service_url, policy=POLICY, subscriptions=subscriptions)
        outbound = Outbound(resolver=resolving, tls=trusting, timeout=5)
        async with service_context(settings, clock=clock, outbound=outbound) as context:
            both = peers(context)
            yield Desk(context, both, receiver, Courier(context, jitter=lambda: 0.0))
            await both.aclose()


@pytest.mark.anyio
@pytest.mark.requirement("ARS-98")
async def test_events_are_sent_signed_to_whoever_subscribed_and_hold_no_result(desk: Desk, clock: FakeClock) -> None:
    """What is received names a request and what happened: no approval, no argument, nothing to act on."""
    await desk.deliver()
    task = await desk.peers.task()
    await desk.peers.decide(task["id"])
    await desk.deliver()
    assert sorted(each["event"] for each in desk.received("/all")) == ["approved", "submitted", "voted"]
    [ended] = desk.received("/ends")
    assert ended.keys() == {"id", "event", "request", "evaluation_id", "at"}
    assert (ended["event"], ended["request"]) == ("approved", task["id"])
    reader = EventReceiver(keys=[b"k" * 32], seen=lambda _: False, advance=lambda *_: True)
    for each in desk.receiver.received:
        verify(each.body, each.headers, keys=[b"k" * 32], now=clock())
        assert reader.receive(each.body, each.headers, now=clock()).request == task["id"]
    await desk.deliver()
    assert len(desk.receiver.received) == 4


@pytest.mark.anyio
@pytest.mark.requirement("ARS-98")
async def test_failing_subscriber_changes_nothing_for_requests_and_callbacks(desk: Desk, clock: FakeClock) -> None:
    await desk.deliver()
    desk.receiver.answer(status(500))
    task = await desk.peers.task()
    await desk.deliver()
    decided = await desk.peers.decide(task["id"])
    assert decided.json()["status"] == "approved"
    desk.receiver.answer(status(204))
    clock.advance(10)
    await desk.deliver()
    assert {each["event"] for each in desk.received("/all")} == {"submitted", "voted", "approved"}


@pytest.mark.anyio
async def test_new_subscription_begins_now_and_each_event_is_one_delivery_however_many_follow(desk: Desk) -> None:
    await desk.peers.task(question(1))
    assert await follow_subscriptions(desk.context) == 0
    await desk.peers.task(question(2))
    async with anyio.create_task_group() as group:
        for _ in range(4):
            group.start_soon(follow_subscriptions, desk.context)
    rows = desk.context.database.read_now(lambda session: session.exec(select(Delivery)).all())
    assert [(row.subscription, row.event) for row in rows] == [("all", "submitted")]


@pytest.mark.anyio
async def test_subscription_that_was_taken_away_gets_nothing_more(desk: Desk, tmp_path: Path, clock: FakeClock) -> None:
    await desk.deliver()
    await desk.peers.task()
    await follow_subscriptions(desk.context)
    settings = settings_for(tmp_path, database=desk.context.settings.database, policy=POLICY)
    async with service_context(settings, clock=clock, outbound=desk.context.outbound) as context:
        assert await follow_subscriptions(context) == 0
        assert await Courier(context).round() == 1
    rows = desk.context.database.read_now(lambda session: session.exec(select(Delivery)).all())
    assert [(row.status, row.last_error) for row in rows] == [("dead", "not_registered")]
    assert desk.receiver.received == []


@pytest.mark.parametrize(
    ("subscription", "said"),
    [
        ({"events": ["exploded"]}, "must be among answered, approved"),
        ({"keys": []}, "needs keys or bearer"),
        ({"endpoint": "http://events.example/x"}, "must be https"),
        ({"endpoint": "nowhere"}, "must be an absolute https URL"),
        ({"allow_destinations": ["*"]}, "must hold exact destinations"),
    ],
)
def test_subscription_that_cannot_work_is_refused_at_the_start(
    tmp_path: Path, subscription: dict[str, object], said: str
) -> None:
    whole = {"endpoint": "https://events.example/x", "keys": [CALLBACK_KEY], **subscription}
    with pytest.raises(ValidationError, match=said):
        settings_for(tmp_path, database="sqlite:///x.db", policy=POLICY, subscriptions={"all": whole})
    with pytest.raises(ValidationError, match="pattern"):
        settings_for(tmp_path, database="sqlite:///x.db", policy=POLICY, subscriptions={"A b": whole})
    assert "approved" in EVENT_NAMES


@pytest.mark.anyio
async def test_what_escalates_and_what_is_opened_in_an_emergency_is_told_to_the_deployment(
    service_url: str, tmp_path: Path, clock: FakeClock
) -> None:
    """When further people are asked, when an emergency's approval is first used, and when somebody has looked at it."""
    server, trusting = certificate(tmp_path, "events.example")
    async with receiving(server) as receiver:
        allow = f"events.example:{receiver.port}"
        wanted = {
            "endpoint": f"https://{allow}/security",
            "events": ["escalated", "emergency-used", "emergency-reviewed"],
            "keys": [CALLBACK_KEY],
            "allow_destinations": [allow],
        }
        outbound = Outbound(resolver=resolving, tls=trusting, timeout=5)
        changes = {"subscriptions": {"security": wanted}, "desk": {"administrators": ["board"]}}
        settings = settings_for(tmp_path, database=service_url, policy=ESCALATING, **changes)
        async with service_context(settings, clock=clock, outbound=outbound) as context:
            await context.database.write(lambda session: seed(session, clock()))
            await follow_subscriptions(context)
            world, courier = World(context, clock), Courier(context, jitter=lambda: 0.0)
            slow = await world.pending("plain")
            clock.advance(61)
            await context.database.write(
                lambda session: keep_time(context, session, session.get_one(Task, slow), now=clock())
            )
            urgent = {"emergency": True, "business_justification": "The vault is on fire."}
            opened = await world.pending("unlock", requested_access=urgent)
            approval = (await world.decide(opened, "bob")).approval
            assert approval is not None
            said = {"disposition": "approved-executed", "at": "2026-04-30T20:01:00Z", "generation": 1}
            await requests.report_on_approval(context, GATE, approval.id, said)
            judge = person("mo", scopes=frozenset({Scope.ADMIN, Scope.APPROVAL_READ}))
            await close_review(context, judge, approval.id, outcome="justified", note="It was.")
            await follow_subscriptions(context)
            await courier.round()
        told = {(each["event"], each["request"]) for each in map(json.loads, (one.body for one in receiver.received))}
    assert told == {("escalated", slow), ("emergency-used", opened), ("emergency-reviewed", opened)}
