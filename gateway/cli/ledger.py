"""The ledger's database for commands that read it and go."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TypeVar

from gateway.app.serving import open_database
from gateway.config.load import load
from gateway.config.model import GatewayConfig
from gateway.ledger.store import PostgresStore

Result = TypeVar("Result")


def with_store(config_path: Path, work: Callable[[PostgresStore], Awaitable[Result]]) -> Result:
    """Run `work` on the configuration's ledger."""
    return with_config(config_path, lambda _, store: work(store))


def with_config(config_path: Path, work: Callable[[GatewayConfig, PostgresStore], Awaitable[Result]]) -> Result:
    """Run `work` on the configuration and its ledger."""
    config = load(config_path, os.environ)

    async def run() -> Result:
        async with AsyncExitStack() as stack:
            url, _ = await open_database(config, stack)
            store = PostgresStore(url)
            stack.push_async_callback(store.aclose)
            return await work(config, store)

    return asyncio.run(run())
