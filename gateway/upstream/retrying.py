"""When to try an upstream again, and after how long. Pure: the clock and the dice come in as arguments.

Full jitter: the wait is uniform between nothing and an exponentially growing bound, which spreads clients that failed
together (Brooker, "Exponential Backoff and Jitter", 2015). A hint of the server replaces it. Only tries of which no
byte of an answer has arrived are put before this policy; it does not know what a request costs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime

MAX_HINT_S = 60.0
"""A longer wait is the client's decision: it gets the answer with its retry-after."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """`attempts` counts all tries, the first included; delays are in seconds."""

    attempts: int = 3
    statuses: frozenset[int] = frozenset({408, 409, 429, 500, 502, 503, 504, 529})
    base_delay_s: float = 0.5
    max_delay_s: float = 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedTry:
    """A try without an answer. `status` None means that the connection failed; `number` counts from 1.

    `remaining_s` is what is left of the total time, `now` the Unix time, `jitter` a number in [0, 1).
    """

    number: int
    status: int | None
    remaining_s: float
    now: float
    jitter: float
    headers: Mapping[str, str] = field(default_factory=dict)


def delay_s(policy: RetryPolicy, failed: FailedTry) -> float | None:
    """Seconds to wait before the next try, or None for no further try.

    None when the tries are used up, the status is not one of the policy's, the server says `x-should-retry: false`,
    or the wait would not end within the total time.
    """
    if failed.number >= policy.attempts:
        return None
    if failed.status is not None:
        word = failed.headers.get("x-should-retry")
        if word == "false" or (word != "true" and failed.status not in policy.statuses):
            return None
    hint = hinted_s(failed.headers, failed.now)
    if hint is not None and hint > MAX_HINT_S:
        return None
    if hint is None:
        bound = min(policy.max_delay_s, policy.base_delay_s * 2.0 ** (failed.number - 1))
        hint = bound * failed.jitter
    return hint if hint < failed.remaining_s else None


def hinted_s(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds asked for by `retry-after-ms` or `retry-after` (seconds, or an HTTP date against `now`); None without."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name)
        if value is None:
            continue
        try:
            seconds = float(value) * unit
        except ValueError:
            seconds = _until(value, now)
        if 0.0 <= seconds < float("inf"):
            return seconds
    return None


def _until(date: str, now: float) -> float:
    """Seconds from `now` to an HTTP date, 0 for one in the past, -1 for something else."""
    try:
        return max(0.0, parsedate_to_datetime(date).timestamp() - now)
    except ValueError:
        return -1.0
