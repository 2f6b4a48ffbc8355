"""The body of an upstream's answer, read as deltas: one for a JSON body, one per event of an SSE body.

What the body is decides its first character and its content type, never what was asked for. It ends well only after
the protocol's own end; everything else is an error. Does not know how the connection was made, nor what becomes of it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

import aiohttp

from gateway.errors import UpstreamError, UpstreamProtocolError, UpstreamTimeoutError
from gateway.wire.chat import parse_delta
from gateway.wire.sse import SseDecoder, is_done
from gateway.wire.types import Delta

_SSE_STARTS = (b"data", b"event", b"id", b"retry", b":")
_BOM = b"\xef\xbb\xbf"
_HIDDEN = b"[hidden]"
_SHORTEST_SECRET = 8
"""A shorter key, such as `none`, is a word like any other."""
_BLANK = b" \t\r\n" + _BOM


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingLimits:
    """What a body may be. `finish_ends_stream` accepts a stream that closed cleanly, without `[DONE]`, after the
    finish reason of each of its choices. `secret` is the key we send, which no error of the upstream may tell."""

    max_response_bytes: int
    max_event_bytes: int
    first_byte_s: float
    idle_s: float
    total_s: float
    finish_ends_stream: bool = True
    secret: bytes = field(default=b"", repr=False)


class Translation(Protocol):
    """Makes chat completions of what an upstream of another dialect sends; one per answer."""

    def whole(self, data: bytes) -> bytes:
        """A whole body as a chat completion, or as OpenAI's error envelope; what is neither comes back as it is."""
        ...

    def event(self, data: bytes) -> list[bytes]:
        """The data of one event as that of any number of chunks, `[DONE]` for the end."""
        ...


def without_secret(body: bytes, secret: bytes) -> bytes:
    """An upstream's error without the key that it was asked with: some say which key they refuse."""
    return body.replace(secret, _HIDDEN) if len(secret) >= _SHORTEST_SECRET else body


def reading_error(name: str, exc: BaseException, limits: ReadingLimits, *, begun: bool) -> UpstreamError:
    """What an exception of the HTTP client means while a body is read; `begun` says that some of it had arrived."""
    if isinstance(exc, aiohttp.SocketTimeoutError):
        if begun:
            return UpstreamTimeoutError(
                f"upstream {name!r} sent nothing for {limits.idle_s:g} s in the middle of its answer (timeouts.idle)"
            )
        return UpstreamTimeoutError(
            f"upstream {name!r} sent no byte of an answer within {limits.first_byte_s:g} s (timeouts.first_byte)"
        )
    if isinstance(exc, TimeoutError):
        return UpstreamTimeoutError(
            f"upstream {name!r} did not finish its answer within {limits.total_s:g} s (timeouts.total), or within the "
            "shorter time that was left for this request"
        )
    return UpstreamProtocolError(
        f"upstream {name!r}: the connection broke before the answer was complete ({type(exc).__name__})",
        code="upstream_cut",
    )


class BodyReader:
    """Bytes of one response, up to `max_response_bytes` if `bounded`.

    An error of the connection comes after the bytes that arrived before it.
    """

    __slots__ = ("_begun", "_failure", "_left", "_limits", "_name", "_response", "ended")

    def __init__(
        self, response: aiohttp.ClientResponse, limits: ReadingLimits, name: str, *, bounded: bool = True
    ) -> None:
        self._response = response
        self._limits = limits
        self._name = name
        self._begun = False
        self._failure: UpstreamError | None = None
        self._left: float = limits.max_response_bytes if bounded else math.inf
        self.ended = False
        """The body ended as HTTP says it should."""

    async def read(self) -> bytes:
        """What is there next; b"" at the end. Raises `UpstreamError`, also for a body over the bound."""
        if self._failure is not None:
            raise self._failure
        content = self._response.content
        try:
            data = await content.readany()
        except (aiohttp.ClientError, TimeoutError, OSError) as exc:
            self._failure = reading_error(self._name, exc, self._limits, begun=self._begun)
            # The reader refuses to hand out what it holds once the connection failed, although those bytes are good.
            data = b"".join(content._buffer)
        if not data:
            if self._failure is not None:
                raise self._failure
            self.ended = True
            return data
        if not self._begun:
            self._begun = True
            _limit_silence(self._response, self._limits.idle_s)
        self._left -= len(data)
        if self._left < 0:
            raise UpstreamProtocolError(
                f"upstream {self._name!r}: the answer is longer than {self._limits.max_response_bytes} bytes "
                "(max_response_bytes)",
                code="upstream_too_large",
            )
        return data

    @property
    def at_end(self) -> bool:
        """Nothing will come any more, and all that came was read."""
        return self._failure is None and self._response.content.at_eof()

    def __aiter__(self) -> BodyReader:
        return self

    async def __anext__(self) -> bytes:
        """The next piece of the body."""
        data = await self.read()
        if not data:
            raise StopAsyncIteration
        return data


def _limit_silence(response: aiohttp.ClientResponse, seconds: float) -> None:
    connection = response.connection
    if connection is not None and connection.protocol is not None:
        connection.protocol.read_timeout = seconds
        connection.protocol.start_timeout()


class DeltaReader:
    """Deltas of one response; `complete` turns True when the answer ended as its protocol says.

    An iterator class, not a generator: a consumer that stops half-way leaves nothing to be finalised later.
    """

    __slots__ = (
        "_any",
        "_body",
        "_decoder",
        "_failure",
        "_limits",
        "_name",
        "_open",
        "_ready",
        "_translation",
        "_type",
        "complete",
    )

    def __init__(
        self,
        response: aiohttp.ClientResponse,
        limits: ReadingLimits,
        name: str,
        translation: Translation | None = None,
    ) -> None:
        self._translation = translation
        self._body = BodyReader(response, limits, name)
        self._type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        self._limits = limits
        self._name = name
        self._decoder: SseDecoder | None = None
        self._any = False
        self._ready: deque[Delta] = deque()
        self._open: dict[int, bool] = {}
        self._failure: UpstreamError | None = None
        self.complete = False

    def __aiter__(self) -> DeltaReader:
        return self

    async def __anext__(self) -> Delta:
        while not self._ready:
            if self.complete:
                raise StopAsyncIteration
            if self._failure is not None:
                raise self._failure
            try:
                if self._decoder is None:
                    await self._begin()
                else:
                    self._feed(await self._body.read())
            except UpstreamError as error:
                self._failure = error
        return self._ready.popleft()

    def arrived(self) -> list[Delta]:
        """The deltas that came with the last one and were not taken yet."""
        arrived = list(self._ready)
        self._ready.clear()
        return arrived

    async def _begin(self) -> None:
        """Read as much as says what the body is, and for JSON all of it."""
        data = await self._body.read()
        start = data.lstrip(_BLANK)
        # Some servers send white space while their model thinks, so blank bytes decide nothing yet.
        while not start and data:
            more = await self._body.read()
            if not more:
                break
            data += more
            start = data.lstrip(_BLANK)
        if start[:1] == b"{":
            await self._whole(data)
        elif start and (self._type == "text/event-stream" or start.startswith(_SSE_STARTS)):
            self._decoder = SseDecoder(self._limits.max_event_bytes)
            self._feed(data)
        elif not start:
            raise self._broken("the answer is empty")
        else:
            kind = self._type or "no content type"
            raise self._broken(f"the answer is neither JSON nor an event stream ({kind}); check base_url")

    async def _whole(self, data: bytes) -> None:
        if not self._body.at_end:
            parts = [data]
            while part := await self._body.read():
                parts.append(part)
            data = b"".join(parts)
        data = data.removeprefix(_BOM)
        delta = self._parsed(data if self._translation is None else self._translation.whole(data), whole=True)
        if delta.view.choices is None:
            what = "no chat completion: it has no choices" if self._translation is None else "no message"
            raise self._broken(f"the answer is JSON, but {what}")
        self._ready.append(delta)
        self.complete = True

    def _feed(self, data: bytes) -> None:
        decoder = self._decoder
        assert decoder is not None
        payloads = decoder.feed(data) if data else decoder.finish()
        for payload in payloads if self._translation is None else _translated(payloads, self._translation):
            if is_done(payload):
                if not self._any:
                    raise self._broken("the stream ended without a single event")
                self.complete = True
                return
            self._any = True
            delta = self._parsed(payload, whole=False)
            for choice in delta.view.choices or ():
                if choice.finish_reason is not None:
                    self._open[choice.index] = False
                else:
                    self._open.setdefault(choice.index, True)
            self._ready.append(delta)
        if not data:
            self._end()

    def _end(self) -> None:
        """The connection ended, well as far as HTTP goes, but no `[DONE]` came."""
        unfinished = [index for index, is_open in self._open.items() if is_open]
        if self._limits.finish_ends_stream and self._open and not unfinished:
            self.complete = True
            return
        missing = f"choice {unfinished[0]} has no finish reason" if unfinished else "it never said [DONE]"
        raise self._broken(f"the stream ended before the answer did: {missing}", "upstream_cut")

    def _parsed(self, data: bytes, *, whole: bool) -> Delta:
        try:
            delta = parse_delta(data, whole)
        except UpstreamProtocolError as error:
            raise self._broken(error.message) from error
        if delta.view.error:
            raise UpstreamProtocolError(
                f"upstream {self._name!r} reported an error inside a successful answer",
                body=without_secret(data, self._limits.secret),
                code="upstream_error_in_answer",
            )
        return delta

    def _broken(self, what: str, code: str = "upstream_protocol") -> UpstreamProtocolError:
        return UpstreamProtocolError(f"upstream {self._name!r}: {what}", code=code)


def _translated(payloads: Iterable[bytes], translation: Translation) -> Iterator[bytes]:
    """One payload at a time, so that an error comes after what was said before it."""
    for payload in payloads:
        yield from translation.event(payload)
