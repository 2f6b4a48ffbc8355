"""Nobody changes a verdict afterwards, not even with the gateway's credentials; erasure and reports go on working."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import asyncpg
import pytest

from gateway.ledger.encode import encode_record
from gateway.ledger.labels import Label, Labels
from gateway.ledger.store import PostgresStore
from gateway.ledger.tables import BODY_TABLES, TABLES, month_of, partition_name
from tests.gateway.ledger.records import rich_record

pytestmark = pytest.mark.slow

VERDICT_TABLES = tuple(table for table in TABLES if table not in BODY_TABLES)
AT = time.time()


@pytest.fixture
async def database(fresh_postgres_url: str) -> AsyncIterator[asyncpg.Connection]:
    """A ledger with one exchange that has a row in every table."""
    store = PostgresStore(fresh_postgres_url)
    await store.ensure_partitions([month_of(AT)])
    await store.write(encode_record(rich_record("ex_1", created_at=AT), hash_key=b"k", max_bytes=10**7))
    await Labels(store).add(Label(exchange_id="ex_1", label="true", labeller="ann", fact=0))
    await store.aclose()
    connection = await asyncpg.connect(fresh_postgres_url)
    yield connection
    await connection.close()


@pytest.mark.parametrize("on_partition", [False, True])
async def test_no_row_of_a_verdict_can_be_changed_or_deleted(database: asyncpg.Connection, on_partition: bool) -> None:
    for table in VERDICT_TABLES:
        name = partition_name(table, month_of(AT)) if on_partition else table
        assert await database.fetchval(f"SELECT count(*) FROM ledger.{name}"), name
        for statement in (
            f"UPDATE ledger.{name} SET created_at = created_at",
            f"DELETE FROM ledger.{name}",
        ):
            with pytest.raises(asyncpg.InsufficientPrivilegeError, match="append-only"):
                await database.execute(statement)


async def test_words_can_be_erased_but_not_put_into_somebodys_mouth(
    database: asyncpg.Connection, fresh_postgres_url: str
) -> None:
    for table in BODY_TABLES:
        with pytest.raises(asyncpg.InsufficientPrivilegeError, match="append-only"):
            await database.execute(f"UPDATE ledger.{table} SET created_at = created_at")
    store = PostgresStore(fresh_postgres_url)
    await store.erase_bodies("ex_1")
    found = await store.get_exchange("ex_1")
    await store.aclose()
    assert found["body"] is None
    assert found["checks"][0]["facts"][0]["label"] == "false"


async def test_reports_read_verdicts_and_facts_without_words_and_with_a_role_that_can_do_nothing_else(
    database: asyncpg.Connection,
) -> None:
    await database.execute("DROP ROLE IF EXISTS report_reader")
    await database.execute("CREATE ROLE report_reader")
    await database.execute("GRANT USAGE ON SCHEMA ledger TO report_reader")
    await database.execute("GRANT SELECT ON ledger.verdicts, ledger.facts TO report_reader")
    try:
        await database.execute("SET ROLE report_reader")
        verdict = await database.fetchrow("SELECT * FROM ledger.verdicts")
        facts = await database.fetch("SELECT * FROM ledger.facts ORDER BY position")
        for statement in ("SELECT * FROM ledger.body", "DELETE FROM ledger.verdicts", "SELECT * FROM ledger.exchange"):
            with pytest.raises((asyncpg.InsufficientPrivilegeError, asyncpg.ObjectNotInPrerequisiteStateError)):
                await database.execute(statement)
    finally:
        await database.execute("RESET ROLE")
        await database.execute("DROP OWNED BY report_reader")
        await database.execute("DROP ROLE report_reader")
    assert verdict is not None
    assert (verdict["status"], verdict["kind"], verdict["total_seconds"]) == ("failed", "fact_check", 0.4)
    assert [(fact["label"], fact["evidences"], fact["newest_label"]) for fact in facts] == [
        ("false", 2, "true"),
        (None, 0, None),
    ]
    assert "Sundays" not in repr(verdict) + repr(facts)
