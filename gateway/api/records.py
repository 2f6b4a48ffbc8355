"""The recorded exchanges, for callers who may audit them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any

from litestar import Request, get
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, FromQuery, QueryParameter

from gateway.access.keys import Principal
from gateway.api.desk import GatewayDesk
from gateway.errors import NotFoundError, OverloadedError, PermissionDeniedError, RequestError
from gateway.ledger.store import ExchangeFilter, PostgresStore

_REQUEST = Request[Any, Any, Any]
_TIME = Annotated[datetime | None, QueryParameter(description="UTC; inclusive for `since`, exclusive for `until`")]


def record_handlers(at_desk: Callable[[], GatewayDesk]) -> list[HTTPRouteHandler]:
    """Handlers of `/v1/exchanges`."""

    def caller(request: _REQUEST) -> Principal:
        return at_desk().runtime.keyring.identify(dict(request.headers))

    @get("/v1/exchanges")
    async def list_exchanges(
        request: _REQUEST,
        route: FromQuery[str | None] = None,
        status: FromQuery[str | None] = None,
        reason: FromQuery[str | None] = None,
        outcome: FromQuery[str | None] = None,
        key: FromQuery[str | None] = None,
        model: FromQuery[str | None] = None,
        since: _TIME = None,
        until: _TIME = None,
        cursor: FromQuery[str | None] = None,
        limit: Annotated[int, QueryParameter(ge=1, le=500)] = 50,
    ) -> dict[str, Any]:
        """Recorded exchanges, newest first; `next` is the cursor of the page that follows."""
        routes = auditable_routes(at_desk(), caller(request), route)
        _require_text(request)
        filters = ExchangeFilter(
            routes=routes,
            check_status=status,
            reason=reason,
            outcome=outcome,
            key_id=key,
            model=model,
            since=_utc(since),
            until=_utc(until),
        )
        page = await store_of(at_desk()).list_exchanges(filters, cursor=cursor, limit=limit)
        return {"object": "list", "data": page.items, "next": page.cursor}

    @get("/v1/exchanges/{exchange_id:str}")
    async def get_exchange(request: _REQUEST, exchange_id: FromPath[str]) -> dict[str, Any]:
        """One exchange with its sources, checks, facts, evidence and judge calls."""
        routes = auditable_routes(at_desk(), caller(request), None)
        if "\x00" in exchange_id:
            raise NotFoundError(f"there is no exchange '{exchange_id[:100]}'")
        found = await store_of(at_desk()).get_exchange(exchange_id)
        if routes is not None and found.get("route") not in routes:
            raise NotFoundError(f"there is no exchange '{exchange_id[:100]}'")
        return found

    return [list_exchanges, get_exchange]


def auditable_routes(desk: GatewayDesk, principal: Principal, route: str | None) -> tuple[str, ...] | None:
    """The routes whose records the caller may read, None for all. Raises for a caller who may read none."""
    principal.require_known()
    if not principal.audit:
        raise PermissionDeniedError(
            "this key may not read recorded exchanges; set audit: true for it in the gateway's configuration",
            code="audit_not_allowed",
        )
    if route is not None:
        return (route,) if principal.may_audit(route) else ()
    return None if principal.routes is None else tuple(sorted(principal.routes))


def _require_text(request: _REQUEST) -> None:
    """Raises for a filter with a NUL, which is no text to Postgres."""
    for name, value in request.query_params.items():
        if "\x00" in str(value):
            raise RequestError(f"'{name}' holds a NUL character; leave it out", code="invalid_value", param=name)


def store_of(desk: GatewayDesk) -> PostgresStore:
    """Where records are read. Raises `OverloadedError` without a ledger database."""
    if desk.store is None:
        raise OverloadedError("this gateway runs without a ledger database", code="ledger_unavailable")
    return desk.store


def _utc(moment: datetime | None) -> datetime | None:
    return moment.replace(tzinfo=UTC) if moment is not None and moment.tzinfo is None else moment
