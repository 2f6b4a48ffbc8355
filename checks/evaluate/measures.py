"""How well hallucinations are told from valid issues: counts, rates and their intervals. Pure.

A hallucination is the positive case: recall is the share of hallucinations found, the false-positive rate the share of
valid issues wrongly flagged. Precision depends on the base rate, so the base rate is always given with it. Intervals
are at 95%: Wilson's for shares (E. B. Wilson, 1927), percentile bootstrap for F1 and phi.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_Z = 1.959963984540054
_RESAMPLES = 1_000

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Share:
    """`hits` of `total`; `value` is None when there is nothing to divide by."""

    hits: int
    total: int

    @property
    def value(self) -> float | None:
        return self.hits / self.total if self.total else None

    @property
    def interval(self) -> Interval | None:
        """Wilson's score interval."""
        if not self.total:
            return None
        share, z = self.hits / self.total, _Z
        middle = share + z * z / (2 * self.total)
        spread = z * math.sqrt(share * (1 - share) / self.total + z * z / (4 * self.total * self.total))
        scale = 1 + z * z / self.total
        return max(0.0, (middle - spread) / scale), min(1.0, (middle + spread) / scale)


@dataclass(frozen=True, slots=True)
class Measures:
    """Over issues in one order: `wrong` whether people call each a hallucination, `flagged` whether the check does.

    An issue that could not be judged is not flagged; `unjudged` counts them.
    """

    wrong: tuple[bool, ...]
    flagged: tuple[bool, ...]
    unjudged: int = 0

    def __post_init__(self) -> None:
        if len(self.wrong) != len(self.flagged):
            raise ValueError("one flag for every label")

    @property
    def recall(self) -> Share:
        return Share(self._both(wrong=True, flagged=True), sum(self.wrong))

    @property
    def precision(self) -> Share:
        return Share(self._both(wrong=True, flagged=True), sum(self.flagged))

    @property
    def false_positives(self) -> Share:
        return Share(self._both(wrong=False, flagged=True), len(self.wrong) - sum(self.wrong))

    @property
    def kept(self) -> Share:
        return Share(len(self.flagged) - sum(self.flagged), len(self.flagged))

    @property
    def base_rate(self) -> Share:
        return Share(sum(self.wrong), len(self.wrong))

    @property
    def f1(self) -> float | None:
        return _f1(np.array(self.wrong), np.array(self.flagged))

    @property
    def f1_interval(self) -> Interval | None:
        return bootstrap(self.wrong, self.flagged, _f1)

    def _both(self, *, wrong: bool, flagged: bool) -> int:
        return sum(w is wrong and f is flagged for w, f in zip(self.wrong, self.flagged, strict=True))


def phi(one: Sequence[bool], two: Sequence[bool]) -> float | None:
    """Correlation of two judges' flags: 1 the same, 0 independent; None when one of them never or always flags.

    It says what a second judge buys: little at 1, most below 0.
    """
    return _phi(np.array(one, dtype=bool), np.array(two, dtype=bool))


def phi_interval(one: Sequence[bool], two: Sequence[bool]) -> Interval | None:
    """Its bootstrap interval."""
    return bootstrap(one, two, _phi)


def bootstrap(
    one: Sequence[bool],
    two: Sequence[bool],
    measure: Callable[[NDArray[np.bool_], NDArray[np.bool_]], float | None],
) -> Interval | None:
    """The 2.5 and 97.5 percentiles of a measure over resampled pairs, always the same for the same pairs."""
    if not one:
        return None
    first, second = np.array(one, dtype=bool), np.array(two, dtype=bool)
    rng = np.random.default_rng(1)
    values = []
    for _ in range(_RESAMPLES):
        rows = rng.integers(0, len(first), len(first))
        value = measure(first[rows], second[rows])
        if value is not None:
            values.append(value)
    if len(values) < _RESAMPLES // 2:
        return None
    low, high = np.percentile(values, [2.5, 97.5])
    return float(low), float(high)


def _f1(wrong: NDArray[np.bool_], flagged: NDArray[np.bool_]) -> float | None:
    total = int(wrong.sum()) + int(flagged.sum())
    return 2 * int((wrong & flagged).sum()) / total if total else None


def _phi(one: NDArray[np.bool_], two: NDArray[np.bool_]) -> float | None:
    a, b = int((one & two).sum()), int((one & ~two).sum())
    c, d = int((~one & two).sum()), int((~one & ~two).sum())
    scale = math.sqrt((a + b) * (c + d) * (a + c) * (b + d))
    return (a * d - b * c) / scale if scale else None
