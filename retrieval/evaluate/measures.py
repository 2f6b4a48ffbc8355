"""Measures of a ranking against graded relevance, and their intervals. Pure.

nDCG with linear gains (Jarvelin and Kekalainen, 2002, as trec_eval has it), recall, hit rate, reciprocal rank.
Intervals are bootstrap percentiles over questions (Efron, 1979) from a given seed, so the same data gives the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]
RESAMPLES = 1_000
SEED = 20_26


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """Measures of one question."""

    ndcg_10: float
    recall_10: float
    recall_100: float
    hit_1: float
    hit_9: float
    mrr_10: float


MEASURES = tuple(field.name for field in fields(Scores))


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A mean over questions with its 95 % interval."""

    mean: float
    low: float
    high: float


def score(ranking: Sequence[str], relevant: Mapping[str, int]) -> Scores:
    """The measures of one ranking of document ids, best first, without repeats; `relevant` is not empty."""
    gains = [relevant.get(document, 0) for document in ranking]
    ideal = sorted(relevant.values(), reverse=True)
    first = next((place for place, gain in enumerate(gains[:10]) if gain), None)

    def found(k: int) -> int:
        return sum(gain > 0 for gain in gains[:k])

    return Scores(
        ndcg_10=_discounted(gains[:10]) / _discounted(ideal[:10]),
        recall_10=found(10) / len(relevant),
        recall_100=found(100) / len(relevant),
        hit_1=float(found(1) > 0),
        hit_9=float(found(9) > 0),
        mrr_10=0.0 if first is None else 1.0 / (first + 1),
    )


def _discounted(gains: Sequence[int]) -> float:
    return sum(gain / math.log2(place + 2) for place, gain in enumerate(gains))


def figure(values: Sequence[float]) -> Figure:
    """Mean and interval over questions."""
    array = np.asarray(values, dtype=np.float64)
    low, high = np.percentile(_resampled(array), [2.5, 97.5])
    return Figure(mean=float(array.mean()), low=float(low), high=float(high))


def difference(one: Sequence[float], other: Sequence[float]) -> Figure:
    """`one - other` on the same questions: the paired bootstrap."""
    return figure(np.asarray(one, dtype=np.float64) - np.asarray(other, dtype=np.float64))  # type: ignore[arg-type]


def _resampled(values: Values) -> Values:
    rng = np.random.default_rng(SEED)
    return np.array([values[rng.integers(len(values), size=len(values))].mean() for _ in range(RESAMPLES)])
