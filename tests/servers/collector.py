"""An OpenTelemetry collector on a real socket: takes traces over OTLP/HTTP and keeps their spans.

async with Collector() as collector:
    collector.endpoint                      # for `telemetry.otlp_endpoint`
    spans = await collector.until(lambda spans: len(spans) >= 3)
    collector.status = 503                  # refuse from now on
"""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


@dataclass(frozen=True)
class SpanSeen:
    """A span as it came, ids in hexadecimal."""

    name: str
    kind: str
    trace_id: str
    span_id: str
    parent_id: str
    start_ns: int
    end_ns: int
    attributes: dict[str, Any]
    events: dict[str, dict[str, Any]]
    failed: bool
    resource: dict[str, Any]


class Collector:
    """The server; see the module."""

    def __init__(self) -> None:
        self.spans: list[SpanSeen] = []
        self.headers: list[dict[str, str]] = []
        self.status = 200
        self._came = asyncio.Condition()
        self._runner: web.AppRunner | None = None
        self.endpoint = ""

    async def until(self, enough: Callable[[list[SpanSeen]], Any], timeout_s: float = 20.0) -> list[SpanSeen]:
        """The spans so far, once they are enough."""
        async with asyncio.timeout(timeout_s), self._came:
            await self._came.wait_for(lambda: enough(self.spans))
        return self.spans

    async def _take(self, request: web.Request) -> web.Response:
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        if self.status != 200:
            return web.Response(status=self.status)
        body = await request.read()
        if body[:2] == b"\x1f\x8b":
            body = gzip.decompress(body)
        message = ExportTraceServiceRequest.FromString(body)
        async with self._came:
            for resource in message.resource_spans:
                described = _values(resource.resource.attributes)
                for scope in resource.scope_spans:
                    self.spans += [_seen(span, described) for span in scope.spans]
            self._came.notify_all()
        return web.Response(
            body=ExportTraceServiceResponse().SerializeToString(), content_type="application/x-protobuf"
        )

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_post("/v1/traces", self._take)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.endpoint = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._runner is not None
        await self._runner.cleanup()


def _seen(span: Any, resource: dict[str, Any]) -> SpanSeen:
    return SpanSeen(
        name=span.name,
        kind=span.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_").lower(),
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        start_ns=span.start_time_unix_nano,
        end_ns=span.end_time_unix_nano,
        attributes=_values(span.attributes),
        events={event.name: _values(event.attributes) for event in span.events},
        failed=span.status.code == 2,
        resource=resource,
    )


def _values(attributes: Any) -> dict[str, Any]:
    found = {}
    for attribute in attributes:
        kind = attribute.value.WhichOneof("value")
        value = getattr(attribute.value, kind)
        found[attribute.key] = [item.string_value for item in value.values] if kind == "array_value" else value
    return found
