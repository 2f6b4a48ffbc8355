"""Entailment models and hallucination detectors of others as fact classifiers: their labels as ours, their failures."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks.errors import ModelFileError
from checks.facts.detector import CrossEncoderClassifier, EndpointClassifier, EndpointSettings, LabelMap, of_support
from checks.types import FACT_LABELS, Classified, FactClassifier, FactLabel, Pair, Reason
from tests.servers.judge import JudgeServer, Reply, judge_server

PAIRS = [Pair("", f"fact {n}", f"passage {n}") for n in range(3)]
NLI = [
    {"label": "ENTAILMENT", "score": 0.7},
    {"label": "neutral", "score": 0.1},
    {"label": "contradiction", "score": 0.2},
]


def shares(classified: Classified) -> dict[FactLabel, float]:
    assert classified.probabilities is not None
    return {label: p for label, p in zip(FACT_LABELS, classified.probabilities, strict=True) if p}


async def judged(server: JudgeServer, pairs: list[Pair], **settings: Any) -> list[Classified]:
    async with httpx.AsyncClient(
        headers={"authorization": "Bearer k"}, timeout=settings.pop("timeout", None)
    ) as client:
        classifier = EndpointClassifier(EndpointSettings(url=f"{server.url}/predict", **settings), client)
        assert isinstance(classifier, FactClassifier)
        found, calls = await classifier.classify(pairs)
    assert not calls
    return list(found)


async def test_labels_of_an_entailment_model_become_ours() -> None:
    async with judge_server([Reply([NLI] * 3)]) as server:
        found = await judged(server, PAIRS)
    assert [shares(one) for one in found] == [
        {
            FactLabel.TRUE: pytest.approx(0.7),
            FactLabel.NOT_SUPPORTED: pytest.approx(0.1),
            FactLabel.FALSE: pytest.approx(0.2),
        }
    ] * 3
    assert server.requests == [{"inputs": [[f"passage {n}", f"fact {n}"] for n in range(3)], "truncate": True}]
    assert server.headers[0]["Authorization"] == "Bearer k"


async def test_a_detector_that_gives_one_number_never_calls_a_fact_false() -> None:
    """It says that a passage does not bear a fact out; that the passage says otherwise it cannot know."""
    async with judge_server([Reply([0.9, 0.5, 0])]) as server:
        found = await judged(server, PAIRS)
    assert shares(found[0]) == {FactLabel.TRUE: pytest.approx(0.9), FactLabel.NOT_SUPPORTED: pytest.approx(0.1)}
    assert shares(found[2]) == {FactLabel.NOT_SUPPORTED: 1.0}


async def test_labels_without_a_meaning_get_the_one_that_was_configured() -> None:
    entry = [{"label": "LABEL_0", "score": 0.25}, {"label": "LABEL_1", "score": 0.75}]
    own = LabelMap({"LABEL_0": FactLabel.FALSE, "label_1": FactLabel.TRUE})
    async with judge_server([Reply([entry])]) as server:
        (found,) = await judged(server, PAIRS[:1], labels=own)
        assert shares(found) == {FactLabel.TRUE: 0.75, FactLabel.FALSE: 0.25}
        (unknown,) = await judged(server, PAIRS[:1])
    assert unknown == Classified(None, reason=Reason.JUDGE_REPLY_INVALID)


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Reply("no JSON"), Reason.JUDGE_REPLY_INVALID),
        (Reply([NLI, NLI]), Reason.JUDGE_REPLY_INVALID),
        (Reply({"error": "overloaded"}), Reason.JUDGE_REPLY_INVALID),
        (Reply([[], True, "yes"]), Reason.JUDGE_REPLY_INVALID),
        (Reply([1.5, -1, None]), Reason.JUDGE_REPLY_INVALID),
        (Reply("busy", status=503), Reason.JUDGE_UNAVAILABLE),
    ],
)
async def test_an_answer_that_cannot_be_used_is_not_a_verdict(reply: Reply, reason: Reason) -> None:
    async with judge_server([reply]) as server:
        assert await judged(server, PAIRS) == [Classified(None, reason=reason)] * 3


async def test_a_server_that_is_away_or_late_is_told_apart() -> None:
    async with judge_server([Reply(hold=True)]) as server:
        assert await judged(server, PAIRS, timeout=0.2) == [Classified(None, reason=Reason.TIMEOUT)] * 3
    assert await judged(server, PAIRS) == [Classified(None, reason=Reason.JUDGE_UNAVAILABLE)] * 3


async def test_many_pairs_go_in_several_requests_and_come_back_in_order() -> None:
    def by_number(body: dict[str, Any]) -> Reply:
        return Reply([int(fact.split()[1]) / 100 for _, fact in body["inputs"]])

    pairs = [Pair("", f"fact {n}", "p") for n in range(50)]
    async with judge_server([by_number]) as server:
        found = await judged(server, pairs, batch=8)
    assert [shares(one).get(FactLabel.TRUE, 0) for one in found] == pytest.approx([n / 100 for n in range(50)])
    assert len(server.requests) == 7


@given(st.dictionaries(st.sampled_from(["entailment", "neutral", "contradiction"]), st.floats(), max_size=3))
def test_no_score_of_any_kind_makes_a_broken_distribution(scores: dict[str, float]) -> None:
    try:
        seven = LabelMap().seven(scores)
    except ValueError:
        return
    assert sum(seven) == pytest.approx(1)
    assert all(0 <= share <= 1 for share in seven)


@given(st.floats(0, 1))
def test_one_number_is_the_probability_of_support(score: float) -> None:
    assert of_support(score)[0] == pytest.approx(score)


class Model:
    """As much of a cross-encoder as is used: `rows` are what it predicts."""

    def __init__(self, names: list[str], rows: list[Any]) -> None:
        self.config = SimpleNamespace(id2label=dict(enumerate(names)))
        self.rows = rows
        self.asked: list[Any] = []

    def predict(self, pairs: list[tuple[str, str]], *, apply_softmax: bool, show_progress_bar: bool) -> list[Any]:
        assert apply_softmax == (len(self.config.id2label) > 1)
        assert not show_progress_bar
        self.asked += pairs
        return self.rows


async def test_a_cross_encoder_reads_the_passage_before_the_fact() -> None:
    model = Model(["contradiction", "entailment", "neutral"], [[0.1, 0.6, 0.3]])
    classifier = CrossEncoderClassifier(model, "nli", LabelMap())
    found, _ = await classifier.classify(PAIRS[:1])
    assert shares(found[0]) == {
        FactLabel.TRUE: pytest.approx(0.6),
        FactLabel.FALSE: pytest.approx(0.1),
        FactLabel.NOT_SUPPORTED: pytest.approx(0.3),
    }
    assert model.asked == [("passage 0", "fact 0")]
    assert classifier.version == "cross_encoder:nli"
    one, _ = await CrossEncoderClassifier(Model(["LABEL_0"], [0.8]), "detector", LabelMap()).classify(PAIRS[:1])
    assert shares(one[0])[FactLabel.TRUE] == pytest.approx(0.8)
    assert await classifier.classify([]) == ([], ())


def test_a_label_that_nobody_explained_is_found_out_when_the_model_is_opened() -> None:
    with pytest.raises(ValueError, match="say in labels what it means"):
        CrossEncoderClassifier(Model(["LABEL_0", "LABEL_1"], []), "m", LabelMap())


def test_without_the_extra_the_way_to_install_it_is_named() -> None:
    with pytest.raises(ModelFileError) as found:
        CrossEncoderClassifier.open("some/model", LabelMap())
    assert "grounding-gateway[models]" in found.value.hint
