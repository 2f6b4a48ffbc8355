"""Agreement figures are those of the literature; a sample's interval holds what it promises."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks.evaluate.agreement import agreement, alpha
from checks.evaluate.sampling import Stratum, allocate, rate

# Krippendorff, Computing Krippendorff's Alpha-Reliability (2011), section C: four observers, twelve units, with gaps.
PUBLISHED = [
    ("a", "1 2 3 3 2 1 4 1 2 - - -"),
    ("b", "1 2 3 3 2 2 4 1 2 5 - 3"),
    ("c", "- 3 3 3 2 3 4 2 2 5 1 -"),
    ("d", "1 2 3 3 2 4 4 1 2 5 1 -"),
]


def units() -> list[dict[str, str]]:
    rows = {name: values.split() for name, values in PUBLISHED}
    return [{name: row[at] for name, row in rows.items() if row[at] != "-"} for at in range(12)]


def test_alpha_is_the_published_value() -> None:
    found = agreement(units())
    assert found.alpha == pytest.approx(0.743, abs=0.0005)
    assert found.units == 11
    assert found.low is not None
    assert found.high is not None
    assert found.low < 0.743 < found.high


def test_agreement_of_all_on_one_label_says_nothing() -> None:
    assert agreement([{"a": "true", "b": "true"}] * 5).alpha is None
    assert agreement([{"a": "true"}, {"a": "false"}]).units == 0


@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.sampled_from("xyz"), min_size=2), min_size=2, max_size=12))
def test_alpha_is_one_exactly_where_everybody_agrees(given_units: list[dict[str, str]]) -> None:
    found = agreement(given_units)
    if found.alpha is not None:
        assert found.alpha <= 1
        assert (found.alpha == 1) == (found.same == found.pairs)
    assert sum(count for *_, count in found.confused) == found.pairs - found.same


def test_chance_is_nothing() -> None:
    rng = random.Random(1)
    made = [_two(rng) for _ in range(4000)]
    value = alpha(made)
    assert value is not None
    assert abs(value) < 0.05


def _two(rng: random.Random) -> dict[str, int]:
    one, other = rng.choice("xy"), rng.choice("xy")
    return {one: 2} if one == other else {one: 1, other: 1}


@given(st.dictionaries(st.text(max_size=3), st.integers(1, 5000), min_size=1, max_size=8), st.integers(1, 400))
def test_a_sample_takes_two_of_every_stratum_and_never_more_than_there_are(sizes: dict[str, int], count: int) -> None:
    taken = allocate(sizes, count)
    assert all(min(2, sizes[key]) <= taken[key] <= sizes[key] for key in sizes)
    floor = sum(min(2, size) for size in sizes.values())
    assert sum(taken.values()) == max(floor, min(count, sum(sizes.values())))


def test_a_rate_weighs_strata_by_their_size_and_says_what_it_does_not_cover() -> None:
    found = rate([Stratum(900, 10, 1), Stratum(100, 10, 5), Stratum(50, 0, 0)])
    assert found is not None
    assert found.value == pytest.approx(0.9 * 0.1 + 0.1 * 0.5)
    assert (found.covered, found.size) == (1000, 1050)
    assert found.low < found.value < found.high
    whole = rate([Stratum(10, 10, 2)])
    assert whole is not None
    assert (whole.low, whole.value, whole.high) == (0.2, 0.2, 0.2)
    assert rate([Stratum(10, 0, 0)]) is None


@pytest.mark.parametrize("shares", [(0.05, 0.3, 0.5), (0.0, 0.1, 0.9), (0.02, 0.02, 0.02)])
def test_the_interval_holds_the_true_rate_nineteen_times_of_twenty(shares: tuple[float, ...]) -> None:
    rng, sizes = random.Random(7), (4000, 500, 60)
    taken = allocate(dict(enumerate(sizes)), 120)
    truth = sum(size * round(size * share) / size for size, share in zip(sizes, shares, strict=True)) / sum(sizes)
    held, trials = 0, 600
    for _ in range(trials):
        strata = []
        for at, (size, share) in enumerate(zip(sizes, shares, strict=True)):
            wrong = round(size * share)
            drawn = rng.sample(range(size), taken[at])
            strata.append(Stratum(size, taken[at], sum(each < wrong for each in drawn)))
        found = rate(strata)
        assert found is not None
        held += found.low <= truth <= found.high
    assert held / trials > 0.93
