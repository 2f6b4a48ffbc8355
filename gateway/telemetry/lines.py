"""Where log lines go: at once, or together with those of the next few milliseconds.

A write to a terminal, a file or a pipe costs as much as composing a line, so the line of each exchange waits for a
moment and leaves with its neighbours in one write. Any other line leaves at once, after those that wait: the order
stays. Knows nothing of what is in a line.
"""

from __future__ import annotations

import asyncio
import atexit
import threading
from typing import Final, TextIO

DELAY_S: Final = 0.02
_MOST_WAITING: Final = 200


class Lines:
    """A text stream for whole lines, safe to use from any thread. What waits is written at the end of the process."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._waiting: list[str] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()
        atexit.register(self.flush)

    def isatty(self) -> bool:
        """Whether a person is looking."""
        return self._stream.isatty()

    def write(self, text: str) -> int:
        """Write now, after what waits."""
        with self._lock:
            self._write_waiting()
            return self._stream.write(text)

    def flush(self) -> None:
        """Write what waits, and have the stream hand everything on."""
        with self._lock:
            self._write_waiting()
            if not self._stream.closed:
                self._stream.flush()

    def soon(self, text: str) -> None:
        """Write within `DELAY_S`; now where no event loop runs."""
        self._waiting.append(text)
        if self._loop is None or len(self._waiting) > _MOST_WAITING:
            self._schedule()

    def _schedule(self) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self.flush()
            return
        if len(self._waiting) > _MOST_WAITING:  # also where the loop of an earlier line has ended since
            self.flush()
        else:
            self._loop = loop
            loop.call_later(DELAY_S, self.flush)

    def _write_waiting(self) -> None:
        self._loop = None
        waiting, self._waiting = self._waiting, []
        if waiting and not self._stream.closed:
            self._stream.write("".join(waiting))
