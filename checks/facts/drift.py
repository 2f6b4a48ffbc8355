"""Whether the facts of a route still look like those it was calibrated on. Pure.

A false-alarm budget holds for facts that are exchangeable with the labelled ones. Their scores then have the same
distribution, which the two-sample Kolmogorov-Smirnov test compares (Smirnov 1939; critical values after Massey 1951):
the last `WINDOW` scores against the labelled ones, looked at anew after every `STEP`.

Facts of one answer stand together, which the test does not know; the level is strict because of that, and because it
is asked again and again. It knows no labels and no routes.
"""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

WINDOW: Final = 200
STEP: Final = 20
LEVEL: Final = 0.0001
"""How often the test may say that equal distributions differ, each time it is asked."""


class ScoreWatch:
    """Compares the scores it is given with the calibrated ones. `drifted` holds until the newest scores agree again."""

    def __init__(self, calibrated: Sequence[float]) -> None:
        self._calibrated = sorted(calibrated)
        self._recent: deque[float] = deque(maxlen=WINDOW)
        self._since = 0
        self.drifted = False

    def add(self, scores: Iterable[float]) -> bool:
        """Take in the scores of an answer's facts. True when `drifted` has changed by them."""
        before = self.drifted
        for score in scores:
            self._recent.append(score)
            self._since += 1
            if self._since >= STEP and len(self._recent) == WINDOW:
                self._since = 0
                self.drifted = self.distance() > self.bound()
        return self.drifted != before

    def distance(self) -> float:
        """The largest difference between the two empirical distribution functions."""
        recent: list[float] = []
        for score in self._recent:
            insort(recent, score)
        points = sorted({*recent, *self._calibrated})
        n, m = len(recent), len(self._calibrated)
        return max(
            (abs(bisect_right(recent, at) / n - bisect_right(self._calibrated, at) / m) for at in points), default=0.0
        )

    def bound(self) -> float:
        """The distance that equal distributions exceed with a probability of `LEVEL`."""
        n, m = WINDOW, len(self._calibrated)
        return math.sqrt(-math.log(LEVEL / 2) / 2) * math.sqrt((n + m) / (n * m))
