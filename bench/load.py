"""A cheap load generator: a closed loop of keep-alive connections, each with one request at a time.

It reads as much of HTTP as tells one answer from the next (status, content-length or the last piece of a chunked body),
so that on a small machine the processor's time goes to the server that is measured. It knows nothing of the gateway.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

_END = b"\r\n0\r\n\r\n"
_TIMEOUT_S = 120.0


@dataclass(slots=True)
class Sample:
    """What one burst gave. Times are seconds; `first_event` is the time to the first server-sent event."""

    seconds: float = 0.0
    latency: list[float] = field(default_factory=list)
    first_event: list[float] = field(default_factory=list)
    events: int = 0
    failed: int = 0
    last_failure: str = ""

    @property
    def per_second(self) -> float:
        return len(self.latency) / self.seconds if self.seconds else 0.0

    def add(self, other: Sample) -> None:
        """Take another burst in."""
        self.seconds += other.seconds
        self.latency += other.latency
        self.first_event += other.first_event
        self.events += other.events
        self.failed += other.failed
        self.last_failure = other.last_failure or self.last_failure


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where requests go; `bodies` are used in turn."""

    port: int
    path: str
    bodies: tuple[bytes, ...]
    host: str = "127.0.0.1"

    def requests(self) -> list[bytes]:
        """The requests, ready to write."""
        return [
            b"POST %b HTTP/1.1\r\nhost: %b:%d\r\ncontent-type: application/json\r\nauthorization: Bearer none\r\n"
            b"content-length: %d\r\n\r\n%b" % (self.path.encode(), self.host.encode(), self.port, len(body), body)
            for body in self.bodies
        ]


class _Burst:
    """What the connections of one burst share: the requests, the moment to stop, the counts."""

    def __init__(self, requests: Sequence[bytes], until: float, limit: int) -> None:
        self.sample = Sample()
        self._requests = requests
        self._until = until
        self._limit = limit
        self._sent = 0

    def next(self, now: float) -> bytes | None:
        """The next request, or None when the burst is over."""
        if now >= self._until or self._sent >= self._limit:
            return None
        self._sent += 1
        return self._requests[self._sent % len(self._requests)]


class _Connection(asyncio.Protocol):
    def __init__(self, burst: _Burst, done: asyncio.Future[None]) -> None:
        self._burst = burst
        self._done = done
        self._head = b""
        self._left = 0
        self._chunked = False
        self._tail = b""
        self._first = 0.0
        self._began = 0.0
        self._status = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transports are no subclass
        self._send(time.perf_counter())

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._done.done():
            self._fail(f"the server closed the connection: {exc!r}")
            self._done.set_result(None)

    def data_received(self, data: bytes) -> None:
        if not self._status:
            self._head += data
            end = self._head.find(b"\r\n\r\n")
            if end < 0:
                return
            head, data = self._head[:end].lower(), self._head[end + 4 :]
            self._head = b""
            self._status = head[9:12]
            at = head.find(b"content-length:")
            self._chunked = at < 0
            self._left = 0 if self._chunked else int(head[at + 15 :].split(b"\r\n", 1)[0])
            self._tail = b"\r\n"
        if self._chunked:
            events = data.count(b"data: ")
            if events:
                self._burst.sample.events += events
                if not self._first:
                    self._first = time.perf_counter()
            self._tail = (self._tail + data)[-len(_END) :]
            if self._tail == _END:
                self._answered()
        else:
            self._left -= len(data)
            if self._left <= 0:
                self._answered()

    def _answered(self) -> None:
        now = time.perf_counter()
        sample = self._burst.sample
        if self._status == b"200":
            sample.latency.append(now - self._began)
            if self._first:
                sample.first_event.append(self._first - self._began)
        else:
            self._fail(f"status {self._status.decode()}")
        self._send(now)

    def _send(self, now: float) -> None:
        request = self._burst.next(now)
        if request is None:
            self._done.set_result(None)
            self._transport.close()
            return
        self._status, self._first, self._began = b"", 0.0, now
        self._transport.write(request)

    def _fail(self, why: str) -> None:
        self._burst.sample.failed += 1
        self._burst.sample.last_failure = why


async def burst(target: Target, *, connections: int, seconds: float = 3600.0, requests: int = 10**9) -> Sample:
    """Load `target` for so long or with so many requests, whichever ends first."""
    loop = asyncio.get_running_loop()
    began = time.perf_counter()
    shared = _Burst(target.requests(), began + seconds, requests)
    ends = []
    for _ in range(connections):
        end: asyncio.Future[None] = loop.create_future()
        ends.append(end)
        await loop.create_connection(lambda end=end: _Connection(shared, end), target.host, target.port)  # type: ignore[misc]
    async with asyncio.timeout(seconds + _TIMEOUT_S):
        await asyncio.gather(*ends)
    shared.sample.seconds = time.perf_counter() - began
    return shared.sample
