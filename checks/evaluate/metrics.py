"""Figures of a two-class judgement with bootstrap intervals. Pure.

Every figure comes with a 95% interval from resampling whole groups (the facts of one answer, the claims about one page
stand or fall together), since resampling single rows would promise too much: percentile bootstrap, Efron and Tibshirani
1993, clustered. Seeded, so equal inputs give equal figures. It knows nothing of facts, classifiers or files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

FALSE_ALARM_RATES = (0.05, 0.1, 0.2)
BINS = 10
RESAMPLES = 1000
SEED = 20261201
# With fewer resamples than this in which a figure exists, an interval would be an accident.
_FEWEST = 20


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure and the bounds of its 95% interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


@dataclass(frozen=True, slots=True)
class Judged:
    """`n` judged items, one entry each: `positive` is the truth (what is to be caught), `score` is higher the more
    positive an item looks, `flagged` what was decided, `group` names what belongs together. `probability`, if the score
    is one, is checked for calibration.
    """

    positive: Flags
    score: Floats
    flagged: Flags
    group: Sequence[str]
    probability: Floats | None = None


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of one `Judged`; None where one is not defined (a class is absent). `recall_at` goes by the rate of
    false alarms allowed; `calibration_error` is the expected calibration error over ten bins of equal width.
    """

    items: int
    positives: int
    groups: int
    auc: Estimate | None
    balanced_accuracy: Estimate | None
    recall: Estimate | None
    specificity: Estimate | None
    precision: Estimate | None
    f1: Estimate | None
    recall_at: dict[float, Estimate | None]
    calibration_error: Estimate | None


@dataclass(frozen=True, slots=True)
class Curve:
    """The ROC curve: at `threshold` and above everything is flagged."""

    threshold: Floats
    false_alarms: Floats
    recall: Floats


def figures(judged: Judged, *, resamples: int = RESAMPLES) -> Figures:
    """All figures. Cost: resamples x items numbers of memory and time."""
    weights = _weights(judged.group, resamples)
    recall_at: dict[float, Estimate | None] = {}
    with np.errstate(divide="ignore", invalid="ignore"):
        false_alarms, recall = _rates(judged, weights)
        area = ((false_alarms[:, 1:] - false_alarms[:, :-1]) * (recall[:, 1:] + recall[:, :-1]) / 2).sum(axis=1)
        for rate in FALSE_ALARM_RATES:
            reached = np.where(false_alarms <= rate + 1e-12, recall, 0.0).max(axis=1)
            recall_at[rate] = _estimate(np.where(np.isnan(area), np.nan, reached))
        decided = _decisions(judged, weights)
        calibration = _calibration(judged, weights)
    return Figures(
        items=len(judged.score),
        positives=int(judged.positive.sum()),
        groups=len(set(judged.group)),
        auc=_estimate(area),
        recall_at=recall_at,
        calibration_error=None if calibration is None else _estimate(calibration),
        **{name: _estimate(values) for name, values in decided.items()},
    )


def curve(judged: Judged) -> Curve:
    """The ROC curve from (0, 0) to (1, 1); needs both classes."""
    values, starts, order = _levels(judged.score)
    positive = judged.positive[order]
    recall = np.cumsum(np.add.reduceat(positive, starts)) / positive.sum()
    false_alarms = np.cumsum(np.add.reduceat(~positive, starts)) / (~positive).sum()
    return Curve(np.concatenate(([np.inf], values)), np.concatenate(([0], false_alarms)), np.concatenate(([0], recall)))


def reliability(judged: Judged) -> list[tuple[float, float, int]]:
    """(mean probability, share of positives, items) of each bin that has items; [] without probabilities."""
    if judged.probability is None:
        return []
    bins = _bins(judged.probability)
    found = []
    for at in range(BINS):
        inside = bins == at
        if inside.any():
            mean = float(judged.probability[inside].mean())
            found.append((mean, float(judged.positive[inside].mean()), int(inside.sum())))
    return found


def difference(ours: Judged, other: Judged, *, resamples: int = RESAMPLES) -> Estimate | None:
    """AUC of `ours` minus AUC of `other` over the same items in the same order, resampled together."""
    weights = _weights(ours.group, resamples)
    areas = []
    with np.errstate(divide="ignore", invalid="ignore"):
        for judged in (ours, other):
            x, y = _rates(judged, weights)
            areas.append(((x[:, 1:] - x[:, :-1]) * (y[:, 1:] + y[:, :-1]) / 2).sum(axis=1))
    return _estimate(areas[0] - areas[1])


def fold(group: str, folds: int = 5) -> int:
    """The fold of a group, by a hash of its name: stable between runs and machines."""
    return hashlib.sha256(group.encode()).digest()[1] % folds


def _weights(group: Sequence[str], resamples: int) -> Floats:
    """How often each item is drawn, shape `(1 + resamples, items)`; the first row is the sample itself."""
    names, at = np.unique(np.asarray(group), return_inverse=True)
    draws = np.random.default_rng(SEED).multinomial(len(names), [1 / len(names)] * len(names), size=resamples)
    return np.asarray(np.concatenate((np.ones((1, len(names))), draws))[:, at], dtype=np.float64)


def _levels(score: Floats) -> tuple[Floats, npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Distinct scores downwards, where each begins in the order, and the order."""
    order = np.argsort(-score, kind="stable")
    ordered = score[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    return ordered[starts], starts, order


def _rates(judged: Judged, weights: Floats) -> tuple[Floats, Floats]:
    """False alarms and recall at every threshold, shape `(resamples, levels + 1)`, from 0 to 1."""
    _, starts, order = _levels(judged.score)
    drawn, positive = weights[:, order], judged.positive[order]
    rates = []
    for kind in (~positive, positive):
        counts = np.cumsum(np.add.reduceat(drawn * kind, starts, axis=1), axis=1)
        rates.append(np.concatenate((np.zeros((len(drawn), 1)), counts), axis=1) / counts[:, -1:])
    return rates[0], rates[1]


def _decisions(judged: Judged, weights: Floats) -> dict[str, Floats]:
    positive, flagged = judged.positive.astype(float), judged.flagged.astype(float)
    caught, all_positive = weights @ (positive * flagged), weights @ positive
    all_flagged, spared = weights @ flagged, weights @ ((1 - positive) * (1 - flagged))
    recall, specificity = caught / all_positive, spared / (weights.sum(axis=1) - all_positive)
    return {
        "recall": recall,
        "specificity": specificity,
        "balanced_accuracy": (recall + specificity) / 2,
        "precision": caught / all_flagged,
        "f1": 2 * caught / (all_positive + all_flagged),
    }


def _bins(probability: Floats) -> npt.NDArray[np.intp]:
    return np.minimum((probability * BINS).astype(np.intp), BINS - 1)


def _calibration(judged: Judged, weights: Floats) -> Floats | None:
    if judged.probability is None:
        return None
    inside = (_bins(judged.probability)[:, None] == np.arange(BINS)).astype(float)
    gaps = np.abs(weights @ (inside * (judged.probability - judged.positive)[:, None]))
    return np.asarray(gaps.sum(axis=1) / weights.sum(axis=1))


def _estimate(values: Floats) -> Estimate | None:
    """The first value with the percentiles of the others; None where it is not defined."""
    if not np.isfinite(values[0]):
        return None
    drawn = values[1:][np.isfinite(values[1:])]
    low, high = np.percentile(drawn, [2.5, 97.5]) if len(drawn) >= _FEWEST else (values[0], values[0])
    return Estimate(round(float(values[0]), 4), round(float(low), 4), round(float(high), 4))
