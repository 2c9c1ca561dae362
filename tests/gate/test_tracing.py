"""The gate hands the trace of a call on to the service: W3C Trace Context, and nothing else."""

import httpx2
import pytest
from opentelemetry import baggage, context, trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags
from pydantic import JsonValue

from mcp_gate.arap import ArapBackend
from mcp_gate.arap_channel import Channel
from mcp_gate.backend import Permit
from mcp_gate.settings import Backend
from tests.clock import FakeClock
from tests.gate.scripted_service import HOST, ScriptedService

QUESTION: dict[str, JsonValue] = {
    "subject": {"type": "identity", "id": "alice"},
    "action": {"name": "tools/call"},
    "resource": {"type": "tool", "id": "read"},
    "context": {},
}
TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"


async def asked(clock: FakeClock) -> list[dict[str, str]]:
    """The headers of everything that one evaluation sends."""
    service = ScriptedService(rules={"read": "permit"}, now=clock)
    async with httpx2.AsyncClient(transport=service.transport()) as client:
        settings = Backend(identifier=HOST, idempotency_retention_seconds=86_400)
        backend = ArapBackend(Channel(settings, http=client, clock=clock))
        assert isinstance(await backend.evaluate(QUESTION), Permit)
    return [received.headers for received in service.received]


@pytest.mark.anyio
async def test_every_request_of_a_traced_call_belongs_to_its_trace_and_carries_no_baggage(clock: FakeClock) -> None:
    span = NonRecordingSpan(SpanContext(int(TRACE, 16), int(SPAN, 16), is_remote=False, trace_flags=TraceFlags(1)))
    token = context.attach(baggage.set_baggage("user", "alice"))
    try:
        with trace.use_span(span):
            sent = await asked(clock)
    finally:
        context.detach(token)
    assert {headers["traceparent"] for headers in sent} == {f"00-{TRACE}-{SPAN}-01"}
    assert not any("baggage" in headers for headers in sent)


@pytest.mark.anyio
async def test_outside_of_a_trace_no_header_is_sent(clock: FakeClock) -> None:
    assert not any("traceparent" in headers for headers in await asked(clock))
