"""A very fast stand-in for a model server: a fixed completion of about 1 KB, or a paced event stream.

    python -m bench.servers.mock_upstream --port 9001 [--delay-ms 0] [--events 64] [--interval-ms 0]

POST anything: with `"stream": true` in the body the answer is `--events` events, `--interval-ms` apart, then `[DONE]`;
otherwise the completion, after `--delay-ms`. GET answers `ok`. It parses no JSON and allocates next to nothing, so that
what a benchmark measures is what stands in front of it.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
from dataclasses import dataclass
from typing import cast

import uvloop

TEXT = (
    "Orders are shipped within two working days, and an item may be returned within thirty days of its delivery. "
    "The refund is paid to the card that was used for the order, normally within five working days. "
)


@dataclass(frozen=True, slots=True)
class Answers:
    """Everything that is ever sent, ready to write."""

    whole: bytes
    stream_head: bytes
    events: tuple[bytes, ...]
    stream_end: bytes
    ok: bytes
    delay_s: float
    interval_s: float


def answers(events: int, delay_s: float, interval_s: float) -> Answers:
    """Build the answers; the completion is about 1 KB."""
    body = (
        '{"id":"chatcmpl-bench","object":"chat.completion","created":1700000000,"model":"bench","choices":[{"index":0,'
        '"message":{"role":"assistant","content":"' + TEXT * 4 + '","refusal":null,"annotations":[]},"logprobs":null,'
        '"finish_reason":"stop"}],"usage":{"prompt_tokens":40,"completion_tokens":160,"total_tokens":200},'
        '"system_fingerprint":"fp_bench"}'
    ).encode()
    base = '{"id":"chatcmpl-bench","object":"chat.completion.chunk","created":1700000000,"model":"bench","choices":'
    words = TEXT.split()
    texts = [
        f'[{{"index":0,"delta":{{"content":"{words[i % len(words)]} "}},"finish_reason":null}}]' for i in range(events)
    ]
    texts.insert(0, '[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]')
    texts.append('[{"index":0,"delta":{},"finish_reason":"stop"}]')
    return Answers(
        whole=_head("application/json", f"content-length: {len(body)}") + body,
        stream_head=_head("text/event-stream", "transfer-encoding: chunked"),
        events=tuple(_http_chunk(f"data: {base}{text}}}\n\n".encode()) for text in texts),
        stream_end=_http_chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n",
        ok=_head("text/plain", "content-length: 2") + b"ok",
        delay_s=delay_s,
        interval_s=interval_s,
    )


def _head(content_type: str, framing: str) -> bytes:
    return f"HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\n{framing}\r\n\r\n".encode()


def _http_chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


class MockUpstream(asyncio.Protocol):
    """One connection. Requests have a content-length and come one at a time."""

    transport: asyncio.Transport

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._buffer = b""
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's transports are no subclass

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        self._buffer = self._buffer + data if self._buffer else data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = self._buffer[:end].lower()
        at = head.find(b"content-length:")
        length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
        if len(self._buffer) < end + 4 + length:
            return
        body = self._buffer[end + 4 : end + 4 + length]
        self._buffer = self._buffer[end + 4 + length :]
        if head.startswith(b"get"):
            self.transport.write(self._answers.ok)
        elif b'"stream":true' in body or b'"stream": true' in body:
            self._later(self._answers.delay_s, self._start_stream)
        else:
            self._later(self._answers.delay_s, self._write_whole)

    def _later(self, seconds: float, action: object, *arguments: object) -> None:
        if seconds <= 0:
            action(*arguments)  # type: ignore[operator]
        else:
            self._timer = asyncio.get_running_loop().call_later(seconds, action, *arguments)  # type: ignore[arg-type]

    def _write_whole(self) -> None:
        self.transport.write(self._answers.whole)

    def _start_stream(self) -> None:
        answers = self._answers
        if answers.interval_s <= 0:
            self.transport.writelines([answers.stream_head, *answers.events, answers.stream_end])
            return
        self.transport.write(answers.stream_head)
        self._write_event(0)

    def _write_event(self, number: int) -> None:
        answers = self._answers
        self.transport.write(answers.events[number])
        if number + 1 == len(answers.events):
            self.transport.write(answers.stream_end)
        else:
            self._later(answers.interval_s, self._write_event, number + 1)


async def serve(host: str, port: int, ready: Answers) -> None:
    """Serve until SIGINT or SIGTERM."""
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    server = await loop.create_server(lambda: MockUpstream(ready), host, port, backlog=1024)
    print(f"mock upstream on http://{host}:{port}/v1", flush=True)
    await stopped.wait()
    server.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=9001)
    parser.add_argument("--delay-ms", type=float, default=0.0, help="before the answer begins")
    parser.add_argument("--events", type=int, default=64, help="events of a stream")
    parser.add_argument("--interval-ms", type=float, default=0.0, help="between two events")
    options = parser.parse_args()
    ready = answers(options.events, options.delay_ms / 1000, options.interval_ms / 1000)
    uvloop.run(serve(options.host, options.port, ready))


if __name__ == "__main__":
    main()
