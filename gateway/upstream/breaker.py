"""A circuit breaker for one upstream: whether it may be asked, by how it has answered. Pure: times come in.

Closed, it lets every request through and counts failures in a row; enough of them open it. Open, it lets nothing
through for a time. After that it is half-open: one request is a trial, whose end closes or opens it again (Nygard,
"Release It!", 2007, chapter 5). A server that names a time by `retry-after` is left alone until then, which does not
make it ill. It knows nothing of what was asked; every `admit` must be followed by one of the four ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class BreakerState(IntEnum):
    """As metrics show it."""

    CLOSED = 0
    HALF_OPEN = 1
    OPEN = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerPolicy:
    """`failures` in a row open the breaker for `open_s` seconds."""

    failures: int = 5
    open_s: float = 30.0


class Breaker:
    """The breaker of one upstream. Times are seconds of one monotonic clock."""

    __slots__ = ("_failures", "_not_before", "_open_until", "_policy", "_trial")

    def __init__(self, policy: BreakerPolicy) -> None:
        self._policy = policy
        self._failures = 0
        self._open_until: float | None = None
        self._not_before = 0.0
        self._trial = False

    def state(self, now: float) -> BreakerState:
        """Where it stands. A server that asked to be left alone for a while is not thereby open."""
        if self._open_until is None:
            return BreakerState.CLOSED
        return BreakerState.OPEN if now < self._open_until else BreakerState.HALF_OPEN

    def free_at(self, now: float) -> float | None:
        """From when on it may be asked: `now` or earlier means at once, None that a trial decides first."""
        if self._trial:
            return None
        return max(self._open_until or 0.0, self._not_before)

    def admit(self, now: float) -> bool:
        """Take a place: True if the upstream may be asked now."""
        free = self.free_at(now)
        if free is None or free > now:
            return False
        self._trial = self._open_until is not None
        return True

    def succeeded(self) -> None:
        """It answered."""
        self._failures = 0
        self._open_until = None
        self._trial = False

    def failed(self, now: float) -> None:
        """It failed. One that was asked while the breaker was closed may fail when it is open already."""
        self._failures += 1
        if self._trial or self._failures >= self._policy.failures:
            self._open_until = now + self._policy.open_s
        self._trial = False

    def rests(self, now: float, seconds: float) -> None:
        """It asked to be left alone for so long."""
        self._not_before = max(self._not_before, now + seconds)
        self._trial = False

    def abandoned(self) -> None:
        """Nothing was learnt: the client left, or the request was none for this upstream."""
        self._trial = False
