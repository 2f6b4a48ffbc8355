"""A ledger in memory, for tests and for trying things out. It ships, so that a third party can test against it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping

from gateway.ledger.encode import interrupted
from gateway.ledger.record import ExchangeRecord, Opening, Receipt


class MemoryLedger:
    """Keeps openings and records in lists. `refuse()` makes it behave like a full spool until `recover()`.

    Like the real one it keeps the first record of an exchange and ignores another.
    """

    def __init__(self) -> None:
        self.openings: list[Opening] = []
        self.records: list[ExchangeRecord] = []
        self.unrecorded: list[Opening | ExchangeRecord] = []
        self.provisional: dict[str, ExchangeRecord] = {}
        self._known: set[tuple[float, str]] = set()
        self._refusing = False
        self._closed = False

    def refuse(self) -> None:
        """Record nothing from now on."""
        self._refusing = True

    def recover(self) -> None:
        """Record again."""
        self._refusing = False

    def accepting(self) -> bool:
        return not (self._refusing or self._closed)

    def open(self, opening: Opening) -> Awaitable[Receipt]:
        if self.accepting():
            self.openings.append(opening)
            return _receipt(Receipt.SPOOLED)
        self.unrecorded.append(opening)
        return _receipt(Receipt.UNRECORDED)

    def submit(self, record: ExchangeRecord, *, provisional: bool = False) -> Awaitable[Receipt]:
        if not self.accepting():
            self.unrecorded.append(record)
            return _receipt(Receipt.UNRECORDED)
        if provisional:
            self.provisional[record.id] = record
            return _receipt(Receipt.SPOOLED)
        self.provisional.pop(record.id, None)
        if (record.created_at, record.id) not in self._known:
            self._known.add((record.created_at, record.id))
            self.records.append(record)
        return _receipt(Receipt.SPOOLED)

    async def aopen(self) -> None:
        self._closed = False

    async def aclose(self) -> None:
        """Provisional records count as they stand; openings without any become `interrupted`, as a restart does it."""
        if self._closed:
            return
        for record in list(self.provisional.values()):
            self.submit(record)
        for opening in self.openings:
            if opening.id in self._open_ids():
                self.submit(interrupted(opening))
        self._closed = True

    def _open_ids(self) -> set[str]:
        return {opening.id for opening in self.openings} - {record.id for record in self.records}

    def stats(self) -> Mapping[str, float]:
        return {
            "accepting": float(self.accepting()),
            "spool_depth": 0.0,
            "spool_bytes": 0.0,
            "oldest_seconds": 0.0,
            "open": float(len(self._open_ids())),
            "written_total": float(len(self.records)),
            "failed_total": 0.0,
            "unrecorded_total": float(len(self.unrecorded)),
            "dead_letters": 0.0,
        }


def _receipt(receipt: Receipt) -> Awaitable[Receipt]:
    future: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
    future.set_result(receipt)
    return future
