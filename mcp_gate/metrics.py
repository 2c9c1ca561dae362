"""What the gate counts and measures, in the text format of Prometheus.

Decisions and the backend's latency are counted in this process by `Metered`, which stands between the engine and the
backend; what is open and how it ended comes from the database, alike from every instance. Labels are words of ours and
of the lifecycle: no tool, task, principal or address is among them. Design section 8.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from pydantic import JsonValue

from mcp_gate.backend import (
    Accepted,
    AnswerRefused,
    ApprovalBackend,
    BackendStatus,
    Denial,
    Handle,
    Permit,
    Refused,
)
from mcp_gate.figures import Figures
from mcp_gate.lifecycle import Ending, Phase

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """The counters of one process, and how to write them down; `seconds` is a clock that only goes forward."""

    def __init__(self, *, seconds: Callable[[], float] = time.perf_counter) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._seconds = seconds
        self._decisions = Counter(
            "mcp_gate_decisions",
            "Answers of the decision point, by outcome (permit, deny, retry, request, unavailable).",
            ("outcome", "with_approval"),
            registry=self._registry,
        )
        self._latency = Histogram(
            "mcp_gate_backend_seconds",
            "Time of one exchange with the backend, by what was asked of it and whether it answered.",
            ("exchange", "answered"),
            buckets=_SECONDS,
            registry=self._registry,
        )
        self.is_backend_answering: bool | None = None
        """Whether the last exchange with the backend was answered; None before the first."""

    def decided(self, outcome: str, *, with_approval: bool) -> None:
        """Count one decision."""
        self._decisions.labels(outcome, str(with_approval).lower()).inc()

    @contextmanager
    def exchange(self, kind: str) -> Iterator[None]:
        """Measure one exchange; what it raises goes on."""
        began, answered = self._seconds(), False
        try:
            yield
            answered = True
        except AnswerRefused:
            answered = True
            raise
        finally:
            self.is_backend_answering = answered
            self._latency.labels(kind, str(answered).lower()).observe(self._seconds() - began)

    def written(self, stored: Figures, *, now: datetime) -> bytes:
        """Everything, with what the database says at `now`."""
        both = CollectorRegistry()
        both.register(_Both(self._registry, stored, now))
        return generate_latest(both)


class _Both(Collector):
    def __init__(self, counted: CollectorRegistry, stored: Figures, now: datetime) -> None:
        self._counted, self._stored, self._now = counted, stored, now

    def collect(self) -> Iterator[Metric]:
        yield from self._counted.collect()
        is_open = {found.phase: found for found in self._stored.open}
        count = GaugeMetricFamily("mcp_gate_open_tasks", "Tasks that have not ended, by phase.", labels=["phase"])
        age = GaugeMetricFamily(
            "mcp_gate_oldest_open_task_seconds", "Age of the oldest task in each phase, 0 if none.", labels=["phase"]
        )
        for phase in Phase:
            if phase is Phase.DONE:
                continue
            found = is_open.get(phase)
            count.add_metric([phase.value], 0 if found is None else found.count)
            since = 0.0 if found is None else (self._now - found.oldest).total_seconds()
            age.add_metric([phase.value], max(since, 0.0))
        ended = GaugeMetricFamily(
            "mcp_gate_kept_tasks", "Ended tasks that are not purged yet, by how they ended.", labels=["ending"]
        )
        for ending in Ending:
            ended.add_metric([ending.value], self._stored.ended.get(ending.value, 0))
        outbox = GaugeMetricFamily(
            "mcp_gate_deliveries", "Cancellations, reports and answers for the backend, by state.", labels=["state"]
        )
        outbox.add_metric(["waiting"], self._stored.waiting)
        outbox.add_metric(["dead"], self._stored.dead)
        yield from (count, age, ended, outbox)


class Metered:
    """An `ApprovalBackend` that counts and measures what the one behind it does, and changes nothing."""

    def __init__(self, backend: ApprovalBackend, metrics: Metrics) -> None:
        self._backend = backend
        self._metrics = metrics

    async def evaluate(
        self, question: Mapping[str, JsonValue], *, approval: Mapping[str, JsonValue] | None = None
    ) -> Permit | Denial:
        """See `ApprovalBackend.evaluate`."""
        outcome = "unavailable"
        try:
            with self._metrics.exchange("evaluate"):
                decision = await self._backend.evaluate(question, approval=approval)
            outcome = _outcome(decision)
            return decision
        finally:
            self._metrics.decided(outcome, with_approval=approval is not None)

    def submission_body(
        self,
        question: Mapping[str, JsonValue],
        denial: Denial,
        *,
        requested_access: Mapping[str, JsonValue] | None = None,
        callback_state: str | None = None,
    ) -> bytes:
        """See `ApprovalBackend.submission_body`."""
        return self._backend.submission_body(
            question, denial, requested_access=requested_access, callback_state=callback_state
        )

    async def submit(self, body: bytes, *, key: str) -> Accepted | Refused:
        """See `ApprovalBackend.submit`."""
        with self._metrics.exchange("submit"):
            return await self._backend.submit(body, key=key)

    async def status(self, handle: Handle) -> BackendStatus:
        """See `ApprovalBackend.status`."""
        with self._metrics.exchange("status"):
            return await self._backend.status(handle)

    async def cancel(self, handle: Handle) -> None:
        """See `ApprovalBackend.cancel`."""
        with self._metrics.exchange("cancel"):
            await self._backend.cancel(handle)

    async def report(self, handle: Handle, body: Mapping[str, JsonValue]) -> None:
        """See `ApprovalBackend.report`."""
        with self._metrics.exchange("report"):
            await self._backend.report(handle, body)

    async def answer(self, handle: Handle, version: int, answer: Mapping[str, JsonValue]) -> None:
        """See `ApprovalBackend.answer`."""
        with self._metrics.exchange("answer"):
            await self._backend.answer(handle, version, answer)


def _outcome(decision: Permit | Denial) -> str:
    if isinstance(decision, Permit):
        return "permit"
    if decision.requestable:
        return "request"
    return "retry" if decision.next_action == "retry" else "deny"
