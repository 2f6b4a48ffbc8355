"""Whether facts still look like those that a route was calibrated on."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from checks.facts.drift import STEP, WINDOW, ScoreWatch


def scores(seed: int, count: int, *, worse: float = 0.0) -> list[float]:
    rng = random.Random(seed)
    return [min(1.0, rng.betavariate(2, 5) + worse * rng.random()) for _ in range(count)]


def test_facts_like_the_labelled_ones_raise_no_alarm() -> None:
    alarms = 0
    for seed in range(40):
        watch = ScoreWatch(scores(1000 + seed, 300))
        watch.add(scores(seed, 5 * WINDOW))
        alarms += watch.drifted
    assert alarms == 0


def test_facts_of_another_kind_raise_one_and_it_ends_when_they_are_gone() -> None:
    watch = ScoreWatch(scores(1, 300))
    assert not watch.add(scores(2, WINDOW))
    assert watch.add(scores(3, WINDOW, worse=0.8))
    assert watch.drifted
    assert not watch.add(scores(4, STEP, worse=0.8))  # it is no news any more
    assert watch.add(scores(5, 2 * WINDOW))
    assert not watch.drifted


def test_a_few_facts_decide_nothing() -> None:
    watch = ScoreWatch(scores(1, 300))
    assert not watch.add([1.0] * (WINDOW - 1))
    assert not watch.drifted


@settings(max_examples=50)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=50), st.lists(st.floats(0, 1), min_size=1, max_size=50))
def test_the_distance_is_that_of_the_distribution_functions(calibrated: list[float], recent: list[float]) -> None:
    watch = ScoreWatch(calibrated)
    watch.add(recent)
    expected = max(
        abs(sum(x <= at for x in recent) / len(recent) - sum(x <= at for x in calibrated) / len(calibrated))
        for at in (*recent, *calibrated)
    )
    assert abs(watch.distance() - expected) < 1e-12
