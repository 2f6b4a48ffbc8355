"""A client's connection, bounded: what a request's head may hold, and how long a client may keep us waiting.

Needs no key to be reached, so nothing here may grow with what a client sends, or last as long as it likes. Knows bytes
and HTTP's framing, nothing of what a request is for.
"""

from __future__ import annotations

import asyncio
from enum import Enum
from typing import Any, ClassVar, Final

import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD_BYTES: Final = 65_536
"""Request line and headers, give or take one piece as the network delivers it."""
PATIENCE_S: Final = 30.0
"""A request's head has to be complete after so long, and of its body so much must have come in each such time:"""
LEAST_BODY_BYTES: Final = 1_000
STALL_S: Final = 300.0
"""A client that takes no byte of its answer for so long is regarded as gone."""


class _Awaited(Enum):
    HEAD = "head"
    BODY = "body"
    NOTHING = "nothing"


class BoundedConnection(HttpToolsProtocol):
    """uvicorn's connection with these bounds. A request that comes in one piece, as nearly all do, costs no timer."""

    patience_s: ClassVar[float] = PATIENCE_S
    stall_s: ClassVar[float] = STALL_S

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._awaited = _Awaited.HEAD
        self._head_bytes = 0
        self._body_came = False
        self._came = 0
        self._patience: asyncio.TimerHandle | None = None
        self._stall: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._patience = self.loop.call_later(self.patience_s, self._out_of_patience)

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_patience()
        if self._stall is not None:
            self._stall.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        before, self._body_came = self._awaited, False
        super().data_received(data)
        if self._awaited is _Awaited.NOTHING:
            if self._patience is not None:
                self._cancel_patience()
            return
        if self.transport.is_closing():
            return
        # What is no body is kept by the parser: lines of the head, and those that may follow a body in chunks.
        if before is self._awaited and not self._body_came:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self._refuse(b"431 Request Header Fields Too Large", "request_too_large",
                             f"request line and headers are over {MAX_HEAD_BYTES} bytes")  # fmt: skip
                return
        self._came += len(data)
        if self._patience is None:
            self._patience = self.loop.call_later(self.patience_s, self._out_of_patience)

    def on_message_begin(self) -> None:
        self._awaited, self._head_bytes = _Awaited.HEAD, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._awaited, self._head_bytes = _Awaited.BODY, 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._body_came, self._head_bytes = True, 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._awaited = _Awaited.NOTHING
        super().on_message_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stall = self.loop.call_later(self.stall_s, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None

    def _out_of_patience(self) -> None:
        self._patience = None
        if self.transport.is_closing() or self._awaited is _Awaited.NOTHING:
            return
        # What we do not read ourselves cannot come.
        if self._awaited is _Awaited.BODY and (self.flow.read_paused or self._came >= LEAST_BODY_BYTES):
            self._came = 0
            self._patience = self.loop.call_later(self.patience_s, self._out_of_patience)
        elif self._awaited is _Awaited.HEAD and self._head_bytes:
            self._refuse(b"408 Request Timeout", "request_timeout", "the request did not come to its end in time")
        else:
            self.transport.close()

    def _cancel_patience(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _refuse(self, status: bytes, code: str, message: str) -> None:
        error = {"message": message, "type": "invalid_request_error", "param": None, "code": code}
        body = msgspec.json.encode({"error": error})
        self.transport.write(
            b"HTTP/1.1 %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%b"
            % (status, len(body), body)
        )
        self.transport.close()
