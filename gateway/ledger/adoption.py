"""Spools of dead processes: taking one over, and what it says of exchanges that never got a final record.

Blocking parts run in threads. Knows nothing of Postgres.
"""

from __future__ import annotations

import asyncio
import sqlite3
from dataclasses import dataclass, field

from gateway.ledger.encode import decode_key, decode_unfinished, split_array
from gateway.ledger.record import Opening
from gateway.ledger.spool_file import Group, SpoolFile


@dataclass(slots=True)
class AdoptedSpool:
    """A spool of a dead process, ours now. `recorded` collects the exchanges seen in it."""

    file: SpoolFile
    records: int
    size: int
    after: int = 0
    recorded: set[str] = field(default_factory=set)

    async def read(self, after: int, max_records: int, max_bytes: int) -> list[Group]:
        """The next groups after a row."""
        groups = await asyncio.to_thread(self.file.read, after, max_records, max_bytes)
        for group in groups:
            self.recorded.update(decode_key(data)[1] for data in split_array(group.data))
        return groups

    async def release(self, upto: int) -> None:
        """Nothing to do: the file is removed when all of it is written, and writing twice has no effect."""

    def advance(self, groups: list[Group]) -> None:
        """These groups are written."""
        self.after = groups[-1].seq
        self.records -= sum(group.count for group in groups)
        self.size -= sum(len(group.data) for group in groups)

    async def unfinished(self) -> list[Opening | bytes]:
        """Openings and provisional records without a final record, once every group was read."""
        found = await asyncio.to_thread(unfinished_in, self.file)
        return [value for exchange_id, value in found.items() if exchange_id not in self.recorded]


def take_over(file: SpoolFile) -> AdoptedSpool | None:
    """The file as a source, dead letters to be tried again; None when a living process holds it. Blocking.

    Raises `sqlite3.Error` or `OSError` when it cannot be read.
    """
    if not file.open():
        return None
    try:
        file.exhume()
        depth = file.depth()
    except (sqlite3.Error, OSError):
        file.close()
        raise
    return AdoptedSpool(file, depth.records, depth.bytes)


def unfinished_in(file: SpoolFile) -> dict[str, Opening | bytes]:
    """The latest word of a file on each exchange without a final record: its opening, or a provisional record."""
    return dict(each for _, lines in file.openings() for each in decode_unfinished(lines))
