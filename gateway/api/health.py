"""How the gateway is: liveness, readiness, metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from litestar import Response, get
from litestar.handlers import HTTPRouteHandler

from gateway.api.desk import GatewayDesk


def health_handlers(at_desk: Callable[[], GatewayDesk]) -> list[HTTPRouteHandler]:
    """Handlers of `/healthz`, `/readyz` and `/metrics`."""

    @get("/healthz", sync_to_thread=False)
    def healthz() -> dict[str, str]:
        """The process answers."""
        return {"status": "ok"}

    @get("/readyz", sync_to_thread=False)
    def readyz() -> Response[dict[str, Any]]:
        """Requests are taken: not draining, and the ledger accepts records."""
        desk = at_desk()
        accepting = desk.services.ledger.accepting()
        refuses = desk.runtime.config.ledger.spool.when_full == "refuse"
        ready = not desk.draining and (accepting or not refuses)
        status = "ready" if ready else ("draining" if desk.draining else "ledger_unavailable")
        stats = desk.services.ledger.stats()
        body = {"status": status, "config": desk.runtime.version, "ledger": dict(stats)}
        return Response(body, status_code=200 if ready else 503)

    @get("/metrics", sync_to_thread=False)
    def metrics() -> Response[bytes]:
        """Prometheus text format."""
        body, content_type = at_desk().metrics.render()
        return Response(body, media_type=content_type)

    return [healthz, readyz, metrics]
