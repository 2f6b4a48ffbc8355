"""Lets requests of limited keys in, or says when they may come, and settles what they used.

The numbers are kept where all workers and replicas see them. While that place is away, this process counts by itself,
from nothing, and tells the shared place what was used once it is back. A key without limits costs nothing here.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from gateway.errors import GatewayError, RateLimitedError
from gateway.quota import Ask, Correction, Quota, Standing, Style, Use, admit, correct, names, told, waits

WAIT_S: Final = 1.0
"""The longest that a request waits for the shared numbers."""
AWAY_S: Final = 5.0
"""So long they are not asked again after they were away."""
SETTLE_S: Final = 0.25
"""What was used is told in batches, so often."""


class UseStore(Protocol):
    """Where the numbers are kept. Raises `GatewayError` or `TimeoutError` when it cannot be reached."""

    async def admit(self, key_id: str, quota: Quota, ask: Ask) -> Standing: ...

    async def correct(self, corrections: Sequence[Correction]) -> None: ...


class MemoryUse:
    """A `UseStore` of one process. `clock` gives Unix seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._uses: dict[str, Use] = {}

    async def admit(self, key_id: str, quota: Quota, ask: Ask) -> Standing:
        standing = admit(self._uses.get(key_id, Use()), quota, ask, self._clock())
        self._uses[key_id] = standing.use
        return standing

    async def correct(self, corrections: Sequence[Correction]) -> None:
        now = self._clock()
        for correction in corrections:
            self._uses[correction.key_id] = correct(self._uses.get(correction.key_id, Use()), correction, now)


@dataclass(slots=True)
class _Owed:
    seconds: float = 0.0
    tokens: float = 0.0
    usd: float = 0.0


class Grant:
    """One admitted request. `headers` tell its client where the key stands."""

    __slots__ = ("_key_id", "_limiter", "_quota", "_reserved", "_settled", "_shared", "headers")

    def __init__(self, limiter: Limiter, key_id: str, quota: Quota, reserved: Ask, *, shared: bool) -> None:
        self._limiter = limiter
        self._key_id = key_id
        self._quota = quota
        self._reserved = reserved
        self._shared = shared
        self._settled = False
        self.headers: Mapping[str, str] = {}

    @property
    def reserved(self) -> Ask:
        """What was taken before."""
        return self._reserved

    @property
    def counts_tokens(self) -> bool:
        """What was used has to be known in tokens."""
        quota = self._quota
        counted = (quota.tokens_per_minute, quota.budget_tokens, quota.budget_usd)
        return any(limit is not None for limit in counted)

    def settle(self, used: Ask) -> None:
        """Tell what was used; only the first word counts."""
        if not self._settled:
            self._settled = True
            self._limiter.owe(self._key_id, self._quota, self._reserved if self._shared else Ask(), used)


class Limiter:
    """Over a shared store. `clock` gives Unix seconds, `problem` is told of failures of the store."""

    def __init__(
        self, store: UseStore, *, clock: Callable[[], float], problem: Callable[[str, BaseException], None]
    ) -> None:
        self._store = store
        self._own = MemoryUse(clock)
        self._clock = clock
        self._problem = problem
        self._away_until = 0.0
        self._owed: dict[str, _Owed] = {}
        self._settling: asyncio.Task[None] | None = None

    async def admit(self, key_id: str, quota: Quota, ask: Ask, style: Style) -> Grant:
        """Let a request in. Raises `RateLimitedError`."""
        standing, shared = await self._standing(key_id, quota, ask)
        if not standing.granted:
            raise _refusal(standing, quota, ask, style)
        grant = Grant(self, key_id, quota, ask, shared=shared)
        grant.headers = told(standing, quota, style)
        return grant

    async def _standing(self, key_id: str, quota: Quota, ask: Ask) -> tuple[Standing, bool]:
        if self._clock() >= self._away_until:
            try:
                async with asyncio.timeout(WAIT_S):
                    return await self._store.admit(key_id, quota, ask), True
            except (GatewayError, TimeoutError) as error:
                self._is_away(error)
        return await self._own.admit(key_id, quota, ask), False

    def _is_away(self, error: BaseException) -> None:
        self._away_until = self._clock() + AWAY_S
        self._problem("limits_unavailable", error)

    def owe(self, key_id: str, quota: Quota, reserved: Ask, used: Ask) -> None:
        """Note what was used beside what the shared numbers already hold."""
        tokens = used.tokens - reserved.tokens
        per_minute = quota.tokens_per_minute
        owed = self._owed.setdefault(key_id, _Owed())
        # What was reserved is at most a minute's worth, whatever the estimate was.
        held = 0.0 if per_minute is None else min(60.0, reserved.tokens * 60.0 / per_minute)
        owed.seconds += 0.0 if per_minute is None else used.tokens * 60.0 / per_minute - held
        owed.tokens += tokens
        owed.usd += used.usd - reserved.usd
        if self._settling is None:
            self._settling = asyncio.get_running_loop().create_task(self._settle_later())

    async def _settle_later(self) -> None:
        wait_s = SETTLE_S
        while self._owed:
            await asyncio.sleep(wait_s)
            wait_s = SETTLE_S if await self.settle() else AWAY_S
        self._settling = None

    async def settle(self) -> bool:
        """Tell the shared store now; False if it could not be told, and what is owed stays."""
        owed, self._owed = self._owed, {}
        corrections = [Correction(key, one.seconds, one.tokens, one.usd) for key, one in owed.items()]
        if not corrections:
            return True
        try:
            async with asyncio.timeout(WAIT_S * 5):
                await self._store.correct(corrections)
        except (GatewayError, TimeoutError) as error:
            self._is_away(error)
            for key, one in owed.items():
                mine = self._owed.setdefault(key, _Owed())
                mine.seconds += one.seconds
                mine.tokens += one.tokens
                mine.usd += one.usd
            return False
        return True

    async def aclose(self) -> None:
        """Tell what is still owed, once, and stop."""
        if self._settling is not None:
            self._settling.cancel()
            await asyncio.gather(self._settling, return_exceptions=True)
        await self.settle()


def _refusal(standing: Standing, quota: Quota, ask: Ask, style: Style) -> RateLimitedError:
    waiting = waits(standing.use, quota, ask, standing.now)
    first = names(waiting)[0]
    wait_s = waiting[first]
    headers = told(standing, quota, style)
    if first == "budget":
        spent = f"this key has used up its budget ({_budget(quota)})"
        when = "; ask for a larger one" if math.isinf(wait_s) else f"; it begins anew in {math.ceil(wait_s)} s"
        retry_after = None if math.isinf(wait_s) else math.ceil(wait_s)
        return RateLimitedError(
            spent + when, code="insufficient_quota", kind="insufficient_quota", retry_after=retry_after, headers=headers
        )
    limit = quota.requests_per_minute if first == "requests" else quota.tokens_per_minute
    about = f" (this request is taken for {ask.tokens})" if first == "tokens" else ""
    return RateLimitedError(
        f"this key may use {limit} {first} a minute{about}; try again in {wait_s:.3f} s",
        code="rate_limit_exceeded",
        kind=first,
        retry_after=max(1, math.ceil(wait_s)),
        headers=headers,
    )


def _budget(quota: Quota) -> str:
    sums = []
    if quota.budget_tokens is not None:
        sums.append(f"{quota.budget_tokens} tokens")
    if quota.budget_usd is not None:
        sums.append(f"{quota.budget_usd:g} USD")
    return f"{' or '.join(sums)} {'in all' if quota.per == 'total' else f'a {quota.per}'}"
