"""Runs exchanges without a socket: through the edges that clients get, with a send that keeps what left."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from checks.types import Check
from gateway.access.keys import Keyring
from gateway.api.desk import GatewayDesk, Runtime
from gateway.api.ingress import ChatIngress, Ingress
from gateway.api.settle import Settlement
from gateway.app.application import make_desk
from gateway.exchange.parts import Call, RouteParts
from gateway.exchange.path import Exchange
from gateway.ledger.memory import MemoryLedger
from gateway.route import RouteTable
from gateway.upstream.base import Upstream
from gateway.wire import chat
from gateway.wire.fold import fold
from gateway.wire.sse import SseDecoder
from retrieval.types import Retriever
from tests.gateway.kit import NoSources, route_config


@dataclass
class Reply:
    """What the client got, and what was recorded."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    complete: bool = False
    records: list[Any] = field(default_factory=list)
    openings: list[Any] = field(default_factory=list)
    exchange: Callable[[], Exchange | None] = lambda: None
    """The exchange, as long as something holds it."""

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    @property
    def events(self) -> list[bytes]:
        decoder = SseDecoder()
        return [*decoder.feed(self.body), *decoder.finish()]

    @property
    def completion(self) -> dict[str, Any]:
        """The answer as one object, whichever way it came."""
        if self.headers["content-type"].startswith("application/json"):
            return dict(self.json)
        deltas = [chat.parse_delta(data, whole=False) for data in self.events if data != b"[DONE]"]
        return chat.completion_object(fold(deltas))


@dataclass
class Setting:
    """Parts of a route, and how a client asks."""

    upstream: Upstream
    check: Check | None = None
    retriever: Retriever | None = None
    route: dict[str, Any] = field(default_factory=dict)

    async def ask(
        self, *, stream: bool, gone: asyncio.Event | None = None, ingress: Ingress | None = None, **fields: Any
    ) -> Reply:
        """Ask once, by chat completions unless `ingress` says otherwise; `gone` set means that the client has gone."""
        parts_say = {"check": self.check is not None, "retrieval": self.retriever is not None}
        config = route_config(**{**parts_say, **self.route})
        parts = RouteParts(
            name="test",
            config=config.routes["test"],
            upstream=self.upstream,
            retriever=self.retriever,
            check=self.check,
            check_collections=("docs",),
            config_version="v1",
            count_tokens=lambda text: len(text.split()),
        )
        ledger = MemoryLedger()
        await ledger.aopen()
        desk = _desk(config, parts, ledger)
        question = {} if "input" in fields else {"messages": [{"role": "user", "content": "How far?"}]}
        body = {"model": "test", **question, "stream": stream, **fields}
        route = desk.runtime.table.routes["test"]
        read = (ingress or ChatIngress()).read
        asked = read(msgspec.json.encode(body), {}, chat.RequestLimits(), lambda model: route)
        request = asked.request
        effective = route.effective(request.options)
        call = Call(
            id="ex_1",
            created_at=1.0,
            path="/v1/chat/completions",
            release=effective.release,
            action=effective.action,
            check=effective.check,
            source_base="http://gateway",
        )
        reply = Reply()
        exchange = Exchange(parts, request, call, desk.services)
        reply.exchange = weakref.ref(exchange)
        await Settlement(exchange, desk, _send(reply), asked.dialect, grace=60).run(_receive(gone))
        await desk.close()
        reply.records, reply.openings = ledger.records, ledger.openings
        return reply


def _desk(config: Any, parts: RouteParts, ledger: MemoryLedger) -> GatewayDesk:
    runtime = Runtime(
        config=config,
        version="v1",
        table=RouteTable(config),
        parts={"test": parts},
        keyring=Keyring((), loopback=True),
        sources=NoSources(),
    )
    return make_desk(runtime, ledger, b"k" * 32)


def _send(reply: Reply) -> Any:
    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            reply.status = message["status"]
            reply.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            reply.body += message["body"]
            reply.complete = not message.get("more_body", False)

    return send


def _receive(gone: asyncio.Event | None) -> Any:
    async def receive() -> Any:
        await (gone or asyncio.Event()).wait()
        return {"type": "http.disconnect"}

    return receive
