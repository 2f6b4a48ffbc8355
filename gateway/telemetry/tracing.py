"""Sends traces of ended exchanges to an OpenTelemetry collector over OTLP/HTTP, from a thread of its own.

An exchange costs the event loop some random bits at its start and a place in a queue at its end; spans are made and
sent in the thread. When the collector is away or slow, the queue is full after a while and further traces are dropped
and counted: telemetry never holds up an answer. Knows nothing of HTTP requests or routes.
"""

from __future__ import annotations

import logging
import random
import secrets
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import gateway
from gateway.telemetry.spans import Span, must_keep, spans_of
from gateway.telemetry.trace_context import TraceContext, begin
from gateway.telemetry.views import TracedExchangeView

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

_log = logging.getLogger(__name__)
_MOST_WAITING: Final = 1000
_BATCH: Final = 100
_LINGER_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class TracingSettings:
    """Where traces go: `endpoint` is the collector's base address, `ratio` the share of ordinary traces to keep."""

    endpoint: str
    headers: Mapping[str, str]
    ratio: float
    service: str
    timeout_s: float = 10.0


class Tracing:
    """The traces of one process. `open` before use, `close` at the end; both block."""

    def __init__(self, settings: TracingSettings) -> None:
        self._settings = settings
        # Ids have to differ, not to be secret; asking the system for each would take longer than all the rest.
        self._bits = random.Random(secrets.randbits(256)).getrandbits  # noqa: S311
        self._waiting: deque[tuple[TracedExchangeView, TraceContext]] = deque()
        self._wake = threading.Event()
        self._stopping = False
        self._thread: threading.Thread | None = None
        self._exporter: SpanExporter | None = None
        self._exported = self._dropped = self._failed = 0

    def open(self) -> None:
        """Load the SDK and begin. Loading it takes some tenths of a second, which a gateway without traces saves."""
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope

        settings = self._settings
        self._exporter = OTLPSpanExporter(
            endpoint=f"{settings.endpoint.rstrip('/')}/v1/traces",
            headers=dict(settings.headers),
            timeout=settings.timeout_s,
        )
        attributes = {"service.name": settings.service, "service.version": gateway.__version__}
        self._resource = Resource.create(attributes)
        self._scope = InstrumentationScope("grounding-gateway", gateway.__version__)
        self._thread = threading.Thread(target=self._run, name="traces", daemon=True)
        self._thread.start()

    def begin(self, headers: Mapping[str, str]) -> TraceContext:
        """The context of an exchange that begins with these headers (lower-case names)."""
        return begin(headers, self._settings.ratio, self._bits)

    def ended(self, record: TracedExchangeView, context: TraceContext | None) -> None:
        """An exchange has ended. Kept are sampled traces, and every one that went wrong. Never blocks."""
        context = context or self.begin({})
        if not context.sampled and not must_keep(record):
            return
        if len(self._waiting) >= _MOST_WAITING:
            self._dropped += 1
            return
        self._waiting.append((record, context))
        if len(self._waiting) >= _BATCH:
            self._wake.set()

    def stats(self) -> Mapping[str, float]:
        """Traces sent, dropped because the queue was full, and lost because the collector did not take them."""
        return {
            "exported_total": float(self._exported),
            "dropped_total": float(self._dropped),
            "failed_total": float(self._failed),
            "waiting": float(len(self._waiting)),
        }

    def close(self) -> None:
        """Send what waits, for one timeout at most."""
        self._stopping = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(self._settings.timeout_s)
        if self._exporter is not None:
            self._exporter.shutdown()

    # -- the thread ----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            self._wake.wait(_LINGER_S)
            self._wake.clear()
            last = self._stopping
            while self._waiting:
                batch = [self._waiting.popleft() for _ in range(min(_BATCH, len(self._waiting)))]
                self._send(batch)
            if last:
                return

    def _send(self, batch: Sequence[tuple[TracedExchangeView, TraceContext]]) -> None:
        from opentelemetry.sdk.trace.export import SpanExportResult

        assert self._exporter is not None
        try:
            spans = [
                _readable(span, context, self._resource, self._scope)
                for record, context in batch
                for span in spans_of(record, context)
            ]
            sent = self._exporter.export(spans) is SpanExportResult.SUCCESS
        except Exception:
            _log.exception("traces could not be sent")
            sent = False
        if sent:
            self._exported += len(batch)
        else:
            self._failed += len(batch)


def _readable(span: Span, context: TraceContext, resource: Resource, scope: InstrumentationScope) -> ReadableSpan:
    """A span as the SDK's exporters take it."""
    from opentelemetry.sdk.trace import Event, ReadableSpan
    from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

    flags = TraceFlags(TraceFlags.SAMPLED)

    def at(span_id: int, *, remote: bool) -> SpanContext:
        return SpanContext(context.trace_id, span_id, is_remote=remote, trace_flags=flags)

    parent: Any = None
    if span.parent_id is not None:
        parent = at(span.parent_id, remote=span.parent_id == context.parent_id)
    kind = {"server": SpanKind.SERVER, "client": SpanKind.CLIENT, "internal": SpanKind.INTERNAL}[span.kind]
    return ReadableSpan(
        name=span.name,
        context=at(span.id, remote=False),
        parent=parent,
        resource=resource,
        attributes=dict(span.attributes),
        events=[Event(name, dict(attributes), moment) for name, moment, attributes in span.events],
        kind=kind,
        status=Status(StatusCode.ERROR, span.error) if span.error else Status(StatusCode.UNSET),
        start_time=span.start_ns,
        end_time=span.end_ns,
        instrumentation_scope=scope,
    )
