"""Scores of labelled facts kept in a file, and what a false-alarm budget makes of them on a route.

`evaluate facts --out` writes such files. One is good for the classifier it was made with, and for documents like the
labelled ones.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from checks.errors import LabelledDataError
from checks.evaluate.budget import threshold_for
from checks.evaluate.metrics import Judged

_FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """`judged` are labelled facts under `graded` (positive: wrong; flagged: fails by its label alone)."""

    classifier: str
    judged: Judged

    @classmethod
    def read(cls, path: Path) -> Calibration:
        """Raises `LabelledDataError` for a file that is not there or is no such file."""
        try:
            data: Any = json.loads(path.read_text(encoding="utf-8"))
            if data["format"] != _FORMAT:
                raise ValueError(f"format {data['format']!r} is not {_FORMAT}")
            rows = [(float(score), bool(wrong), bool(flagged)) for score, wrong, flagged in data["facts"]]
            scores = np.array([score for score, _, _ in rows], dtype=np.float64)
            if not rows or not np.isfinite(scores).all():
                raise ValueError("it holds no facts, or a score that is no number")
            wrong, flagged = np.array([row[1] for row in rows]), np.array([row[2] for row in rows])
            judged = Judged(wrong, scores, flagged, [str(at) for at in range(len(rows))])
            return cls(classifier=str(data["classifier"]), judged=judged)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise LabelledDataError(
                f"{path} is no calibration: {error}", hint="write it with `evaluate facts --data DIR --out FOLDER`"
            ) from error

    def write(self, path: Path) -> None:
        """Write it; scores in full, one fact a line."""
        judged = self.judged
        facts = zip(judged.score.tolist(), judged.positive.tolist(), judged.flagged.tolist(), strict=True)
        head = json.dumps({"format": _FORMAT, "classifier": self.classifier})[:-1]
        lines = ",\n".join(json.dumps(fact) for fact in facts)
        path.write_text(f'{head}, "facts": [\n{lines}\n]}}\n', encoding="utf-8")

    def threshold(self, budget: float) -> float:
        """The `fail_threshold` that keeps false alarms within `budget`. Raises `LabelledDataError` where none can."""
        found = threshold_for(self.judged, budget)
        if found.threshold is None:
            raise LabelledDataError(
                f"no threshold keeps false alarms within {budget:g}: {found.why}",
                hint="label more facts, or allow a larger budget",
            )
        return found.threshold

    def scores(self) -> Sequence[float]:
        """The scores of all facts, right and wrong."""
        scores: list[float] = self.judged.score.tolist()
        return scores
