"""A gateway in the test's own event loop, over real sockets, from parts that the test chooses."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import msgspec
import uvicorn
from openai import AsyncOpenAI

from checks.types import Check
from gateway.access.keys import Keyring
from gateway.api.desk import GatewayDesk, Runtime
from gateway.app.application import create_app, make_desk
from gateway.config.model import GatewayConfig
from gateway.exchange.parts import RouteParts
from gateway.ledger.memory import MemoryLedger
from gateway.route import RouteTable
from gateway.upstream.base import Upstream
from retrieval.types import Hit, Passage, Retrieved, Retriever, Scope


def passage(number: int, text: str, *, url: str | None = None) -> Passage:
    """A passage of a document of its own."""
    return Passage(
        id=f"p{number}",
        document_id=f"d{number}",
        title=f"Document {number}",
        text=text,
        start=0,
        end=len(text),
        sha256=f"{number:064x}",
        url=url,
    )


def hits(*texts: str) -> tuple[Hit, ...]:
    """Hits with falling scores."""
    return tuple(Hit(passage(n, text), 0.9 - n / 100) for n, text in enumerate(texts, 1))


class StaticRetriever:
    """Finds the same hits for every query."""

    def __init__(self, found: tuple[Hit, ...]) -> None:
        self.found = found
        self.queries: list[str] = []

    async def retrieve(self, query: str, scope: Scope) -> Retrieved:
        self.queries.append(query)
        return Retrieved(self.found)


class NoSources:
    """A lookup that knows nothing."""

    def passage(self, passage_id: str, routes: Any, groups: frozenset[str]) -> Passage | None:
        return None


@dataclass
class Gateway:
    """A running gateway and what it recorded."""

    base_url: str
    desk: GatewayDesk
    ledger: MemoryLedger
    http: httpx.AsyncClient
    openai: AsyncOpenAI = field(repr=False)

    @property
    def records(self) -> list[Any]:
        return self.ledger.records


def route_config(**route: Any) -> GatewayConfig:
    """A configuration with the one route `test`; `check: True` stands for a fact-check, `False` for none."""
    section = {"upstream": "main", **route}
    check = section.pop("check", False)
    if check:
        section["check"] = {"kind": "facts", "collections": ["docs"]} if check is True else check
    if section.pop("retrieval", False):
        section["retrieval"] = {"collections": ["docs"]}
    return GatewayConfig.model_validate(
        {
            "upstreams": {"main": {"kind": "openai", "base_url": "http://127.0.0.1:9/v1"}},
            "collections": {"docs": {}},
            "routes": {"test": {"model": "m", **section}},
        }
    )


@asynccontextmanager
async def gateway(
    upstream: Upstream,
    *,
    check: Check | None = None,
    retriever: Retriever | None = None,
    config: GatewayConfig | None = None,
    ledger: MemoryLedger | None = None,
    **route: Any,
) -> AsyncGenerator[Gateway, None]:
    """Serve one route made of these parts; its settings are `route`'s, beside those that the parts imply."""
    config = config or route_config(check=check is not None, retrieval=retriever is not None, **route)
    parts = RouteParts(
        name="test",
        config=config.routes["test"],
        upstream=upstream,
        retriever=retriever,
        check=check,
        check_collections=("docs",) if check else (),
        config_version="v1",
        count_tokens=lambda text: len(text.split()),
    )
    memory = ledger or MemoryLedger()
    await memory.aopen()
    runtime = Runtime(
        config=config,
        version="v1",
        table=RouteTable(config),
        parts={"test": parts},
        keyring=Keyring(config.keys, loopback=True),
        sources=NoSources(),
    )
    await upstream.aopen()
    desk = make_desk(runtime, memory, b"k" * 32)
    try:
        async with (
            listening(desk) as base_url,
            httpx.AsyncClient(base_url=base_url, timeout=30) as http,
            AsyncOpenAI(base_url=f"{base_url}/v1", api_key="none", max_retries=0) as client,
        ):
            yield Gateway(base_url, desk, memory, http, client)
    finally:
        await desk.close()
        await upstream.aclose()


@asynccontextmanager
async def listening(desk: GatewayDesk) -> AsyncGenerator[str, None]:
    """The desk's application on a free port; its base URL."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        settings = uvicorn.Config(
            create_app(lambda: desk), http="httptools", lifespan="off", log_config=None, access_log=False, ws="none"
        )
        started = asyncio.Event()

        class Watched(uvicorn.Server):
            async def startup(self, sockets: list[socket.socket] | None = None) -> None:
                await super().startup(sockets)
                started.set()

        server = Watched(settings)
        serving = asyncio.create_task(server._serve([listener]))
        await started.wait()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            server.force_exit = True
            await serving


def chat_body(text: str = "How far does it go?", **fields: Any) -> dict[str, Any]:
    """A request body for the test route."""
    return {"model": "test", "messages": [{"role": "user", "content": text}], **fields}


def static(*texts: str) -> StaticRetriever:
    """A retriever that always finds these."""
    return StaticRetriever(hits(*texts))


def without(record: Any, *names: str) -> Mapping[str, Any]:
    """A record as a mapping, without what differs between any two exchanges."""
    value = msgspec.to_builtins(record)
    return {key: item for key, item in value.items() if key not in {"id", "created_at", "seconds", "attempts", *names}}
