"""Search questions: a fact whose subject or number is lost in the question finds no evidence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks.facts.questions import (
    FactInAnswer,
    JudgeQuestions,
    TemplateQuestions,
    before,
    distinct,
    number_variants,
    refers_back,
)
from checks.judge.scripted import ScriptedJudge
from checks.types import Reason

ANSWER = "Omega Corp makes pumps. It was founded in 1998. It has 40 offices."


async def test_a_pronoun_is_searched_with_the_name_it_stands_for() -> None:
    start = ANSWER.index("It has")
    fact = FactInAnswer("Tell me about the pump maker", "It has 40 offices.", before=before(ANSWER, start))
    first, second = (await TemplateQuestions().ask(fact)).questions
    assert "Omega Corp" in first
    assert "It has 40 offices." in first
    assert second == "Tell me about the pump maker It has 40 offices."


async def test_a_pronoun_in_the_first_sentence_is_searched_with_the_query() -> None:
    asked = await TemplateQuestions().ask(FactInAnswer("When was Omega founded?", "It was founded in 1998."))
    assert asked.questions == ("When was Omega founded? It was founded in 1998.",)


async def test_list_items_and_rows_are_searched_with_what_introduces_them() -> None:
    asked = await TemplateQuestions(per_fact=1).ask(FactInAnswer("q", "Orly", context="Airports of Paris:"))
    assert asked.questions == ("Airports of Paris:: Orly",)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("4523000 people", " 4,523,000"),
        ("4,523,000 people", " 4523000"),
        ("4 523 000 жителей", " 4523000 4,523,000"),
        ("16.181 km", " 16181 16,181"),
        ("in 1998, 12 of 300", ""),
        ("version 1.2.3456 and a1234567", ""),
    ],
)
def test_a_number_is_asked_for_as_documents_may_write_it(text: str, expected: str) -> None:
    assert number_variants(text) == expected


@pytest.mark.parametrize(
    "fact", ["It is big.", "However, they left.", "Он большой.", "Её столица — Париж.", "This is so."]
)
def test_references_to_earlier_sentences_are_noticed(fact: str) -> None:
    assert refers_back(fact)


@pytest.mark.parametrize("fact", ["Italy is big.", "Theodor left.", "Онега большая.", "Paris is its capital."])
def test_names_are_not_taken_for_pronouns(fact: str) -> None:
    assert not refers_back(fact)


def test_the_sentence_before_is_found_through_chit_chat() -> None:
    answer = "Omega makes pumps. Sure! It is old. It is big."
    assert before(answer, answer.index("It is big")) == "Omega makes pumps. It is old."
    assert before(answer, 0) == ""


async def test_a_judge_writes_the_questions_in_sight_of_query_and_answer() -> None:
    judge = ScriptedJudge(
        [("questions", {"questions": ["How many offices has Omega Corp?", " how many offices has  omega corp "]})]
    )
    asked = await JudgeQuestions(judge, per_fact=3).ask(FactInAnswer("Omega?", "It has 40 offices.", answer=ANSWER))
    assert asked.questions == ("How many offices has Omega Corp?",)
    assert len(asked.calls) == 1
    assert ANSWER in judge.prompts[0].user
    assert "Omega?" in judge.prompts[0].user


@pytest.mark.parametrize("reply", [Reason.TIMEOUT, "no json", {"questions": []}, {"questions": [" ? "]}])
async def test_a_failing_judge_costs_no_fact_its_search(reply: object) -> None:
    judge = ScriptedJudge([("questions", reply)])  # type: ignore[list-item]
    asked = await JudgeQuestions(judge).ask(FactInAnswer("Omega?", "Omega has 40 offices."))
    assert asked.questions == ("Omega has 40 offices.", "Omega? Omega has 40 offices.")
    assert len(asked.calls) == 1


@given(st.lists(st.text(max_size=12), max_size=8), st.integers(1, 4))
def test_questions_are_different_and_within_budget(questions: list[str], most: int) -> None:
    found = distinct(questions, most)
    assert len(found) <= most
    assert len({question.casefold().rstrip(" ?.!") for question in found}) == len(found)


async def test_more_questions_than_the_budget_are_never_searched() -> None:
    judge = ScriptedJudge([("questions", {"questions": [f"question {number}" for number in range(6)]})])
    asked = await JudgeQuestions(judge, per_fact=2).ask(FactInAnswer("q", "f"))
    assert asked.questions == ("question 0", "question 1")
    assert JudgeQuestions(judge).version != TemplateQuestions().version
