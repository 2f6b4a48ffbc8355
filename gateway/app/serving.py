"""One worker process: a desk over the configuration's own ledger and parts, reloaded and drained."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import signal
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

from litestar import Litestar

from gateway.access.limiter import UseStore
from gateway.access.stored import StoredKeys
from gateway.api.desk import GatewayDesk
from gateway.app.application import create_app, make_desk
from gateway.app.runtime import build_runtime
from gateway.config.kept import KeptConfiguration
from gateway.config.load import load
from gateway.config.model import GatewayConfig, TelemetryConfig
from gateway.config.reload import ConfigWatcher
from gateway.ledger.embedded import EmbeddedPostgres
from gateway.ledger.keys import PostgresKeys, PostgresUse
from gateway.ledger.secret import load_key
from gateway.ledger.store import PostgresStore
from gateway.ledger.writer import LedgerSettings, SpooledLedger
from gateway.telemetry import log
from gateway.telemetry.tracing import Tracing, TracingSettings

CONFIG_VARIABLE = "GROUNDING_GATEWAY_CONFIG"
KEPT_VARIABLE = "GROUNDING_GATEWAY_KEPT"


def serving_app() -> Litestar:
    """The application of one worker process, from the configuration that the environment names.

    What the gateway runs counts, not what its file says by now; that is looked at once this worker serves.
    """
    path = Path(os.environ[CONFIG_VARIABLE])
    kept = KeptConfiguration(Path(os.environ[KEPT_VARIABLE]))
    config = kept.read(path, os.environ) or load(path, os.environ)
    log.configure(config.server.log_format, config.server.log_level)
    desks: list[GatewayDesk] = []

    @asynccontextmanager
    async def lifespan(_: Litestar) -> AsyncGenerator[None, None]:
        async with serving(config, path, kept) as desk, _ending_with_parent():
            desks.append(desk)
            yield

    return create_app(lambda: desks[0], lifespan)


@asynccontextmanager
async def serving(
    config: GatewayConfig, path: Path, kept: KeptConfiguration | None = None
) -> AsyncGenerator[GatewayDesk, None]:
    """A desk over the configuration's own ledger and parts, reloaded when its file changes, drained at the end.

    What is taken into use on the way is kept for other workers in `kept`.
    """
    async with AsyncExitStack() as stack:
        url, revive = await open_database(config, stack)
        store = PostgresStore(url)
        stack.push_async_callback(store.aclose)
        ledger = SpooledLedger(_ledger_settings(config), store, revive=revive)
        await ledger.aopen()
        stack.push_async_callback(ledger.aclose)
        stored = _stored_keys(config, store)
        if stored is not None:
            await stored.refresh()
        runtime = await build_runtime(config, stored)
        tracing = await _open_tracing(config.telemetry, stack)
        desk = make_desk(runtime, ledger, _fence_key(config), store, tracing, _uses(config, store, stack))
        desk.metrics.watch("ledger", ledger.stats)
        if tracing is not None:
            desk.metrics.watch("traces", tracing.stats)
        settle_heap()
        stack.push_async_callback(desk.close)
        keep = kept.accept if kept is not None else _keep_nothing
        watcher = ConfigWatcher(path, config, _swap(desk, stored), environ=os.environ, told=_counting(desk), keep=keep)
        await stack.enter_async_context(_running(watcher.run()))
        await stack.enter_async_context(_running(desk.metrics.keep_fresh()))
        if stored is not None:
            stored.problem = desk.services.observer.problem
            await stack.enter_async_context(_running(stored.run()))
        yield desk


@asynccontextmanager
async def _ending_with_parent() -> AsyncGenerator[None, None]:
    """A worker whose parent was killed ends as after SIGTERM: nobody else would stop it, and it holds the port."""
    parent = multiprocessing.parent_process()
    if parent is None:
        yield
        return
    loop = asyncio.get_running_loop()

    def gone() -> None:
        loop.remove_reader(parent.sentinel)
        signal.raise_signal(signal.SIGTERM)

    loop.add_reader(parent.sentinel, gone)
    try:
        yield
    finally:
        loop.remove_reader(parent.sentinel)


def settle_heap() -> None:
    """Tell the garbage collector that what is alive now stays, and to look less often for cycles.

    With Python's own settings the collector goes through all of the modules, models and tables again and again, which
    takes a third of the time of serving: an exchange makes some hundred objects, few of them in cycles.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


def _swap(desk: GatewayDesk, stored: StoredKeys | None) -> Callable[[GatewayConfig], Any]:
    async def apply(config: GatewayConfig) -> None:
        await desk.swap(await build_runtime(config, stored))

    return apply


def _uses(config: GatewayConfig, store: PostgresStore, stack: AsyncExitStack) -> UseStore:
    """Where the use of limited keys is counted."""
    if config.access.redis_url is None:
        return PostgresUse(store)
    from gateway.access.redis_store import RedisUse

    uses = RedisUse(config.access.redis_url.get_secret_value())
    stack.push_async_callback(uses.aclose)
    return uses


def _stored_keys(config: GatewayConfig, store: PostgresStore) -> StoredKeys | None:
    """Keys in the database, where the configuration takes them."""
    access = config.access
    if not access.stored_keys:
        return None
    keys = PostgresKeys(store)
    return StoredKeys(keys, refresh_s=access.refresh, stale_for_s=access.stale_for, clock=time.monotonic)


def _counting(desk: GatewayDesk) -> Callable[[bool], None]:
    return lambda accepted: desk.metrics.reloaded(accepted=accepted)


def _keep_nothing(_: str) -> None:
    """A gateway of one process has no workers that start later."""


@asynccontextmanager
async def _running(work: Coroutine[Any, Any, None]) -> AsyncGenerator[None, None]:
    """Work that goes on beside the serving until its end."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def open_database(
    config: GatewayConfig, stack: AsyncExitStack
) -> tuple[str, Callable[[], Awaitable[str]] | None]:
    """The ledger's database and how to revive it: the configured one, or a Postgres of our own in the data directory.

    Every process of a gateway may open it; the last one to close it stops it.
    """
    if config.ledger.database_url is not None:
        return config.ledger.database_url.get_secret_value(), None
    postgres = EmbeddedPostgres(config.data_dir / "postgres", port=config.ledger.port)
    url = await postgres.start()
    stack.push_async_callback(postgres.stop)
    return url, postgres.ensure_running


def _ledger_settings(config: GatewayConfig) -> LedgerSettings:
    spool = config.ledger.spool
    return LedgerSettings(
        directory=config.data_dir / "spool",
        fsync=spool.fsync,
        max_bytes=spool.max_bytes,
        retention_days=config.ledger.retention_days,
        maintain=config.ledger.maintain,
    )


async def _open_tracing(config: TelemetryConfig, stack: AsyncExitStack) -> Tracing | None:
    """Traces where the configuration names a collector. Closed after the last exchange has ended."""
    if config.otlp_endpoint is None:
        return None
    tracing = Tracing(
        TracingSettings(
            endpoint=config.otlp_endpoint,
            headers=config.otlp_headers,
            ratio=config.sample_ratio,
            service=config.service_name,
        )
    )
    await asyncio.to_thread(tracing.open)
    stack.push_async_callback(asyncio.to_thread, tracing.close)
    return tracing


def _fence_key(config: GatewayConfig) -> bytes:
    """The key of the fences: from the configuration where replicas share one, else this data directory's own."""
    secret = config.server.secret
    if secret is not None:
        return sha256(secret.get_secret_value().encode()).digest()
    return load_key(config.data_dir / "fence.key")
