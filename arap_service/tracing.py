"""Traces of the work that matters: evaluation, submission, decision, delivery; from caller to receiver.

What arrives and what leaves is W3C Trace Context alone, never baggage, which could hold anything about anybody.
Attributes are codes and ids of ours; nothing that a person, a tool or a token said is among them, and an exception is
recorded by its type. Without the OpenTelemetry SDK every call here does nothing; `configure` sets the SDK up where the
configuration names a collector (extra `otel`).
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Final

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from arap_service.yaml_files import SettingsInvalid

Value = str | int | bool
_W3C: Final = TraceContextTextMapPropagator()
_HEADER: Final = "traceparent"
_NO_CONTEXT: Final = Context()
_NAME: Final = "arap_service"
_NOTHING: Final = nullcontext(trace.INVALID_SPAN)


def own_tracer() -> Tracer:
    """The tracer of the provider that is set up, or one that does nothing and costs next to nothing."""
    provider = trace.get_tracer_provider()
    return trace.NoOpTracer() if isinstance(provider, trace.ProxyTracerProvider) else provider.get_tracer(_NAME)


def spanning(
    tracer: Tracer,
    name: str,
    *,
    kind: SpanKind = SpanKind.INTERNAL,
    parent: Context | None = None,
    attributes: Mapping[str, Value] | None = None,
) -> AbstractContextManager[Span]:
    """A span around a block, under the current one unless a `parent` is given; an exception marks it by its type."""
    if type(tracer) is trace.NoOpTracer and not parent and trace.get_current_span() is trace.INVALID_SPAN:
        return _NOTHING  # there is no trace to go on with, and no span to make
    return _spanning(tracer, name, kind=kind, parent=parent, attributes=attributes)


@contextmanager
def _spanning(
    tracer: Tracer, name: str, *, kind: SpanKind, parent: Context | None, attributes: Mapping[str, Value] | None
) -> Iterator[Span]:
    with tracer.start_as_current_span(
        name, context=parent, kind=kind, attributes=attributes, record_exception=False, set_status_on_exception=False
    ) as span:
        try:
            yield span
        except Exception as error:
            # The SDK would record the message, which may quote somebody's input.
            span.set_attribute("error.type", type(error).__qualname__)
            span.set_status(StatusCode.ERROR)
            raise


def carried(headers: Iterable[tuple[bytes, bytes]]) -> Context:
    """The trace that a request with these headers belongs to; an empty one where there is none or it is malformed."""
    # One look instead of a dictionary of all headers, since every evaluation passes here.
    values = [value for name, value in headers if name == b"traceparent"]
    return continued(values[0].decode("latin-1")) if len(values) == 1 else _NO_CONTEXT


def continued(traceparent: str | None) -> Context:
    """The trace that a stored `traceparent` belongs to."""
    return _NO_CONTEXT if traceparent is None else _W3C.extract({_HEADER: traceparent}, context=_NO_CONTEXT)


def current_traceparent() -> str | None:
    """The current span as it is handed on, or None outside of any trace."""
    carrier: dict[str, str] = {}
    _W3C.inject(carrier)
    return carrier.get(_HEADER)


def configure(collector: str | None) -> None:
    """Send the spans of this process to the OTLP/HTTP `collector`, such as `http://127.0.0.1:4318/v1/traces`.

    Raises:
        SettingsInvalid: The extra that can do so is not installed.
    """
    if collector is None:
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    except ImportError:
        raise SettingsInvalid(("tracing: install the extra that exports traces: pip install 'arap[otel]'",)) from None
    provider = TracerProvider(resource=Resource.create({"service.name": "arap"}), shutdown_on_exit=True)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=collector, timeout=5)))
    trace.set_tracer_provider(provider)
