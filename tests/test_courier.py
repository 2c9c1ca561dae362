"""Delivery of callbacks: ARS-88 to ARS-97, to a real receiver over TLS, with a clock that stands still."""

import base64
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest
from sqlmodel import col, select, update

from arap_service.audit import Broken, entries_of, verify_chain
from arap_service.context import Context
from arap_service.courier import Courier
from arap_service.domain.delivery import SCHEDULE_SECONDS
from arap_service.outbound import Outbound
from arap_service.protocol.callback import CallbackRejected, verify
from arap_service.settings_parts import CallbackSettings
from arap_service.store.tables import Delivery, DeliveryAttempt, Task
from tests.clock import FakeClock
from tests.peers import POLICY, Peers, peers
from tests.receiver import Receiver, certificate, receiving, status
from tests.service import service_context, settings_for

KEYS = [b"the newer key of the two, 32 by.", b"the older key of the two, 32 by."]


@dataclass(frozen=True, slots=True)
class Post:
    """A service whose gate wants to be called back at `receiver`, and a courier that works for it."""

    context: Context
    peers: Peers
    receiver: Receiver
    url: str
    courier: Courier

    async def decided(self, decision: str = "approve", **callback: Any) -> str:
        """Id of a request that was decided just now, with a callback."""
        task = await self.peers.task(callback={"endpoint": self.url, **callback})
        assert (await self.peers.decide(task["id"], decision)).status_code == 200
        return str(task["id"])

    def deliveries(self) -> list[Delivery]:
        """All of them, the oldest first."""
        return self.context.database.read_now(
            lambda session: list(session.exec(select(Delivery).order_by(col(Delivery.created_at), col(Delivery.id))))
        )

    def attempts(self) -> list[DeliveryAttempt]:
        """All attempts of all deliveries."""
        return self.context.database.read_now(
            lambda session: list(session.exec(select(DeliveryAttempt).order_by(col(DeliveryAttempt.number))))
        )


def callback_settings(url: str, port: int, **changes: Any) -> dict[str, Any]:
    values = {
        "endpoints": [url],
        "keys": [base64.b64encode(key).decode() for key in KEYS],
        "allow_destinations": [f"gate.example:{port}"],
    }
    return values | changes


async def resolving(host: str, port: int) -> list[str]:
    return {"gate.example": ["127.0.0.1"], "public.example": ["93.184.216.34"]}[host]


@pytest.fixture
async def post(service_url: str, tmp_path: Path, clock: FakeClock) -> AsyncIterator[Post]:
    server, trusting = certificate(tmp_path, "gate.example")
    async with receiving(server) as receiver:
        url = f"https://gate.example:{receiver.port}/callbacks/arap"
        callbacks = {"gate": callback_settings(url, receiver.port)}
        settings = settings_for(tmp_path, database=service_url, policy=POLICY, callbacks=callbacks)
        outbound = Outbound(resolver=resolving, tls=trusting, timeout=5)
        async with service_context(settings, clock=clock, outbound=outbound) as context:
            both = peers(context)
            yield Post(context, both, receiver, url, Courier(context, jitter=lambda: 0.0))
            await both.aclose()


@pytest.mark.anyio
@pytest.mark.requirement("ARS-93", "ARS-94", "ARS-95", "ARS-96")
async def test_notification_arrives_signed_by_both_keys_with_the_state_as_it_was_given(
    post: Post, clock: FakeClock
) -> None:
    state = 'ünïcode \\ "quotes" \u2028 and\ttabs'
    task_id = await post.decided(state=state)
    assert await post.courier.round() == 1
    [received] = post.receiver.received
    body = json.loads(received.body)
    assert body.keys() == {"task", "state"}
    assert (body["task"]["id"], body["task"]["status"], body["state"]) == (task_id, "approved", state)
    for key in KEYS:
        verify(received.body, received.headers, keys=[key], now=clock())
    for changed, headers, now in (
        (received.body + b" ", received.headers, clock()),
        (received.body, received.headers | {"webhook-id": "msg_other"}, clock()),
        (received.body, received.headers, clock() + timedelta(minutes=6)),
    ):
        with pytest.raises(CallbackRejected):
            verify(changed, headers, keys=KEYS, now=now)
    [delivery] = post.deliveries()
    assert (delivery.status, delivery.attempts, delivery.lease_owner) == ("delivered", 1, None)
    assert received.headers["webhook-id"] == delivery.id


@pytest.mark.anyio
@pytest.mark.requirement("ARS-95")
async def test_bearer_token_is_sent_where_that_is_what_was_agreed(
    service_url: str, tmp_path: Path, clock: FakeClock
) -> None:
    server, trusting = certificate(tmp_path, "gate.example")
    async with receiving(server) as receiver:
        url = f"https://gate.example:{receiver.port}/cb"
        configured = callback_settings(url, receiver.port, keys=[], bearer="sesame open")
        settings = settings_for(tmp_path, database=service_url, policy=POLICY, callbacks={"gate": configured})
        outbound = Outbound(resolver=resolving, tls=trusting)
        async with service_context(settings, clock=clock, outbound=outbound) as context:
            both = peers(context)
            post = Post(context, both, receiver, url, Courier(context))
            await post.decided()
            await post.courier.round()
            await both.aclose()
    [received] = receiver.received
    assert received.headers["authorization"] == "Bearer sesame open"
    assert "webhook-signature" not in received.headers


@pytest.mark.anyio
@pytest.mark.requirement("ARS-92")
async def test_only_the_wanted_events_are_sent_and_all_of_them_when_none_is_named(post: Post) -> None:
    await post.decided("deny", events=["approved"])
    assert await post.courier.round() == 0
    task_id = await post.decided("deny")
    assert await post.courier.round() == 1
    assert json.loads(post.receiver.received[0].body)["task"]["id"] == task_id


@pytest.mark.anyio
@pytest.mark.requirement("ARS-97")
async def test_failed_delivery_is_tried_again_with_the_same_id_and_a_new_timestamp_until_it_is_given_up(
    post: Post, clock: FakeClock
) -> None:
    """The task stays approved whatever becomes of the callback; the operator sees a dead letter and why."""
    task_id = await post.decided()
    post.receiver.answer(status(500))
    waits: list[float] = []
    [delivery] = post.deliveries()
    for _ in range(len(SCHEDULE_SECONDS) + 1):
        assert await post.courier.round() == 1
        [delivery] = post.deliveries()
        if delivery.status != "pending":
            break
        waits.append((delivery.next_at - clock()).total_seconds())
        clock.advance(waits[-1] - 1)
        assert await post.courier.round() == 0
        clock.advance(1)
    assert waits == sorted(waits)
    assert waits == list(SCHEDULE_SECONDS[: len(waits)])
    assert (delivery.status, delivery.last_error, delivery.finished_at) == ("dead", "status_500", clock())
    assert len({received.headers["webhook-id"] for received in post.receiver.received}) == 1
    assert len({received.headers["webhook-timestamp"] for received in post.receiver.received}) == len(waits) + 1
    assert len({received.body for received in post.receiver.received}) == 1
    assert [attempt.number for attempt in post.attempts()] == list(range(1, len(waits) + 2))
    assert {attempt.http_status for attempt in post.attempts()} == {500}
    read = post.context.database.read_now
    entries = read(lambda session: [entry.kind for entry in entries_of(session, task_id)])
    assert entries[-1] == "callback_dead"
    assert not isinstance(read(lambda session: verify_chain(session, task_id)), Broken)
    assert read(lambda session: session.get_one(Task, task_id).status) == "approved"
    clock.advance(86_400)
    assert await post.courier.round() == 0


@pytest.mark.parametrize(
    ("answer", "wait"),
    [
        (status(503, "Retry-After: 90"), 90),
        (status(429, "Retry-After: Thu, 30 Apr 2026 20:02:00 GMT"), 120),
        (status(503, "Retry-After: 999999999999"), 86_400),
        (status(503, "Retry-After: soon"), 5),
        (status(503, "Retry-After: Mon, 99999999999999999999 Jan 2026 00:00:00 GMT"), 5),
        (status(503, "Retry-After: Mon, 01 Jan 99999999999999999999 00:00:00 GMT"), 5),
        (status(503, "Retry-After: Mon, 01 Jan 2026 00:00:00 +99999999999999999999"), 5),
        (status(503, "Retry-After: Fri, 31 Dec 9999 23:59:59 -2359"), 86_400),
        (status(503, "Retry-After: 1"), 5),
        (status(301, "Location: https://evil.example/"), 5),
        (b"", 5),
    ],
)
@pytest.mark.anyio
async def test_receiver_may_ask_for_patience_within_limits(
    answer: bytes, wait: int, post: Post, clock: FakeClock
) -> None:
    """RFC 9110 section 10.2.3, both forms; a cut connection and a redirect count as failures like any other."""
    await post.decided()
    post.receiver.answer(answer)
    await post.courier.round()
    [delivery] = post.deliveries()
    assert delivery.status == "pending"
    assert (delivery.next_at - clock()).total_seconds() == wait


@pytest.mark.anyio
async def test_receiver_that_is_gone_gets_nothing_further(post: Post, clock: FakeClock) -> None:
    await post.decided()
    post.receiver.answer(status(410))
    await post.courier.round()
    [delivery] = post.deliveries()
    assert (delivery.status, delivery.last_error) == ("disabled", "status_410")
    clock.advance(86_400)
    assert await post.courier.round() == 0


@pytest.mark.anyio
@pytest.mark.requirement("ARS-88", "ARS-90")
async def test_destination_is_judged_again_at_the_moment_of_dialling(post: Post, clock: FakeClock) -> None:
    """Between submission and delivery the registration was withdrawn, or the allow-list lost the address."""
    await post.decided()
    settings = post.context.settings
    unlisted = CallbackSettings.model_validate(callback_settings(post.url, post.receiver.port, allow_destinations=[]))
    other = CallbackSettings.model_validate(callback_settings("https://other.example/cb", post.receiver.port))
    for callbacks, error in (({}, "not_registered"), ({"gate": other}, "not_registered"), ({"gate": unlisted}, "port")):
        changed = replace(post.context, settings=settings.model_copy(update={"callbacks": callbacks}))
        reset(post)
        assert await Courier(changed).round() == 1
        assert [(each.status, each.last_error) for each in post.deliveries()] == [("dead", error)]
    assert post.receiver.connections == 0


def reset(post: Post) -> None:
    def work(session: Any) -> None:
        session.execute(update(Delivery).values(status="pending", finished_at=None, attempts=0))
        for attempt in session.exec(select(DeliveryAttempt)):
            session.delete(attempt)

    post.context.database.write_now(work)


@pytest.mark.anyio
async def test_name_that_does_not_resolve_now_may_do_so_later(post: Post, clock: FakeClock) -> None:
    await post.decided()

    async def failing(host: str, port: int) -> list[str]:
        raise OSError

    lost = replace(post.context, outbound=Outbound(resolver=failing))
    await Courier(lost).round()
    assert [(each.status, each.last_error) for each in post.deliveries()] == [("pending", "unresolvable")]
    clock.advance(SCHEDULE_SECONDS[0])
    assert await post.courier.round() == 1
    assert [each.status for each in post.deliveries()] == ["delivered"]


@pytest.mark.anyio
async def test_two_couriers_send_each_delivery_once(post: Post) -> None:
    for _ in range(6):
        await post.decided()
    other = Courier(post.context)
    async with anyio.create_task_group() as group:
        group.start_soon(post.courier.round)
        group.start_soon(other.round)
    ids = [received.headers["webhook-id"] for received in post.receiver.received]
    assert len(ids) == len(set(ids)) == 6
    assert {each.status for each in post.deliveries()} == {"delivered"}


@pytest.mark.anyio
@pytest.mark.requirement("ARS-97")
async def test_delivery_of_a_courier_that_died_is_sent_again_under_the_same_id(post: Post, clock: FakeClock) -> None:
    """Died between sending and recording: the receiver gets it twice and can tell by the id."""
    await post.decided()

    def dying(name: str) -> None:
        if name == "courier.after_send":
            raise RuntimeError

    await Courier(replace(post.context, checkpoint=dying)).round()
    assert [each.status for each in post.deliveries()] == ["pending"]
    assert await post.courier.round() == 0
    clock.advance(post.context.settings.limits.callback_timeout_seconds + 20)
    assert await post.courier.round() == 1
    assert len(post.receiver.received) == 2
    assert len({received.headers["webhook-id"] for received in post.receiver.received}) == 1


@pytest.mark.anyio
async def test_delivery_whose_seal_is_broken_is_a_dead_letter_and_holds_nobody_up(post: Post, clock: FakeClock) -> None:
    await post.decided()
    post.context.database.write_now(lambda session: session.execute(update(Delivery).values(body_sealed=b"tampered")))
    clock.advance(1)
    await post.decided()
    assert await post.courier.round() == 2
    assert [(each.status, each.last_error) for each in post.deliveries()] == [
        ("dead", "unreadable"),
        ("delivered", None),
    ]


@pytest.mark.anyio
async def test_running_courier_is_woken_by_the_decision(post: Post) -> None:
    """It would look again by itself only after an hour."""
    with anyio.fail_after(40):
        async with anyio.create_task_group() as group:
            group.start_soon(Courier(post.context, poll_seconds=3600).run)
            task_id = await post.decided()
            received = await post.receiver.arrivals.get()
            group.cancel_scope.cancel()
    assert json.loads(received.body)["task"]["id"] == task_id


@pytest.mark.anyio
@pytest.mark.requirement("ARS-88", "ARS-91", "ARS-92")
async def test_callback_that_is_not_acceptable_fails_the_submission(post: Post, clock: FakeClock) -> None:
    """Another client's endpoint, a longer path, an unknown event, and the unregistered row of ssrf.json."""
    for callback in (
        {"endpoint": "https://registered.example.com.attacker.test/cb"},
        {"endpoint": post.url + "/more"},
        {"endpoint": post.url.upper()},
        {"endpoint": post.url, "events": ["exploded"]},
    ):
        refused = await post.peers.submit(callback=callback)
        assert refused.status_code == 400
        assert refused.json()["type"] == "urn:x-arap:problem:callback-rejected"
    stranger = post.peers.stranger
    foreign = await replace(post.peers, gate=stranger).submit(callback={"endpoint": post.url})
    assert foreign.json()["type"] == "urn:x-arap:problem:callback-rejected"
    assert post.context.database.read_now(lambda session: session.exec(select(Task)).all()) == []
