"""The figures of an evaluation: right, stable, and honest about how much they can vary."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import balanced_accuracy_score, f1_score, roc_auc_score

from checks.evaluate.metrics import Judged, curve, difference, figures, fold, reliability

ROWS = st.lists(
    st.tuples(st.booleans(), st.integers(0, 10).map(lambda n: n / 10), st.booleans()), min_size=2, max_size=40
).filter(lambda rows: len({positive for positive, _, _ in rows}) == 2)


def judged(rows: list[tuple[bool, float, bool]], groups: list[str] | None = None) -> Judged:
    positive, score, flagged = (np.array(column) for column in zip(*rows, strict=True))
    return Judged(positive, score, flagged, groups or [str(at) for at in range(len(rows))], score)


@settings(max_examples=60, deadline=None)
@given(ROWS)
def test_figures_are_those_of_the_field_and_not_our_own(rows: list[tuple[bool, float, bool]]) -> None:
    found = figures(judged(rows), resamples=5)
    positive, score, flagged = (list(column) for column in zip(*rows, strict=True))
    assert found.auc is not None
    assert found.balanced_accuracy is not None
    assert found.auc.value == pytest.approx(roc_auc_score(positive, score), abs=1e-4)
    assert found.balanced_accuracy.value == pytest.approx(balanced_accuracy_score(positive, flagged), abs=1e-4)
    assert found.f1 is not None
    assert found.f1.value == pytest.approx(f1_score(positive, flagged), abs=1e-4)


@settings(max_examples=30, deadline=None)
@given(ROWS)
def test_equal_inputs_give_equal_figures(rows: list[tuple[bool, float, bool]]) -> None:
    assert figures(judged(rows), resamples=30) == figures(judged(rows), resamples=30)


def test_an_interval_counts_groups_and_not_rows() -> None:
    """Ten copies of the same answers are no more evidence than the answers."""
    rows = [(at % 2 == 0, (at * 7 % 10) / 10, at % 3 == 0) for at in range(20)]
    names = [str(at) for at in range(20)]
    once, copied = figures(judged(rows, names)).auc, figures(judged(rows * 10, names * 10)).auc
    assert once is not None
    assert copied is not None
    assert (copied.low, copied.high) == (once.low, once.high)


def test_a_class_that_is_absent_leaves_a_figure_undefined_and_not_zero() -> None:
    found = figures(judged([(True, 0.2, True), (True, 0.9, False)]))
    assert found.auc is None
    assert found.specificity is None
    assert set(found.recall_at.values()) == {None}
    assert found.recall is not None
    assert found.recall.value == 0.5


def test_recall_is_read_at_no_more_than_the_false_alarms_allowed() -> None:
    negatives = [(False, at / 100, False) for at in range(20)]
    positives = [(True, 0.185, True), (True, 0.175, True), (True, 0.9, True), (True, 0.0, False)]
    found = figures(judged(negatives + positives), resamples=1).recall_at
    at_5, at_10 = found[0.05], found[0.1]
    assert at_5 is not None
    assert at_10 is not None
    assert (at_5.value, at_10.value) == (0.5, 0.75)


def test_a_probability_that_is_too_sure_shows_as_calibration_error() -> None:
    sure = [(at < 5, 0.95, True) for at in range(10)]
    found = figures(judged(sure)).calibration_error
    assert found is not None
    assert found.value == pytest.approx(0.45)
    assert reliability(judged(sure)) == [(pytest.approx(0.95), 0.5, 10)]


@settings(max_examples=30, deadline=None)
@given(ROWS)
def test_the_curve_runs_from_nothing_flagged_to_everything_flagged(rows: list[tuple[bool, float, bool]]) -> None:
    found = curve(judged(rows))
    assert (found.recall[0], found.false_alarms[0]) == (0, 0)
    assert (found.recall[-1], found.false_alarms[-1]) == (1, 1)
    assert (np.diff(found.recall) >= 0).all()
    assert (np.diff(found.threshold) < 0).all()


def test_a_judgement_is_no_better_than_itself_and_better_than_its_reverse() -> None:
    good = judged([(at >= 10, at / 20, at >= 10) for at in range(20)])
    bad = Judged(good.positive, 1 - good.score, good.flagged, good.group)
    same, better = difference(good, good), difference(good, bad)
    assert same is not None
    assert better is not None
    assert (same.low, same.value, same.high) == (0, 0, 0)
    assert better.value == 1


def test_a_group_stays_in_its_fold() -> None:
    assert [fold(f"group {at}") for at in range(50)] == [fold(f"group {at}") for at in range(50)]
    assert {fold(f"group {at}") for at in range(50)} == {0, 1, 2, 3, 4}
