"""A scriptable server and upstreams that point at it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import msgspec
import pytest

from gateway.upstream.base import UpstreamReply, UpstreamRequest
from gateway.upstream.openai import OpenAISettings, OpenAIUpstream
from gateway.upstream.retrying import RetryPolicy
from gateway.wire.types import Delta
from tests.servers.upstream import UpstreamServer

Connect = Callable[..., Awaitable[OpenAIUpstream]]

AT_ONCE = RetryPolicy(attempts=3, base_delay_s=0.0)


@pytest.fixture
async def server() -> AsyncIterator[UpstreamServer]:
    async with UpstreamServer() as server:
        yield server


@pytest.fixture
async def connect(server: UpstreamServer) -> AsyncIterator[Connect]:
    """`await connect(**settings)` opens an upstream at the server; it is closed at the end."""
    async with AsyncExitStack() as stack:

        async def opened(**settings: Any) -> OpenAIUpstream:
            values: dict[str, Any] = {"base_url": server.base_url, "api_key": "sk-ours", "retries": AT_ONCE, **settings}
            upstream = OpenAIUpstream(OpenAISettings(**values), "main", jitter=lambda: 0.0)
            await upstream.aopen()
            stack.push_async_callback(upstream.aclose)
            return upstream

        yield opened


def ask(*, stream: bool = False, **changes: Any) -> UpstreamRequest:
    """A chat request."""
    fields = changes.pop("fields", {})
    body = {"model": "m", "messages": [{"role": "user", "content": "Hello?"}], "stream": stream, **fields}
    values: dict[str, Any] = {
        "path": "/v1/chat/completions",
        "body": msgspec.json.encode(body),
        "stream": stream,
        "model": "m",
        **changes,
    }
    return UpstreamRequest(**values)


def texts(deltas: list[Delta]) -> dict[int, str]:
    """Content by choice index, whatever the shape of the answer."""
    out: dict[int, str] = {}
    for delta in deltas:
        for choice in delta.view.choices or ():
            part = choice.message if delta.whole else choice.delta
            if part is not None and isinstance(part.content, str):
                out[choice.index] = out.get(choice.index, "") + part.content
    return out


async def everything(reply: UpstreamReply) -> list[Delta]:
    return [delta async for delta in reply.deltas]


async def collect(reply: UpstreamReply, into: list[Delta]) -> None:
    """Append what comes, so that it is there also after an error."""
    async for delta in reply.deltas:
        into.append(delta)  # noqa: PERF401  (a comprehension would lose those before the error)
