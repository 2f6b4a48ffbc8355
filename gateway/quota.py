"""Rate limits and budgets as arithmetic: what a key may use, what it has used, what a client is told. Pure.

A rate is a bucket that refills evenly and holds one minute's worth (the generic cell rate algorithm, ITU-T I.371, of
which one number is kept: the time at which the bucket is full again). So up to a whole minute's allowance may come at
once, and what comes after waits its turn. Tokens are not known before an answer: an estimate is taken, and settled
with what was used. A budget is a sum over a day, a month (UTC) or for good; the request that crosses it is still
served. Times are Unix seconds, all of one clock; it does not know whose, nor where the numbers are kept.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final

MINUTE_S: Final = 60.0
_SLACK_S: Final = 1e-6


class Period(StrEnum):
    """What a budget is for."""

    DAY = "day"
    MONTH = "month"
    TOTAL = "total"


class Style(StrEnum):
    """In whose words a client is told."""

    OPENAI = "openai"
    ANTHROPIC = "anthropic"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """What a key may use; None does not limit. `budget_usd` is by the configuration's prices."""

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    budget_tokens: int | None = None
    budget_usd: float | None = None
    per: Period = Period.MONTH

    @property
    def unlimited(self) -> bool:
        """Nothing is limited."""
        rates = (self.requests_per_minute, self.tokens_per_minute)
        return all(value is None for value in (*rates, self.budget_tokens, self.budget_usd))


@dataclass(frozen=True, slots=True)
class Ask:
    """What a request will use, as far as it can be told before."""

    tokens: int = 0
    usd: float = 0.0


@dataclass(frozen=True, slots=True)
class Use:
    """What a key has used: when its buckets will be full again, and the sums of the period that began at `period`."""

    requests_until: float = 0.0
    tokens_until: float = 0.0
    period: float = 0.0
    tokens: float = 0.0
    usd: float = 0.0


@dataclass(frozen=True, slots=True)
class Correction:
    """What was used beside the estimate: seconds of the bucket of tokens, tokens and USD of the budget."""

    key_id: str
    seconds: float
    tokens: float
    usd: float


@dataclass(frozen=True, slots=True)
class Standing:
    """How a key stands at `now`, after a request that was `granted`, or before one that was not."""

    granted: bool
    now: float
    use: Use


def admit(use: Use, quota: Quota, ask: Ask, now: float) -> Standing:
    """Whether a request may go on; nothing is used by one that may not."""
    period = period_start(quota.per, now)
    if use.period != period:
        use = replace(use, period=period, tokens=0.0, usd=0.0)
    if any(wait > 0 for wait in waits(use, quota, ask, now).values()):
        return Standing(granted=False, now=now, use=use)
    taken = Use(
        max(use.requests_until, now) + _seconds(1, quota.requests_per_minute),
        max(use.tokens_until, now) + token_seconds(ask.tokens, quota),
        period,
        use.tokens + ask.tokens,
        use.usd + ask.usd,
    )
    return Standing(granted=True, now=now, use=taken)


def correct(use: Use, correction: Correction, now: float) -> Use:
    """What has been used, once a request's own use is known."""
    base = max(use.tokens_until, now) if correction.seconds > 0 else use.tokens_until
    return replace(
        use,
        tokens_until=base + correction.seconds,
        tokens=max(0.0, use.tokens + correction.tokens),
        usd=max(0.0, use.usd + correction.usd),
    )


def token_seconds(tokens: float, quota: Quota) -> float:
    """How long the bucket takes to refill by so many tokens. At most a minute is asked for before an answer."""
    return min(MINUTE_S, _seconds(tokens, quota.tokens_per_minute))


def waits(use: Use, quota: Quota, ask: Ask, now: float) -> dict[str, float]:
    """Seconds until each limit lets this request pass, by `requests`, `tokens`, `budget`; 0 for at once."""
    found = {}
    for name, limit, until, cost in (
        ("requests", quota.requests_per_minute, use.requests_until, _seconds(1, quota.requests_per_minute)),
        ("tokens", quota.tokens_per_minute, use.tokens_until, token_seconds(ask.tokens, quota)),
    ):
        if limit is not None:
            wait = max(until, now) + cost - now - MINUTE_S
            found[name] = wait if wait > _SLACK_S else 0.0
    if quota.budget_tokens is not None or quota.budget_usd is not None:
        over = quota.budget_tokens is not None and use.tokens >= quota.budget_tokens
        over = over or (quota.budget_usd is not None and use.usd >= quota.budget_usd)
        found["budget"] = period_end(quota.per, now) - now if over else 0.0
    return found


def period_start(per: Period, now: float) -> float:
    """When the period began that `now` is in."""
    if per is Period.TOTAL:
        return 0.0
    day = datetime.fromtimestamp(now, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return (day.replace(day=1) if per is Period.MONTH else day).timestamp()


def period_end(per: Period, now: float) -> float:
    """When the period ends that `now` is in; infinity for one that does not."""
    if per is Period.TOTAL:
        return math.inf
    start = datetime.fromtimestamp(period_start(per, now), UTC)
    if per is Period.DAY:
        return (start + timedelta(days=1)).timestamp()
    return (start + timedelta(days=32)).replace(day=1).timestamp()


def told(standing: Standing, quota: Quota, style: Style) -> dict[str, str]:
    """Headers that say where a key stands.

    Sources: https://platform.openai.com/docs/guides/rate-limits, https://platform.claude.com/docs/en/api/rate-limits.
    """
    headers: dict[str, str] = {}
    for name, limit, until in (
        ("requests", quota.requests_per_minute, standing.use.requests_until),
        ("tokens", quota.tokens_per_minute, standing.use.tokens_until),
    ):
        if limit is None:
            continue
        full_in_s = max(0.0, until - standing.now)
        remaining = max(0, math.floor(limit * (1.0 - full_in_s / MINUTE_S) + _SLACK_S))
        if style is Style.ANTHROPIC:
            full_at = datetime.fromtimestamp(math.ceil(standing.now + full_in_s), UTC)
            values = {"limit": str(limit), "remaining": str(remaining), "reset": f"{full_at:%Y-%m-%dT%H:%M:%SZ}"}
            headers |= {f"anthropic-ratelimit-{name}-{what}": value for what, value in values.items()}
        else:
            values = {"limit": str(limit), "remaining": str(remaining), "reset": _duration(full_in_s)}
            headers |= {f"x-ratelimit-{what}-{name}": value for what, value in values.items()}
    return headers


RATE_HEADERS: Final = ("x-ratelimit-", "anthropic-ratelimit-")
"""How the names of such headers begin."""


def _seconds(amount: float, per_minute: int | None) -> float:
    return 0.0 if per_minute is None else amount * MINUTE_S / per_minute


def _duration(seconds: float) -> str:
    """As OpenAI writes it: `12ms`, `7s`, `1m3s`."""
    if seconds < 1:
        return f"{math.ceil(seconds * 1000)}ms"
    minutes, rest = divmod(math.ceil(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


def names(waiting: Mapping[str, float]) -> list[str]:
    """The limits that have to be waited for, the longest first."""
    return sorted((name for name, wait in waiting.items() if wait > 0), key=lambda name: -waiting[name])
