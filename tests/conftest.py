"""Fixtures shared by all tests: a real Postgres, one server for the session, one fresh database for each module."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import asyncpg
import pytest

from gateway.ledger.embedded import EmbeddedPostgres
from migrations import migrate

T = TypeVar("T")

# The machine of a test run may lose its data; a killed server may not, and does not with these.
FAST = {"fsync": "off", "full_page_writes": "off", "max_connections": "200"}
TEMPLATE = "migrated"


def _run(call: Callable[[], Awaitable[T]]) -> T:
    """Run a coroutine on a loop and thread of its own, whatever the caller's thread is doing."""

    async def main() -> T:
        return await call()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(main())).result()


async def _execute(url: str, statement: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


def _sibling(url: str, database: str) -> str:
    return f"{url.rpartition('/')[0]}/{database}"


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of a server of this session; its database `migrated` has the ledger's schema and no rows."""
    directory: Path = tmp_path_factory.mktemp("postgres")
    server = EmbeddedPostgres(directory, settings=FAST)
    url = _run(server.start)
    try:
        _run(lambda: _execute(url, f"CREATE DATABASE {TEMPLATE}"))
        _run(lambda: migrate(_sibling(url, TEMPLATE)))
        yield url
    finally:
        _run(server.stop)


@pytest.fixture(scope="module")
def postgres_url(postgres_server: str) -> str:
    """A database of this module with the ledger's schema, empty."""
    name = f"test_{secrets.token_hex(6)}"
    _run(lambda: _execute(postgres_server, f"CREATE DATABASE {name} TEMPLATE {TEMPLATE}"))
    return _sibling(postgres_server, name)


@pytest.fixture
def fresh_postgres_url(postgres_server: str) -> str:
    """A database of this test with the ledger's schema, empty."""
    name = f"test_{secrets.token_hex(6)}"
    _run(lambda: _execute(postgres_server, f"CREATE DATABASE {name} TEMPLATE {TEMPLATE}"))
    return _sibling(postgres_server, name)


@pytest.fixture
def empty_postgres_url(postgres_server: str) -> str:
    """A database of this test without any schema of ours."""
    name = f"test_{secrets.token_hex(6)}"
    _run(lambda: _execute(postgres_server, f"CREATE DATABASE {name} TEMPLATE template0"))
    return _sibling(postgres_server, name)
