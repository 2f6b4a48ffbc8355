"""Stratified samples: how many to take of each stratum, and what the labels of those taken say of all. Pure.

Sizes: at least two of every stratum, the rest in proportion to the square root of its size (power allocation, M.
Bankier, 1988), so that rare verdicts get a figure too. Rate: the strata's own rates, weighted by their sizes (Cochran,
Sampling Techniques, 1977, 5.3). Interval: Wilson's at the effective sample size (E. Korn and B. Graubard, Survey
Methodology 24, 1998), the variance within a stratum from (wrong + 1) / (n + 2), since a stratum of two right verdicts
does not have a variance of nothing; with the finite population correction.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

Key = TypeVar("Key")
_FEWEST = 2
_Z = 1.959963984540054


@dataclass(frozen=True, slots=True)
class Stratum:
    """`size` verdicts in all, of which `judged` were labelled and `wrong` of those found wrong."""

    size: int
    judged: int
    wrong: int


@dataclass(frozen=True, slots=True)
class Rate:
    """A rate with its 95% interval. It speaks for `covered` of `size`: strata without a label are left out."""

    value: float
    low: float
    high: float
    covered: int
    size: int


def allocate(sizes: Mapping[Key, int], count: int) -> dict[Key, int]:
    """How many of each stratum make a sample of `count`; more only where two of each are more. Order is kept."""
    taken = {key: min(size, _FEWEST) for key, size in sizes.items()}
    open_ = [key for key in sizes if taken[key] < sizes[key]]
    left = min(count, sum(sizes.values())) - sum(taken.values())
    while left > 0 and open_:
        weight = sum(math.sqrt(sizes[key]) for key in open_)
        shares = {key: left * math.sqrt(sizes[key]) / weight for key in open_}
        given = {key: min(int(shares[key]), sizes[key] - taken[key]) for key in open_}
        if not any(given.values()):
            for key in sorted(open_, key=lambda key: -shares[key])[:left]:
                given[key] = 1
        for key, more in given.items():
            taken[key] += more
        left -= sum(given.values())
        open_ = [key for key in open_ if taken[key] < sizes[key]]
    return taken


def rate(strata: Sequence[Stratum]) -> Rate | None:
    """The rate of wrong verdicts over all strata that have a label; None without any."""
    known = [stratum for stratum in strata if stratum.judged]
    total = sum(stratum.size for stratum in known)
    if not total:
        return None
    value = smoothed = variance = 0.0
    for stratum in known:
        weight, n = stratum.size / total, stratum.judged
        value += weight * stratum.wrong / n
        share = (stratum.wrong + 1) / (n + 2)
        smoothed += weight * share
        variance += weight**2 * (1 - n / stratum.size) * share * (1 - share) / n
    low, high = (value, value) if variance <= 0 else _wilson(value, smoothed * (1 - smoothed) / variance)
    return Rate(value, low, high, total, sum(stratum.size for stratum in strata))


def _wilson(share: float, n: float) -> tuple[float, float]:
    middle = share + _Z * _Z / (2 * n)
    spread = _Z * math.sqrt(share * (1 - share) / n + _Z * _Z / (4 * n * n))
    scale = 1 + _Z * _Z / n
    return max(0.0, (middle - spread) / scale), min(1.0, (middle + spread) / scale)
