"""A gateway whose role may only append keeps every record; another role makes and drops what it cannot."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import yaml
from sqlalchemy.engine import make_url
from typer.testing import CliRunner

from gateway.cli import app
from gateway.ledger.keys import KeyRow, PostgresKeys, PostgresUse
from gateway.ledger.record import Receipt
from gateway.ledger.store import PostgresStore
from gateway.ledger.tables import month_of
from gateway.ledger.writer import LedgerSettings, SpooledLedger
from gateway.quota import Ask, Correction, Quota
from migrations import missing
from tests.gateway.ledger.records import rich_record

pytestmark = pytest.mark.slow

LONG_AGO = datetime(2021, 3, 5, tzinfo=UTC).timestamp()


@dataclass
class Roles:
    """Addresses of one database for its two roles."""

    owner: str
    appender: str


@pytest.fixture
async def roles(postgres_server: str) -> Roles:
    """A database prepared as the guide says, before anything of ours has run."""
    name, password = f"roles_{secrets.token_hex(4)}", secrets.token_hex(8)
    owner, appender = f"{name}_owner", f"{name}_append"
    superuser = await asyncpg.connect(postgres_server)
    for role in (owner, appender):
        await superuser.execute(f"CREATE ROLE {role} LOGIN PASSWORD '{password}'")
    await superuser.execute(f"CREATE DATABASE {name} OWNER {owner}")
    await superuser.close()
    url = make_url(postgres_server).set(database=name, password=password)
    found = Roles(*(url.set(username=role).render_as_string(hide_password=False) for role in (owner, appender)))
    connection = await asyncpg.connect(found.owner)
    await connection.execute(f"ALTER DEFAULT PRIVILEGES GRANT USAGE ON SCHEMAS TO {appender}")
    await connection.execute(f"ALTER DEFAULT PRIVILEGES GRANT SELECT, INSERT ON TABLES TO {appender}")
    await connection.close()
    return found


async def test_a_role_that_may_only_append_makes_and_revokes_keys_and_counts_their_use(
    roles: Roles, tmp_path: Path
) -> None:
    await command(tmp_path, roles.owner, "migrate")
    store = PostgresStore(roles.appender)
    keys, use = PostgresKeys(store), PostgresUse(store)
    await keys.add(KeyRow(sha256="a" * 64, id="alice", prefix="gg-", settings={}))
    quota = Quota(requests_per_minute=1)
    assert [(await use.admit("alice", quota, Ask())).granted for _ in range(2)] == [True, False]
    await use.correct([Correction("alice", 0.0, 5.0, 0.0)])
    await keys.revoke("alice")
    assert await keys.current() == []
    await store.aclose()
    connection = await asyncpg.connect(roles.appender)
    for change in ("DELETE FROM ledger.api_key_end", "UPDATE ledger.key_use SET tokens = 0"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute(change)
    await connection.close()


async def command(folder: Path, url: str, *arguments: str, **ledger: Any) -> str:
    """A command of ours over a configuration with this database."""
    path = folder / "gateway.yaml"
    values = {
        "upstreams": {"main": {"kind": "openai", "base_url": "http://127.0.0.1:9/v1"}},
        "routes": {"support": {"upstream": "main", "default": True}},
        "ledger": {"database_url": url, "maintain": False, **ledger},
    }
    path.write_text(yaml.safe_dump(values))
    result = await asyncio.to_thread(CliRunner().invoke, app, [*arguments, "--config", str(path)])
    assert result.exit_code == 0, result.output
    return result.output


async def test_a_gateway_that_may_only_append_records_everything_and_can_change_nothing(
    roles: Roles, tmp_path: Path
) -> None:
    await command(tmp_path, roles.owner, "migrate")
    assert await missing(roles.appender) == []
    store = PostgresStore(roles.appender)
    ledger = SpooledLedger(LedgerSettings(directory=tmp_path / "spool", maintain=False), store)
    await ledger.aopen()
    assert await ledger.submit(rich_record("ex_1")) is Receipt.SPOOLED
    await ledger.flush()
    assert (await store.get_exchange("ex_1"))["check_status"] == "failed"
    assert ledger.stats()["postgres_up"] == 1
    connection = await asyncpg.connect(roles.appender)
    for statement in (
        "DELETE FROM ledger.exchange",
        "UPDATE ledger.fact SET label = 'true'",
        "DELETE FROM ledger.body",
        "TRUNCATE ledger.exchange",
        "DROP TABLE ledger.exchange",
        "ALTER TABLE ledger.fact DISABLE TRIGGER append_only",
        "CREATE TABLE ledger.more (id text)",
        "DROP VIEW ledger.verdicts",
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute(statement)
    await connection.close()
    # A month without partitions: its records wait, and are written once the other role has made some.
    assert await ledger.submit(rich_record("ex_old", created_at=LONG_AGO)) is Receipt.SPOOLED
    async with asyncio.timeout(90):
        while not ledger.stats()["failed_total"]:
            await asyncio.sleep(0.02)
    assert (ledger.stats()["spool_depth"], ledger.stats()["dead_letters"]) == (1, 0)
    owner = PostgresStore(roles.owner)
    await owner.ensure_partitions([month_of(LONG_AGO)])
    await owner.aclose()
    await ledger.flush()
    assert (await store.get_exchange("ex_old"))["id"] == "ex_old"
    await ledger.aclose()
    # What is past its time goes by the command, as the role that may.
    said = await command(tmp_path, roles.owner, "maintain", "--months", "5", retention_days=90)
    assert "partitions made" in said
    assert "exchange_y2021m03" in said
    assert "were there" in await command(tmp_path, roles.owner, "maintain", "--months", "5", retention_days=90)
    await store.aclose()
