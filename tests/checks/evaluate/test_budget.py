"""A false-alarm budget is kept on facts that nobody looked at, or refused with the reason."""

from __future__ import annotations

import numpy as np
import pytest

from checks.evaluate.budget import threshold_for
from checks.evaluate.metrics import Judged


def judged(true: list[float], wrong: list[float], by_label: int = 0) -> Judged:
    """`by_label` of the true facts fail whatever their score."""
    score = np.array([*true, *wrong])
    flagged = np.arange(len(score)) < by_label
    positive = np.arange(len(score)) >= len(true)
    return Judged(positive, score, flagged, [str(at) for at in range(len(score))])


@pytest.mark.parametrize("budget", [0.05, 0.1, 0.3])
def test_new_true_facts_fail_no_more_often_than_the_budget_allows(budget: float) -> None:
    """On average over labelled samples, as the guarantee says: 400 samples of 60 facts, 500 new facts each."""
    chance = np.random.default_rng(5)
    alarms = []
    for _ in range(400):
        found = threshold_for(judged(chance.beta(2, 5, 60).tolist(), [0.9]), budget)
        assert found.threshold is not None
        alarms.append((chance.beta(2, 5, 500) > found.threshold).mean())
    assert np.mean(alarms) <= budget + 0.005  # what 400 samples leave to chance
    assert np.mean(alarms) > budget / 2  # and the budget is used, not wasted


def test_too_few_labels_promise_nothing() -> None:
    found = threshold_for(judged([0.1] * 8, [0.9]), 0.1)
    assert found.threshold is None
    assert "needs 9 labelled true facts, there are 8" in found.why
    assert threshold_for(judged([0.1] * 9, [0.9]), 0.1).threshold == 0.1


def test_facts_that_fail_by_their_label_use_up_the_budget() -> None:
    assert threshold_for(judged([0.1] * 40, [0.9], by_label=2), 0.1).threshold is not None
    found = threshold_for(judged([0.1] * 40, [0.9], by_label=10), 0.1)
    assert found.threshold is None
    assert "25.0% of true facts fail by their label" in found.why


def test_a_threshold_is_one_that_the_configuration_accepts() -> None:
    assert threshold_for(judged([0.0] * 40, [0.9]), 0.1).threshold == 0.0001
    found = threshold_for(judged([1.0] * 40, [0.9]), 0.1)
    assert found.threshold is None
    assert "highest score" in found.why


def test_what_the_budget_catches_is_told() -> None:
    found = threshold_for(judged([at / 100 for at in range(100)], [0.5, 0.95, 0.99, 0.999]), 0.1)
    assert found.threshold == 0.9
    assert found.recall == 0.75
    assert found.false_alarms == pytest.approx(0.09)
