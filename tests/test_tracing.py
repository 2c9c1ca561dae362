"""Spans join the caller's trace and hold codes only: OpenTelemetry is set up as an operator would, and read back."""

import subprocess
import sys
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from arap_service import tracing
from arap_service.courier import Courier
from arap_service.outbound import Answer, Outbound
from arap_service.yaml_files import SettingsInvalid
from tests.clock import FakeClock
from tests.peers import EVALUATION, POLICY, Peers, peers, question
from tests.service import CALLBACK, service_context, settings_for
from tests.test_canaries import CANARY, faults

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"


class Recording(Outbound):
    """The way out for callbacks, which remembers headers instead of dialling."""

    def __init__(self) -> None:
        super().__init__(resolver=public)
        self.sent: list[Mapping[str, str]] = []

    async def post(
        self, url: str, *, content: bytes, headers: Mapping[str, str], allow: Collection[str] = ()
    ) -> Answer:
        self.sent.append(headers)
        return Answer(503 if len(self.sent) == 1 else 204, None)


async def public(_host: str, _port: int) -> list[str]:
    return ["8.8.8.8"]


@pytest.fixture
def outbound() -> Recording:
    return Recording()


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    yield exporter
    exporter.shutdown()


@pytest.fixture
async def both(
    service_url: str, tmp_path: Path, clock: FakeClock, spans: InMemorySpanExporter, outbound: Recording
) -> AsyncIterator[Peers]:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(spans))
    settings = settings_for(tmp_path, database=service_url, policy=POLICY)
    async with service_context(settings, clock=clock, outbound=outbound) as context:
        opened = peers(replace(context, tracer=provider.get_tracer("test")))
        yield opened
        await opened.aclose()


def named(spans: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    """The last span of each name."""
    return {span.name: span for span in spans.get_finished_spans()}


@pytest.mark.anyio
async def test_an_evaluation_is_a_span_within_the_trace_of_its_caller(both: Peers, spans: InMemorySpanExporter) -> None:
    answer = await both.gate.post(EVALUATION, json=question(), headers={"traceparent": PARENT})
    found = named(spans)
    server, inner = found[f"POST {EVALUATION}"], found["arap.evaluate"]
    assert server.context is not None
    assert f"{server.context.trace_id:032x}" == TRACE
    assert server.parent is not None
    assert f"{server.parent.span_id:016x}" == "b7ad6b7169203331"
    assert inner.parent is not None
    assert inner.parent.span_id == server.context.span_id
    assert dict(server.attributes or {}) == {
        "http.request.method": "POST",
        "http.response.status_code": 200,
        "http.route": EVALUATION,
    }
    assert dict(inner.attributes or {}) == {
        "arap.policy_version": both.context.policy.current().version,
        "arap.presented": "nothing",
        "arap.outcome": "request",
        "arap.evaluation_id": answer.json()["context"]["evaluation_id"],
    }


@pytest.mark.anyio
async def test_submission_and_decision_are_spans_with_what_came_of_them(
    both: Peers, spans: InMemorySpanExporter
) -> None:
    task = await both.task()
    await both.decide(task["id"])
    await both.decide(task["id"])
    found = named(spans)
    assert dict(found["arap.submit"].attributes or {}) == {"arap.status": "pending", "arap.task_id": task["id"]}
    outcomes = [dict(span.attributes or {}) for span in spans.get_finished_spans() if span.name == "arap.decide"]
    assert [each["arap.outcome"] for each in outcomes] == [
        "approve",
        "urn:openid:authzen:access-request:error:invalid_task_state",
    ]
    assert [each.get("arap.task_id") for each in outcomes] == [task["id"], None]


@pytest.mark.anyio
async def test_every_attempt_of_a_callback_belongs_to_the_trace_of_the_decision_that_caused_it(
    both: Peers, spans: InMemorySpanExporter, outbound: Recording, clock: FakeClock
) -> None:
    """The courier works later and elsewhere, so the trace goes by way of the row."""
    task = await both.task(callback={"endpoint": CALLBACK})
    both.resolver.headers["traceparent"] = PARENT
    await both.decide(task["id"])
    courier = Courier(both.context, jitter=lambda: 0.5)
    assert await courier.round() == 1
    clock.advance(3600)
    assert await courier.round() == 1
    delivering = [span for span in spans.get_finished_spans() if span.name == "arap.deliver"]
    assert [dict(span.attributes or {})["arap.outcome"] for span in delivering] == ["status_503", "accepted"]
    contexts = [span.context for span in delivering if span.context is not None]
    assert [headers["traceparent"] for headers in outbound.sent] == [
        f"00-{TRACE}-{context.span_id:016x}-01" for context in contexts
    ]
    deciding = named(spans)["arap.decide"].context
    assert deciding is not None
    assert {span.parent.span_id for span in delivering if span.parent is not None} == {deciding.span_id}


@pytest.mark.anyio
async def test_without_an_sdk_the_trace_of_the_decision_is_handed_on_as_it_came(
    both: Peers, outbound: Recording
) -> None:
    plain = peers(replace(both.context, tracer=trace.NoOpTracer()))
    task = await plain.task(callback={"endpoint": CALLBACK})
    plain.resolver.headers["traceparent"] = PARENT
    await plain.decide(task["id"])
    await Courier(plain.context, jitter=lambda: 0.5).round()
    await plain.aclose()
    assert [headers["traceparent"] for headers in outbound.sent] == [PARENT]


@pytest.mark.anyio
async def test_a_callback_of_an_untraced_decision_carries_no_trace(both: Peers, outbound: Recording) -> None:
    plain = peers(replace(both.context, tracer=trace.NoOpTracer()))
    task = await plain.task(callback={"endpoint": CALLBACK})
    await plain.decide(task["id"])
    await Courier(plain.context, jitter=lambda: 0.5).round()
    await plain.aclose()
    assert len(outbound.sent) == 1
    assert "traceparent" not in outbound.sent[0]


@pytest.mark.anyio
@pytest.mark.parametrize("header", ["nonsense", PARENT + "-more-of-it", "00-" + "0" * 32 + "-b7ad6b7169203331-01"])
async def test_a_header_that_is_no_trace_begins_a_new_one(
    both: Peers, spans: InMemorySpanExporter, header: str
) -> None:
    assert (await both.gate.post(EVALUATION, json=question(), headers={"traceparent": header})).status_code == 200
    assert named(spans)[f"POST {EVALUATION}"].parent is None


@pytest.mark.anyio
async def test_nothing_that_anybody_said_is_in_a_span(both: Peers, spans: InMemorySpanExporter) -> None:
    """The same canaries that must be in no log line, and the names of people beside them."""
    await faults(both)
    told = [span.to_json() for span in spans.get_finished_spans()]
    assert len(told) > 20
    for place in told:
        assert CANARY not in place
        assert "alice" not in place
        assert "eyJ" not in place  # the beginning of every token


@pytest.mark.anyio
async def test_probes_leave_no_spans_and_unknown_paths_no_names(both: Peers, spans: InMemorySpanExporter) -> None:
    for path in ("/healthz", "/readyz", "/metrics"):
        await both.gate.get(path)
    assert spans.get_finished_spans() == ()
    await both.gate.get(f"/{CANARY}")
    assert [span.name for span in spans.get_finished_spans()] == ["GET"]


def test_an_exception_is_recorded_by_its_type_and_never_by_what_it_says(spans: InMemorySpanExporter) -> None:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(spans))

    def work() -> None:
        with tracing.spanning(provider.get_tracer("test"), "work", parent=tracing.continued(PARENT)):
            assert (tracing.current_traceparent() or "").startswith(f"00-{TRACE}-")
            raise ValueError(CANARY)

    with pytest.raises(ValueError, match=CANARY):
        work()
    (span,) = spans.get_finished_spans()
    assert span.status.status_code is StatusCode.ERROR
    assert (span.attributes or {})["error.type"] == "ValueError"
    assert CANARY not in span.to_json()


def test_without_a_trace_there_is_nothing_to_hand_on() -> None:
    assert tracing.current_traceparent() is None


def test_a_collector_without_the_extra_is_refused_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    tracing.configure(None)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(SettingsInvalid, match=r"arap\[otel\]"):
        tracing.configure("http://127.0.0.1:4318/v1/traces")


EXPORTING = """
import http.server, sys, threading
from opentelemetry import trace
from arap_service import tracing

class Collector(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        print(self.path, self.headers["content-type"], b"arap.evaluate" in body, flush=True)
        self.send_response(200)
        self.end_headers()
    def log_message(self, *_):
        pass

server = http.server.HTTPServer(("127.0.0.1", 0), Collector)
threading.Thread(target=server.serve_forever, daemon=True).start()
tracing.configure(f"http://127.0.0.1:{server.server_port}/v1/traces")
with tracing.spanning(trace.get_tracer("arap_service"), "arap.evaluate"):
    pass
trace.get_tracer_provider().shutdown()
"""


def test_spans_reach_a_collector() -> None:
    """In a process of its own, because a provider is set once and for all."""
    finished = subprocess.run(
        [sys.executable, "-c", EXPORTING], capture_output=True, text=True, timeout=60, check=False
    )
    assert finished.stdout.splitlines() == ["/v1/traces application/x-protobuf True"], finished.stderr
