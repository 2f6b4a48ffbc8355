"""Facts classified by a judge: a broken, cut or hostile reply must never become support."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks.facts.aggregate import most_likely
from checks.facts.judged import JudgedClassifier, locate, probabilities
from checks.judge.scripted import ScriptedJudge
from checks.types import FACT_LABELS, FactLabel, JudgePrompt, Pair, Reason
from tests.checks.contracts import assert_classifier_contract

PASSAGE = "The warranty lasts two  years.\nIt covers parts."


def said(label: str = "true", confidence: int = 90, quote: str = "") -> dict[str, object]:
    return {"quote": quote, "label": label, "confidence": confidence}


@pytest.mark.parametrize("batch", [1, 3])
async def test_a_judged_classifier_keeps_the_contract_of_classifiers(batch: int) -> None:
    def reply(prompt: JudgePrompt) -> dict[str, object]:
        if batch == 1:
            return said("false" if "five" in prompt.user else "true")
        return {"verdicts": [{"passage": 1, **said("false" if "five" in prompt.user else "true")}]}

    await assert_classifier_contract(JudgedClassifier(ScriptedJudge([("classify", reply)]), batch=batch))


async def test_each_pair_is_judged_without_sight_of_other_passages() -> None:
    judge = ScriptedJudge([("classify", said())])
    pairs = [Pair("q", "f", "first passage"), Pair("q", "f", "second passage")]
    found, calls = await JudgedClassifier(judge).classify(pairs)
    assert len(found) == len(calls) == 2
    assert not any("first" in prompt.user and "second" in prompt.user for prompt in judge.prompts)
    assert all(pair.query in prompt.user for pair, prompt in zip(pairs, judge.prompts, strict=True))


async def test_a_failed_judge_leaves_its_pair_unjudged_and_the_call_on_record() -> None:
    judge = ScriptedJudge([(lambda prompt: "bad" in prompt.user, "not json"), ("classify", said())])
    found, calls = await JudgedClassifier(judge).classify([Pair("q", "f", "bad"), Pair("q", "f", "good")])
    assert [item.reason for item in found] == [Reason.JUDGE_REPLY_INVALID, None]
    assert found[0].probabilities is None
    assert [bool(call.error) for call in calls] == [True, False]
    down, _ = await JudgedClassifier(ScriptedJudge([])).classify([Pair("q", "f", "p")])
    assert down[0].reason is Reason.JUDGE_UNAVAILABLE


async def test_a_missing_verdict_of_a_batch_is_not_counted_as_support() -> None:
    verdicts = [{"passage": 1, **said()}, {"passage": 3, **said("false")}, {"passage": 3, **said("true")}]
    judge = ScriptedJudge([("classify", {"verdicts": verdicts})])
    pairs = [Pair("q", "f", str(number)) for number in range(3)]
    found, calls = await JudgedClassifier(judge, batch=3).classify(pairs)
    assert found[0].probabilities is not None
    assert [item.reason for item in found] == [None, Reason.JUDGE_REPLY_INVALID, Reason.JUDGE_REPLY_INVALID]
    assert len(calls) == 1


async def test_a_verdict_for_a_passage_that_was_not_asked_spoils_its_batch() -> None:
    judge = ScriptedJudge([("classify", {"verdicts": [{"passage": 1, **said()}, {"passage": 9, **said()}]})])
    found, _ = await JudgedClassifier(judge, batch=2).classify([Pair("q", "f", "a"), Pair("q", "f", "b")])
    assert [item.reason for item in found] == [Reason.JUDGE_REPLY_INVALID] * 2


async def test_batches_are_sized_to_their_setting_and_never_mix_facts() -> None:
    judge = ScriptedJudge([("classify", json.dumps({"verdicts": []}))])
    pairs = [Pair("q", fact, str(number)) for number in range(5) for fact in ("one", "two")]
    found, calls = await JudgedClassifier(judge, batch=2).classify(pairs)
    assert len(found) == 10
    assert len(calls) == 6
    assert not any("one" in prompt.user and "two" in prompt.user for prompt in judge.prompts)
    assert all(prompt.max_tokens <= 160 + 2 * 256 for prompt in judge.prompts)


async def test_a_quote_the_judge_made_up_is_dropped() -> None:
    judge = ScriptedJudge([("classify", said(quote="It covers labour."))])
    found, _ = await JudgedClassifier(judge).classify([Pair("q", "f", PASSAGE)])
    assert found[0].quote == (0, 0)


@pytest.mark.parametrize(
    ("quote", "expected"),
    [
        ("It covers parts.", "It covers parts."),
        ('"It covers parts."', "It covers parts."),
        ("warranty lasts two years. It covers", "warranty lasts two  years.\nIt covers"),
        ("", ""),
        ("It", ""),
        ("nothing like it", ""),
    ],
)
def test_a_quote_is_found_where_it_stands(quote: str, expected: str) -> None:
    start, end = locate(PASSAGE, quote)
    assert PASSAGE[start:end] == expected


@given(st.text(max_size=80), st.text(max_size=80))
def test_a_quote_never_points_outside_its_passage(text: str, quote: str) -> None:
    start, end = locate(text, quote)
    assert 0 <= start <= end <= len(text)


@given(st.sampled_from(FACT_LABELS), st.integers(0, 100))
def test_confidence_becomes_a_distribution_led_by_its_label(label: FactLabel, confidence: int) -> None:
    vector = probabilities(label, confidence)
    assert sum(vector) == pytest.approx(1)
    assert min(vector) >= 0
    if confidence > 40:
        assert most_likely(vector) is label
    assert vector[FACT_LABELS.index(label)] <= probabilities(label, 100)[FACT_LABELS.index(label)]


def test_an_unsure_judge_leans_to_not_supported_and_not_to_the_opposite() -> None:
    vector = dict(zip(FACT_LABELS, probabilities(FactLabel.TRUE, 30), strict=True))
    assert vector[FactLabel.NOT_SUPPORTED] > vector[FactLabel.FALSE] + vector[FactLabel.ABSURD]
