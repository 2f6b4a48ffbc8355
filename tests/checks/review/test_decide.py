"""Decision tables: what every combination of votes means, written out, and what must hold for any number of judges."""

from __future__ import annotations

from itertools import permutations, product

import pytest

from checks.review.decide import Outcome, Request, Variant, after_requests, decide
from checks.review.votes import Vote

V, H, U, A = Vote.VALID, Vote.HALLUCINATION, Vote.UNDETERMINED, Vote.ABSTAIN
LETTER = {"V": V, "H": H, "U": U, "A": A}
SAYS = {
    "valid": Outcome.VALID,
    "halluc": Outcome.HALLUCINATION,
    "undet": Outcome.UNDETERMINED,
    "nothing": Outcome.ABSTAIN,
    "ask": Outcome.ASK,
}

# Two judges, the order of votes aside: or, and, a step of multi_hop with hops left, its last step.
TWO_JUDGES = """
VV  valid    valid    valid    valid
VH  halluc   valid    halluc   halluc
VU  undet    valid    ask      undet
VA  nothing  valid    nothing  nothing
HH  halluc   halluc   halluc   halluc
HU  halluc   undet    ask      halluc
HA  halluc   nothing  nothing  halluc
UU  undet    undet    ask      undet
UA  nothing  nothing  ask      nothing
AA  nothing  nothing  nothing  nothing
"""
ROWS = [line.split() for line in TWO_JUDGES.strip().splitlines()]
COLUMNS = [(Variant.OR, 0), (Variant.AND, 0), (Variant.MULTI_HOP, 1), (Variant.MULTI_HOP, 0)]

# Three judges of `majority`.
THREE_JUDGES = {
    "VVV": "valid", "VVH": "valid", "VVU": "valid", "VVA": "valid",
    "HHH": "halluc", "HHV": "halluc", "HHU": "halluc", "HHA": "halluc",
    "UUU": "undet", "UUV": "undet", "UUH": "undet", "UUA": "undet",
    "VHU": "undet", "VHA": "nothing", "VUA": "nothing", "HUA": "nothing",
    "VAA": "nothing", "HAA": "nothing", "UAA": "nothing", "AAA": "nothing",
}  # fmt: skip


def test_the_table_for_two_judges_leaves_no_combination_out() -> None:
    written = {tuple(sorted(row[0])) for row in ROWS}
    assert written == {tuple(sorted(pair)) for pair in product("VHUA", repeat=2)}
    assert {tuple(sorted(row)) for row in THREE_JUDGES} == {tuple(sorted(three)) for three in product("VHUA", repeat=3)}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_two_judges_decide_as_published_in_whatever_order_they_answer(row: list[str]) -> None:
    for order in set(permutations(row[0])):
        votes = [LETTER[letter] for letter in order]
        for (variant, hops_left), said in zip(COLUMNS, row[1:], strict=True):
            assert decide(variant, votes, hops_left=hops_left).outcome is SAYS[said]


@pytest.mark.parametrize(("letters", "said"), THREE_JUDGES.items())
def test_a_majority_is_more_than_half_of_all_judges(letters: str, said: str) -> None:
    for order in set(permutations(letters)):
        assert decide(Variant.MAJORITY, [LETTER[letter] for letter in order]).outcome is SAYS[said]


@pytest.mark.parametrize(("vote", "said"), [(V, "valid"), (H, "halluc"), (U, "undet"), (A, "nothing")])
def test_a_single_judge_is_taken_at_its_word(vote: Vote, said: str) -> None:
    assert decide(Variant.SINGLE, [vote]).outcome is SAYS[said]


@pytest.mark.parametrize("judges", [1, 2, 3, 4, 5])
@pytest.mark.parametrize(("variant", "hops_left"), [*COLUMNS, (Variant.MAJORITY, 0)])
def test_an_abstention_is_never_counted_as_a_vote(variant: Variant, hops_left: int, judges: int) -> None:
    """What is decided beside abstentions is what every vote in their place would have decided, and the other way."""
    for votes in product((V, H, U, A), repeat=judges):
        missing = votes.count(A)
        cast = [vote for vote in votes if vote is not A]
        completed = {
            decide(variant, [*cast, *filled], hops_left=hops_left).outcome
            for filled in product((V, H, U), repeat=missing)
        }
        outcome = decide(variant, votes, hops_left=hops_left).outcome
        assert outcome is (completed.pop() if len(completed) == 1 else Outcome.ABSTAIN)


@pytest.mark.parametrize("judges", [2, 3, 4])
def test_more_judges_that_must_agree_never_condemn_more_than_any_one_of_them(judges: int) -> None:
    for votes in product((V, H, U), repeat=judges):
        either, both = (decide(variant, votes).outcome for variant in (Variant.OR, Variant.AND))
        assert (either is Outcome.HALLUCINATION) == (H in votes)
        assert (both is Outcome.HALLUCINATION) == (set(votes) == {H})


def test_a_valid_issue_is_never_filtered_for_want_of_context() -> None:
    """A file that cannot be found ends as valid, even beside the other judge's Hallucination."""
    for refused in ([Request.REFUSED], [Request.SHOWN], [Request.REFUSED, Request.SHOWN]):
        decision = after_requests(refused)
        assert decision is not None
        assert decision.outcome is Outcome.VALID


def test_one_file_found_is_enough_to_ask_again() -> None:
    for other in Request:
        assert after_requests([Request.FOUND, other]) is None
        assert after_requests([other, Request.FOUND]) is None


def test_a_judge_that_cannot_say_which_file_it_needs_is_no_want_of_context() -> None:
    decision = after_requests([Request.ABSTAIN, Request.REFUSED])
    assert decision is not None
    assert decision.outcome is Outcome.ABSTAIN


def test_no_votes_are_no_verdict() -> None:
    with pytest.raises(ValueError, match="at least one vote"):
        decide(Variant.OR, [])
