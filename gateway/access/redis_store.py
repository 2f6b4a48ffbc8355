"""What keys have used, in Redis or Valkey: for replicas that do not share a database, or use limits very often.

One script a request, which Redis runs as a whole by its own clock. The arithmetic is that of `gateway.quota`. A budget
is as durable as that Redis is.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Sequence
from typing import Any, Final, cast

from redis.asyncio import Redis
from redis.exceptions import RedisError

from gateway.errors import OverloadedError
from gateway.quota import Ask, Correction, Period, Quota, Standing, Use, period_start, token_seconds

TIMEOUT_S: Final = 1.0
_PREFIX: Final = "grounding:use:"
_FIELDS: Final = """
local u = redis.call('HMGET', KEYS[1], 'r', 'k', 'p', 't', 'u')
local r, k, p = tonumber(u[1] or 0), tonumber(u[2] or 0), tonumber(u[3] or 0)
local tokens, usd = tonumber(u[4] or 0), tonumber(u[5] or 0)
local clock = redis.call('TIME')
local now = tonumber(clock[1]) + tonumber(clock[2]) / 1000000
local function said(x) return string.format('%.17g', x) end
local function keep()
    redis.call('HSET', KEYS[1], 'r', said(r), 'k', said(k), 'p', said(p), 't', said(tokens), 'u', said(usd))
end
"""
# A period only ever follows an earlier one: clocks of replicas may differ a little where it begins.
_ADMIT: Final = (
    _FIELDS
    + """
local request_s, token_s, more, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local most_tokens, most_usd, period = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
if period > p then p, tokens, usd = period, 0, 0 end
local r2, k2 = math.max(r, now) + request_s, math.max(k, now) + token_s
local granted = (request_s == 0 or r2 - now <= 60.000001) and (token_s == 0 or k2 - now <= 60.000001)
    and (most_tokens < 0 or tokens < most_tokens) and (most_usd < 0 or usd < most_usd)
if granted then
    r, k, tokens, usd = r2, k2, tokens + more, usd + cost
    keep()
end
return {granted and 1 or 0, said(now), said(r), said(k), said(p), said(tokens), said(usd)}
"""
)
_CORRECT: Final = (
    _FIELDS
    + """
local seconds = tonumber(ARGV[1])
if seconds > 0 then k = math.max(k, now) end
k = k + seconds
tokens, usd = math.max(0, tokens + tonumber(ARGV[2])), math.max(0, usd + tonumber(ARGV[3]))
keep()
return 1
"""
)


class RedisUse:
    """A `UseStore`; connects on first use. Raises `OverloadedError` when Redis cannot be used."""

    def __init__(self, url: str) -> None:
        self._redis: Redis = Redis.from_url(url, socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S)
        self._admit = self._redis.register_script(_ADMIT)
        self._correct = self._redis.register_script(_CORRECT)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._redis.aclose()

    async def admit(self, key_id: str, quota: Quota, ask: Ask) -> Standing:
        """Take a request's place, if there is one."""
        arguments = [
            0.0 if quota.requests_per_minute is None else 60.0 / quota.requests_per_minute,
            token_seconds(ask.tokens, quota),
            ask.tokens,
            ask.usd,
            -1 if quota.budget_tokens is None else quota.budget_tokens,
            -1 if quota.budget_usd is None else quota.budget_usd,
            0.0 if quota.per is Period.TOTAL else period_start(quota.per, time.time()),
        ]
        found = await _answered(self._admit(keys=[_PREFIX + key_id], args=arguments))
        now, *use = (float(value) for value in found[1:])
        return Standing(granted=bool(found[0]), now=now, use=Use(*use))

    async def correct(self, corrections: Sequence[Correction]) -> None:
        """Settle several keys, one after another."""
        for one in corrections:
            await _answered(
                self._correct(keys=[_PREFIX + one.key_id], args=[one.seconds, one.tokens, one.usd]),
            )


async def _answered(call: Any) -> Any:
    try:
        return await cast("Awaitable[Any]", call)
    except (RedisError, OSError) as error:
        raise OverloadedError(
            f"Redis, where the use of keys is counted, cannot be used: {type(error).__name__}",
            code="limits_unavailable",
        ) from error
