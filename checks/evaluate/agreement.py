"""How far labellers agree: Krippendorff's alpha for nominal labels, with its interval. Pure.

Alpha = 1 - observed disagreement / disagreement expected by chance, for any number of labellers and with gaps (K.
Krippendorff, Computing Krippendorff's Alpha-Reliability, 2011, nominal metric). 1 is agreement, 0 is chance; below
0.667 no conclusion should rest on such labels (Krippendorff, Content Analysis, 2004). Written here, since the package
of that name has a licence that this one cannot carry.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

RESAMPLES = 1000
SEED = 20261201


@dataclass(frozen=True, slots=True)
class Agreement:
    """`units` are things that two or more labelled, `pairs` the pairs of labellers on them, `same` of those agree.

    `alpha` is None where everybody used one label only: chance would have agreed as well. `low` and `high` are its 95%
    interval from resampling units (percentile bootstrap), None where too few are left to say.
    """

    units: int
    pairs: int
    same: int
    alpha: float | None
    low: float | None
    high: float | None
    confused: tuple[tuple[str, str, int], ...]
    """Pairs of different labels with how often two labellers gave them to one unit, most often first."""


def agreement(units: Sequence[Mapping[str, str]]) -> Agreement:
    """Agreement over units, each a mapping of labeller to label."""
    shared = [Counter(unit.values()) for unit in units if len(unit) > 1]
    pairs = sum(_pairs(sum(unit.values())) for unit in shared)
    same = sum(_pairs(count) for unit in shared for count in unit.values())
    confused: Counter[tuple[str, str]] = Counter()
    for unit in shared:
        labels = sorted(unit)
        for at, one in enumerate(labels):
            for other in labels[at + 1 :]:
                confused[one, other] += unit[one] * unit[other]
    rng = random.Random(SEED)  # noqa: S311 - resampling, not secrets
    found = sorted(
        value
        for _ in range(RESAMPLES if len(shared) > 1 else 0)
        if (value := alpha([shared[rng.randrange(len(shared))] for _ in shared])) is not None
    )
    enough = len(found) >= RESAMPLES // 2
    return Agreement(
        units=len(shared),
        pairs=pairs,
        same=same,
        alpha=alpha(shared),
        low=found[int(0.025 * len(found))] if enough else None,
        high=found[min(len(found) - 1, int(0.975 * len(found)))] if enough else None,
        confused=tuple((one, other, count) for (one, other), count in confused.most_common()),
    )


def alpha(units: Sequence[Mapping[str, int]]) -> float | None:
    """Alpha over units, each a mapping of label to how many gave it; None where it is not defined."""
    totals: Counter[str] = Counter()
    observed = 0.0
    for unit in units:
        size = sum(unit.values())
        if size < 2:
            continue
        totals.update(unit)
        observed += (size * size - sum(count * count for count in unit.values())) / (size - 1)
    n = sum(totals.values())
    expected = n * n - sum(count * count for count in totals.values())
    return 1 - (n - 1) * observed / expected if expected else None


def _pairs(count: int) -> int:
    return count * (count - 1) // 2
