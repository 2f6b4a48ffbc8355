"""A follow-up question finds the documents of what it is about."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.query import question, retrieval_query
from gateway.wire.types import Turn


def talk(*said: str) -> list[Turn]:
    """User and assistant in turns."""
    return [Turn("user" if n % 2 == 0 else "assistant", text) for n, text in enumerate(said)]


@pytest.mark.parametrize(
    ("first", "answer", "follow_up"),
    [
        ("How do I store tomatoes?", "In a cool place.", "and in winter?"),
        ("Как хранить помидоры?", "В прохладе.", "а зимой?"),
        ("Как хранить помидоры на балконе?", "В прохладе.", "А сколько они там могут лежать?"),
        ("Can I return shoes bought in a sale?", "Yes.", "How long does it take?"),
        ("Wie lange dauert der Versand?", "Drei Tage.", "Und nach Österreich?"),
        ("¿Puedo devolver los zapatos?", "Sí.", "¿Y las botas?"),
        ("西红柿应该怎么保存才能不坏?", "放在阴凉处。", "冬天呢?"),
        ("Can I return shoes bought in a sale?", "Yes.", "what about boots from the outlet store?"),
        ("Can I return shoes bought in a sale?", "Yes.", "why?"),
    ],
)
def test_a_follow_up_is_searched_with_what_it_refers_to(first: str, answer: str, follow_up: str) -> None:
    assert retrieval_query(talk(first, answer, follow_up)) == f"{first}\n{follow_up}"


@pytest.mark.parametrize(
    "fresh",
    [
        "What is the warranty period for laptops bought abroad?",
        "Какой срок гарантии на ноутбуки, купленные за границей?",
        "How do I reset the password of a shared account?",
        "我在国外买的笔记本电脑保修期是多长时间?",
    ],
)
def test_a_new_subject_is_not_searched_with_the_old_one(fresh: str) -> None:
    assert retrieval_query(talk("Can I return shoes?", "Yes.", fresh)) == fresh


def test_a_chain_of_follow_ups_goes_back_to_the_subject() -> None:
    turns = talk("How do I store tomatoes at home?", "Cool.", "and in winter?", "Cooler.", "why?")
    assert retrieval_query(turns) == "How do I store tomatoes at home?\nand in winter?\nwhy?"


@pytest.mark.parametrize("assent", ["yes", "Yes, please!", "да", "Да, конечно.", "ja gerne", "好的"])
def test_a_yes_is_searched_with_the_question_that_it_answers(assent: str) -> None:
    turns = talk(
        "I bought shoes that do not fit.",
        "I see. You have 30 days. Shall I explain how to return them? Tell me!",
        assent,
    )
    assert retrieval_query(turns) == f"I bought shoes that do not fit.\nShall I explain how to return them?\n{assent}"


def test_tool_turns_search_for_the_same_as_the_turn_they_go_on_from() -> None:
    turns = talk("Can I return shoes?", "Yes.", "and boots?")
    later = [*turns, Turn("assistant", "Is it one?", tool_call=True), Turn("tool", "what about it?")]
    assert retrieval_query(later) == retrieval_query(turns)


def test_without_a_users_words_there_is_nothing_to_search_for() -> None:
    assert retrieval_query([]) == ""
    assert retrieval_query([Turn("system", "x"), Turn("user", " \n", media=True)]) == ""
    assert question([]) == ""


def test_a_picture_sent_after_a_question_does_not_hide_the_question() -> None:
    assert (
        retrieval_query([Turn("user", "What is the warranty period here?"), Turn("user", "", media=True)])
        == "What is the warranty period here?"
    )


def test_a_long_paste_keeps_its_question_at_either_end() -> None:
    query = retrieval_query([Turn("user", "Why does this fail? " + "log " * 5000 + "Where is the setting?")], 500)
    assert query.startswith("Why does this fail?")
    assert query.endswith("Where is the setting?")
    assert len(query) <= 500


@given(
    st.lists(
        st.builds(Turn, st.sampled_from(["user", "assistant", "tool", "system"]), st.text(max_size=30)), max_size=6
    ),
    st.integers(10, 60),
)
def test_the_query_is_bounded_and_holds_the_end_of_the_last_user_turn(turns: list[Turn], limit: int) -> None:
    query = retrieval_query(turns, limit)
    spoken = [turn.text.strip() for turn in turns if turn.role == "user" and turn.text.strip()]
    assert len(query) <= limit
    assert bool(query) == bool(spoken)
    if spoken:
        assert query.endswith(spoken[-1][-3:].strip())
