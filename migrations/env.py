"""Alembic's entry point. Works on the connection handed over by `migrations.run`, or on `DATABASE_URL` from Alembic's
own command line (`alembic -c migrations/alembic.ini ...`)."""

from __future__ import annotations

import asyncio
import os

from alembic import context
from sqlalchemy import Connection, text
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import create_async_engine

SCHEMA = "ledger"


def run(connection: Connection) -> None:
    """Run what the command asked for, one transaction per revision."""
    context.configure(
        connection=connection,
        version_table_schema=SCHEMA,
        transaction_per_migration=True,
        transactional_ddl=True,
    )
    connection.execute(text(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}"))
    connection.commit()
    with context.begin_transaction():
        context.run_migrations()
    connection.commit()


async def run_from_command_line() -> None:
    """Connect to `DATABASE_URL` and run."""
    url = make_url(os.environ["DATABASE_URL"]).set(drivername="postgresql+asyncpg")
    engine = create_async_engine(url)
    async with engine.connect() as connection:
        await connection.run_sync(run)
    await engine.dispose()


given = context.config.attributes.get("connection")
if given is not None:
    run(given)
else:
    asyncio.run(run_from_command_line())
