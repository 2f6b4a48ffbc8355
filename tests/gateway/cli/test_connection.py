"""A client's connection: who sends or reads nothing is not waited for without end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn

from gateway.cli.connection import BoundedConnection

READ_S = 10
HEAD = b"POST / HTTP/1.1\r\nhost: x\r\n"


class HastyConnection(BoundedConnection):
    """The same with little patience."""

    patience_s = 0.05
    stall_s = 0.05


class App:
    """Reads a body to its end, then answers with `pieces` of 100,000 bytes; `ended` once no more can be sent."""

    def __init__(self, pieces: int = 1) -> None:
        self.pieces = pieces
        self.sent = 0
        self.ended = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        while (message := await receive()).get("more_body"):
            pass
        if message["type"] == "http.request":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            for _ in range(self.pieces):
                await send({"type": "http.response.body", "body": b"a" * 100_000, "more_body": True})
                self.sent += 1
            await send({"type": "http.response.body", "body": b""})
        self.ended.set()


@asynccontextmanager
async def listening(app: App) -> AsyncGenerator[int, None]:
    settings = uvicorn.Config(app, port=0, http=HastyConnection, ws="none", lifespan="off", log_config=None)
    settings.load()
    server = uvicorn.Server(settings)
    server.lifespan = settings.lifespan_class(settings)
    await server.startup()
    try:
        yield int(server.servers[0].sockets[0].getsockname()[1])
    finally:
        await server.shutdown()


@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        (b"", b""),
        (HEAD, b"HTTP/1.1 408 Request Timeout"),
        (HEAD + b"content-length: 100000\r\n\r\nabc", b""),
        (HEAD + b"transfer-encoding: chunked\r\n\r\n5\r\nab", b""),
    ],
    ids=["nothing", "half a head", "half a body", "half a piece"],
)
async def test_a_client_that_falls_silent_does_not_hold_a_place_for_ever(sent: bytes, answer: bytes) -> None:
    async with listening(App()) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        async with asyncio.timeout(READ_S):
            assert (await reader.read()).partition(b"\r\n")[0] == answer
        writer.close()


async def test_a_client_that_reads_nothing_of_a_long_answer_does_not_hold_a_place_for_ever() -> None:
    app = App(1_000)
    async with listening(app) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1_000)
        writer.write(HEAD + b"content-length: 0\r\n\r\n")
        async with asyncio.timeout(READ_S):
            await app.ended.wait()
        # The connection is gone: most of what was not read is not to be had any more.
        received = 0
        with contextlib.suppress(ConnectionError):
            while piece := await reader.read(1_000_000):
                received += len(piece)
        assert received < app.pieces * 100_000 / 2
        writer.close()


async def test_a_client_that_reads_a_long_answer_gets_all_of_it() -> None:
    app = App(100)
    async with listening(app) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(HEAD + b"content-length: 0\r\nconnection: close\r\n\r\n")
        async with asyncio.timeout(READ_S):
            assert (await reader.read()).count(b"a") >= 10_000_000
        writer.close()
