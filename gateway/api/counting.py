"""`/v1/messages/count_tokens`: exact where the route's upstream counts, an estimate that says so elsewhere.

What is counted is the client's own request: nothing is retrieved for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import msgspec
from litestar import asgi
from litestar.handlers import ASGIRouteHandler
from litestar.types import HTTPScope, Receive, Scope, Send

from gateway.api.address import route_of
from gateway.api.chat import refuse
from gateway.api.desk import GatewayDesk, Runtime
from gateway.api.edge import send_json
from gateway.api.forward import Relay
from gateway.api.incoming import ClientGoneError, headers_of, read_body
from gateway.api.ingress import MESSAGES, decoded, model_of
from gateway.errors import GatewayError, RequestError
from gateway.wire import raw
from gateway.wire.messages.from_client import chat_request

_PATH = "/messages/count_tokens"
_BYTES_PER_TOKEN = 4
"""A rule of thumb for text in Latin letters; other scripts and code have more tokens a byte."""


def counting_handler(at_desk: Callable[[], GatewayDesk]) -> ASGIRouteHandler:
    """The handler of `/v1/messages/count_tokens`."""

    @asgi(f"/v1{_PATH}", copy_scope=False)
    async def count_tokens(scope: Scope, receive: Receive, send: Send) -> None:
        scope = cast("HTTPScope", scope)
        desk = at_desk()
        try:
            runtime = desk.enter()
        except GatewayError as error:
            await refuse(desk, scope, send, error, MESSAGES)
            return
        try:
            await _count(desk, runtime, scope, receive, send)
        except GatewayError as error:
            await refuse(desk, scope, send, error, MESSAGES)
        except ClientGoneError:
            pass
        finally:
            await desk.leave(runtime)

    return count_tokens


async def _count(desk: GatewayDesk, runtime: Runtime, scope: HTTPScope, receive: Receive, send: Send) -> None:
    if scope["method"] != "POST":
        raise RequestError("use POST to count tokens", code="method_not_allowed")
    headers = headers_of(scope)
    principal = runtime.keyring.identify(headers)
    if not runtime.anonymous:
        principal.require_known()
    value = decoded(await read_body(headers, receive, runtime.config.server.max_body_bytes))
    path_route, model = route_of(scope), model_of(value)
    table = runtime.table
    route = table.by_path(path_route, principal) if path_route is not None else table.by_model(model, principal)
    value.pop("grounding", None)
    if route.speaks_messages:
        value["model"] = route.upstream_model(model) or model
        await Relay(desk, runtime, route, principal, scope, headers).run(_PATH, raw.encode(value), receive, send)
        return
    text = raw.encode(chat_request({**value, "max_tokens": 1}, native=False))
    estimate = {"input_tokens": max(1, len(text) // _BYTES_PER_TOKEN), "estimated": True}
    await send_json(send, 200, msgspec.json.encode(estimate), [(b"content-type", b"application/json")])
