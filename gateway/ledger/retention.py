"""Partitions made ahead, and dropped when they are old: a month goes in milliseconds and leaves no bloat.

A month is dropped only when all of it is older than the limit. Knows nothing of schedules.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta

from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection

from gateway.errors import LedgerUnavailableError
from gateway.ledger import statements
from gateway.ledger.store import PostgresStore
from gateway.ledger.tables import TABLES, months_ahead, next_month, partition_month


async def drop_before(store: PostgresStore, limit: date, *, tables: Sequence[str] = TABLES) -> list[str]:
    """Drop the partitions whose months end on or before `limit`, and return their names.

    `tables=BODY_TABLES` drops conversations and keeps verdicts. Readers and writers of other months go on. A drop that
    was cut short is finished by the next call. Raises `LedgerUnavailableError`.
    """
    try:
        async with store.engine.connect() as connection:
            # Detaching concurrently cannot stand inside a transaction.
            await connection.execution_options(isolation_level="AUTOCOMMIT")
            await connection.execute(text(statements.LOCK_PARTITIONS))
            try:
                return await _drop(connection, limit, frozenset(tables))
            finally:
                await connection.execute(text(statements.UNLOCK_PARTITIONS))
    except (SQLAlchemyError, OSError) as error:
        raise LedgerUnavailableError(f"old partitions cannot be dropped now: {error}") from error


async def _drop(connection: AsyncConnection, limit: date, tables: frozenset[str]) -> list[str]:
    dropped = []
    for name, attached, detaching in (await connection.execute(text(statements.LIST_PARTITIONS))).all():
        known = partition_month(name)
        if known is None or known[0] not in tables or next_month(known[1]) > limit:
            continue
        values = {"table": known[0], "name": name}
        if detaching:
            await connection.execute(text(statements.FINISH_DETACH.format(**values)))
        elif attached:
            await connection.execute(text(statements.DETACH_PARTITION.format(**values)))
        await connection.execute(text(statements.DROP_PARTITION.format(**values)))
        dropped.append(name)
    return dropped


async def look_after(
    store: PostgresStore, now: datetime, limits: Sequence[tuple[int | None, Sequence[str]]], *, months: int = 2
) -> list[str]:
    """Make the partitions of this month and the `months` after it; drop those of tables older than their days.

    Returns the names of those dropped. None days keep everything. Raises `LedgerUnavailableError`.
    """
    await store.ensure_partitions(months_ahead(now.date().replace(day=1), months))
    dropped: list[str] = []
    for days, tables in limits:
        if days is not None:
            dropped += await drop_before(store, limit_for(now, days), tables=tables)
    return dropped


def limit_for(now: datetime, days: int) -> date:
    """The date before which records are older than `days`."""
    return (now - timedelta(days=days)).date()
