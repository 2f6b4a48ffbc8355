"""The spool of this process: group commits into one file, and a receipt for each caller.

Commits run on the event loop's own thread as long as they are small and need no fsync: a commit into the page cache
takes less time (13-30 µs) than handing it to a thread and back (60-100 µs), and costs half the processor time. Big
ones, and every one at fsync level `full`, run in a worker thread; what arrives meanwhile forms the next group.

An opening waits until somebody awaits its receipt (before a first byte leaves), or for 25 ms; when its own record comes
first there is nothing to open any more. Knows nothing of Postgres.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

import structlog

from gateway.ledger.encode import as_provisional, encode_opening, redacted_all
from gateway.ledger.record import Opening, Receipt
from gateway.ledger.spool_file import Fsync, Group, SpoolFile

OPENING_DELAY_S: Final = 0.025
INLINE_BYTES: Final = 256 * 1024
RELEASE_BYTES: Final = 128 * 1024
_TIMER_GRAIN_S: Final = 0.001
LOG_BYTES: Final = 64 * 1024 * 1024
_log = structlog.get_logger(__name__)


class OpeningReceipt:
    """Awaitable receipt of an opening; awaiting it makes it urgent."""

    __slots__ = ("_exchange_id", "_future", "_hurry")

    def __init__(self, exchange_id: str, future: asyncio.Future[Receipt], hurry: Callable[[str], None]) -> None:
        self._exchange_id = exchange_id
        self._future = future
        self._hurry = hurry

    def __await__(self) -> Generator[Any, None, Receipt]:
        if not self._future.done():
            self._hurry(self._exchange_id)
        return self._future.__await__()


@dataclass(slots=True)
class _Group:
    """What the next commit brings."""

    records: list[bytes] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    openings: dict[str, Opening | bytes] = field(default_factory=dict)
    waiting: list[asyncio.Future[Receipt]] = field(default_factory=list)
    size: int = 0


class Spool:
    """Group commits with receipts. All methods but those marked belong to the event loop's thread."""

    def __init__(self, file: SpoolFile, *, fsync: Fsync, max_bytes: int, max_records: int) -> None:
        self.file = file
        self._inline = fsync != "full"
        self._max_bytes = max_bytes
        self._max_records = max_records
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ledger-spool")
        self._next = _Group()
        self._young: dict[str, tuple[Opening, asyncio.Future[Receipt], float]] = {}
        """Openings that wait, oldest first, with the loop's time."""
        self._scheduled = False
        self._busy = False
        self._free = asyncio.Event()
        self._closed = True
        self._timer: asyncio.TimerHandle | None = None
        self._committing: dict[str, Opening | bytes] = {}
        self._opening_row: dict[str, int] = {}
        self._opened_in_row: dict[int, int] = {}
        self._closed_rows: list[int] = []
        self._groups: deque[tuple[int, int, int, float]] = deque()
        self.records = 0
        self.bytes = 0
        self.failing = False
        self.unrecorded_total = 0
        self.on_records: Callable[[], None] = lambda: None

    def start(self) -> None:
        """Open the file. Blocking, short."""
        if not self.file.open():  # pragma: no cover - the name is random
            raise BlockingIOError(f"{self.file.path} is in use")
        self._loop = asyncio.get_running_loop()
        self._closed = False

    def accepting(self) -> bool:
        """True while a new exchange will be recorded."""
        return not (self._closed or self.failing or self.bytes >= self._max_bytes or self.records >= self._max_records)

    @property
    def open_count(self) -> int:
        """Openings without a record."""
        return len(self._opening_row) + len(self._next.openings) + len(self._young)

    def oldest_s(self) -> float:
        """Age of the oldest record here, seconds."""
        return max(0.0, time.time() - self._groups[0][3]) if self._groups else 0.0

    def add_opening(self, opening: Opening) -> OpeningReceipt:
        """Have an opening written."""
        future: asyncio.Future[Receipt] = self._loop.create_future()
        if not self.accepting():
            self._refuse(future)
        else:
            self._young[opening.id] = opening, future, self._loop.time()
            if self._timer is None:
                self._timer = self._loop.call_later(OPENING_DELAY_S, self._open_old)
        return OpeningReceipt(opening.id, future, self._open_now)

    def _open_now(self, exchange_id: str) -> None:
        """An opening is awaited."""
        self._age(exchange_id)
        self._hurry()

    def _open_old(self) -> None:
        """The timer: have openings written whose exchange is not over yet."""
        self._timer = None
        now = self._loop.time()
        for exchange_id, (_, _, since) in list(self._young.items()):
            left = since + OPENING_DELAY_S - now
            if left > _TIMER_GRAIN_S:
                self._timer = self._loop.call_later(left, self._open_old)
                break
            self._age(exchange_id)
        if self._next.openings:
            self._hurry()

    def _age(self, exchange_id: str) -> None:
        """Put a waiting opening into the next commit."""
        waiting = self._young.pop(exchange_id, None)
        if waiting is not None:
            opening, future, _ = waiting
            self._next.openings[exchange_id] = opening
            self._next.waiting.append(future)

    def add_record(self, exchange_id: str, data: bytes) -> asyncio.Future[Receipt]:
        """Have a record written. One that was opened is taken past the bound: its exchange was admitted.

        Credentials in it are removed with those of its whole group, before anything is written.
        """
        future: asyncio.Future[Receipt] = self._loop.create_future()
        self._age(exchange_id)
        group = self._next
        known = exchange_id in self._opening_row or exchange_id in group.openings or exchange_id in self._committing
        if self._closed or not (known or self.failing or self.accepting()):
            self._refuse(future)
            return future
        group.openings.pop(exchange_id, None)
        group.records.append(data)
        group.ids.append(exchange_id)
        group.waiting.append(future)
        group.size += len(data)
        self._hurry()
        return future

    def add_provisional(self, exchange_id: str, data: bytes) -> asyncio.Future[Receipt]:
        """Have a record written in place of its opening: it counts only if no final one follows in this process."""
        future: asyncio.Future[Receipt] = self._loop.create_future()
        if self._closed:
            self._refuse(future)
            return future
        self._age(exchange_id)
        line = as_provisional(data)
        self._next.openings[exchange_id] = line
        self._next.waiting.append(future)
        self._next.size += len(line)
        self._hurry()
        return future

    def _refuse(self, future: asyncio.Future[Receipt]) -> None:
        self.unrecorded_total += 1
        future.set_result(Receipt.UNRECORDED)

    def _hurry(self) -> None:
        if not self._scheduled and not self._busy:
            self._scheduled = True
            self._loop.call_soon(self._commit)

    def _commit(self) -> None:
        self._scheduled = False
        if self._busy:
            return
        group = self._next
        if not group.waiting:
            return
        self._next = _Group()
        group.records = redacted_all(group.records)
        # Encoded only now: most openings of short exchanges never get here.
        openings = b"\n".join(
            [value if isinstance(value, bytes) else encode_opening(value) for value in group.openings.values()]
        )
        if self._inline and group.size <= INLINE_BYTES:
            try:
                rows = self.file.append(group.records, openings)
            except (sqlite3.Error, OSError) as error:
                self._failed(group, error)
            else:
                self._done(group, rows)
            return
        self._busy = True
        self._free.clear()
        self._committing = group.openings
        task = self._thread.submit(self.file.append, group.records, openings)
        task.add_done_callback(lambda done: self._call_loop(self._finish, group, done))

    def _call_loop(self, call: Callable[..., None], *args: Any) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(call, *args)

    def _finish(self, group: _Group, done: Any) -> None:
        error = done.exception()
        self._committing = {}
        if error is None:
            self._done(group, done.result())
        else:
            self._failed(group, error)
        self._idle()

    def _idle(self) -> None:
        self._busy = False
        self._free.set()
        if self._next.waiting:
            self._hurry()

    def _done(self, group: _Group, rows: tuple[int, int]) -> None:
        self.failing = False
        record_row, opening_row = rows
        if group.openings:
            self._opened_in_row[opening_row] = len(group.openings)
            for exchange_id in group.openings:
                self._close_opening(exchange_id)  # of a provisional record
                self._opening_row[exchange_id] = opening_row
        if group.records:
            for exchange_id in group.ids:
                self._close_opening(exchange_id)
            size = sum(map(len, group.records))
            self._groups.append((record_row, len(group.records), size, time.time()))
            self.records += len(group.records)
            self.bytes += size
        for future in group.waiting:
            if not future.done():
                future.set_result(Receipt.SPOOLED)
        if group.records:
            self.on_records()

    def _close_opening(self, exchange_id: str) -> None:
        row = self._opening_row.pop(exchange_id, None)
        if row is None:
            return
        left = self._opened_in_row[row] - 1
        if left:
            self._opened_in_row[row] = left
        else:
            del self._opened_in_row[row]
            self._closed_rows.append(row)

    def _failed(self, group: _Group, error: BaseException) -> None:
        if not self.failing:
            _log.error("spool_write_failed", error=str(error), path=str(self.file.path))
        self.failing = True
        self.unrecorded_total += len(group.records) + len(group.openings)
        for future in group.waiting:
            if not future.done():
                future.set_result(Receipt.UNRECORDED)

    async def read(self, after: int, max_records: int, max_bytes: int) -> list[Group]:
        """The next groups after a row."""
        return await asyncio.to_thread(self.file.read, after, max_records, max_bytes)

    async def release(self, upto: int) -> None:
        """Records up to this row are in Postgres: free their space, and that of openings that are closed.

        In small steps, so that commits get in between: freeing a big row takes SQLite milliseconds.
        """
        rows, self._closed_rows = self._closed_rows, []
        freed = 0
        try:
            while self._groups and self._groups[0][0] <= upto:
                row, count, size, _ = self._groups.popleft()
                self.records -= count
                self.bytes -= size
                freed += size
                if freed >= RELEASE_BYTES:
                    await self.exclusively(self.file.release, row, [])
                    freed = 0
            await self.exclusively(self.file.release, upto, _ranges(sorted(rows)))
        except (sqlite3.Error, OSError) as error:
            # Nothing is lost: the rows stay until the next release, and a second write to Postgres changes nothing.
            self._closed_rows += rows
            _log.warning("spool_release_failed", error=str(error), path=str(self.file.path))

    async def maintain(self) -> None:
        """Checkpoint, shorten the log, look whether a refusing disk takes writes again."""
        if self.failing:
            try:
                await self.exclusively(self.file.probe)
            except (sqlite3.Error, OSError) as error:
                _log.debug("spool_still_failing", error=str(error))
            else:
                self.failing = False
                _log.info("spool_recovered", path=str(self.file.path))
        try:
            await asyncio.to_thread(self.file.checkpoint)
            if self.file.wal_bytes() > LOG_BYTES:
                await self.exclusively(self.file.truncate_log)
        except (sqlite3.Error, OSError) as error:
            _log.warning("spool_checkpoint_failed", error=str(error), path=str(self.file.path))

    async def exclusively(self, call: Callable[..., None], *args: Any) -> None:
        """Run a blocking call on the writer connection in the spool's thread; commits wait for it."""
        while self._busy:
            await self._free.wait()
        self._busy = True
        self._free.clear()
        task = self._thread.submit(call, *args)
        # Not in a `finally` here: a cancelled caller must not free the connection while the thread still uses it.
        task.add_done_callback(lambda _done: self._call_loop(self._idle))
        await asyncio.shield(asyncio.wrap_future(task))

    async def settle(self) -> None:
        """Wait until everything given so far is committed."""
        for exchange_id in list(self._young):
            self._age(exchange_id)
        while self._next.waiting or self._busy:
            self._hurry()
            await (self._free.wait() if self._busy else asyncio.sleep(0))

    def open_ids(self) -> set[str]:
        """Exchanges on disk without a record."""
        return set(self._opening_row)

    async def stop(self) -> None:
        """Take nothing more, commit what waits."""
        self._closed = True
        await self.settle()

    def close(self, *, remove: bool) -> None:
        """Close the file, or remove it when everything in it has arrived."""
        self._thread.shutdown(wait=True)
        if remove:
            self.file.remove()
        else:
            self.file.close()


def _ranges(rows: Sequence[int]) -> list[tuple[int, int]]:
    """Sorted numbers as inclusive ranges."""
    ranges: list[tuple[int, int]] = []
    for row in rows:
        if ranges and ranges[-1][1] == row - 1:
            ranges[-1] = (ranges[-1][0], row)
        else:
            ranges.append((row, row))
    return ranges
