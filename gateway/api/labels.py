"""`/v1/exchanges/{id}/labels`: people's labels on recorded facts, for callers who may audit them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from litestar import Request, get, post
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath, JSONBody

from gateway.access.keys import Principal
from gateway.api.desk import GatewayDesk
from gateway.api.records import auditable_routes, store_of
from gateway.errors import NotFoundError
from gateway.ledger.labels import Label, Labels

_REQUEST = Request[Any, Any, Any]


class LabelRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A label on a fact or issue, or without `fact` on the whole answer.

    `check` is the position of a check in the record; without it the last one of `choice` is meant. `source` says what
    the label rests on (an address, a passage's id). `labeller` names the person; a key's own name is put before it.
    """

    label: str
    fact: int | None = None
    choice: int = 0
    check: int | None = None
    source: str = ""
    comment: str = ""
    labeller: str = ""
    id: str = ""


def label_handlers(at_desk: Callable[[], GatewayDesk]) -> list[HTTPRouteHandler]:
    """Handlers of `/v1/exchanges/{id}/labels`."""

    def caller(request: _REQUEST) -> Principal:
        return at_desk().runtime.keyring.identify(dict(request.headers))

    @post("/v1/exchanges/{exchange_id:str}/labels", status_code=201)
    async def add_label(request: _REQUEST, exchange_id: FromPath[str], data: JSONBody[LabelRequest]) -> dict[str, Any]:
        """Keep a label. A later one of the same labeller takes its place; both stay on record."""
        principal = caller(request)
        routes = auditable_routes(at_desk(), principal, None)
        label = Label(
            exchange_id=_id(exchange_id),
            label=data.label,
            labeller=_labeller(principal, data.labeller),
            source=data.source,
            comment=data.comment,
            choice=data.choice,
            check=data.check,
            fact=data.fact,
            id=data.id,
        )
        return await Labels(store_of(at_desk())).add(label, routes=routes)

    @get("/v1/exchanges/{exchange_id:str}/labels")
    async def list_labels(request: _REQUEST, exchange_id: FromPath[str]) -> dict[str, Any]:
        """Every label on an exchange, oldest first; `current` tells which count."""
        routes = auditable_routes(at_desk(), caller(request), None)
        found = await Labels(store_of(at_desk())).of(_id(exchange_id), routes=routes)
        return {"object": "list", "data": found}

    return [add_label, list_labels]


def _labeller(principal: Principal, named: str) -> str:
    """Who labels, as far as we know it: a caller with a key cannot pass for another key."""
    own = principal.key_id
    if own is None:
        return named or "local"
    return f"{own}/{named}" if named else own


def _id(exchange_id: str) -> str:
    if "\x00" in exchange_id:
        raise NotFoundError(f"there is no exchange '{exchange_id[:100]}'")
    return exchange_id
