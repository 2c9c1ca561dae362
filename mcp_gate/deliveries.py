"""Brings what the outbox holds to the backend: cancellations, execution reports, answers. At least once, in any order.

Each row was written in the transaction that made it true. Whether one arrives never changes what the gate does
(PEP-115).
"""

from datetime import UTC
from typing import Any

import structlog

from mcp_gate.backend import Accepted, AnswerRefused, BackendUnavailable, Handle
from mcp_gate.core import Core
from mcp_gate.limits import backoff
from mcp_gate.records import DueDelivery
from mcp_gate.tables import Delivery, DeliveryState

log = structlog.get_logger(__name__)


class Deliveries:
    """The courier of one engine."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def deliver(self) -> int:
        """Brings everything that is due, and says how much that was."""
        core = self._core
        due = await core.duty.deliveries(core.clock(), lease=core.limits.lease)
        for delivery in due:
            await self._attempt(delivery)
        return len(due)

    async def _attempt(self, delivery: DueDelivery) -> None:
        core = self._core
        try:
            await self._bring(delivery)
        except BackendUnavailable:
            now = core.clock()
            dead = now >= delivery.created_at + core.limits.delivery
            wait = backoff(
                delivery.attempts, first=core.limits.poll_first, most=core.limits.poll_most * 10, jitter=core.jitter
            )
            state = DeliveryState.DEAD if dead else DeliveryState.WAITING
            log.warning("delivery_failed", task_id=delivery.task_id, kind=delivery.kind, state=state)
            await core.duty.settle(delivery, state=state, due_at=now + wait)
        except AnswerRefused:
            log.warning("answer_refused", task_id=delivery.task_id)
            await core.store.take_back_answer(delivery.task_id, delivery.reference or "")
            await core.duty.settle(delivery, state=DeliveryState.DEAD, due_at=core.clock())
        else:
            await core.duty.settle(delivery, state=DeliveryState.SENT, due_at=core.clock())

    async def _bring(self, delivery: DueDelivery) -> None:
        core = self._core
        handle = await self._handle(delivery)
        if handle is None:
            log.warning("delivery_has_no_addressee", task_id=delivery.task_id, kind=delivery.kind)
            return
        match delivery.kind:
            case Delivery.CANCEL:
                await core.backend.cancel(handle)
            case Delivery.REPORT:
                core.checkpoint("report.before_send")
                await core.backend.report(handle, _report(delivery))
            case Delivery.ANSWER:
                for question in await core.store.questions(delivery.task_id):
                    if question.key == delivery.reference and question.answer is not None:
                        await core.backend.answer(handle, question.version, question.answer)

    async def _handle(self, delivery: DueDelivery) -> Handle | None:
        """The handle to speak about; one that was never received is recovered under its key (PEP-59)."""
        core = self._core
        sent = await core.store.handle_of(delivery.task_id, delivery.generation)
        if sent is None or sent.handle is not None:
            return None if sent is None else sent.handle
        if sent.body is None or not core.is_repeatable(sent):
            return None
        answer = await core.backend.submit(sent.body, key=sent.key)
        if not isinstance(answer, Accepted):
            return None
        await core.store.keep_handle(delivery.task_id, delivery.generation, answer.handle)
        return answer.handle


def _report(delivery: DueDelivery) -> dict[str, Any]:
    at = delivery.created_at.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return {"disposition": delivery.reference, "at": at, "generation": delivery.generation}
