"""What a passage says about a fact: coverage, and the marks that a small edit leaves."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checks.facts.analysis import analyse
from checks.facts.classify import SHIPPED
from checks.facts.features import FEATURES, measure, prepare
from checks.facts.lexicon import Lexicon


@pytest.fixture(scope="module")
def lexicon() -> Lexicon:
    return Lexicon.read(SHIPPED / "lexicon.json.gz")


PASSAGE = (
    "The Falcon X2 weighs 19.5 kg. The shop in Brenn is open from Monday to Friday. "
    "Guests must not bring dogs into the hall. The battery lasts at least 70 km. "
    "Anna Berg bought the mill from Olaf Dahl."
)


def marks(fact: str, passage: str, lexicon: Lexicon, query: str = "", title: str = "") -> dict[str, float]:
    vector, _ = measure(prepare(fact, lexicon, query=query), analyse(passage, lexicon, title=title), lexicon)
    return dict(zip(FEATURES, vector.tolist(), strict=True))


@pytest.mark.parametrize(
    "fact",
    [
        "The Falcon X2 weighs 19.5 kg.",
        "The weight of the Falcon X2 is 19,500 grams.",
        "From Monday to Friday the shop in Brenn is open.",
        "Guests must not bring dogs into the hall.",
        "The battery lasts no less than 70 kilometres.",
    ],
)
def test_restated_truth_leaves_no_mark_of_an_edit(fact: str, lexicon: Lexicon) -> None:
    found = marks(fact, PASSAGE, lexicon)
    assert found["clean"] == 1
    assert found["cover_passage"] > 0.85


@pytest.mark.parametrize(
    ("fact", "mark"),
    [
        ("The Falcon X2 weighs 21.5 kg.", "numbers_clash"),
        ("The Falcon X2 weighs 19.5 g.", "units_clash"),
        ("The Falcon X3 weighs 19.5 kg.", "names_missing"),
        ("The shop in Brenn is closed from Monday to Friday.", "opposites"),
        ("The shop in Brenn is open from Tuesday to Friday.", "exclusive"),
        ("The shop in Brenn is not open from Monday to Friday.", "negation_fact_only"),
        ("Guests must bring dogs into the hall.", "negation_window_only"),
        ("The battery lasts at most 70 km.", "operators_clash"),
        ("The shop in Harl is open from Monday to Friday.", "names_replaced"),
        ("Olaf Dahl bought the mill from Anna Berg.", "swapped"),
    ],
)
def test_each_kind_of_edit_leaves_its_mark(fact: str, mark: str, lexicon: Lexicon) -> None:
    assert marks(fact, PASSAGE, lexicon)[mark] > 0


def test_negation_of_another_clause_is_not_taken_for_a_contradiction(lexicon: Lexicon) -> None:
    passage = "Payment data are held by Clearpenny and never by Tidewheel."
    found = marks("Payment data are held by Clearpenny.", passage, lexicon)
    assert found["negation_fact_only"] == found["negation_window_only"] == 0


def test_number_that_belongs_to_the_other_product_is_noticed(lexicon: Lexicon) -> None:
    passage = "Tyres are filled to 4.2 bar on the Heron and to 3.5 bar on the Pelican."
    assert marks("Heron tyres are filled to 3.5 bar.", passage, lexicon)["misbound"] == 1
    assert marks("Heron tyres are filled to 4.2 bar.", passage, lexicon)["misbound"] == 0


def test_unused_is_read_as_not_used(lexicon: Lexicon) -> None:
    found = marks("Unused plans can be returned.", "A plan that has not been used can be returned.", lexicon)
    assert found["negation_fact_only"] == found["negation_window_only"] == 0
    assert found["cover"] > 0.9


def test_subject_named_in_the_title_only_is_not_missing(lexicon: Lexicon) -> None:
    found = marks("The Pelican weighs 60 kg.", "It weighs 60 kg.", lexicon, title="Pelican: manual")
    assert found["names_missing"] == 0
    assert found["subject_missing"] == 0


def test_russian_forms_and_negation_are_understood(lexicon: Lexicon) -> None:
    passage = "Грузовой велосипед весит 60 кг. В тоннеле ехать на нём нельзя."
    assert marks("Вес грузового велосипеда 60 килограммов.", passage, lexicon)["numbers_agreed"] == 1
    assert marks("В тоннеле ехать на нём можно.", passage, lexicon)["negation_window_only"] == 1


@settings(max_examples=60, deadline=None)
@given(fact=st.text(max_size=200), passage=st.text(max_size=400))
def test_any_text_gives_finite_features_and_a_span_inside(fact: str, passage: str) -> None:
    lexicon = Lexicon()
    vector, (start, end) = measure(prepare(fact, lexicon), analyse(passage, lexicon), lexicon)
    assert vector.shape == (len(FEATURES),)
    assert all(-1e6 < value < 1e6 for value in vector.tolist())
    assert 0 <= start <= end <= len(passage)


def test_sentences_of_a_passage_keep_exact_offsets(lexicon: Lexicon) -> None:
    text = (
        "# Title\n\nOne holds 3.5 kg, e.g. flour. Two runs at 36 V. Do not open.\n- item one\n- item two\n| a | b |\n"
    )
    pieces = [text[s.start : s.end] for s in analyse(text, lexicon).sentences]
    assert pieces == [
        "# Title",
        "One holds 3.5 kg, e.g. flour.",
        "Two runs at 36 V.",
        "Do not open.",
        "- item one",
        "- item two",
        "| a | b |",
    ]
