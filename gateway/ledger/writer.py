"""The ledger in use: a spool on local disk, emptied into Postgres in the background.

Serving never waits for Postgres. Records leave the spool only after Postgres has committed them, and a batch may be
sent twice without effect, so a crash on either side at any moment loses nothing and doubles nothing. Spools of dead
processes are taken over and replayed; their openings without a record become `interrupted`.

A record that Postgres refuses for good is found by halving its batch and set aside as a dead letter in the spool, where
the next start tries it again.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import sqlite3
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Protocol

import structlog

from gateway.errors import GatewayError, LedgerUnavailableError, RecordRefusedError
from gateway.ledger import retention
from gateway.ledger.adoption import AdoptedSpool, take_over, unfinished_in
from gateway.ledger.encode import decode_key, encode_record, encode_unredacted, interrupted, split_array
from gateway.ledger.record import ExchangeRecord, Opening, Receipt
from gateway.ledger.secret import load_hash_key
from gateway.ledger.spool import Spool
from gateway.ledger.spool_file import Fsync, Group, SpoolFile, new_path, spool_paths
from gateway.ledger.store import PostgresStore
from gateway.ledger.tables import BODY_TABLES, TABLES, month_of

_log = structlog.get_logger(__name__)
_NO_PARTITION: Final = "23514"  # check_violation; the tables have no other check
_INTERNAL_ERROR: Final = "XX"
_INTERNAL_TRIES: Final = 5
_TICK_S: Final = 1.0
_ADOPT_S: Final = 15.0
_UPKEEP_S: Final = 3600.0
_FIRST_DELAY_S: Final = 0.1
_LAST_DELAY_S: Final = 5.0
_YEARS: Final = range(2000, 2200)


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerSettings:
    """Where the spool lies and how much it takes. `directory` must be on a local disk.

    `fsync`: `off` and `normal` survive the death of the process, `full` also that of the machine. `max_bytes` and
    `max_records` bound what waits for Postgres. `linger_s` is how long a batch may gather. `retention_days` drops whole
    months of everything, `body_retention_days` of conversations only; None keeps them. `maintain` false leaves
    partitions to another role: records of a month that has none yet wait for it.
    """

    directory: Path
    fsync: Fsync = "normal"
    max_bytes: int = 1024**3
    max_records: int = 1_000_000
    max_record_bytes: int = 32 * 1024**2
    batch_records: int = 1000
    batch_bytes: int = 1024**2
    linger_s: float = 0.1
    close_timeout_s: float = 10.0
    retention_days: int | None = None
    body_retention_days: int | None = None
    maintain: bool = True


class _Source(Protocol):
    """A spool to be emptied."""

    async def read(self, after: int, max_records: int, max_bytes: int) -> list[Group]: ...

    async def release(self, upto: int) -> None: ...


class SpooledLedger:
    """A `Ledger` over a spool and a `PostgresStore`.

    `revive` is called while Postgres is away, before each new try, and says where it is then: the composition root
    gives `EmbeddedPostgres.ensure_running` when the database is ours.
    """

    def __init__(
        self, settings: LedgerSettings, store: PostgresStore, *, revive: Callable[[], Awaitable[str]] | None = None
    ) -> None:
        self._settings = settings
        self._store = store
        self._revive = revive
        self._spool = Spool(
            SpoolFile(new_path(settings.directory), settings.fsync),
            fsync=settings.fsync,
            max_bytes=settings.max_bytes,
            max_records=settings.max_records,
        )
        self._hash_key = b""
        self._adopted: list[AdoptedSpool] = []
        self._after = 0
        self._open = False
        self._stopping = False
        self._connected = False
        self._upkeep_at = 0.0
        self._written = self._failed = self._dead = self._interrupted = self._unencodable = 0

    async def aopen(self) -> None:
        """Open the spool, take over those of dead processes, start writing. Postgres need not be there yet.

        Raises `OSError` or `sqlite3.Error` when the directory cannot be used.
        """
        await asyncio.to_thread(self._settings.directory.mkdir, parents=True, exist_ok=True)
        self._hash_key = await asyncio.to_thread(load_hash_key, self._settings.directory)
        self._wake = asyncio.Event()
        self._empty = asyncio.Event()
        self._stop = asyncio.Event()
        self._spool.start()
        self._spool.on_records = self._on_records
        await self._adopt()
        self._open = True
        self._writing = asyncio.create_task(self._write_until_stopped(), name="ledger-writer")
        self._maintaining = asyncio.create_task(self._maintain_until_stopped(), name="ledger-maintenance")

    def accepting(self) -> bool:
        return self._open and not self._stopping and self._spool.accepting()

    def open(self, opening: Opening) -> Awaitable[Receipt]:
        if self._stopping or not self._open:
            return _unrecorded()
        return self._spool.add_opening(opening)

    def submit(self, record: ExchangeRecord, *, provisional: bool = False) -> Awaitable[Receipt]:
        if self._stopping or not self._open:
            return _unrecorded()
        try:
            encode = encode_record if provisional else encode_unredacted
            data = encode(record, hash_key=self._hash_key, max_bytes=self._settings.max_record_bytes)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            self._unencodable += 1
            _log.error("record_not_encodable", exchange_id=record.id, error=str(error))
            return _unrecorded()
        return (self._spool.add_provisional if provisional else self._spool.add_record)(record.id, data)

    def stats(self) -> Mapping[str, float]:
        """`spool_depth` and `oldest_seconds` count what waits for Postgres; `open` exchanges in flight."""
        spool = self._spool
        return {
            "accepting": float(self.accepting()),
            "postgres_up": float(self._connected),
            "spool_depth": float(spool.records + sum(source.records for source in self._adopted)),
            "spool_bytes": float(spool.bytes + sum(source.size for source in self._adopted)),
            "oldest_seconds": spool.oldest_s(),
            "open": float(spool.open_count),
            "written_total": float(self._written),
            "failed_total": float(self._failed),
            "interrupted_total": float(self._interrupted),
            "unrecorded_total": float(spool.unrecorded_total + self._unencodable),
            "dead_letters": float(self._dead),
        }

    async def flush(self) -> None:
        """Wait until everything submitted so far is in Postgres. Waits for Postgres if it is away."""
        self._on_records()
        await self._empty.wait()

    async def aclose(self, deadline_s: float | None = None) -> None:
        """Take nothing more and write what is left, for `deadline_s` at most; the rest stays for the next start.

        Exchanges still open become `interrupted`: this process will not complete them.
        """
        if not self._open:
            return
        self._open = False
        self._stopping = True
        await self._finish_open()
        await self._spool.stop()
        self._stop.set()
        self._wake.set()
        tasks = {self._writing, self._maintaining}
        await asyncio.wait(tasks, timeout=self._settings.close_timeout_s if deadline_s is None else deadline_s)
        for task in tasks:
            task.cancel()
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(outcome, Exception):
                _log.error("ledger_task_failed", error=repr(outcome))
        left = self.stats()["spool_depth"]
        if left:
            _log.warning("ledger_left_on_disk", records=int(left), directory=str(self._settings.directory))
        await asyncio.to_thread(self._spool.close, remove=not self._spool.records and not self._dead)
        for source in self._adopted:
            source.file.close()

    async def _finish_open(self) -> None:
        """Records for what this process will not complete any more."""
        await self._spool.settle()
        ids = self._spool.open_ids()
        if not ids:
            return
        unfinished = await asyncio.to_thread(unfinished_in, self._spool.file)
        for exchange_id in ids:
            await self._spool.add_record(exchange_id, self._as_record(unfinished[exchange_id]))

    def _as_record(self, unfinished: Opening | bytes) -> bytes:
        if isinstance(unfinished, bytes):
            return unfinished
        self._interrupted += 1
        limit = self._settings.max_record_bytes
        return encode_record(interrupted(unfinished), hash_key=self._hash_key, max_bytes=limit)

    def _on_records(self) -> None:
        self._empty.clear()
        self._wake.set()

    # Writing

    async def _write_until_stopped(self) -> None:
        delay, tries = _FIRST_DELAY_S, 0
        while True:
            try:
                await self._prepare()
                while await self._drain(isolate=tries >= _INTERNAL_TRIES):
                    delay, tries = _FIRST_DELAY_S, 0
                self._connected = True
            except (GatewayError, sqlite3.Error, OSError) as error:
                self._note_failure(error)
                if self._stopping:
                    return
                tries += getattr(error, "sqlstate", "").startswith(_INTERNAL_ERROR)
                await self._pause(delay * random.uniform(0.5, 1.0))  # noqa: S311 - jitter
                delay = min(delay * 2, _LAST_DELAY_S)
                await self._try_revive()
                continue
            if self._stopping:
                return
            if not self._wake.is_set():
                self._empty.set()
            await self._wake.wait()
            await self._pause(self._settings.linger_s)
            self._wake.clear()

    def _note_failure(self, error: Exception) -> None:
        if self._connected or not self._failed:
            _log.warning("ledger_unavailable", error=str(error), waiting=self._spool.records)
        self._connected = False
        self._failed += 1

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), seconds)

    async def _try_revive(self) -> None:
        if self._revive is None or self._stopping:
            return
        try:
            await self._store.move_to(await self._revive())
        except (GatewayError, OSError) as error:
            _log.warning("ledger_revive_failed", error=str(error))

    async def _prepare(self) -> None:
        """Once an hour: partitions of this month and the next two, or a look whether Postgres is there."""
        if time.monotonic() < self._upkeep_at:
            return
        settings = self._settings
        if settings.maintain:
            limits = ((settings.retention_days, TABLES), (settings.body_retention_days, BODY_TABLES))
            dropped = await retention.look_after(self._store, datetime.now(UTC), limits)
            if dropped:
                _log.info("partitions_dropped", partitions=dropped)
        else:
            await self._store.ping()
        self._upkeep_at = time.monotonic() + _UPKEEP_S

    async def _drain(self, *, isolate: bool) -> bool:
        """Write one batch; False when the next one may wait, or nothing is left."""
        for source in self._adopted:
            groups = await self._write_next(source, source.after, isolate=isolate)
            if groups:
                source.advance(groups)
            else:
                await self._finish_adopted(source)
            return True
        groups = await self._write_next(self._spool, self._after, isolate=isolate)
        if groups:
            self._after = groups[-1].seq
        if self._stopping or self._is_half_full(groups):
            return bool(groups)
        if self._spool.records:
            # What came meanwhile gathers first: a batch costs milliseconds here, however few records it has.
            self._wake.set()
        return False

    def _is_half_full(self, groups: list[Group]) -> bool:
        settings = self._settings
        return (
            2 * sum(group.count for group in groups) >= settings.batch_records
            or 2 * sum(len(group.data) for group in groups) >= settings.batch_bytes
        )

    async def _write_next(self, source: _Source, after: int, *, isolate: bool) -> list[Group]:
        groups = await source.read(after, self._settings.batch_records, self._settings.batch_bytes)
        if groups:
            await self._write(b",".join([group.data for group in groups]), isolate=isolate)
            await source.release(groups[-1].seq)
        return groups

    async def _write(self, records: bytes, *, isolate: bool) -> None:
        """Write all records but those Postgres refuses, which are set aside."""
        refusal = await self._write_whole(records, isolate=isolate)
        if refusal is None:
            return
        each = split_array(records)
        if len(each) > 1:
            half = len(each) // 2
            await self._write(b",".join(each[:half]), isolate=isolate)
            await self._write(b",".join(each[half:]), isolate=isolate)
            return
        await self._spool.exclusively(self._spool.file.bury, [(refusal, records)])
        self._dead += 1
        _log.error("record_refused", exchange_id=decode_key(records)[1], error=refusal)

    async def _write_whole(self, records: bytes, *, isolate: bool) -> str | None:
        """Write them all or none; why they are refused, or None."""
        try:
            try:
                self._written += await self._store.write(records)
            except RecordRefusedError as error:
                if error.sqlstate == _NO_PARTITION and not self._settings.maintain:
                    raise LedgerUnavailableError("there is no partition yet: `grounding-gateway maintain`") from error
                if error.sqlstate != _NO_PARTITION or not await self._make_partitions(records):
                    return error.message
                self._written += await self._store.write(records)
        except RecordRefusedError as error:
            return error.message
        except LedgerUnavailableError as error:
            if not (isolate and error.sqlstate.startswith(_INTERNAL_ERROR)):
                raise
            return error.message
        self._connected = True
        return None

    async def _make_partitions(self, records: bytes) -> bool:
        """Partitions for old months being replayed; False when there is none to make."""
        months = set()
        for data in split_array(records):
            try:
                month = month_of(decode_key(data)[0])
            except (ValueError, OverflowError, OSError):
                continue
            if month.year in _YEARS:
                months.add(month)
        return bool(months) and await self._store.ensure_partitions(sorted(months))

    # Taking over

    async def _adopt(self) -> None:
        """Take over spools that no living process holds."""
        held = {source.file.path for source in self._adopted} | {self._spool.file.path}
        for path in await asyncio.to_thread(spool_paths, self._settings.directory):
            if path in held:
                continue
            file = SpoolFile(path, self._settings.fsync)
            try:
                source = await asyncio.to_thread(take_over, file)
            except (sqlite3.Error, OSError) as error:
                _log.error("spool_not_replayable", path=str(path), error=str(error))
                continue
            if source is not None:
                _log.info("spool_taken_over", path=str(path), records=source.records)
                self._adopted.append(source)
                self._on_records()

    async def _finish_adopted(self, source: AdoptedSpool) -> None:
        """All records of it are written: its openings without one were interrupted."""
        records = [self._as_record(value) for value in await source.unfinished()]
        for start in range(0, len(records), self._settings.batch_records):
            await self._write(b",".join(records[start : start + self._settings.batch_records]), isolate=False)
        await asyncio.to_thread(source.file.remove)
        self._adopted.remove(source)

    async def _maintain_until_stopped(self) -> None:
        adopt_at = time.monotonic() + _ADOPT_S
        while True:
            await self._pause(_TICK_S)
            if self._stopping:
                return
            await self._spool.maintain()
            if time.monotonic() >= self._upkeep_at:
                self._wake.set()
            if time.monotonic() >= adopt_at:
                await self._adopt()
                adopt_at = time.monotonic() + _ADOPT_S


def _unrecorded() -> Awaitable[Receipt]:
    future: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
    future.set_result(Receipt.UNRECORDED)
    return future
