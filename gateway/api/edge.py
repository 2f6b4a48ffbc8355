"""Events to bytes on an ASGI connection: the one place that knows whether the client streams.

`PlainEdge` collects the events into one JSON body, `StreamEdge` frames each as a server-sent event, both in the words
of the client's dialect. Both send the response's start as late as they can, so that an error before the first byte
still gets its own status.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Protocol

import msgspec
from litestar.types import Send

from gateway.errors import (
    GatewayError,
    OverloadedError,
    RateLimitedError,
    UpstreamProtocolError,
    UpstreamStatusError,
    UpstreamUnavailableError,
)
from gateway.quota import RATE_HEADERS
from gateway.release import Out
from gateway.wire import chat, sse
from gateway.wire.dialect import CHAT, Dialect, StreamWriter
from gateway.wire.fold import Fold

Headers = list[tuple[bytes, bytes]]

LONGEST_RETRY_S: Final = 60
"""A wait beyond is for a person or a scheduler to decide about, not for a client's own retries."""
_RATE_HEADERS: Final = tuple(name.encode() for name in RATE_HEADERS)

_JSON = (b"content-type", b"application/json")
_STREAM: Headers = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]


def encode_headers(headers: Mapping[str, str]) -> Headers:
    """Header map to ASGI's form."""
    return [(name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in headers.items()]


def together(upstream: Headers, own: Headers) -> Headers:
    """One header of a name: ours wins over the upstream's. Where a key's limits are told, nobody else's are."""
    if not upstream:
        return own
    names = {name for name, _ in own}
    if any(name.startswith(_RATE_HEADERS) for name in names):
        upstream = [header for header in upstream if not header[0].startswith(_RATE_HEADERS)]
    return [header for header in upstream if header[0] not in names] + own


def error_response(error: GatewayError, dialect: Dialect = CHAT) -> tuple[int, bytes, Headers]:
    """Status, body and headers of an error. An upstream's error passes through as it came, if the dialect is one."""
    status, body, headers = _error_response(error)
    if dialect is not CHAT:
        body = dialect.error(status, body)
        headers = [_JSON, *(header for header in headers if header[0] != _JSON[0])]
    return status, body, headers


def _error_response(error: GatewayError) -> tuple[int, bytes, Headers]:
    headers: Headers = [_JSON]
    if isinstance(error, UpstreamStatusError):
        passed = encode_headers(error.headers)
        if any(name == b"content-type" for name, _ in passed):
            headers = []
        return error.upstream_status, error.body, headers + passed
    if error.retry is not None:
        headers.append((b"x-should-retry", b"true" if error.retry else b"false"))
    if isinstance(error, OverloadedError | UpstreamUnavailableError):
        headers.append((b"retry-after", str(error.retry_after).encode()))
    if isinstance(error, RateLimitedError):
        wait_s = error.retry_after
        # Who retries by itself, as the SDKs do, gains nothing by trying before, nor by waiting for a budget.
        headers.append((b"x-should-retry", b"true" if wait_s is not None and wait_s <= LONGEST_RETRY_S else b"false"))
        headers += [(b"retry-after", str(wait_s).encode())] if wait_s is not None else []
        headers += encode_headers(error.headers)
    return error.status, msgspec.json.encode(error.envelope()), headers


def error_payload(error: GatewayError) -> bytes:
    """The error object of an event inside a stream; the upstream's own where it sent one."""
    if isinstance(error, UpstreamProtocolError) and error.body:
        return error.body
    if isinstance(error, UpstreamStatusError):
        try:
            if isinstance(msgspec.json.decode(error.body), dict):
                return error.body
        except msgspec.DecodeError:
            pass
    return msgspec.json.encode(error.envelope())


async def send_json(send: Send, status: int, body: bytes, headers: Headers) -> None:
    """A whole response at once."""
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [*headers, (b"content-length", str(len(body)).encode())],
        }
    )
    await send({"type": "http.response.body", "body": body, "more_body": False})


class Edge(Protocol):
    """Where events go. `started` is True once a byte has left."""

    started: bool

    def head(self, status: int, headers: Mapping[str, str]) -> None: ...

    async def out(self, outs: Sequence[Out]) -> None: ...

    async def end(self) -> None: ...

    async def fail(self, error: GatewayError) -> None: ...

    def stop(self) -> None: ...


class PlainEdge:
    """One JSON body, sent when the exchange has been recorded. `own` gives our headers at the moment of sending.

    `held` tells the dialect that nothing leaves before the verdict.
    """

    def __init__(self, send: Send, own: Callable[[], Headers], dialect: Dialect = CHAT, *, held: bool = False) -> None:
        self.started = False
        self._send = send
        self._own = own
        self._dialect = dialect
        self._held = held
        self._status = 200
        self._headers: Headers = []
        self._whole: bytes | None = None
        self._fold: Fold | None = None

    def head(self, status: int, headers: Mapping[str, str]) -> None:
        self._status = status
        self._headers = [h for h in encode_headers(headers) if h[0] != b"content-type"]

    async def out(self, outs: Sequence[Out]) -> None:
        for out in outs:
            if out.whole:
                self._whole = out.data
                continue
            if self._fold is None:
                self._fold = Fold()
            self._fold.add(chat.parse_delta(out.data, whole=False))

    async def end(self) -> None:
        body = self._whole
        if body is None:
            body = chat.completion((self._fold or Fold()).answer())
        body = self._dialect.body(body, held=self._held)
        self.started = True
        await send_json(self._send, self._status, body, [_JSON, *together(self._headers, self._own())])

    async def fail(self, error: GatewayError) -> None:
        self.started = True
        status, body, headers = error_response(error, self._dialect)
        await send_json(self._send, status, body, together(headers, self._own()))

    def stop(self) -> None:
        """Nothing runs beside it."""


class StreamEdge:
    """Server-sent events. After `grace` seconds without a byte a comment line keeps the connection alive.

    The first byte waits for `ready` (the opening's place on disk), which may refuse by a `GatewayError`.
    """

    def __init__(
        self,
        send: Send,
        own: Callable[[], Headers],
        ready: Callable[[], Awaitable[None]],
        writer: StreamWriter,
        dialect: Dialect = CHAT,
        *,
        grace: float,
    ) -> None:
        self.started = False
        self._send = send
        self._own = own
        self._ready = ready
        self._starting = asyncio.Lock()
        self._grace = grace
        self._writer = writer
        self._dialect = dialect
        self._status = 200
        self._headers: Headers = []
        self._ended = False
        self._loop = asyncio.get_running_loop()
        self._last = self._loop.time()
        self._timer = self._loop.call_later(grace, self._tick)
        self._keeping: asyncio.Task[None] | None = None

    def head(self, status: int, headers: Mapping[str, str]) -> None:
        self._status = status
        self._headers = [h for h in encode_headers(headers) if h[0] != b"content-type"]

    async def out(self, outs: Sequence[Out]) -> None:
        writer = self._writer
        data = b"".join([writer.whole(out.data) if out.whole else writer.chunk(out.data) for out in outs])
        if data:
            await self._write(data)

    async def end(self) -> None:
        await self._close(self._writer.close())

    async def fail(self, error: GatewayError) -> None:
        """A real error response while nothing was sent; one error event, and no clean end, afterwards."""
        if self.started:
            await self._close(self._writer.fail(error_payload(error)))
            return
        self.stop()
        self.started = True
        status, body, headers = error_response(error, self._dialect)
        await send_json(self._send, status, body, together(headers, self._own()))

    def stop(self) -> None:
        """No keep-alive from now on."""
        self._ended = True
        self._timer.cancel()

    async def _close(self, last: bytes) -> None:
        self.stop()
        await self._start()
        await self._send({"type": "http.response.body", "body": last, "more_body": False})

    async def _write(self, data: bytes) -> None:
        self._last = self._loop.time()
        if not self.started:
            await self._start()
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def _start(self) -> None:
        async with self._starting:  # a keep-alive and the first delta may come at the same moment
            if self.started:
                return
            await self._ready()
            self.started = True
            headers = [*_STREAM, *together(self._headers, self._own())]
            await self._send({"type": "http.response.start", "status": self._status, "headers": headers})

    def _tick(self) -> None:
        """Runs after each grace; one timer a stream, not one a delta."""
        if self._ended:
            return
        idle = self._loop.time() - self._last
        if idle < self._grace:
            self._timer = self._loop.call_later(self._grace - idle, self._tick)
            return
        if self._keeping is None or self._keeping.done():
            self._keeping = self._loop.create_task(self._write(sse.comment("keep-alive")))
        self._timer = self._loop.call_later(self._grace, self._tick)
