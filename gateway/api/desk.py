"""What the handlers share: the runtime in force, the ledger, background checks, the count of running requests.

A `Runtime` is everything that a configuration makes. It is swapped as a whole on reload; a request keeps the one it
began with, and an old one is closed when its last request has ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Protocol

from gateway.access.keys import Keyring
from gateway.access.limiter import Limiter, MemoryUse
from gateway.access.prices import Price, PriceTable
from gateway.api.admission import used
from gateway.api.turnstile import Place, Turnstile
from gateway.config.model import GatewayConfig
from gateway.errors import OverloadedError
from gateway.exchange.parts import RouteParts, Services
from gateway.exchange.path import Exchange
from gateway.ledger.record import ExchangeRecord, Receipt
from gateway.ledger.store import PostgresStore
from gateway.route import RouteTable
from gateway.telemetry import Metrics, Telling
from gateway.telemetry.trace_context import TraceContext
from gateway.telemetry.tracing import Tracing
from gateway.upstream.pool import PoolUpstream
from gateway.wire.chat import RequestLimits
from retrieval.types import Passage


class SourceLookup(Protocol):
    """Passages by id, over the collections that the named routes read."""

    def passage(self, passage_id: str, routes: Sequence[str], groups: frozenset[str]) -> Passage | None: ...


@dataclass(slots=True)
class Runtime:
    """What one configuration makes. `resources` closes what it opened."""

    config: GatewayConfig
    version: str
    table: RouteTable
    parts: Mapping[str, RouteParts]
    keyring: Keyring
    sources: SourceLookup
    pools: tuple[PoolUpstream, ...] = ()
    anonymous: bool = False
    """Some route passes the caller's own upstream key on, so a caller need not have one of ours."""
    resources: AsyncExitStack = field(default_factory=AsyncExitStack)
    running: int = 0
    retired: bool = False
    limits: RequestLimits = field(init=False)
    """Bounds of what a request may ask for."""
    prices: PriceTable = field(init=False)

    def __post_init__(self) -> None:
        self.limits = RequestLimits(max_messages=self.config.server.max_messages)
        self.prices = PriceTable(
            {
                name: Price(price.prompt, price.completion, price.prompt if price.cached is None else price.cached)
                for name, price in self.config.prices.items()
            }
        )

    async def retire(self) -> None:
        """No new requests from now on; closed at once, or with the last one."""
        self.retired = True
        if self.running == 0:
            await self.resources.aclose()

    async def leave(self) -> None:
        """One request of this runtime has ended."""
        self.running -= 1
        if self.retired and self.running == 0:
            await self.resources.aclose()


class GatewayDesk:
    """The running gateway, as handlers see it."""

    def __init__(
        self,
        runtime: Runtime,
        services: Services,
        metrics: Metrics,
        *,
        now: Callable[[], float],
        new_id: Callable[[], str],
        store: PostgresStore | None = None,
        tracing: Tracing | None = None,
    ) -> None:
        self.runtime = runtime
        self.services = services
        self.metrics = metrics
        self._telling = Telling(metrics, now)
        self.now = now
        """UTC seconds since the epoch."""
        self.started_at = now()
        self.new_id = new_id
        self.store = store
        """Where recorded exchanges are read; None without a database."""
        metrics.breakers.states = self._breakers
        self.tracing = tracing
        """Where traces go; None when none are made."""
        self.limiter = Limiter(MemoryUse(now), clock=now, problem=services.observer.problem)
        """Lets requests of limited keys in; by what this process knows alone, unless another is put here."""
        self.turnstile = Turnstile(services.clock)
        metrics.watch("requests", self.turnstile.stats)
        self.draining = False
        self.in_flight = 0
        self._background: set[asyncio.Task[None]] = set()

    # -- admission -----------------------------------------------------------------------------------------------------

    def enter(self) -> Runtime:
        """Admit a request to the runtime in force. Raises `OverloadedError` when there are too many."""
        server = self.runtime.config.server
        if self.draining:
            raise OverloadedError("the gateway is shutting down; try again", code="shutting_down")
        if self.in_flight >= server.max_concurrent_requests:
            raise OverloadedError(
                f"{self.in_flight} requests are being served, which is this gateway's limit; try again soon"
            )
        self.in_flight += 1
        self.runtime.running += 1
        self.metrics.entered()
        return self.runtime

    async def place(self, runtime: Runtime, route: str, gone: Callable[[], Awaitable[None]] | None = None) -> Place:
        """A place on a route, waited for in its line. Raises `OverloadedError`, or `GoneError` if the client left."""
        capacity = runtime.config.server.max_concurrent_requests if len(runtime.parts) > 1 else None
        return await self.turnstile.enter(route, runtime.config.routes[route].load, capacity, gone)

    async def leave(self, runtime: Runtime) -> None:
        """A request has ended."""
        self.in_flight -= 1
        self.metrics.left()
        await runtime.leave()

    def _breakers(self) -> dict[tuple[str, str], float]:
        """The state of every breaker, by pool and member."""
        return {(pool.name, name): float(state) for pool in self.runtime.pools for name, state in pool.states()}

    async def swap(self, runtime: Runtime) -> None:
        """Put a new runtime in force; the old one goes on for its running requests."""
        old, self.runtime = self.runtime, runtime
        await old.retire()

    # -- settlement (gateway.api.settle.Desk) --------------------------------------------------------------------------

    def open(self, exchange: Exchange) -> Awaitable[Receipt]:
        """Write the opening; refuse what could not be recorded where the configuration says so."""
        if not self.services.ledger.accepting():
            self.admit(Receipt.UNRECORDED)
        return self.services.ledger.open(exchange.account.opening())

    def submit(self, exchange: Exchange, *, provisional: bool = False) -> Awaitable[Receipt]:
        """Record the exchange, count it and log its one line."""
        record = exchange.account.record(self.services.clock())
        if (grant := exchange.call.grant) is not None:
            grant.settle(used(record, self.runtime.prices, len(exchange.account.sent)))
        return self.record(record, provisional=provisional, trace=exchange.call.trace)

    def record(
        self, record: ExchangeRecord, *, provisional: bool = False, trace: TraceContext | None = None
    ) -> Awaitable[Receipt]:
        """Hand a record to the ledger; the final one is counted, logged and traced."""
        if not provisional:
            self._telling.exchange(record)
            if self.tracing is not None:
                self.tracing.ended(record, trace)
        return self.services.ledger.submit(record, provisional=provisional)

    def admit(self, receipt: Receipt) -> None:
        """Raises `OverloadedError` for what was not recorded, unless the configuration serves it all the same."""
        if receipt is Receipt.UNRECORDED:
            self.metrics.unrecorded()
            if self.runtime.config.ledger.spool.when_full == "refuse":
                raise OverloadedError(
                    "this exchange could not be recorded (the spool is full or its disk is), and the gateway is set "
                    "to refuse such exchanges; try again later",
                    code="ledger_unavailable",
                    retry_after=5,
                )

    def later(self, exchange: Exchange) -> None:
        """Check a detached exchange now that its client is served."""
        task = asyncio.create_task(self._later(exchange))
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _later(self, exchange: Exchange) -> None:
        try:
            await exchange.judge_detached()
        finally:
            await asyncio.shield(asyncio.ensure_future(self.submit(exchange)))

    def crashed(self, exchange: Exchange, error: Exception) -> None:
        """An error of ours."""
        self.services.observer.problem("exchange_crashed", error, exchange=exchange.call.id, route=exchange.parts.name)

    async def close(self) -> None:
        """Let running requests and background checks end, for so long as the configuration gives them."""
        self.draining = True
        if self._background:
            await asyncio.wait(self._background, timeout=self.runtime.config.server.drain_seconds)
        for task in list(self._background):
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        await self.limiter.aclose()
        self._telling.flush()
        await self.runtime.retire()
