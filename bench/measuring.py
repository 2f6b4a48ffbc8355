"""Interleaved bursts with processor time, and the ledger's own account of them."""

from __future__ import annotations

import asyncio
import time
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

import asyncpg

from bench.load import Sample, Target, burst
from bench.processes import Server

_DRAIN_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How a part is measured: bursts of `seconds` or `requests`, whichever ends first, in `rounds`."""

    connections: int
    seconds: float = 2.0
    requests: int = 10**9
    rounds: int = 5
    warm_up: bool = True


@dataclass(slots=True)
class Contender:
    """A server at one address. `settle` waits until work that outlasts the answers is done."""

    name: str
    server: Server
    target: Target
    settle: Callable[[], object] | None = None
    beside: Callable[[], float] = lambda: 0.0
    """Processor seconds of what works for the server (the ledger's Postgres)."""
    made: int = 0
    """Requests sent so far."""


@dataclass(frozen=True, slots=True)
class Round:
    """One burst: what the client saw, and what a request cost in processor milliseconds, here and in Postgres."""

    sample: Sample
    cpu_ms: float
    beside_ms: float


async def interleaved(contenders: Sequence[Contender], plan: Plan) -> dict[str, list[Round]]:
    """Rounds in which each contender is loaded once, in an order that turns."""
    rounds: dict[str, list[Round]] = {contender.name: [] for contender in contenders}
    if plan.warm_up:
        for contender in contenders:
            await _burst(contender, replace(plan, seconds=min(1.0, plan.seconds), requests=min(plan.requests, 500)))
    for number in range(plan.rounds):
        turn = number % len(contenders)
        for contender in (*contenders[turn:], *contenders[:turn]):
            rounds[contender.name].append(await _burst(contender, plan))
    return rounds


async def _burst(contender: Contender, plan: Plan) -> Round:
    before, beside = contender.server.cpu_s(), contender.beside()
    sample = await burst(contender.target, connections=plan.connections, seconds=plan.seconds, requests=plan.requests)
    contender.made += len(sample.latency) + sample.failed
    if contender.settle is not None:
        await asyncio.to_thread(contender.settle)
    count = max(1, len(sample.latency))
    return Round(
        sample,
        (contender.server.cpu_s() - before) / count * 1e3,
        (contender.beside() - beside) / count * 1e3,
    )


def ratios(above: Sequence[Round], below: Sequence[Round], of: Callable[[Round], float]) -> list[float]:
    """One ratio a round."""
    return [of(a) / of(b) for a, b in zip(above, below, strict=True)]


def middle(rounds: Sequence[Round], of: Callable[[Round], float]) -> float:
    """The median over the rounds."""
    return median(of(each) for each in rounds)


def metrics(port: int, *names: str) -> list[float]:
    """Numbers of the gateway's metrics, from one reading; 0 for one that is not there yet."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    return [next((float(line.split()[1]) for line in lines if line.startswith(f"{name} ")), 0.0) for name in names]


def settled(port: int) -> None:
    """Returns when the gateway has nothing left to write: no open exchange, no record that waits for Postgres.

    It asks seldom, as rendering the metrics costs the gateway as much as some requests and is counted as theirs.
    """
    deadline = time.monotonic() + _DRAIN_S
    while time.monotonic() < deadline:
        if not any(metrics(port, "grounding_ledger_spool_depth", "grounding_ledger_open")):
            return
        time.sleep(0.5)
    raise SystemExit("the gateway did not empty its spool; is its Postgres well?")


@dataclass(slots=True)
class Ledger:
    """Reads what was recorded, straight from the tables."""

    url: str
    since: float = field(default_factory=time.time)

    async def rows(self) -> tuple[int, int]:
        """(rows, different ids) of exchanges since the start."""
        row = await self._row("SELECT count(*), count(DISTINCT id) FROM ledger.exchange WHERE created_at >= $1")
        return row[0], row[1]

    async def stage_ms(self, route: str, stage: str, latest: int) -> tuple[int, float, float]:
        """(count, median, 99th percentile) of a stage in a route's latest exchanges, milliseconds, as recorded."""
        row = await self._row(
            "SELECT count(*), percentile_cont(0.5) WITHIN GROUP (ORDER BY s), percentile_cont(0.99) WITHIN GROUP "
            "(ORDER BY s) FROM (SELECT (seconds ->> $3)::float8 AS s FROM ledger.exchange WHERE created_at >= $1 "
            "AND route = $2 ORDER BY created_at DESC LIMIT $4) AS each",
            route,
            stage,
            latest,
        )
        return row[0], row[1] * 1e3, row[2] * 1e3

    async def _row(self, query: str, *values: object) -> asyncpg.Record:
        connection = await asyncpg.connect(self.url)
        try:
            stamp = await connection.fetchval("SELECT to_timestamp($1::float8)", self.since)
            return await connection.fetchrow(query, stamp, *values)
        finally:
            await connection.close()
