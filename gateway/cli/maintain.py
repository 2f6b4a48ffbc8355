"""`maintain`: the ledger's partitions, made ahead and dropped by age, by a role that may do more than the gateway's."""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path

from gateway.app.serving import open_database
from gateway.cli.output import emit
from gateway.config.load import load
from gateway.ledger import retention
from gateway.ledger.store import PostgresStore
from gateway.ledger.tables import months_ahead


async def make_partitions(url: str, months: int = 3) -> bool:
    """Make those of this month and the `months` after it; False when all were there."""
    store = PostgresStore(url)
    try:
        return await store.ensure_partitions(months_ahead(datetime.now(UTC).date().replace(day=1), months))
    finally:
        await store.aclose()


def maintain(config_path: Path, *, months: int, as_json: bool) -> int:
    """Make the partitions of this month and the `months` after it; drop what is older than `ledger.retention_days`."""
    config = load(config_path, os.environ)
    now = datetime.now(UTC)

    async def work() -> tuple[bool, list[str]]:
        async with AsyncExitStack() as stack:
            url, _ = await open_database(config, stack)
            made = await make_partitions(url, months)
            store = PostgresStore(url)
            stack.push_async_callback(store.aclose)
            days = config.ledger.retention_days
            return made, [] if days is None else await retention.drop_before(store, retention.limit_for(now, days))

    made, dropped = asyncio.run(work())
    said = "partitions made" if made else "partitions were there"
    if dropped:
        said += f"; dropped: {', '.join(dropped)}"
    emit({"made": made, "dropped": dropped}, as_json=as_json, text=said)
    return 0
