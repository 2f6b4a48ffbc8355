"""Aggregation: what one irrelevant, missing or contradicting passage may do to a verdict, and what it may not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks.facts.aggregate import (
    GRADED,
    STRICT,
    Aggregation,
    FactOutcome,
    answer_outcome,
    fact_outcome,
    most_likely,
)
from checks.facts.judged import probabilities
from checks.types import FACT_LABELS, CheckedFact, Evidence, FactLabel, Probabilities, Reason, Segment, Status
from tests.checks.parts import passage

BOTH = [Aggregation(), Aggregation(kind="graded")]
GRADED_MODE = Aggregation(kind="graded")


def evidence(vector: Probabilities) -> Evidence:
    label = most_likely(vector)
    return Evidence(passage("text"), 0.5, label, max(vector), vector)


def says(label: FactLabel, confidence: int = 95) -> Evidence:
    return evidence(probabilities(label, confidence))


def outcome(*items: Evidence, settings: Aggregation | None = None, unjudged: tuple[Reason, ...] = ()) -> FactOutcome:
    return fact_outcome(items, unjudged, settings or Aggregation())


T, F, N = FactLabel.TRUE, FactLabel.FALSE, FactLabel.NOT_SUPPORTED

VECTORS = st.tuples(*[st.floats(0.001, 1)] * 7).map(lambda raw: tuple(value / sum(raw) for value in raw))
LISTS = st.lists(VECTORS.map(lambda vector: evidence(vector)), min_size=1, max_size=9)  # type: ignore[arg-type]
SETTINGS = st.builds(
    Aggregation,
    kind=st.sampled_from(["strict", "graded"]),
    support_threshold=st.floats(0.2, 0.8),
    refute_threshold=st.floats(0.2, 0.8),
)


def test_strict_one_refuting_document_makes_a_fact_false_however_many_support_it() -> None:
    found = outcome(says(T), says(T), says(F, 60), says(N))
    assert (found.label, found.status, found.rule) == (F, Status.FAILED, "refuted")


def test_strict_a_fact_without_confident_support_fails() -> None:
    found = outcome(says(T, 20), says(N))
    assert (found.label, found.status, found.rule) == (N, Status.FAILED, "unsupported")


def test_strict_one_supporting_document_is_enough_when_none_refutes() -> None:
    found = outcome(says(N), says(T), says(N))
    assert (found.label, found.status, found.rule) == (T, Status.PASSED, "supported")
    assert found.score is not None
    assert found.score < 0.2


@pytest.mark.parametrize("label", [FactLabel.HALF_TRUE, FactLabel.OPINIONS_DIFFER, FactLabel.ABSURD])
@pytest.mark.parametrize("settings", BOTH)
def test_half_truths_and_disputes_are_told_apart_from_falsehoods(label: FactLabel, settings: Aggregation) -> None:
    assert outcome(says(label), says(N), settings=settings).label is label


def test_the_route_decides_what_a_half_truth_means() -> None:
    item = says(FactLabel.HALF_TRUE)
    assert outcome(item).status is Status.FAILED
    assert outcome(item, settings=Aggregation(fails={FactLabel.HALF_TRUE: False})).status is Status.PASSED
    assert outcome(item, settings=GRADED_MODE).status is Status.PASSED
    failing = Aggregation(kind="graded", fails={FactLabel.HALF_TRUE: True})
    assert outcome(item, settings=failing).status is Status.FAILED


def test_graded_conflicting_documents_are_a_dispute_and_not_a_coin_toss() -> None:
    found = outcome(says(T), says(F), settings=GRADED_MODE)
    assert (found.label, found.rule) == (FactLabel.OPINIONS_DIFFER, "conflict")


def test_graded_silence_of_the_documents_is_never_a_pass() -> None:
    found = outcome(says(N), says(N), settings=GRADED_MODE)
    assert (found.label, found.status, found.reason) == (N, Status.NOT_CHECKED, Reason.NO_EVIDENCE)


def test_graded_copies_of_one_weak_source_do_not_add_up_to_proof() -> None:
    weak = evidence((0.25, 0.4, 0.1, 0.05, 0.1, 0.05, 0.05))
    assert outcome(*[weak] * 9, settings=GRADED_MODE).label is not T


def test_graded_a_false_alarm_budget_moves_the_line() -> None:
    item = evidence((0.1, 0.05, 0.05, 0.0, 0.2, 0.6, 0.0))
    assert outcome(item, settings=GRADED_MODE).label is F
    generous = Aggregation(kind="graded", refute_threshold=0.8, fail_threshold=0.8)
    assert (outcome(item, settings=generous).label, outcome(item, settings=generous).status) == (N, Status.NOT_CHECKED)
    tight = Aggregation(kind="graded", fail_threshold=0.2)
    assert outcome(says(N), settings=tight).status is Status.FAILED


@pytest.mark.parametrize("settings", BOTH)
@given(items=LISTS, noise=st.integers(1, 20))
def test_padding_the_evidence_with_irrelevant_passages_hides_no_falsehood(
    settings: Aggregation, items: list[Evidence], noise: int
) -> None:
    plain, padded = outcome(*items, settings=settings), outcome(*items, *[says(N)] * noise, settings=settings)
    # `needs_no_verification` is a mean over passages and may fade; nothing else may move.
    if FactLabel.NEEDS_NO_VERIFICATION not in (plain.label, padded.label):
        assert (plain.label, plain.status, plain.score) == (padded.label, padded.status, padded.score)


@given(items=LISTS, settings=SETTINGS, vector=VECTORS)
def test_a_document_about_something_else_never_makes_a_fact_false(
    items: list[Evidence], settings: Aggregation, vector: Probabilities
) -> None:
    scale = 0.45 / (1 - vector[4])
    off_topic = tuple(0.55 if index == 4 else value * scale for index, value in enumerate(vector))
    refuted = outcome(*items, settings=settings).label in (F, FactLabel.ABSURD)
    with_it = outcome(*items, evidence(off_topic), settings=settings)  # type: ignore[arg-type]
    assert refuted or with_it.label not in (F, FactLabel.ABSURD)


@given(items=LISTS, settings=SETTINGS)
def test_order_of_documents_never_matters(items: list[Evidence], settings: Aggregation) -> None:
    one, other = outcome(*items, settings=settings), outcome(*items[::-1], settings=settings)
    assert (one.label, one.status, one.rule) == (other.label, other.status, other.rule)


@given(items=LISTS, settings=SETTINGS)
def test_score_and_probabilities_are_always_what_they_say(items: list[Evidence], settings: Aggregation) -> None:
    found = outcome(*items, settings=settings)
    assert found.probabilities is not None
    assert sum(found.probabilities) == pytest.approx(1)
    if found.score is None:
        assert found.label is FactLabel.NEEDS_NO_VERIFICATION
    else:
        assert 0 <= found.score <= 1
    if settings.kind == "graded":
        assert most_likely(found.probabilities) is found.label
    assert found.label in FACT_LABELS


@given(items=LISTS, weaker=st.floats(0.01, 0.99))
def test_graded_more_refutation_never_lowers_the_score(items: list[Evidence], weaker: float) -> None:
    base = outcome(*items, settings=GRADED_MODE)
    worse = outcome(*items, says(F, int(weaker * 100)), settings=GRADED_MODE)
    if base.score is not None and worse.score is not None:
        assert worse.score >= base.score - 1e-12


@pytest.mark.parametrize("settings", BOTH)
def test_a_missing_verdict_never_counts_as_support(settings: Aggregation) -> None:
    lost = (Reason.JUDGE_REPLY_INVALID, Reason.TIMEOUT)
    found = outcome(says(T), settings=settings, unjudged=lost)
    assert (found.status, found.label, found.reason) == (Status.NOT_CHECKED, None, Reason.JUDGE_REPLY_INVALID)
    refuted = outcome(says(F), settings=settings, unjudged=lost)
    assert refuted.status is Status.FAILED


def test_a_route_may_accept_a_few_lost_verdicts() -> None:
    lenient = Aggregation(min_judged=0.5)
    assert outcome(says(T), settings=lenient, unjudged=(Reason.TIMEOUT,)).status is Status.PASSED


@pytest.mark.parametrize("settings", BOTH)
def test_no_evidence_is_a_state_of_its_own(settings: Aggregation) -> None:
    found = outcome(settings=settings)
    assert (found.status, found.label, found.score, found.reason) == (
        Status.NOT_CHECKED,
        None,
        None,
        Reason.NO_EVIDENCE,
    )


def fact(
    status: Status, label: FactLabel | None, score: float | None = None, reason: Reason | None = None
) -> CheckedFact:
    return CheckedFact(Segment("f", 0, 1), status, label, reason, score=score)


TALK = fact(Status.PASSED, FactLabel.NEEDS_NO_VERIFICATION)
GOOD = fact(Status.PASSED, T, 0.1)
BAD = fact(Status.FAILED, F, 0.9)
LOST = fact(Status.NOT_CHECKED, None, None, Reason.TIMEOUT)


@pytest.mark.parametrize(
    ("facts", "status", "reason"),
    [
        ([], Status.NOT_CHECKED, Reason.NO_FACTS),
        ([TALK], Status.NOT_CHECKED, Reason.NO_FACTS),
        ([GOOD, TALK], Status.PASSED, None),
        ([GOOD, BAD, LOST], Status.FAILED, None),
        ([GOOD, LOST], Status.NOT_CHECKED, Reason.TIMEOUT),
        (
            [LOST, fact(Status.NOT_CHECKED, None, None, Reason.JUDGE_UNAVAILABLE)],
            Status.NOT_CHECKED,
            Reason.JUDGE_UNAVAILABLE,
        ),
    ],
)
def test_an_answer_passes_only_when_every_fact_was_judged_and_one_was_supported(
    facts: list[CheckedFact], status: Status, reason: Reason | None
) -> None:
    for settings in BOTH:
        found = answer_outcome(facts, settings)
        assert (found.status, found.reason) == (status, reason)


def test_the_answers_score_is_the_worst_fact_or_the_mean() -> None:
    assert answer_outcome([GOOD, BAD, TALK], Aggregation()).score == 0.9
    assert answer_outcome([GOOD, BAD, TALK], GRADED_MODE).score == pytest.approx(0.5)
    assert answer_outcome([LOST], Aggregation()).score is None


def test_every_label_has_a_meaning_and_settings_are_on_record() -> None:
    assert set(STRICT) == set(GRADED) == set(FACT_LABELS)
    versions = {Aggregation().version, GRADED_MODE.version, Aggregation(fails={T: True}).version}
    assert len(versions) == 3
    assert "support=0.5" in Aggregation().version
