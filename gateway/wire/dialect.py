"""How an answer is written for its client: one `Dialect` for each endpoint that answers.

Whatever the client speaks, an answer reaches its edge as chat completions, whole or in chunks. A dialect turns them
into bytes of its own; `CHAT` leaves them as they are. Pure: it knows no connection and no verdict.
"""

from __future__ import annotations

from typing import Final, Protocol

from gateway.wire import sse
from gateway.wire.outgoing import completion_events


class StreamWriter(Protocol):
    """Writes one stream. Everything it gives out is complete events; b"" means that there is nothing to say yet."""

    def chunk(self, data: bytes) -> bytes:
        """One chunk of the answer."""
        ...

    def whole(self, data: bytes) -> bytes:
        """The whole answer at once."""
        ...

    def close(self) -> bytes:
        """The end of a complete answer."""
        ...

    def fail(self, envelope: bytes) -> bytes:
        """The end of a stream that failed; `envelope` is OpenAI's."""
        ...


class Dialect(Protocol):
    """One way to write answers. `held` says that nothing leaves before the verdict."""

    def body(self, data: bytes, *, held: bool) -> bytes:
        """A whole chat completion as this dialect's body. Never raises."""
        ...

    def error(self, status: int, body: bytes) -> bytes:
        """An error in this dialect's envelope; `body` is in OpenAI's, or whatever an upstream sent."""
        ...

    def stream(self, *, held: bool, include_usage: bool) -> StreamWriter:
        """A writer for one stream."""
        ...


class _ChatWriter:
    """Chunks are events, and `[DONE]` is the end."""

    __slots__ = ("_include_usage",)

    def __init__(self, include_usage: bool) -> None:
        self._include_usage = include_usage

    def chunk(self, data: bytes) -> bytes:
        return sse.event(data)

    def whole(self, data: bytes) -> bytes:
        return b"".join([sse.event(event) for event in completion_events(data, include_usage=self._include_usage)])

    def close(self) -> bytes:
        return sse.DONE

    def fail(self, envelope: bytes) -> bytes:
        return sse.event(envelope)


class ChatDialect:
    """Chat completions."""

    def body(self, data: bytes, *, held: bool) -> bytes:
        return data

    def error(self, status: int, body: bytes) -> bytes:
        return body

    def stream(self, *, held: bool, include_usage: bool) -> StreamWriter:
        return _ChatWriter(include_usage)


CHAT: Final = ChatDialect()
