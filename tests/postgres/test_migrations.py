"""The schema comes up from nothing, once, whoever starts first; old months go without a trace."""

from __future__ import annotations

import asyncio
from datetime import UTC, date, datetime
from pathlib import Path

import asyncpg
import pytest

from gateway.ledger.encode import encode_record
from gateway.ledger.retention import drop_before, limit_for
from gateway.ledger.store import PostgresStore
from gateway.ledger.tables import (
    BODY_TABLES,
    TABLES,
    month_of,
    months_ahead,
    next_month,
    partition_month,
    partition_name,
)
from migrations import Phase, current, migrate, pending
from tests.gateway.ledger.records import rich_record


async def rows(url: str, statement: str) -> list[asyncpg.Record]:
    connection = await asyncpg.connect(url)
    try:
        return list(await connection.fetch(statement))
    finally:
        await connection.close()


async def test_workers_that_start_together_migrate_once(empty_postgres_url: str) -> None:
    assert await current(empty_postgres_url) is None
    waiting = await pending(empty_postgres_url)
    done = await asyncio.gather(*(migrate(empty_postgres_url) for _ in range(4)))
    assert sorted(done, key=len) == [[], [], [], waiting]
    assert await pending(empty_postgres_url) == []
    assert await current(empty_postgres_url) == waiting[-1]
    assert await migrate(empty_postgres_url) == []


async def test_the_schema_has_the_tables_the_code_knows(postgres_url: str) -> None:
    found = await rows(
        postgres_url,
        "SELECT relname FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace "
        "WHERE nspname = 'ledger' AND relkind = 'p'",
    )
    assert {row[0] for row in found} == set(TABLES)


def test_revisions_are_numbered_and_say_when_they_run() -> None:
    versions = sorted((Path(__file__).parents[2] / "migrations" / "versions").glob("[0-9]*.py"))
    for number, path in enumerate(versions, start=1):
        phase = path.name.split("_")[1]
        assert path.name.startswith(f"{number:04}_")
        assert f'PHASE = "{phase}"' in path.read_text()
        assert phase in {"pre", "post"}


async def test_the_pre_phase_runs_what_may_run_beside_the_old_release(empty_postgres_url: str) -> None:
    done = await migrate(empty_postgres_url, phase=Phase.PRE)
    assert done[0] == "0001"


async def test_processes_that_make_partitions_together_do_not_fail(fresh_postgres_url: str) -> None:
    stores = [PostgresStore(fresh_postgres_url) for _ in range(4)]
    months = months_ahead(date(2026, 11, 1), 2)
    made = await asyncio.gather(*(store.ensure_partitions(months) for store in stores))
    assert sorted(made) == [False, False, False, True]
    found = await rows(
        fresh_postgres_url,
        "SELECT count(*) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE relkind = 'r'",
    )
    assert found[0][0] == 3 * len(TABLES)
    for store in stores:
        await store.aclose()


async def test_dropping_old_months_leaves_no_orphans_and_no_newer_loss(fresh_postgres_url: str) -> None:
    """BerriAI/litellm #29342, #16582: orphan side rows, deletes that time out."""
    store = PostgresStore(fresh_postgres_url)
    times = [datetime(2026, month, 15, tzinfo=UTC).timestamp() for month in (8, 9, 10, 11)]
    await store.ensure_partitions([month_of(at) for at in times])
    records = [rich_record(f"x{n}", created_at=at) for n, at in enumerate(times)]
    await store.write(b",".join(encode_record(each, hash_key=b"", max_bytes=1 << 20) for each in records))

    dropped = await drop_before(store, date(2026, 10, 20))
    assert {partition_month(name) for name in dropped} == {
        (table, date(2026, month, 1)) for table in TABLES for month in (8, 9)
    }
    assert [item["id"] for item in (await store.list_exchanges()).items] == ["x3", "x2"]
    for table in TABLES:
        oldest = (await rows(fresh_postgres_url, f"SELECT min(created_at) FROM ledger.{table}"))[0][0]
        assert oldest is None or oldest >= datetime(2026, 10, 1, tzinfo=UTC), table
    assert (await store.get_exchange("x2"))["sources"][0]["text"] == records[2].sources[0].text
    assert await drop_before(store, date(2026, 10, 20)) == []
    await store.aclose()


async def test_conversations_can_go_earlier_than_verdicts(fresh_postgres_url: str) -> None:
    store = PostgresStore(fresh_postgres_url)
    at = datetime(2026, 8, 15, tzinfo=UTC).timestamp()
    await store.ensure_partitions([month_of(at)])
    await store.write(encode_record(rich_record("x1", created_at=at), hash_key=b"", max_bytes=1 << 20))
    dropped = await drop_before(store, date(2026, 9, 1), tables=BODY_TABLES)
    assert len(dropped) == len(BODY_TABLES)
    found = await store.get_exchange("x1")
    assert found["body"] is None
    assert found["checks"][0]["facts"][0]["label"] == "false"
    assert "Sundays" not in str(found)
    await store.aclose()


async def test_a_drop_that_was_cut_short_is_finished_by_the_next(fresh_postgres_url: str) -> None:
    store = PostgresStore(fresh_postgres_url)
    await store.ensure_partitions([date(2026, 8, 1)])
    await rows(fresh_postgres_url, "ALTER TABLE ledger.exchange DETACH PARTITION ledger.exchange_y2026m08")
    assert len(await drop_before(store, date(2026, 9, 1))) == len(TABLES)
    assert await drop_before(store, date(2026, 9, 1)) == []
    await store.aclose()


@pytest.mark.parametrize(("at", "month"), [(0, date(1970, 1, 1)), (1_796_083_199, date(2026, 11, 1))])
def test_a_record_at_the_last_second_of_a_month_belongs_to_it(at: float, month: date) -> None:
    assert month_of(at) == month


def test_names_of_partitions_and_limits() -> None:
    assert months_ahead(date(2026, 11, 1), 2) == [date(2026, 11, 1), date(2026, 12, 1), date(2027, 1, 1)]
    assert next_month(date(2026, 12, 1)) == date(2027, 1, 1)
    assert partition_month(partition_name("fact_body", date(2026, 3, 1))) == ("fact_body", date(2026, 3, 1))
    assert partition_month("exchange_backup") is None
    assert limit_for(datetime(2026, 11, 30, tzinfo=UTC), 30) == date(2026, 10, 31)
