"""Labelled scores kept in a file, and the threshold that a budget makes of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from checks.errors import LabelledDataError
from checks.evaluate.calibration import Calibration
from checks.evaluate.metrics import Judged


def calibration(true: list[float], wrong: list[float]) -> Calibration:
    judged = Judged(
        np.array([False] * len(true) + [True] * len(wrong)),
        np.array([*true, *wrong]),
        np.array([False] * (len(true) + len(wrong))),
        [str(n) for n in range(len(true) + len(wrong))],
    )
    return Calibration(classifier="c/1", judged=judged)


def test_what_was_written_is_read_and_keeps_the_budget(tmp_path: Path) -> None:
    true = [n / 100 for n in range(1, 100)]
    calibration(true, [0.95, 0.99, 0.2]).write(tmp_path / "c.json")
    found = Calibration.read(tmp_path / "c.json")
    assert found.classifier == "c/1"
    assert sorted(found.scores()) == sorted([*true, 0.95, 0.99, 0.2])
    threshold = found.threshold(0.1)
    assert sum(score > threshold for score in true) / 100 <= 0.1
    assert threshold == pytest.approx(0.9)


def test_a_budget_that_so_few_labels_cannot_keep_is_refused() -> None:
    with pytest.raises(LabelledDataError, match="needs 9 labelled true facts") as found:
        calibration([0.1] * 5, [0.9]).threshold(0.1)
    assert "label more facts" in found.value.hint


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"format": 2, "classifier": "c", "facts": []}', '{"format": 1, "classifier": "c", "facts": []}',
     '{"format": 1, "classifier": "c", "facts": [[NaN, true, false]]}',
     '{"format": 1, "classifier": "c", "facts": [1]}'],
)  # fmt: skip
def test_a_file_that_is_no_calibration_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "c.json").write_text(text)
    with pytest.raises(LabelledDataError, match=r"c\.json is no calibration"):
        Calibration.read(tmp_path / "c.json")
    with pytest.raises(LabelledDataError, match="is no calibration"):
        Calibration.read(tmp_path / "absent.json")
