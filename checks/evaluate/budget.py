"""The `fail_threshold` that keeps false alarms within a budget, from labelled facts. Pure.

Split conformal (Vovk et al. 2005; Angelopoulos and Bates 2021): of the scores of n true facts, the threshold is the
one at rank ceil((n + 1) (1 - budget)). A new true fact that is exchangeable with them then fails with a probability of
at most `budget`, whatever the classifier is worth. The promise is about facts like the labelled ones, on average over
labelled samples; it says nothing of other documents, and facts of one answer stand together, which makes it looser.

A fact that fails by its label (`false` under `graded`) fails under every threshold and is counted so. It knows no
files.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from checks.evaluate.metrics import Judged

_DIGITS = 10_000


@dataclass(frozen=True, slots=True)
class Threshold:
    """What a budget costs. `threshold` is None where no threshold keeps it; then `why` says so.

    `false_alarms` and `recall` are the shares of the labelled true and wrong facts above it; `true_facts` is n.
    """

    budget: float
    true_facts: int
    threshold: float | None
    false_alarms: float | None = None
    recall: float | None = None
    why: str = ""


def threshold_for(judged: Judged, budget: float) -> Threshold:
    """The smallest threshold on the score that keeps the budget; `judged.flagged` fail by their label."""
    effective = np.where(judged.flagged, np.inf, judged.score)
    true = np.sort(effective[~judged.positive])
    rank = math.ceil((len(true) + 1) * (1 - budget))
    if rank > len(true):
        needed = math.ceil(1 / budget) - 1
        return Threshold(budget, len(true), None, why=f"needs {needed} labelled true facts, there are {len(true)}")
    bound = float(true[rank - 1])
    if math.isinf(bound):
        share = float(np.isinf(true).mean())
        return Threshold(budget, len(true), None, why=f"{share:.1%} of true facts fail by their label alone")
    # Rounded towards fewer alarms; a setting lies between 0 and 1, both excluded.
    bound = max(1, math.ceil(bound * _DIGITS)) / _DIGITS
    if bound >= 1:
        return Threshold(budget, len(true), None, why="too many true facts have the highest score there is")
    wrong = effective[judged.positive]
    recall = float((wrong > bound).mean()) if len(wrong) else None
    return Threshold(budget, len(true), bound, float((true > bound).mean()), recall)
