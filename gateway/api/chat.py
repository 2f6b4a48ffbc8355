"""The endpoints that answer, by model name or under `/r/<route>`: from an ASGI scope to a settled exchange."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple, cast

import msgspec
from litestar import asgi
from litestar.handlers import ASGIRouteHandler
from litestar.types import HTTPScope, Receive, Scope, Send

from gateway.access.keys import Principal
from gateway.api.address import deployment_of, path_below_v1, path_of, route_of
from gateway.api.admission import Admission
from gateway.api.desk import GatewayDesk, Runtime
from gateway.api.edge import error_response, send_json, together
from gateway.api.forward import Relay
from gateway.api.incoming import (
    ClientGoneError,
    base_url,
    echo,
    headers_of,
    own_authorization,
    read_body,
    request_id_of,
)
from gateway.api.ingress import MESSAGES, Asked, Ingress, Unread
from gateway.api.settle import Settlement, disconnected
from gateway.api.turnstile import GoneError, Place
from gateway.errors import GatewayError, RequestError
from gateway.exchange.parts import Call
from gateway.exchange.path import Exchange
from gateway.quota import Ask, Style
from gateway.route import Route
from gateway.telemetry.trace_context import outgoing
from gateway.wire import chat
from gateway.wire.dialect import Dialect
from gateway.wire.types import ChatRequest


def answer_handler(at_desk: Callable[[], GatewayDesk], ingress: Ingress) -> ASGIRouteHandler:
    """The handler of both addresses of a dialect. Plain ASGI: the framework's requests cost more than the relay."""

    @asgi(ingress.path, copy_scope=False)
    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        scope = cast("HTTPScope", scope)
        desk = at_desk()
        try:
            runtime = desk.enter()
        except GatewayError as error:
            await refuse(desk, scope, send, error, ingress.dialect)
            return
        try:
            served = await _served(desk, runtime, ingress, scope, receive, send)
            if isinstance(served, Seated):
                try:
                    await served.settlement.run(receive)
                finally:
                    served.place.leave()
            elif served is not None:
                await _pass_on(desk, served, ingress, scope, receive, send)
        finally:
            await desk.leave(runtime)

    return answer


class Seated(NamedTuple):
    """An exchange that has its place."""

    settlement: Settlement
    place: Place


class Passing(NamedTuple):
    """A request that is passed on unread."""

    relay: Relay
    body: bytes


async def _pass_on(
    desk: GatewayDesk, passing: Passing, ingress: Ingress, scope: HTTPScope, receive: Receive, send: Send
) -> None:
    try:
        await passing.relay.run(path_below_v1(scope), passing.body, receive, send)
    except GatewayError as error:
        await refuse(desk, scope, send, error, ingress.dialect)


async def _served(
    desk: GatewayDesk, runtime: Runtime, ingress: Ingress, scope: HTTPScope, receive: Receive, send: Send
) -> Seated | Passing | None:
    """The exchange of a request, opened, or what passes unread; None when there is nobody or nothing to serve."""
    try:
        if scope["method"] != "POST":
            raise RequestError(f"use POST for {ingress.path}", code="method_not_allowed")
        headers = headers_of(scope)
        principal = runtime.keyring.identify(headers)
        asked, body = await _asked(runtime, ingress, scope, headers, principal, receive)
        if isinstance(asked, Unread):
            return Passing(Relay(desk, runtime, asked.route, principal, scope, headers), body)
        request = asked.request
        call = _call(desk, runtime, scope, headers, request, asked.route, principal)
        if principal.quota is not None:
            call = await _admitted(desk, runtime, call, asked, principal, len(body))
        place = await _placed(desk, runtime, call, asked.route.name, receive)
        try:
            exchange = Exchange(runtime.parts[asked.route.name], request, call, desk.services)
            settlement = Settlement(exchange, desk, send, asked.dialect, grace=exchange.parts.config.keep_alive_after)
        except BaseException:
            place.leave()
            raise
        return Seated(settlement, place)
    except GatewayError as error:
        await refuse(desk, scope, send, error, ingress.dialect)
    except (ClientGoneError, GoneError):
        pass
    except Exception as error:  # no handler of the framework stands around this route
        reference = secrets.token_hex(4)
        desk.services.observer.problem("request_crashed", error, path=path_of(scope), reference=reference)
        message = f"an error inside the gateway; its log has it as {reference}"
        await refuse(desk, scope, send, GatewayError(message), ingress.dialect)
    return None


async def _placed(desk: GatewayDesk, runtime: Runtime, call: Call, route: str, receive: Receive) -> Place:
    """A place for the call; one that gets none has used no tokens."""
    try:
        return await desk.place(runtime, route, partial(disconnected, receive))
    except BaseException:
        if call.grant is not None:
            call.grant.settle(Ask())
        raise


async def _admitted(
    desk: GatewayDesk, runtime: Runtime, call: Call, asked: Asked, principal: Principal, size: int
) -> Call:
    """The call with what its key was let in with. Raises `RateLimitedError`."""
    retrieval = asked.route.config.retrieval
    grant = await Admission(desk.limiter, runtime.prices, principal).chat(
        asked.request,
        size,
        added=retrieval.token_budget if retrieval else 0,
        model=call.upstream_model or asked.request.model,
        style=Style.ANTHROPIC if asked.dialect is MESSAGES else Style.OPENAI,
    )
    return msgspec.structs.replace(call, grant=grant)


async def refuse(desk: GatewayDesk, scope: HTTPScope, send: Send, error: GatewayError, dialect: Dialect) -> None:
    """Answer with an error, in the client's dialect; there is no exchange."""
    desk.metrics.problem(error.code)
    status, body, headers = error_response(error, dialect)
    await send_json(send, status, body, together(headers, echo(scope)))


async def _asked(
    runtime: Runtime,
    ingress: Ingress,
    scope: HTTPScope,
    headers: dict[str, str],
    principal: Principal,
    receive: Receive,
) -> tuple[Asked | Unread, bytes]:
    """What is asked of which route, and the body that says so."""
    table = runtime.table
    path_route, deployment = route_of(scope), deployment_of(scope)
    if path_route is not None:
        # Known before the body is read, so that nobody without a key can make us read one.
        table.by_path(path_route, principal)
    elif not runtime.anonymous:
        principal.require_known()

    def select(model: str | None) -> Route:
        if path_route is not None:
            return table.by_path(path_route, principal)
        return table.by_model(deployment or model, principal)

    body = await read_body(headers, receive, runtime.config.server.max_body_bytes)
    asked = ingress.read(body, headers, runtime.limits, select)
    if deployment is not None and isinstance(asked, Asked):
        asked = replace(asked, request=chat.with_model(asked.request, deployment))
    return asked, body


def _call(
    desk: GatewayDesk,
    runtime: Runtime,
    scope: HTTPScope,
    headers: dict[str, str],
    request: ChatRequest,
    route: Route,
    principal: Principal,
) -> Call:
    effective = route.effective(request.options)
    trace = desk.tracing.begin(headers) if desk.tracing is not None else None
    return Call(
        id=desk.new_id(),
        created_at=desk.now(),
        path=path_of(scope),
        release=effective.release,
        action=runtime.parts[route.name].action_in_force(effective.action),
        check=effective.check,
        key_id=principal.key_id,
        request_id=request_id_of(headers),
        groups=principal.groups,
        headers=headers if trace is None else outgoing(trace, headers),
        trace=trace,
        authorization=own_authorization(headers, principal) if route.passthrough else None,
        upstream_model=route.upstream_model(request.model),
        source_base=base_url(scope, headers, runtime.config.server.public_url),
    )
