"""A process that records exchanges until it is killed, and says on stdout what it was promised.

Arguments: spool directory, database URL, prefix of ids. Lines: `opened <id>` and `done <id>`, each written after the
receipt was given: whatever is printed must be in Postgres in the end.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from gateway.ledger.record import Receipt
from gateway.ledger.store import PostgresStore
from gateway.ledger.writer import LedgerSettings, SpooledLedger
from tests.gateway.ledger.records import opening, plain_record, rich_record


async def exchanges(ledger: SpooledLedger, prefix: str) -> None:
    number = 0
    while True:
        start = opening(f"{prefix}-{number}")
        if await ledger.open(start) is Receipt.SPOOLED:
            sys.stdout.write(f"opened {start.id}\n")
            sys.stdout.flush()
        if number % 11 != 10:  # some never end
            make = rich_record if number % 3 else plain_record
            record = make(start.id, created_at=start.created_at)
            if await ledger.submit(record, provisional=number % 7 == 6) is Receipt.SPOOLED:
                sys.stdout.write(f"done {start.id}\n")
                sys.stdout.flush()
        number += 1
        await asyncio.sleep(0)


async def main(directory: str, url: str, prefix: str) -> None:
    ledger = SpooledLedger(LedgerSettings(directory=Path(directory), linger_s=0.005), PostgresStore(url))
    await ledger.aopen()
    await asyncio.gather(*(exchanges(ledger, f"{prefix}-{lane}") for lane in range(8)))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:4]))
