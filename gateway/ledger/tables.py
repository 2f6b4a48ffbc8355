"""Names of the ledger's tables, and of their monthly partitions. Pure.

The tables themselves are in `migrations`. All are partitioned by `created_at`, the time of the exchange.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from typing import Final

SCHEMA: Final = "ledger"
BODY_TABLES: Final = ("body", "fact_body", "judge_body")
"""Where a conversation's own text stands: these may be erased, or dropped earlier, without losing a verdict."""

TABLES: Final = (
    "exchange",
    "body",
    "attempt",
    "passage",
    "source",
    "check_result",
    "fact",
    "fact_body",
    "evidence",
    "judge_call",
    "judge_body",
    "label",
)

_PARTITION = re.compile(rf"^({'|'.join(TABLES)})_y(\d{{4}})m(\d{{2}})$")


def month_of(at: float) -> date:
    """First day of the month (UTC) of an epoch time. Raises `ValueError` or `OverflowError` for absurd times."""
    moment = datetime.fromtimestamp(at, UTC)
    return date(moment.year, moment.month, 1)


def next_month(month: date) -> date:
    """First day of the month after."""
    return date(month.year + month.month // 12, month.month % 12 + 1, 1)


def months_ahead(first: date, count: int) -> list[date]:
    """`first` and the `count` months after it."""
    months = [first]
    for _ in range(count):
        months.append(next_month(months[-1]))
    return months


def partition_name(table: str, month: date) -> str:
    """`exchange_y2026m11` and the like."""
    return f"{table}_y{month.year:04}m{month.month:02}"


def partition_month(name: str) -> tuple[str, date] | None:
    """(table, month) of a partition's name; None when it is not one of ours."""
    found = _PARTITION.match(name)
    return (found[1], date(int(found[2]), int(found[3]), 1)) if found else None
