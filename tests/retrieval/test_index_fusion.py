"""Fusing two ranked lists: weights are honoured, no candidate is lost, the result is ordered."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.index.fusion import Fusion, calibrated, reciprocal_ranks

scores = st.dictionaries(st.integers(0, 30), st.floats(0, 1), max_size=20)


@given(scores, scores, st.floats(0, 1))
def test_every_candidate_keeps_its_place_in_order_of_score(
    cosines: dict[int, float], shares: dict[int, float], weight: float
) -> None:
    fused = calibrated(cosines, shares, weight)
    assert {row for row, _ in fused} == set(cosines)
    assert fused == sorted(fused, key=lambda pair: (-pair[1], pair[0]))
    assert all(0.0 <= score <= 1.0 for _, score in fused)


@given(scores, scores)
def test_a_weight_of_nothing_leaves_the_order_of_the_dense_leg(
    cosines: dict[int, float], shares: dict[int, float]
) -> None:
    assert calibrated(cosines, shares, 0.0) == sorted(cosines.items(), key=lambda pair: (-pair[1], pair[0]))


@given(st.lists(st.integers(0, 30), unique=True, max_size=15), st.lists(st.integers(0, 30), unique=True, max_size=15))
def test_reciprocal_ranks_hold_both_lists_and_weigh_them(dense: list[int], lexical: list[int]) -> None:
    both = reciprocal_ranks([(row, 0.0) for row in dense], [(row, 0.0) for row in lexical], 0.5)
    assert {row for row, _ in both} == {*dense, *lexical}
    only = reciprocal_ranks([(row, 0.0) for row in dense], [(row, 0.0) for row in lexical], 1.0)
    assert [row for row, _ in only] == lexical


def test_a_passage_first_in_both_lists_is_first() -> None:
    assert reciprocal_ranks([(1, 0.9), (2, 0.8)], [(1, 0.5), (3, 0.4)], 0.5)[0] == (1, 1.0)


def test_words_that_the_encoder_spells_out_count_for_more() -> None:
    assert Fusion().weight(tokens=40, words=8) > Fusion().weight(tokens=10, words=8)
    assert Fusion(lexical_weight=0.1).weight(tokens=40, words=8) == 0.1


def test_a_weight_outside_its_range_is_refused() -> None:
    with pytest.raises(ValueError, match="lexical_weight"):
        Fusion(lexical_weight=1.5)
