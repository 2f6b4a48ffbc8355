"""Tells metrics and the log of ended exchanges, those of a few milliseconds at once.

Counting and writing one by one, between the work for other requests, takes three times as long as doing the same for
a handful in a row: the processor's caches have other things in them by then. Knows nothing of how an exchange went.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from gateway.telemetry import log
from gateway.telemetry.metrics import Metrics
from gateway.telemetry.views import ExchangeView

DELAY_S: Final = 0.02
_MOST_WAITING: Final = 500


class Telling:
    """Each exchange is counted and logged once, within `DELAY_S`, and before any scrape. `now` is epoch seconds.

    Where workers share their metrics it is done at once: a scrape asks one of them and has to find the sum of all.
    """

    def __init__(self, metrics: Metrics, now: Callable[[], float]) -> None:
        self._metrics = metrics
        self._now = now
        self._ended: list[tuple[ExchangeView, float]] = []
        self._timer: asyncio.TimerHandle | None = None
        metrics.before_refresh = self.flush

    def exchange(self, record: ExchangeView) -> None:
        """An exchange has ended."""
        self._ended.append((record, self._now()))
        if self._metrics.shared or len(self._ended) >= _MOST_WAITING:
            self.flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(DELAY_S, self.flush)

    def flush(self) -> None:
        """Tell of those that wait."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        ended, self._ended = self._ended, []
        if ended:
            self._metrics.exchanges([record for record, _ in ended])
            log.exchanges(ended)
