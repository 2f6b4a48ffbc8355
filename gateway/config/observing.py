"""What `gateway.yaml` may say about telemetry that is sent out."""

from __future__ import annotations

from pydantic import Field

from gateway.config.backends import ADDRESS
from gateway.config.base import Strict


class TelemetryConfig(Strict):
    """Traces to an OpenTelemetry collector. Without an address none are made."""

    otlp_endpoint: str | None = Field(default=None, pattern=ADDRESS)
    """Base address of a collector that takes OTLP over HTTP, e.g. `http://otel-collector:4318`."""
    otlp_headers: dict[str, str] = Field(default={}, repr=False)
    """Sent with every export; may hold credentials, so they are never shown."""
    sample_ratio: float = Field(default=1.0, ge=0, le=1)
    """Share of traces to keep. A caller's own decision wins; an exchange that went wrong is kept always."""
    service_name: str = Field(default="grounding-gateway", min_length=1)
