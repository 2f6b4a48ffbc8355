"""The ASGI application: handlers over a desk, and the errors of the framework in our own envelope."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec
import structlog
import uuid_utils
from litestar import Litestar, Request, Response
from litestar.exceptions import HTTPException
from litestar.openapi import OpenAPIConfig

import gateway
from gateway.access.limiter import Limiter, UseStore
from gateway.api.address import AddressedApp, path_of
from gateway.api.catalogue import catalogue_handlers
from gateway.api.chat import answer_handler
from gateway.api.check import check_handler
from gateway.api.counting import counting_handler
from gateway.api.desk import GatewayDesk, Runtime
from gateway.api.edge import error_response
from gateway.api.forward import forward_handler
from gateway.api.health import health_handlers
from gateway.api.ingress import INGRESSES
from gateway.api.labels import label_handlers
from gateway.api.records import record_handlers
from gateway.errors import GatewayError, NotFoundError, RequestError
from gateway.exchange.parts import Services
from gateway.ledger.record import Ledger
from gateway.ledger.store import PostgresStore
from gateway.telemetry import Metrics, TelemetryObserver
from gateway.telemetry.tracing import Tracing

Lifespan = Callable[[Litestar], AbstractAsyncContextManager[None]]


def new_id() -> str:
    """An exchange's id: time-ordered (UUID version 7), so that neighbours in time are neighbours in the ledger."""
    return f"ex_{uuid_utils.uuid7().hex}"


def make_desk(
    runtime: Runtime,
    ledger: Ledger,
    fence_key: bytes,
    store: PostgresStore | None = None,
    tracing: Tracing | None = None,
    uses: UseStore | None = None,
) -> GatewayDesk:
    """A desk with the real clocks and ids."""
    metrics = Metrics()
    observer = TelemetryObserver(metrics)
    services = Services(ledger=ledger, observer=observer, clock=time.perf_counter, fence_key=fence_key)
    desk = GatewayDesk(runtime, services, metrics, now=time.time, new_id=new_id, store=store, tracing=tracing)
    if uses is not None:
        desk.limiter = Limiter(uses, clock=time.time, problem=observer.problem)
    return desk


def create_app(desk: Callable[[], GatewayDesk], lifespan: Lifespan | None = None) -> Litestar:
    """The ASGI application. `desk` is asked on each request, as it exists only once the lifespan has begun."""
    answering = [answer_handler(desk, ingress) for ingress in INGRESSES]
    app = AddressedApp(
        route_handlers=[
            *answering,
            counting_handler(desk),
            check_handler(desk),
            *catalogue_handlers(desk),
            *record_handlers(desk),
            *label_handlers(desk),
            *health_handlers(desk),
            forward_handler(desk),
        ],
        lifespan=[lifespan] if lifespan is not None else [],
        exception_handlers={GatewayError: _gateway_error, HTTPException: _http_error, Exception: _crash},
        openapi_config=OpenAPIConfig(title="Grounding Gateway", version=gateway.__version__, path="/schema"),
        logging_config=None,
    )
    app.direct = {path: handler.fn for handler in answering for path in handler.paths}
    return app


# -- errors of the framework's own handlers ----------------------------------------------------------------------------


def _gateway_error(_: Request[Any, Any, Any], error: GatewayError) -> Response[bytes]:
    status, body, headers = error_response(error)
    named = {name.decode(): value.decode("latin-1") for name, value in headers}
    return Response(body, status_code=status, headers=named, media_type="application/json")


def _http_error(request: Request[Any, Any, Any], error: HTTPException) -> Response[bytes]:
    if error.status_code == 404:
        return _gateway_error(request, NotFoundError(f"there is nothing at {path_of(request.scope)[:200]}"))
    status = error.status_code if 400 <= error.status_code < 500 else 400
    detail = error.detail
    extra = getattr(error, "extra", None)
    if extra:
        detail = f"{detail}: {msgspec.json.encode(extra).decode()[:500]}"
    response = _gateway_error(request, RequestError(detail))
    response.status_code = status
    return response


def _crash(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    reference = secrets.token_hex(4)
    structlog.get_logger("gateway").error("request_crashed", exc_info=error, path=request.url.path, reference=reference)
    return _gateway_error(request, GatewayError(f"an error inside the gateway; its log has it as {reference}"))
