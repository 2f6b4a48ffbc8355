"""Server-sent events as bytes: an incremental decoder for what upstreams send, encoders for what clients get.

Follows the event stream grammar of the WHATWG HTML standard (section 9.2): line ends LF, CRLF and CR, a leading byte
order mark, comments, several data lines per event, unknown fields. Where the grammar drops an event that the end of the
body cut short, this decoder gives it out: some servers end without the last blank line. Knows no JSON and no dialect.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gateway.errors import UpstreamProtocolError
from gateway.wire import raw

DONE: Final = b"data: [DONE]\n\n"
MAX_EVENT_BYTES: Final = 16 * 1024 * 1024
_BOM: Final = b"\xef\xbb\xbf"
_LF: Final = 10


def is_done(data: bytes) -> bool:
    """Whether a payload is the protocol's end mark. Clients stop at anything that starts with it."""
    return data.startswith(b"[DONE]")


def event(data: bytes) -> bytes:
    """One event with its closing blank line. Line ends inside `data` become several data lines."""
    if b"\n" in data or b"\r" in data:
        data = b"\ndata: ".join(data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n"))
    return b"data: " + data + b"\n\n"


def comment(text: str) -> bytes:
    """A comment line with its closing blank line; clients ignore it, proxies see that the connection is alive."""
    return b": " + " ".join(text.split()).encode() + b"\n\n"


def error_event(envelope: Mapping[str, Any]) -> bytes:
    """The event that ends a stream in failure: OpenAI's error envelope, which SDKs raise as an error."""
    return event(raw.encode(envelope))


class SseDecoder:
    """Bytes in any split to the data payloads of events.

    Events without data, or with empty data, carry no object and are left out. The data of an event named `error` that
    is not an error envelope yet is wrapped into `{"error": ...}`, so that its name is not lost with the framing.
    Raises `UpstreamProtocolError` once a line or an event's data is over `max_event_bytes`.
    """

    __slots__ = ("_data", "_error", "_failing", "_head", "_line", "_line_size", "_max", "_size", "_skip_lf")

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._max = max_event_bytes
        self._line: list[bytes] = []  # pieces of the line that is not complete yet
        self._line_size = 0
        self._data: list[bytes] = []  # data lines of the event that is not complete yet
        self._size = 0
        self._error = False
        self._skip_lf = False  # the last line ended in CR: a LF right after it belongs to it
        self._head = True
        self._failing: UpstreamProtocolError | None = None

    def feed(self, piece: bytes) -> list[bytes]:
        """Payloads completed by `piece`, in order. An error is raised after the payloads before it were given out."""
        if self._failing is not None:
            raise self._failing
        out: list[bytes] = []
        try:
            self._feed(piece, out)
        except UpstreamProtocolError as error:
            if not out:
                raise
            self._failing = error
        return out

    def finish(self) -> list[bytes]:
        """The payload of an event that the end of the body left open, if there is one."""
        if self._failing is not None:
            raise self._failing
        out: list[bytes] = []
        last = b"".join(self._line)
        self._line, self._line_size = [], 0
        if self._head and _BOM.startswith(last):
            last = b""
        if last:
            self._take_line(last, out)
        self._dispatch(out)
        return out

    def _feed(self, piece: bytes, out: list[bytes]) -> None:
        if self._skip_lf and piece:
            self._skip_lf = False
            if piece[0] == _LF:
                piece = piece[1:]
        if self._head and piece:
            # The mark may come in pieces: wait until it is one or cannot become one.
            piece = b"".join(self._line) + piece
            self._line, self._line_size = [], 0
            if len(piece) < len(_BOM) and _BOM.startswith(piece):
                self._keep(piece)
                return
            self._head = False
            piece = piece.removeprefix(_BOM)
        if self._line:
            if b"\n" not in piece and b"\r" not in piece:
                self._keep(piece)
                return
            piece = b"".join((*self._line, piece))
            self._line, self._line_size = [], 0
        self._split(piece, out)

    def _split(self, buffer: bytes, out: list[bytes]) -> None:
        if b"\r" in buffer:
            self._skip_lf = buffer.endswith(b"\r")
            buffer = buffer.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        events = buffer.split(b"\n\n")
        rest = events.pop()
        for lines in events:
            # The common case is one data line; anything else is read line by line.
            if lines.startswith(b"data: ") and b"\n" not in lines and not self._data and not self._error:
                if len(lines) > self._max:
                    raise self._too_large()
                if len(lines) > 6:
                    out.append(lines[6:])
                continue
            for line in lines.split(b"\n"):
                self._take_line(line, out)
            self._dispatch(out)
        *complete, last = rest.split(b"\n")
        for line in complete:
            self._take_line(line, out)
        if last:
            self._keep(last)

    def _keep(self, piece: bytes) -> None:
        self._line.append(piece)
        self._line_size += len(piece)
        if self._line_size > self._max:
            raise self._too_large()

    def _take_line(self, line: bytes, out: list[bytes]) -> None:
        if not line:
            self._dispatch(out)
            return
        if len(line) > self._max:
            raise self._too_large()
        name, _, value = line.partition(b":")
        if value[:1] == b" ":
            value = value[1:]
        if name == b"data":
            self._data.append(value)
            self._size += len(value) + 1
            if self._size > self._max:
                raise self._too_large()
        elif name == b"event":
            self._error = value == b"error"

    def _dispatch(self, out: list[bytes]) -> None:
        data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
        if data:
            if self._error and not is_done(data) and b'"error"' not in data:
                data = b'{"error":' + data + b"}"
            out.append(data)
        self._data, self._size, self._error = [], 0, False

    def _too_large(self) -> UpstreamProtocolError:
        return UpstreamProtocolError(
            f"an event of the upstream's stream is larger than {self._max} bytes; "
            "raise the upstream's limit for events if such answers are expected",
            code="upstream_event_too_large",
        )
