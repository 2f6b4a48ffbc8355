"""`POST /v1/check`: checks a given answer as a route would, without generating one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

import msgspec
from litestar import Request, Response, post
from litestar.handlers import HTTPRouteHandler
from litestar.params import JSONBody

from gateway.api.address import path_of, route_of
from gateway.api.admission import Admission
from gateway.api.desk import GatewayDesk
from gateway.api.incoming import base_url, request_id_of
from gateway.api.settle import CLIENT_CLOSED, outcome_of
from gateway.config.modes import Action, Release
from gateway.errors import GatewayError, RequestError
from gateway.exchange.decide import REVIEW
from gateway.exchange.parts import Call
from gateway.exchange.path import Exchange
from gateway.exchange.reviews import rewritten_text
from gateway.ledger.record import Outcome
from gateway.wire import chat
from gateway.wire.types import Answer, ChoiceAnswer

_PIN: Final = ("repository", "revision", "base_revision")


class CheckRequest(msgspec.Struct, forbid_unknown_fields=True):
    """An answer to check. `query` is the question it answers, or `messages` the conversation before it.

    `route` (or `model`, its name as a model) says whose check; the default route's if neither is given. `repository`,
    `revision` and `base_revision` say which code a review is about.
    """

    answer: str
    query: str = ""
    messages: list[dict[str, Any]] = msgspec.field(default_factory=list)
    route: str | None = None
    model: str | None = None
    filters: dict[str, str] = msgspec.field(default_factory=dict)
    repository: str | None = None
    revision: str | None = None
    base_revision: str | None = None

    def options(self) -> dict[str, Any]:
        """What of it is an option of a request."""
        pin = {name: value for name in _PIN if (value := getattr(self, name)) is not None}
        return {**({"filters": self.filters} if self.filters else {}), **pin}


def check_handler(at_desk: Callable[[], GatewayDesk]) -> HTTPRouteHandler:
    """The handler of `/v1/check` and `/r/<route>/v1/check`."""

    @post("/v1/check", status_code=200)
    async def check_answer(request: Request[Any, Any, Any], data: JSONBody[CheckRequest]) -> Response[bytes]:
        """The verdict on a given answer, with its evidence; recorded like any exchange."""
        desk = at_desk()
        runtime = desk.enter()
        try:
            exchange = _exchange(desk, request, data)
            principal = runtime.keyring.identify(dict(request.headers))
            if principal.quota is not None:
                # Judges are the gateway's own: a check counts as a request, and uses nothing of the key's tokens.
                await Admission(desk.limiter, runtime.prices, principal).other(0)
            place = await desk.place(runtime, exchange.parts.name)
            try:
                desk.admit(await desk.open(exchange))
                grounding = await _checked(desk, exchange, data.answer)
            finally:
                place.leave()
        finally:
            await desk.leave(runtime)
        status, reason = exchange.account.check_status
        body = {
            "id": exchange.call.id,
            "object": "grounding.check",
            "route": exchange.parts.name,
            "status": status,
            "reason": reason,
            "grounding": grounding,
            **_written(exchange, data.answer),
        }
        headers = {"x-grounding-exchange": exchange.call.id, "x-grounding-status": status}
        return Response(msgspec.json.encode(body), media_type="application/json", headers=headers)

    return check_answer


def _written(exchange: Exchange, answer: str) -> dict[str, str]:
    """A review with its verdict written into it: without what the check drops, and with everything bad marked."""
    out = {}
    for verdict in exchange.account.verdicts:
        for name, removes in (("filtered", True), ("marked", False)):
            if (text := rewritten_text(answer, verdict, removes=removes)) is not None:
                out[name] = text
    return out


async def _checked(desk: GatewayDesk, exchange: Exchange, answer: str) -> dict[str, Any]:
    """The verdict; whatever comes of it, the exchange that was opened is recorded."""
    try:
        grounding = await exchange.check_only(
            Answer(choices={0: ChoiceAnswer(0, content=answer, finish_reason="stop")})
        )
    except GatewayError as error:
        exchange.account.ended(*outcome_of(error), error.code, error.message)
        await desk.submit(exchange)
        raise
    except asyncio.CancelledError:
        exchange.account.ended(Outcome.CLIENT_CLOSED, CLIENT_CLOSED, "client_closed")
        desk.submit(exchange)
        raise
    exchange.account.ended(Outcome.COMPLETED, 200)
    desk.admit(await desk.submit(exchange))
    return grounding


def _exchange(desk: GatewayDesk, request: Request[Any, Any, Any], data: CheckRequest) -> Exchange:
    runtime = desk.runtime
    headers = dict(request.headers)
    principal = runtime.keyring.identify(headers)
    principal.require_known()
    path_route = route_of(request.scope) or data.route
    table = runtime.table
    route = table.by_path(path_route, principal) if path_route else table.by_model(data.model, principal)
    parts = runtime.parts[route.name]
    if parts.check is None:
        raise RequestError(f"the route '{route.name}' has no check", code="no_check", param="route")
    if not data.query and not data.messages and parts.check.kind != REVIEW:
        raise RequestError("give the question as query, or the conversation as messages", param="query")
    limits = runtime.limits
    messages = data.messages or [{"role": "user", "content": data.query}]
    body: dict[str, Any] = {"model": data.model or route.name, "messages": messages}
    if options := data.options():
        body["grounding"] = options
    chat_request = chat.parse_request(msgspec.json.encode(body), {}, limits)
    route.effective(chat_request.options)
    call = Call(
        id=desk.new_id(),
        created_at=desk.now(),
        path=path_of(request.scope),
        release=Release.HELD,
        action=Action.ANNOTATE,
        key_id=principal.key_id,
        request_id=request_id_of(headers),
        groups=principal.groups,
        source_base=base_url(request.scope, headers, runtime.config.server.public_url),
    )
    return Exchange(parts, chat_request, call, desk.services)
