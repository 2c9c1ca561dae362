"""What the service counts and measures, in the text format of Prometheus.

Two kinds: counters of this process (requests, evaluations, decisions, refusals for haste), which a monitoring system
adds up over instances and restarts, and figures of the database (what is open, what is stuck), which every instance
reports alike. Labels are route templates, codes of ours and the templates of the rules in force, so their number is
bounded and nothing of a person, a client or a request is among them. How figures are read is in
`store/operation.py`, who may see them in `api/health.py`. See design.md section 2.
"""

from collections import Counter as Tally
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from arap_service.store.operation import AuditLog, Backlog, OpenTasks

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
OTHER: Final = "other"
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True, slots=True)
class Stored:
    """What the database says at one moment."""

    tasks: tuple[OpenTasks, ...]
    backlog: Backlog
    audit: AuditLog
    at: datetime
    overdue_reviews: int = 0


@dataclass(frozen=True, slots=True)
class InForce:
    """The rules: their version, whether a newer file is refused, and the names that may be labels."""

    version: str
    is_newer_refused: bool
    templates: Collection[str]


class Metrics:
    """The counters of one process and how to write them down."""

    def __init__(self, limits: Mapping[str, int]) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        counted = partial(Counter, registry=self._registry)
        self._requests = counted(
            "arap_http_requests",
            "Answered requests by route template, method and class of status.",
            ("route", "method", "status"),
        )
        self._seconds = Histogram(
            "arap_http_request_seconds",
            "Time from a request to the end of its answer, by route template.",
            ("route",),
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._evaluations = counted(
            "arap_evaluations",
            "Evaluations by what was presented (nothing, approval) and by outcome.",
            ("presented", "outcome"),
        )
        self._votes = counted(
            "arap_decisions",
            "Decisions of reviewers and resolvers that counted, by outcome and by the way they came.",
            ("decision", "channel"),
        )
        self._ended = counted(
            "arap_requests_ended",
            "Access requests that ended, by status and by the rule that ended them.",
            ("status", "by"),
        )
        self._attempts = counted(
            "arap_callback_attempts", "Attempts to deliver a callback, by what became of the delivery.", ("outcome",)
        )
        self._notices = counted(
            "arap_notices",
            "Messages to people that were tried, by channel and outcome (sent, failed).",
            ("channel", "outcome"),
        )
        self._limited = counted(
            "arap_rate_limited", "What this process refused because its caller was too fast, by kind.", ("kind",)
        )
        self._provider_failures = counted(
            "arap_login_provider_failures", "Times that the OpenID provider gave no usable answer to a log-in or -out."
        )
        self.limits: Final = dict(limits)
        self._answers: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        self._outcomes: dict[tuple[str, str], Counter] = {}

    def answered(self, route: str | None, method: str, status: int, *, seconds: float) -> None:
        """Count one answer; `route` is a template, None where no route was found."""
        key = (route or OTHER, method if method in _METHODS else OTHER, status // 100)
        found = self._answers.get(key)
        if found is None:  # looking labels up costs more than counting
            name, verb, hundreds = key
            found = (self._requests.labels(name, verb, f"{hundreds}xx"), self._seconds.labels(name))
            self._answers[key] = found
        found[0].inc()
        found[1].observe(seconds)

    def evaluated(self, outcome: str, *, presented: str = "nothing") -> None:
        """Count one evaluation."""
        found = self._outcomes.get((presented, outcome))
        if found is None:
            found = self._outcomes[presented, outcome] = self._evaluations.labels(presented, outcome)
        found.inc()

    def decided(self, decision: str, channel: str) -> None:
        """Count one vote."""
        self._votes.labels(decision, channel).inc()

    def ended(self, status: str, by: str) -> None:
        """Count one request that came to its end."""
        self._ended.labels(status, by).inc()

    def attempted(self, outcome: str) -> None:
        """Count one attempt of the courier."""
        self._attempts.labels(outcome).inc()

    def told(self, channel: str, outcome: str) -> None:
        """Count one message to somebody that was tried."""
        self._notices.labels(channel, outcome).inc()

    def limited(self, kind: str) -> None:
        """Count one refusal for haste."""
        self._limited.labels(kind).inc()

    def provider_failed(self) -> None:
        """Count one time that the provider gave no usable answer."""
        self._provider_failures.inc()

    def exposition(self, rules: InForce, stored: Stored | None) -> bytes:
        """Everything as text; without `stored` the database could not be read, and the figures of it are missing."""
        own = CollectorRegistry()
        own.register(_Figures(rules, stored, self.limits))
        return generate_latest(self._registry) + generate_latest(own)


class _Figures(Collector):
    """Figures that are read when they are asked for."""

    def __init__(self, rules: InForce, stored: Stored | None, limits: Mapping[str, int]) -> None:
        self._rules = rules
        self._stored = stored
        self._limits = limits

    def collect(self) -> Iterator[Metric]:
        rules = GaugeMetricFamily("arap_policy_info", "The rules in force, by version.", labels=("version",))
        rules.add_metric((self._rules.version[:12],), 1)
        yield rules
        yield GaugeMetricFamily(
            "arap_policy_refused",
            "1 while the rules file on disk is refused and older rules stay in force.",
            value=float(self._rules.is_newer_refused),
        )
        limits = GaugeMetricFamily(
            "arap_rate_limit_per_minute",
            "How often one caller may do this at each instance, by kind; every process counts for itself.",
            labels=("kind",),
        )
        for kind, most in sorted(self._limits.items()):
            limits.add_metric((kind,), most)
        yield limits
        yield GaugeMetricFamily(
            "arap_database_up", "1 if the database could be read just now.", value=float(self._stored is not None)
        )
        if self._stored is not None:
            yield from _tasks(self._stored, self._rules.templates)
            yield from _deliveries(self._stored)
            yield from _audit(self._stored)


def _tasks(stored: Stored, templates: Collection[str]) -> Iterator[Metric]:
    counts: Tally[str] = Tally(dict.fromkeys(templates, 0))
    for each in stored.tasks:
        # A template that was dropped from the rules would stay a label for ever.
        counts[each.template_id if each.template_id in templates else OTHER] += each.count
    tasks = GaugeMetricFamily("arap_open_requests", "Pending access requests, by template.", labels=("template",))
    for template_id, count in sorted(counts.items()):
        tasks.add_metric((template_id,), count)
    yield tasks
    yield GaugeMetricFamily(
        "arap_overdue_reviews",
        "Emergencies that were used and whose review should be done by now.",
        value=stored.overdue_reviews,
    )
    yield GaugeMetricFamily(
        "arap_oldest_open_request_seconds",
        "How long the oldest pending access request has been waiting; 0 if none is.",
        value=_age(min((each.oldest for each in stored.tasks), default=None), stored.at),
    )


def _deliveries(stored: Stored) -> Iterator[Metric]:
    found = stored.backlog
    deliveries = GaugeMetricFamily("arap_deliveries", "Callback deliveries that are not done.", labels=("state",))
    for state, count in (("waiting", found.waiting), ("dead", found.dead), ("disabled", found.disabled)):
        deliveries.add_metric((state,), count)
    yield deliveries
    yield GaugeMetricFamily(
        "arap_oldest_delivery_seconds",
        "How long the oldest waiting delivery has been waiting; 0 if none is.",
        value=_age(found.oldest, stored.at),
    )


def _audit(stored: Stored) -> Iterator[Metric]:
    found = stored.audit
    yield GaugeMetricFamily("arap_audit_entries", "Entries of the audit log.", value=found.entries)
    yield GaugeMetricFamily(
        "arap_audit_signed_entries", "Entries of the audit log that a signed checkpoint covers.", value=found.covered
    )
    yield GaugeMetricFamily(
        "arap_audit_checkpoint_age_seconds",
        "How long ago the newest checkpoint was signed; 0 while there is none.",
        value=_age(found.signed_at, stored.at),
    )


def _age(since: datetime | None, now: datetime) -> float:
    return 0.0 if since is None else max(0.0, (now - since).total_seconds())
