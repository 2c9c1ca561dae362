"""Delivers callbacks: takes due rows of the outbox, signs, sends, and records what came of it.

At least once: a delivery that was sent but not recorded is sent again, with the same `webhook-id` and a new timestamp.
A delivery never changes the state of a task, and its failure is known to the operator alone (ARS-97). When to try again
is decided in `domain/delivery.py`, where we may call in `outbound.py`. Standard Webhooks; Access Request and Approval
Profile, callback companion (ARS-93 to ARS-97).
"""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Final

import anyio
from opentelemetry.trace import SpanKind
from pydantic import JsonValue

from arap_service import audit
from arap_service.context import Context
from arap_service.domain.delivery import (
    Answered,
    Blocked,
    Dead,
    Delivered,
    DeliveryState,
    DeliveryStatus,
    Disabled,
    Outcome,
    Retry,
    Silenced,
    Unreachable,
    after_attempt,
)
from arap_service.domain.notices import NoticeKind
from arap_service.outbound import DeliveryFailed, DestinationRefused
from arap_service.protocol.callback import sign
from arap_service.protocol.sealing import DataKey, SealBroken
from arap_service.requests.announcing import announce
from arap_service.settings_parts import Authenticated
from arap_service.store.database import WriteSession
from arap_service.store.deliveries import (
    add_attempt,
    finish_attempt,
    is_silenced,
    lease_due_deliveries,
    silence,
    task_of_delivery,
)
from arap_service.store.tables import Delivery, DeliveryAttempt
from arap_service.tracing import continued, current_traceparent, spanning

TOPIC: Final = "deliveries"
"""What to ring after committing a delivery."""
AT_ONCE: Final = 16
AT_ONCE_TO_ONE: Final = 4
_BATCH: Final = 4
_LEASE_MARGIN: Final = timedelta(seconds=20)

Decision = Delivered | Retry | Dead | Disabled


@dataclass(frozen=True, slots=True)
class Parcel:
    """A leased delivery with its body opened, None when the seal is broken; `silenced` if its receiver said 410."""

    delivery: Delivery
    body: bytes | None
    silenced: bool


class Courier:
    """Sends what is due; any number of couriers may work on one database."""

    def __init__(self, ctx: Context, *, jitter: Callable[[], float] = random.random, poll_seconds: float = 2.0) -> None:
        self._ctx = ctx
        self._jitter = jitter
        self._poll_seconds = poll_seconds
        self._owner = ctx.new_id("courier")
        self._sending: Counter[str] = Counter()
        self._freed = anyio.Event()

    async def run(self) -> None:
        """Deliver until cancelled; one slow receiver holds up nobody else."""
        with self._ctx.database.subscribe(TOPIC) as subscription:
            async with anyio.create_task_group() as group:
                while True:
                    try:
                        parcels = await self._lease() if self._sending.total() < AT_ONCE else None
                    except Exception:  # the top of a worker loop
                        self._ctx.log.exception("round_failed", loop="courier")
                        parcels = []
                    if parcels is None:
                        await self._freed.wait()
                        continue
                    for parcel in parcels:
                        group.start_soon(self._deliver, parcel)
                    if not parcels:
                        await subscription.wait(self._poll_seconds)

    async def round(self) -> int:
        """Deliver what is due now, and return how many attempts that were."""
        count = 0
        while parcels := await self._lease():
            async with anyio.create_task_group() as group:
                for parcel in parcels:
                    group.start_soon(self._deliver, parcel)
            count += len(parcels)
        return count

    async def _lease(self) -> list[Parcel]:
        ctx, now = self._ctx, self._ctx.clock()
        until = now + timedelta(seconds=ctx.settings.limits.callback_timeout_seconds) + _LEASE_MARGIN
        crowded = [endpoint for endpoint, count in self._sending.items() if count >= AT_ONCE_TO_ONE]

        def work(session: WriteSession) -> list[Parcel]:
            leased = lease_due_deliveries(
                session, owner=self._owner, now=now, until=until, limit=_BATCH, not_to=crowded
            )
            return [self._opened(session, delivery) for delivery in leased]

        parcels = await ctx.database.write(work)
        self._sending.update(parcel.delivery.endpoint for parcel in parcels)
        return parcels

    def _opened(self, session: WriteSession, delivery: Delivery) -> Parcel:
        task, silenced = task_of_delivery(session, delivery), is_silenced(session, delivery)
        try:
            key = DataKey(self._ctx.ring, task.data_key, f"task:{task.id}:data_key")
            body = key.open(delivery.body_sealed, aad=f"delivery:{delivery.id}:body_sealed")
        except SealBroken:
            body = None
        return Parcel(delivery, body, silenced)

    async def _deliver(self, parcel: Parcel) -> None:
        endpoint = parcel.delivery.endpoint
        try:
            self._ctx.checkpoint("courier.before_send")
            with spanning(
                self._ctx.tracer,
                "arap.deliver",
                kind=SpanKind.CLIENT,
                parent=continued(parcel.delivery.traceparent),
                attributes={"arap.delivery_id": parcel.delivery.id, "arap.event": parcel.delivery.event},
            ) as span:
                outcome = await self._send(parcel)
                span.set_attribute("arap.outcome", _error(outcome) or "accepted")
            self._ctx.checkpoint("courier.after_send")
            await self._record(parcel.delivery, outcome)
        except Exception:  # the top of a worker; the lease ends and the delivery is tried again
            self._ctx.log.exception("delivery_attempt_lost", delivery_id=parcel.delivery.id)
        finally:
            self._sending[endpoint] -= 1
            if not self._sending[endpoint]:
                del self._sending[endpoint]
            self._freed.set()
            self._freed = anyio.Event()

    async def _send(self, parcel: Parcel) -> Outcome:
        delivery, now = parcel.delivery, self._ctx.clock()
        configured = self._configured(delivery)
        if configured is None:
            return Blocked("not_registered")
        if parcel.silenced:
            return Silenced()
        if parcel.body is None:
            return Blocked("unreadable")
        headers = _headers(delivery.id, parcel.body, configured, now=now)
        try:
            answer = await self._ctx.outbound.post(
                delivery.endpoint, content=parcel.body, headers=headers, allow=configured.allow_destinations
            )
        except DestinationRefused as refused:
            # A name that doesn't resolve may do so later; a forbidden address stays one.
            return Unreachable(refused.code) if refused.code == "unresolvable" else Blocked(refused.code)
        except DeliveryFailed as failed:
            return Unreachable(failed.code)
        return Answered(answer.status, _seconds(answer.retry_after, now=self._ctx.clock()))

    def _configured(self, delivery: Delivery) -> Authenticated | None:
        """How its receiver is called now; None when it is not to be called any more."""
        settings = self._ctx.settings
        if delivery.subscription is not None:
            subscribed = settings.subscriptions.get(delivery.subscription)
            return subscribed if subscribed is not None and subscribed.endpoint == delivery.endpoint else None
        registered = settings.callbacks.get(delivery.client_id)
        return registered if registered is not None and delivery.endpoint in registered.endpoints else None

    async def _record(self, delivery: Delivery, outcome: Outcome) -> None:
        now = self._ctx.clock()
        state = DeliveryState(
            attempts=delivery.attempts + 1 - delivery.earlier_attempts,
            created_at=delivery.restarted_at or delivery.created_at,
        )
        decision = after_attempt(state, outcome, now=now, jitter=self._jitter())
        await self._ctx.database.write(
            lambda session: _recorded(self._ctx, session, delivery, outcome, decision, now=now)
        )
        self._ctx.metrics.attempted(_status(decision).value)
        self._ctx.log.info(
            "callback_attempted",
            delivery_id=delivery.id,
            task_id=delivery.task_id,
            attempt=delivery.attempts + 1,
            outcome=type(decision).__name__.lower(),
            error=_error(outcome),
        )


def _recorded(
    ctx: Context, session: WriteSession, delivery: Delivery, outcome: Outcome, decision: Decision, *, now: datetime
) -> None:
    status = _status(decision)
    error = _error(outcome)
    is_final = status is not DeliveryStatus.PENDING
    held = finish_attempt(
        session,
        delivery,
        status=status,
        next_at=decision.at if isinstance(decision, Retry) else delivery.next_at,
        finished_at=now if is_final else None,
        error=error,
    )
    if not held:
        return
    add_attempt(
        session,
        DeliveryAttempt(
            delivery_id=delivery.id,
            number=delivery.attempts + 1,
            at=now,
            outcome=status,
            http_status=outcome.status if isinstance(outcome, Answered) else None,
            error=error,
        ),
    )
    if isinstance(outcome, Answered) and status is DeliveryStatus.DISABLED:
        silence(session, delivery, now=now)
    operators = ctx.settings.desk.operators
    if operators and status is DeliveryStatus.DEAD:
        task, kind = task_of_delivery(session, delivery), NoticeKind.DELIVERY_FAILED
        announce(ctx, session, kind, task, now=now, about=delivery.id, groups=operators)
    if is_final:
        detail: dict[str, JsonValue] = {
            "delivery": delivery.id,
            "subscription": delivery.subscription,
            "event": delivery.event,
            "attempts": delivery.attempts + 1,
            "error": error,
        }
        audit.append(session, delivery.task_id, kind=f"callback_{status}", actor="courier", detail=detail, now=now)


def _headers(webhook_id: str, body: bytes, configured: Authenticated, *, now: datetime) -> dict[str, str]:
    headers = {"Content-Type": "application/json", "User-Agent": "arap-courier"}
    if configured.keys:
        headers |= sign(body, webhook_id=webhook_id, at=now, keys=configured.signing_keys)
    if configured.bearer is not None:
        headers["Authorization"] = f"Bearer {configured.bearer.get_secret_value()}"
    traceparent = current_traceparent()
    return headers if traceparent is None else headers | {"traceparent": traceparent}


def _status(decision: Decision) -> DeliveryStatus:
    match decision:
        case Delivered():
            return DeliveryStatus.DELIVERED
        case Retry():
            return DeliveryStatus.PENDING
        case Dead():
            return DeliveryStatus.DEAD
        case Disabled():
            return DeliveryStatus.DISABLED


def _error(outcome: Outcome) -> str | None:
    match outcome:
        case Answered(status=status):
            return None if 200 <= status < 300 else f"status_{status}"
        case Unreachable(reason=reason) | Blocked(reason=reason):
            return reason
        case Silenced():
            return "endpoint_disabled"


def _seconds(retry_after: str | None, *, now: datetime) -> int | None:
    """Retry-After in seconds from now, whichever of its two forms was used; None for anything else."""
    if retry_after is None:
        return None
    if retry_after.isascii() and retry_after.isdigit():
        return int(retry_after[:9])
    try:
        at = parsedate_to_datetime(retry_after)
    except (ValueError, TypeError, OverflowError):  # whatever the receiver wrote, it is not for us to fail over
        return None
    return max(0, int((at - now).total_seconds())) if at.tzinfo is not None else None
