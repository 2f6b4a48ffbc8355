"""A scriptable OpenAI-compatible server on real sockets, for tests of everything that calls an upstream.

    async with UpstreamServer() as server:                 # a free port on 127.0.0.1; server.base_url ends in /v1
        server.enqueue(json_reply(completion("Hello")))    # answered in order, one script a request
        server.on_model("slow", sse_reply(chat_events("Hi"), gates={2: gate}))   # by model, when the queue is empty
        server.default = ...                                # when neither fits; a plain completion unless set
        ...
        received = await server.request(0)                  # the first request, waited for
        received.body, received.json, received.headers["authorization"], received.connection
        await received.closed.wait()                        # the client closed the connection of this request
        received.finished                                   # an Event: the script was played to its end

A script is a `Reply`: a list of steps, played in order on the connection:

    bytes            are written as they are
    asyncio.Event    is waited for (slow servers without sleeping)
    RESET            closes with TCP RST, FIN closes in order, YIELD lets the loop run (so that writes arrive apart)
    callable         is called with the `Received`; its awaitable result is awaited

Builders for replies (`json_reply`, `sse_reply`, `error_reply`, `raw_reply`) and for bodies (`completion`,
`chat_events`, `tool_call_events`) follow below; every fault has a parameter:

    sse_reply(events, split=1)                 every byte of the body in a write (and HTTP chunk) of its own
    sse_reply(events, newline="\\r\\n")          CRLF, or "\\r"
    sse_reply(events, comments=True)           a comment before every event
    sse_reply(events, done=False)              no [DONE];  final_newline=False: the last line has no end
    sse_reply(events, gates={k: event})        event k (from 0) waits for the asyncio.Event
    sse_reply(events, cut_after=k, cut=RESET)  only k events, then RST (or FIN)
    sse_reply([b"{broken", ...])               bytes stand for an event's data as it is
    sse_reply(events, encoding="gzip")         gzip, deflate, br, zstd; likewise json_reply
    sse_reply(events, framing="close")         chunked (default), length, or until the connection closes
    sse_reply(events, content_type=None)       no or a wrong content type; likewise json_reply
    error_reply(429, retry_after="1")          OpenAI's error envelope with a status

`UpstreamServer(ssl=context)` serves TLS; `connections` counts the connections ever made, `open_connections` those now.
A reply keeps its connection open for the next request unless it closes it. Nothing here sleeps.
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl as tls
import struct
import zlib
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from types import TracebackType
from typing import Any, Self, cast

import brotli  # type: ignore[import-untyped]
from backports import zstd


class Act(Enum):
    """Things done to a connection."""

    RESET = "reset"
    FIN = "fin"
    YIELD = "yield"


RESET, FIN, YIELD = Act.RESET, Act.FIN, Act.YIELD


@dataclass(eq=False)
class Received:
    """One request as it came. `headers` has lower-case names; `connection` counts from 1."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    connection: int
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    finished: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def json(self) -> Any:
        return json.loads(self.body)


Step = bytes | asyncio.Event | Act | Callable[[Received], Awaitable[None] | None]


@dataclass(frozen=True)
class Reply:
    """What happens on the connection after a request."""

    steps: tuple[Step, ...]


Event = bytes | str | Mapping[str, Any]

# ---------------------------------------------------------------- replies


def raw_reply(*steps: Step) -> Reply:
    """Steps as they are; the status line is yours."""
    return Reply(steps)


def head(status: int, headers: Iterable[tuple[str, str]]) -> bytes:
    """Status line and headers of an answer."""
    lines = [f"HTTP/1.1 {status} Status", *(f"{name}: {value}" for name, value in headers), "", ""]
    return "\r\n".join(lines).encode("latin-1")


def json_reply(
    value: Any,
    *,
    status: int = 200,
    headers: Iterable[tuple[str, str]] = (),
    content_type: str | None = "application/json",
    encoding: str | None = None,
    truncate: int | None = None,
    gate: asyncio.Event | None = None,
) -> Reply:
    """A JSON body (bytes as they are). `truncate` sends only so many bytes of it, then FIN; `gate` holds it back."""
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    fields = list(headers)
    if content_type is not None:
        fields.append(("content-type", content_type))
    if encoding is not None:
        body = b"".join(compressed([body], encoding))
        fields.append(("content-encoding", encoding))
    fields.append(("content-length", str(len(body))))
    steps: list[Step] = [head(status, fields)]
    if gate is not None:
        steps.append(gate)
    steps += [body] if truncate is None else [body[:truncate], FIN]
    return Reply(tuple(steps))


def error_reply(status: int, *, message: str = "refused", retry_after: str | None = None, code: str = "err") -> Reply:
    """OpenAI's error envelope with a status, and `retry-after` if given."""
    envelope = {"error": {"message": message, "type": "server_error", "param": None, "code": code}}
    headers = [] if retry_after is None else [("retry-after", retry_after)]
    return json_reply(envelope, status=status, headers=headers)


def sse_reply(
    events: Sequence[Event],
    *,
    split: int | None = None,
    newline: str = "\n",
    comments: bool = False,
    done: bool = True,
    final_newline: bool = True,
    gates: Mapping[int, asyncio.Event] | None = None,
    cut_after: int | None = None,
    cut: Act = FIN,
    encoding: str | None = None,
    framing: str = "chunked",
    content_type: str | None = "text/event-stream",
    status: int = 200,
    headers: Iterable[tuple[str, str]] = (),
) -> Reply:
    """An event stream; see the module for the faults."""
    parts = [_event_bytes(event, newline, comments) for event in events]
    if done:
        parts.append(_event_bytes("[DONE]", newline, comments))
    if not final_newline and parts:
        parts[-1] = parts[-1].rstrip(b"\r\n")
    gated: dict[int, asyncio.Event] = dict(gates or {})
    if cut_after is not None:
        parts = parts[:cut_after]
        gated = {place: event for place, event in gated.items() if place <= cut_after}
    if encoding is not None:
        parts = compressed(parts, encoding)
    fields = list(headers)
    if content_type is not None:
        fields.append(("content-type", content_type))
    if encoding is not None:
        fields.append(("content-encoding", encoding))
    fields.append(_framing_header(framing, sum(map(len, parts))))
    steps: list[Step] = [head(status, fields)]
    for place, part in enumerate(parts):
        if place in gated:
            steps.append(gated[place])
        steps += _written(part, split, framing)
    if len(parts) in gated:
        steps.append(gated[len(parts)])
    if cut_after is not None:
        steps.append(cut)
    elif framing == "chunked":
        steps.append(b"0\r\n\r\n")
    elif framing == "close":
        steps.append(FIN)
    return Reply(tuple(steps))


def _framing_header(framing: str, size: int) -> tuple[str, str]:
    return {
        "chunked": ("transfer-encoding", "chunked"),
        "length": ("content-length", str(size)),
        "close": ("connection", "close"),
    }[framing]


def _event_bytes(event: Event, newline: str, comments: bool) -> bytes:
    data = event if isinstance(event, bytes) else (event if isinstance(event, str) else json.dumps(event)).encode()
    end = newline.encode()
    return (b": ping" + end if comments else b"") + b"data: " + data + end + end


def _written(part: bytes, split: int | None, framing: str) -> list[Step]:
    size = split or len(part) or 1
    steps: list[Step] = []
    for start in range(0, len(part), size):
        piece = part[start : start + size]
        steps.append(b"%x\r\n%s\r\n" % (len(piece), piece) if framing == "chunked" else piece)
        steps.append(YIELD)
    return steps


def compressed(parts: Sequence[bytes], encoding: str) -> list[bytes]:
    """The parts as one compressed body in as many parts, each flushed, so that a reader can decode it at once."""
    if encoding in ("gzip", "deflate"):
        packer = zlib.compressobj(wbits=31 if encoding == "gzip" else 15)
        out = [packer.compress(part) + packer.flush(zlib.Z_SYNC_FLUSH) for part in parts]
        return [*out[:-1], out[-1] + packer.flush()]
    if encoding == "br":
        press = brotli.Compressor()
        out = [press.process(part) + press.flush() for part in parts]
        return [*out[:-1], out[-1] + press.finish()]
    if encoding == "zstd":
        pack = zstd.ZstdCompressor()
        out = [pack.compress(part, zstd.ZstdCompressor.FLUSH_BLOCK) for part in parts]
        return [*out[:-1], out[-1] + pack.flush(zstd.ZstdCompressor.FLUSH_FRAME)]
    raise ValueError(encoding)


# ---------------------------------------------------------------- bodies


def completion(
    text: str | None = "Hello there.", *, n: int = 1, model: str = "test-model", finish: str = "stop", **message: Any
) -> dict[str, Any]:
    """A whole `chat.completion`; further arguments become fields of each message."""
    whole = {"role": "assistant", "content": text, "refusal": None, **message}
    return {
        "id": "chatcmpl-test",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": model,
        "choices": [
            {"index": index, "message": whole, "logprobs": None, "finish_reason": finish} for index in range(n)
        ],
        "usage": {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8},
    }


def chunk(choices: list[dict[str, Any]], **top: Any) -> dict[str, Any]:
    """One `chat.completion.chunk`."""
    return {
        "id": "chatcmpl-test",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": "test-model",
        "choices": choices,
        **top,
    }


def chat_events(
    text: str = "Hello there.",
    *,
    n: int = 1,
    pieces: int = 4,
    finish: str | None = "stop",
    usage: bool = False,
    logprobs: bool = False,
) -> list[dict[str, Any]]:
    """Events of a streamed answer: role, `pieces` pieces of text per choice (interleaved), finish, usage."""
    size = max(1, -(-len(text) // pieces))
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": text[start : start + size]} for start in range(0, len(text), size)]
    events = []
    for delta in deltas:
        for index in range(n):
            choice: dict[str, Any] = {"index": index, "delta": delta, "finish_reason": None}
            if logprobs:
                token = {"token": delta["content"], "logprob": -0.25, "bytes": None, "top_logprobs": []}
                choice["logprobs"] = {"content": [token], "refusal": None}
            events.append(chunk([choice]))
    if finish is not None:
        events += [chunk([{"index": index, "delta": {}, "finish_reason": finish}]) for index in range(n)]
    if usage:
        events.append(chunk([], usage={"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}))
    return events


def tool_call_events(calls: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    """Events of parallel tool calls, (name, arguments) each, the arguments in two pieces, the calls interleaved."""

    def event(index: int, **call: Any) -> dict[str, Any]:
        return chunk([{"index": 0, "delta": {"tool_calls": [{"index": index, **call}]}, "finish_reason": None}])

    events = [chunk([{"index": 0, "delta": {"role": "assistant", "content": None}, "finish_reason": None}])]
    for index, (name, _) in enumerate(calls):
        function = {"name": name, "arguments": ""}
        events.append(event(index, id=f"call_{index}", type="function", function=function))
    for half in (0, 1):
        for index, (_, arguments) in enumerate(calls):
            middle = len(arguments) // 2
            piece = arguments[middle:] if half else arguments[:middle]
            events.append(event(index, function={"arguments": piece}))
    events.append(chunk([{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]))
    return events


# ---------------------------------------------------------------- server


class UpstreamServer:
    """The server; see the module. Use as `async with`, or `start()` and `stop()`."""

    def __init__(self, *, ssl: tls.SSLContext | None = None, port: int = 0) -> None:
        self._ssl = ssl
        self._port = port
        self._server: asyncio.Server | None = None
        self._queue: deque[Reply] = deque()
        self._models: dict[str, Reply] = {}
        self._arrived = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()
        self._open: set[_Connection] = set()
        self.default = json_reply(completion())
        self.requests: list[Received] = []
        self.connections = 0

    @property
    def port(self) -> int:
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    @property
    def base_url(self) -> str:
        host = "localhost" if self._ssl else "127.0.0.1"
        return f"{'https' if self._ssl else 'http'}://{host}:{self.port}/v1"

    @property
    def open_connections(self) -> int:
        return len(self._open)

    def enqueue(self, *replies: Reply) -> None:
        """Answer the next requests with these, in order."""
        self._queue.extend(replies)

    def on_model(self, model: str, reply: Reply) -> None:
        """Answer requests for `model` with this, again and again."""
        self._models[model] = reply

    def forget(self) -> None:
        """No script and no request from before: as after the start, on the same connections."""
        self._queue.clear()
        self._models.clear()
        self.requests.clear()
        self.default = json_reply(completion())

    async def request(self, number: int) -> Received:
        """Request `number` (from 0), waited for."""
        async with self._arrived:
            await self._arrived.wait_for(lambda: len(self.requests) > number)
        return self.requests[number]

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: _Connection(self), "127.0.0.1", self._port, ssl=self._ssl, reuse_address=True
        )

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for connection in list(self._open):
            connection.transport.abort()
        if self._server is not None:
            await self._server.wait_closed()
        self._server = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def _reply_to(self, received: Received) -> Reply:
        if self._queue:
            return self._queue.popleft()
        try:
            model = received.json.get("model")
        except (ValueError, AttributeError):
            model = None
        return self._models.get(model, self.default)

    def _serve(self, connection: _Connection, received: Received) -> asyncio.Task[None]:
        self.requests.append(received)
        task = asyncio.create_task(self._play(connection, received, self._reply_to(received)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _play(self, connection: _Connection, received: Received, reply: Reply) -> None:
        async with self._arrived:
            self._arrived.notify_all()
        for step in reply.steps:
            if isinstance(step, bytes):
                connection.transport.write(step)
                await connection.writable.wait()
            elif isinstance(step, asyncio.Event):
                await step.wait()
            elif step is YIELD:
                await asyncio.sleep(0)
            elif step is RESET:
                connection.reset()
            elif step is FIN:
                connection.transport.close()
            elif callable(step):
                result = step(received)
                if result is not None:
                    await result
        received.finished.set()
        connection.served()


class _Connection(asyncio.Protocol):
    """One connection: requests in, each after the answer to the one before."""

    transport: asyncio.Transport

    def __init__(self, server: UpstreamServer) -> None:
        self._server = server
        self._buffer = bytearray()
        self._current: Received | None = None
        self._task: asyncio.Task[None] | None = None
        self._number = 0
        self.writable = asyncio.Event()
        self.writable.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's transports are no subclass
        self._server.connections += 1
        self._number = self._server.connections
        self._server._open.add(self)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if self._task is None:
            self._next()

    def served(self) -> None:
        self._task = None
        self._next()

    def _next(self) -> None:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0 or self.transport.is_closing():
            return
        first, *lines = bytes(self._buffer[:end]).decode("latin-1").split("\r\n")
        method, path, _ = first.split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        length = int(headers.get("content-length", 0))
        if len(self._buffer) < end + 4 + length:
            return
        body = bytes(self._buffer[end + 4 : end + 4 + length])
        del self._buffer[: end + 4 + length]
        self._current = Received(method, path, headers, body, self._number)
        self._task = self._server._serve(self, self._current)

    def pause_writing(self) -> None:
        self.writable.clear()

    def resume_writing(self) -> None:
        self.writable.set()

    def reset(self) -> None:
        sock = self.transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    def eof_received(self) -> None:
        self._gone()

    def connection_lost(self, exc: Exception | None) -> None:
        self._server._open.discard(self)
        self.writable.set()
        self._gone()

    def _gone(self) -> None:
        if self._current is not None:
            self._current.closed.set()
        # A script that waits for a gate would hold the test open.
        if self._task is not None:
            self._task.cancel()
