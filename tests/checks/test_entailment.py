"""The cross-encoder that orders what the features decide alike, and what it is given to read."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checks.errors import ModelFileError
from checks.facts.analysis import analyse
from checks.facts.classify import SHIPPED as FEATURES_SHIPPED
from checks.facts.classify import LocalClassifier
from checks.facts.entailment import FACT_TOKENS, SHIPPED, TOKENS, Entailment, graph_version
from checks.facts.features import prepare
from checks.facts.lexicon import Lexicon
from checks.facts.reading import reading
from checks.types import FACT_LABELS, FactLabel, Pair

LEXICON = Lexicon.read(FEATURES_SHIPPED / "lexicon.json.gz")
MUSEUM = (
    "Tomatoes need six hours of sun a day. The Harbour Museum was opened on 4 June 1987 by the mayor. "
    "It has 1,200,000 visitors a year. Yellow leaves are not always a sign of disease."
)


@pytest.fixture(scope="module")
def model() -> Entailment:
    return Entailment.read()


def read(fact: str, passage: str, title: str = "") -> tuple[str, str]:
    return reading(prepare(fact, LEXICON), fact, analyse(passage, LEXICON, title=title), title)


def test_only_sentences_that_matter_are_read_in_their_own_order() -> None:
    _, sentences = read("The Harbour Museum, opened in 1987, has 1.2 million visitors.", MUSEUM, "Guide")
    assert sentences == (
        "Guide: The Harbour Museum was opened on 4 June 1987 by the mayor. It has 1,200,000 visitors a year."
    )


def test_a_number_that_is_the_same_is_read_the_same() -> None:
    fact, _ = read("The museum has 1.2 million visitors a year.", MUSEUM)
    assert "1,200,000" in fact
    other, _ = read("The museum has 1.3 million visitors a year.", MUSEUM)
    assert "1.3 million" in other


def test_a_passage_about_something_else_is_not_read() -> None:
    assert read("Copper melts at 1085 degrees.", "The Harbour Museum was opened by the mayor.")[1] == ""


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=300), st.text(max_size=600), st.text(max_size=80))
def test_what_is_read_is_bounded_whatever_is_written(fact: str, passage: str, title: str) -> None:
    texts = read(fact, passage, title)
    ((ids, types),) = _SHARED.encode([texts])
    assert len(ids) == len(types) <= TOKENS
    assert types.count(0) <= FACT_TOKENS + 2
    assert np.isfinite(_SHARED.log_odds([texts])).all()


_SHARED = Entailment.read()


def test_a_text_means_the_same_alone_and_among_others(model: Entailment) -> None:
    texts = [read(f"The Harbour Museum was opened in {year}.", MUSEUM) for year in range(1980, 1990)]
    together = model.log_odds(texts)
    assert [model.log_odds([text])[0] for text in texts] == list(together)


@pytest.mark.parametrize(
    ("fact", "says_so", "says_otherwise"),
    [
        (
            "Smoking is allowed on the terrace.",
            "Guests may smoke on the terrace.",
            "Guests may not smoke on the terrace.",
        ),
        (
            "The company sells bicycles.",
            "The company sells bicycles and parts.",
            "The company has never sold bicycles.",
        ),
        ("The museum is free for children.", "Children enter the museum free.", "Only adults enter the museum free."),
        ("The mayor supports the plan.", "The mayor spoke in favour of the plan.", "The mayor spoke against the plan."),
    ],
)
def test_a_source_that_says_so_ranks_above_one_that_says_otherwise(
    fact: str, says_so: str, says_otherwise: str, model: Entailment
) -> None:
    one, other = model.log_odds([read(fact, says_so), read(fact, says_otherwise)])
    assert one > other + 0.5


def test_features_decide_and_the_cross_encoder_only_orders() -> None:
    """An answer that the features find wrong never passes because a small language model likes it."""
    plain, both = LocalClassifier.read(entailment=False), LocalClassifier.read()
    pairs = [
        Pair("", fact, MUSEUM)
        for fact in (
            "The Harbour Museum was opened on 4 June 1978 by the mayor.",
            "The Harbour Museum was opened on 4 June 1987 by the mayor.",
            "It has 1.2 million visitors a year.",
            "It has 1.3 million visitors a year.",
            "The Harbour Museum was closed by the mayor.",
        )
    ]
    assert plain.version != both.version
    at = FACT_LABELS.index(FactLabel.TRUE)
    for one, other in zip(plain.judge(pairs), both.judge(pairs), strict=True):
        assert one.probabilities is not None
        assert other.probabilities is not None
        assert (one.probabilities[at] >= 0.5) == (other.probabilities[at] >= 0.5)
        assert one.probabilities.index(max(one.probabilities)) == other.probabilities.index(max(other.probabilities))


def test_the_version_is_that_of_the_shipped_graph(model: Entailment) -> None:
    assert model.version == graph_version((SHIPPED / "model.int8.onnx").read_bytes())


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.int8.onnx"])
def test_a_missing_or_broken_model_file_is_named_with_a_remedy(tmp_path: Path, name: str) -> None:
    shutil.copytree(SHIPPED, tmp_path / "model")
    broken = tmp_path / "model" / name
    broken.write_bytes(b"broken")
    with pytest.raises(ModelFileError, match="entailment model") as found:
        Entailment.read(tmp_path / "model")
    assert "make entailment" in found.value.hint
    broken.unlink()
    with pytest.raises(ModelFileError):
        Entailment.read(tmp_path / "model")


def test_the_shipped_configuration_names_what_the_code_expects() -> None:
    about = json.loads((SHIPPED / "config.json").read_text())
    assert (about["tokens"], about["stances"][0]) == (TOKENS, "supports")
