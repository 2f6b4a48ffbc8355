"""Every other path under `/v1`: forwarded unread where the route says so, and recorded as not checked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, cast
from urllib.parse import parse_qsl

import msgspec
from litestar import asgi
from litestar.handlers import ASGIRouteHandler
from litestar.types import HTTPScope, Receive, Scope, Send

from checks.types import Reason, Status
from gateway.access.keys import Principal
from gateway.access.limiter import Grant
from gateway.api.address import deployment_of, path_below_v1, path_of, route_of
from gateway.api.admission import Admission
from gateway.api.desk import GatewayDesk, Runtime
from gateway.api.edge import encode_headers, error_response, send_json, together
from gateway.api.incoming import ClientGoneError, echo, headers_of, own_authorization, read_body, request_id_of
from gateway.api.settle import CLIENT_CLOSED, disconnected, outcome_of
from gateway.api.turnstile import GoneError
from gateway.errors import GatewayError, RequestError
from gateway.ledger.record import ExchangeRecord, Opening, Outcome, Receipt
from gateway.quota import Ask
from gateway.route import Route
from gateway.upstream.base import Upstream
from gateway.upstream.embeddings import LocalEmbeddings

# TRACE would give the upstream's key back to the client that asks for it, CONNECT is for proxies.
_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"})


_EMBEDDINGS: Final = "/embeddings"


class _Named(msgspec.Struct):
    model: str | None = None


def forward_handler(at_desk: Callable[[], GatewayDesk]) -> ASGIRouteHandler:
    """Plain ASGI, as bytes pass through both ways."""

    @asgi("/v1", is_mount=True, copy_scope=False)
    async def forward(scope: Scope, receive: Receive, send: Send) -> None:
        scope = cast("HTTPScope", scope)
        desk = at_desk()
        try:
            runtime = desk.enter()
        except GatewayError as error:
            await _refuse(desk, scope, send, error)
            return
        try:
            await _forward(desk, runtime, scope, receive, send)
        except GatewayError as error:
            await _refuse(desk, scope, send, error)
        except ClientGoneError:
            pass
        finally:
            await desk.leave(runtime)

    return forward


async def _refuse(desk: GatewayDesk, scope: HTTPScope, send: Send, error: GatewayError) -> None:
    desk.metrics.problem(error.code)
    status, body, headers = error_response(error)
    await send_json(send, status, body, together(headers, echo(scope)))


async def _forward(desk: GatewayDesk, runtime: Runtime, scope: HTTPScope, receive: Receive, send: Send) -> None:
    if scope["method"] not in _METHODS:
        raise RequestError(f"{scope['method']} requests are not passed on", code="method_not_allowed")
    headers = headers_of(scope)
    principal = runtime.keyring.identify(headers)
    path_route, deployment = route_of(scope), deployment_of(scope)
    if path_route is not None:
        route = runtime.table.by_path(path_route, principal)
        body = await read_body(headers, receive, runtime.config.server.max_body_bytes)
    else:
        if not runtime.anonymous:
            principal.require_known()
        body = await read_body(headers, receive, runtime.config.server.max_body_bytes)
        route = runtime.table.by_model(deployment or _model(body) or _any(runtime, principal), principal)
    path = path_below_v1(scope)
    embeds = path == _EMBEDDINGS and runtime.parts[route.name].embeddings is not None
    if not route.forwards and not embeds:
        raise RequestError(
            f"the route '{route.name}' does not serve /v1{path}; "
            f"set routes.{route.name}.other_paths: forward to pass such requests on unchecked",
            code="path_not_served",
        )
    query = scope.get("query_string", b"").decode("latin-1")
    if query:
        _refuse_own_keys(query, runtime)
    if deployment is not None:
        # The version of Azure's API that the client speaks to us says nothing to the upstream, which may not be Azure.
        query = "&".join(part for part in query.split("&") if not part.startswith("api-version="))
    relay = Relay(desk, runtime, route, principal, scope, headers)
    await relay.run(f"{path}?{query}" if query else path, body, receive, send)


def _refuse_own_keys(query: str, runtime: Runtime) -> None:
    """Raises `RequestError` for a query that would show a key of this gateway to the upstream and its logs.

    It is refused, not taken out: whoever sent it believes that it works, and should know that addresses get logged.
    """
    for name, value in parse_qsl(query, keep_blank_values=True, encoding="latin-1", max_num_fields=None):
        if runtime.keyring.has(value) or runtime.keyring.has(name):
            raise RequestError(
                "the query holds a key of this gateway, which is never passed on; send it as "
                "`Authorization: Bearer <key>`, and have it replaced, as addresses stand in logs",
                code="key_in_query",
            )


def _model(body: bytes) -> str | None:
    try:
        return msgspec.json.decode(body, type=_Named).model
    except (msgspec.DecodeError, RecursionError):
        return None


def _any(runtime: Runtime, principal: Principal) -> str | None:
    """A request that names no model goes to the one route that its caller may use, if there is just one."""
    usable = [
        name
        for name, route in runtime.table.routes.items()
        if principal.may_use(name, passthrough=route.passthrough) and route.forwards
    ]
    return usable[0] if len(usable) == 1 else None


class Relay:
    """One forwarded request and its record."""

    def __init__(
        self,
        desk: GatewayDesk,
        runtime: Runtime,
        route: Route,
        principal: Principal,
        scope: HTTPScope,
        headers: dict[str, str],
    ) -> None:
        self._desk = desk
        self._runtime = runtime
        self._parts = runtime.parts[route.name]
        self._headers = headers
        self._method = scope["method"]
        self._authorization = own_authorization(headers, principal) if route.passthrough else None
        self._started = desk.services.clock()
        self._sent = False
        self._answers: Upstream | LocalEmbeddings = self._parts.upstream
        self._principal = principal
        self._admission = Admission(desk.limiter, runtime.prices, principal)
        self._grant: Grant | None = None
        self._opening = Opening(
            id=desk.new_id(),
            created_at=desk.now(),
            route=route.name,
            path=path_of(scope),
            key_id=principal.key_id,
            request_id=request_id_of(headers),
        )

    async def run(self, path: str, body: bytes, receive: Receive, send: Send) -> None:
        """Pass the request on and its answer back; the record is on disk before the last byte."""
        try:
            place = await self._desk.place(self._runtime, self._opening.route, partial(disconnected, receive))
        except GoneError:
            return
        try:
            await self._at(path, body, receive, send)
        finally:
            place.leave()

    async def _at(self, path: str, body: bytes, receive: Receive, send: Send) -> None:
        if self._principal.quota is not None:
            self._grant = await self._admission.other(len(body))
        opened = self._desk.services.ledger.open(self._opening)
        task = asyncio.current_task()
        assert task is not None
        watch = asyncio.get_running_loop().create_task(disconnected(receive))
        watch.add_done_callback(lambda done: None if done.cancelled() else task.cancel())
        try:
            self._desk.admit(await opened)
            status = await self._pass(path, body, send)
            self._desk.admit(await self._record(Outcome.COMPLETED, status))
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except asyncio.CancelledError:
            self._record(Outcome.CLIENT_CLOSED, CLIENT_CLOSED)
            if not watch.done():
                raise  # the server is stopping
            task.uncancel()
        except GatewayError as error:
            outcome, status = outcome_of(error)
            await self._record(outcome, status, error)
            if not self._sent:
                raise
            # The status has left: an unfinished body is the only honest sign that is still possible.
            raise ConnectionResetError("the upstream was cut off while its answer was passed on") from error
        finally:
            watch.cancel()

    async def _pass(self, path: str, body: bytes, send: Send) -> int:
        own_encoder = self._parts.embeddings if path.partition("?")[0] == _EMBEDDINGS else None
        self._answers = own_encoder or self._parts.upstream
        forwarding = self._answers.forward(self._method, path, self._headers, body, self._authorization)
        async with forwarding as reply:
            own = [(b"x-grounding-exchange", self._opening.id.encode())]
            if self._opening.request_id:
                own.append((b"x-request-id", self._opening.request_id.encode()))
            if self._grant is not None:
                own += encode_headers(self._grant.headers)
            headers = together(encode_headers(reply.headers), own)
            self._sent = True
            await send({"type": "http.response.start", "status": reply.status, "headers": headers})
            async for piece in reply.body:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            return reply.status

    def _record(self, outcome: Outcome, status: int, error: GatewayError | None = None) -> Awaitable[Receipt]:
        opening = self._opening
        if self._grant is not None:
            # Nobody reads what it used; the estimate stands unless there was no answer at all.
            self._grant.settle(self._grant.reserved if self._sent else Ask())
        record = ExchangeRecord(
            id=opening.id,
            created_at=opening.created_at,
            route=opening.route,
            path=opening.path,
            outcome=outcome,
            status=status,
            key_id=opening.key_id,
            request_id=opening.request_id,
            upstream=self._answers.name,
            config_version=self._parts.config_version,
            body_policy=self._parts.config.bodies,
            check_status=Status.NOT_CHECKED.value,
            check_reason=Reason.UNSUPPORTED_CONTENT.value,
            error_code=error.code if error else "",
            error_message=error.message if error else "",
            seconds={"total": self._desk.services.clock() - self._started},
        )
        return self._desk.record(record)
