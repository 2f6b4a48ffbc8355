"""What is left out of checking: only what says nothing, and never a lie in polite wrapping."""

from __future__ import annotations

import pytest

from checks.facts.checkworthy import is_refusal, states_something, title_states_something
from checks.facts.plain import cells, plain, statement


@pytest.mark.parametrize(
    "words",
    [
        "Hello!", "Hi there!", "Sure!", "Of course.", "You're welcome!", "Great question!", "I'm happy to help!",
        "I hope this helps!", "Let me know if you have any other questions.", "Feel free to ask more.",
        "If you have further questions, feel free to ask.", "Here are the main points:", "How can I help you today?",
        "What is the capital of France?", "Thank you for your question.", "I'm sorry.", "Unfortunately,", "👍", "---",
        "Здравствуйте!", "Конечно!", "Рад помочь!", "Надеюсь, это поможет.", "Хороший вопрос!", "Вот основные пункты:",
        "Если у вас остались вопросы, обращайтесь.", "Как вас зовут?", "Спасибо за вопрос!", "هل هذا صحيح؟",
        "本当ですか？",
    ],
)  # fmt: skip
def test_chit_chat_is_never_failed_for_want_of_documents(words: str) -> None:
    assert not states_something(words)


@pytest.mark.parametrize(
    "words",
    [
        "I don't know.",
        "I’m sorry, but I don’t know the answer to that.",
        "I couldn't find information about the warranty in the provided documents.",
        "I cannot answer this question.",
        "The provided documents do not mention the price.",
        "There is no information about delivery times in the documents.",
        "Unfortunately, the documentation does not specify dates, prices or times.",
        "As an AI language model, I cannot answer that.",
        "No relevant information was found.",
        "I'm not sure when the shop opens.",
        "Я не знаю.",
        "К сожалению, я не нашёл ответа на этот вопрос.",
        "К сожалению, в предоставленных документах нет информации о цене.",
        "У меня нет информации об этом.",
        "Не удалось найти информацию о доставке.",
        "Ich weiß es leider nicht.",
        "Je ne sais pas.",
        "No tengo información sobre eso.",
    ],
)
def test_a_refusal_is_never_failed_for_want_of_documents(words: str) -> None:
    assert is_refusal(words)
    assert not states_something(words)


@pytest.mark.parametrize(
    "words",
    [
        "Sorry, Paris is the capital of Germany.",
        "К сожалению, Париж — столица Германии.",
        "I don't know who told you that, but the tower is 500 m tall.",
        "I don't know; the warranty lasts five years.",
        "I don't know, the warranty lasts five years.",
        "I cannot confirm this because the company went bankrupt.",
        "We do not ship to Russia.",
        "We are not open on Sundays.",
        "There is no sugar in the cake.",
        "No refunds are available.",
        "No serious side effects were found.",
        "У нас нет доставки в Москву.",
        "В этих краях нет медведей.",
        "I hope the 1998 treaty is still in force.",
        "If you need help, call 112.",
        "If you are diabetic, ask your doctor before use.",
        "Feel free to exceed the dose.",
        "Sure, Paris is in Germany.",
        "Hello, Paris was founded by Napoleon.",
        "I am happy that Paris is the capital of Germany.",
        "Here is why: Paris is in Germany.",
        "Did you know that Paris is in Germany?",
        "Paris is in Germany, right?",
        "Press and hold the reset button.",
        "I think Paris is in Germany.",
        "42",
        "Berlin",
    ],
)
def test_a_statement_in_polite_wrapping_is_still_checked(words: str) -> None:
    assert states_something(words)


def test_a_topic_heading_is_no_fact_but_a_clause_is() -> None:
    assert not title_states_something("Key features")
    assert not title_states_something("Step 2: Installing the driver")
    assert title_states_something("The driver is signed")
    assert title_states_something("Москва — столица России")


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("- **Paris** is [big](https://x.y/z).[1]", "Paris is big."),
        ("1. `code` and *more* [2, 3].", "code and more."),
        ("> quoted\n> twice", "quoted twice"),
        ("## Title", "Title"),
        ("50.", "50."),
        ("2 * 3 = 6 and snake_case", "2 * 3 = 6 and snake_case"),
        ("| a | **b** |", "a | b"),
    ],
)
def test_markup_never_reaches_the_search_or_the_judge(raw: str, expected: str) -> None:
    assert plain(raw) == expected


def test_a_table_row_reads_as_a_statement() -> None:
    assert statement("| Paris | 2.1 M |", "City | Population") == "City: Paris; Population: 2.1 M"
    assert statement("- big", "Lead:") == "big"
    assert cells("| a |  | c |") == ["a", "", "c"]
