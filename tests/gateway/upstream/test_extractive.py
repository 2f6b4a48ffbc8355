"""Answers without a language model: the right sentence, verbatim, with its source, or an honest no."""

from __future__ import annotations

import re
from typing import Any

import pytest
import Stemmer
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import RequestError
from gateway.upstream.base import UpstreamRequest
from gateway.upstream.extractive import ExtractiveUpstream
from gateway.upstream.passages import NO_ANSWER, NO_ANSWER_RU, answer, best_sentences, sentences
from retrieval.types import Hit
from tests.gateway.upstream.conftest import ask, everything, texts
from tests.gateway.upstream.samples import hit

SHOP = (
    hit(
        "# Returns\n\nYou may return any item within 30 days of delivery. The item must be unused and in its original\n"
        "packaging. Refunds are paid to the original payment method within 5 working days.\n\n"
        "- Sale items can only be exchanged.\n- Gift cards cannot be returned.\n",
        title="Returns and refunds",
        heading=("Returns",),
    ),
    hit(
        "## Shipping\n\nStandard shipping takes 3 to 5 working days and costs $4.90. Orders over $50 ship free "
        "of charge.\n"
        "Dr. Miller's clinic, e.g. the one in Ohio, is served by courier. Express delivery arrives the next day.\n\n"
        "```\nshipping --express\n```\n",
        title="Shipping",
    ),
    hit(
        "The X200 kettle holds 1.7 litres. Its warranty lasts two years. The kettle was introduced in March 2019.\n\n"
        "Can it be used with milk? No, only water may be boiled in the kettle.",
        title="X200 kettle manual",
    ),
    hit("The company was founded by Anna Berg in Oslo in 1987. It employs 240 people.", title="About us"),
)

RUSSIAN = (
    hit(
        "Возврат товара возможен в течение 14 дней с момента получения. Деньги возвращаются на карту.",
        title="Возврат",
    ),
    hit("Доставка по Москве стоит 300 рублей. Курьер приезжает с 9 до 21 часа.", title="Доставка"),
)

ENGLISH_STEM = Stemmer.Stemmer("english")
BOTH = ExtractiveUpstream()._stem


def asked(query: str, hits: tuple[Hit, ...] = SHOP, limit: int = 3) -> str:
    return "".join(answer(query, hits, BOTH, limit=limit))


@pytest.mark.parametrize(
    ("query", "expected", "source"),
    [
        ("How many days do I have to return an item?", "within 30 days of delivery", 1),
        ("How long does standard shipping take?", "takes 3 to 5 working days", 2),
        ("How long is the kettle's warranty?", "lasts two years", 3),
        ("When was the kettle introduced?", "March 2019", 3),
        ("Who founded the company?", "Anna Berg", 4),
        ("How many people does the company employ?", "240 people", 4),
        ("Can gift cards be returned?", "Gift cards cannot be returned", 1),
        ("Which orders ship free of charge?", "Orders over $50", 2),
        ("Are refunds paid to the original payment method?", "original payment method", 1),
        ("How much water does the X200 kettle hold?", "1.7 litres", 3),
    ],
)
def test_question_that_the_documents_answer_gets_the_right_sentence(query: str, expected: str, source: int) -> None:
    said = asked(query)
    assert expected in said
    assert f"[{source}]" in said


@pytest.mark.parametrize(
    "query",
    [
        "Who is the chief executive of Microsoft?",
        "What is the capital of Australia?",
        "Do you ship to the moon base?",
        "How do I reset my password?",
        "What colour is the founder's car?",
        "How tall is Mount Everest?",
        "",
        "what is it?",
        "???",
    ],
)
def test_question_that_the_documents_do_not_answer_gets_an_honest_no(query: str) -> None:
    assert asked(query) == NO_ANSWER


def test_no_passages_means_no_answer() -> None:
    assert asked("How long is the warranty?", ()) == NO_ANSWER


def test_russian_question_is_answered_across_word_forms_or_refused_in_russian() -> None:
    assert "14 дней [1]" not in asked("Сколько стоит доставка?", RUSSIAN)
    assert "в течение 14 дней" in asked("Сколько дней на возврат товаров?", RUSSIAN)
    assert asked("Сколько стоит доставка в Москву?", RUSSIAN) == "Доставка по Москве стоит 300 рублей [2]."
    assert asked("Кто президент Франции?", RUSSIAN) == NO_ANSWER_RU


def test_number_in_the_answer_beats_equal_overlap_without_one() -> None:
    hits = (hit("The warranty of the kettle is described below. The warranty of the kettle lasts two years."),)
    assert asked("How long is the warranty of the kettle?", hits, limit=1).startswith(
        "The warranty of the kettle lasts"
    )


def test_marks_follow_the_order_of_the_sources() -> None:
    hits = tuple(hit(f"The red kettle number {n} boils water in shop {n}.") for n in range(3))
    assert re.findall(r"\[(\d+)\]", asked("Which red kettle boils water?", (*hits[:1], SHOP[3], *hits[1:]))) == ["1"]
    two = (hit("Anna sells red kettles in Oslo."), hit("Red kettles of that maker boil quickly."))
    assert re.findall(r"\[(\d+)\]", asked("red kettles", two)) == ["1", "2"]


def test_same_sentence_from_two_documents_is_said_once() -> None:
    assert asked("How long is the kettle's warranty?", (SHOP[2], SHOP[2])).count("two years") == 1


def test_headings_code_and_questions_are_never_quoted_as_facts() -> None:
    shown = [sentence.text for number, one in enumerate(SHOP, 1) for sentence in sentences(one.passage, number)]
    assert not [text for text in shown if text.startswith("#") or "--express" in text or text.endswith("?")]
    assert "Dr. Miller's clinic, e.g. the one in Ohio, is served by courier." in shown
    assert "Gift cards cannot be returned." in shown


prose = st.lists(
    st.sampled_from(
        ["The kettle", "holds", "1.7 litres", ".", "!", "?", " ", "\n", "\n\n", "- ", "# ", "```\n", "Да", "e.g."]
    )
).map("".join)


@given(st.lists(prose, max_size=4), prose)
def test_answer_says_nothing_that_is_not_in_the_documents(bodies: list[str], query: str) -> None:
    hits = [hit(body) for body in bodies]
    for sentence in best_sentences(query, hits, BOTH):
        source = hits[sentence.source - 1].passage.text
        assert " ".join(source[sentence.start : sentence.end].split()) == sentence.text
    said = "".join(answer(query, hits, BOTH))
    plain = " ".join(" ".join(body.split()) for body in bodies)
    for piece in re.split(r" \[\d+\][.!?…。]* ?", said):
        assert piece in plain or piece in (NO_ANSWER, NO_ANSWER_RU)


# ------------------------------------------------- completions


def question(query: str = "How long is the kettle's warranty?", **fields: Any) -> UpstreamRequest:
    return ask(stream=bool(fields.get("stream")), query=query, hits=SHOP, fields=fields)


async def test_every_choice_asked_for_is_answered() -> None:
    upstream = ExtractiveUpstream()
    for stream in (False, True):
        async with upstream.send(question(n=3, stream=stream)) as reply:
            said = texts(await everything(reply))
        assert said == dict.fromkeys(range(3), "Its warranty lasts two years [3].")


async def test_usage_event_comes_only_when_asked_for() -> None:
    upstream = ExtractiveUpstream()
    async with upstream.send(question(stream=True)) as reply:
        assert not [delta for delta in await everything(reply) if b'"usage"' in delta.data]
    async with upstream.send(question(stream=True, stream_options={"include_usage": True})) as reply:
        *others, last = await everything(reply)
    assert all(b'"usage":null' in delta.data for delta in others)
    assert last.view.choices == []
    assert last.view.usage is not None
    assert last.view.usage["total_tokens"] == last.view.usage["prompt_tokens"] + last.view.usage["completion_tokens"]


async def test_all_events_of_an_answer_share_id_time_and_the_callers_model_name() -> None:
    upstream = ExtractiveUpstream(clock=lambda: 1_800_000_000.9, new_id=lambda: "abc")
    async with upstream.send(question(model="my-docs", stream=True)) as reply:
        deltas = await everything(reply)
    assert {(delta.view.id, delta.view.model) for delta in deltas} == {("chatcmpl-abc", "my-docs")}
    assert all(b'"created":1800000000,' in delta.data for delta in deltas)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"response_format": {"type": "json_schema", "json_schema": {}}}, "response_format"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tool_choice": {"type": "function", "function": {"name": "f"}}}, "tool_choice"),
        ({"modalities": ["text", "audio"]}, "modalities"),
        ({"logprobs": True}, "logprobs"),
        ({"n": 0}, "n"),
        ({"n": 1_000_000}, "n"),
        ({"n": "two"}, None),
    ],
)
async def test_what_cannot_be_honoured_is_refused_by_name(fields: dict[str, Any], param: str | None) -> None:
    with pytest.raises(RequestError) as caught:
        async with ExtractiveUpstream().send(question(**fields)):
            pass
    assert caught.value.param == param


async def test_tools_that_may_stay_unused_do_not_prevent_an_answer() -> None:
    fields: dict[str, Any] = {"tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": "auto"}
    async with ExtractiveUpstream().send(question(response_format={"type": "text"}, **fields)) as reply:
        assert "two years" in texts(await everything(reply))[0]


async def test_broken_body_is_the_callers_error() -> None:
    with pytest.raises(RequestError, match="JSON"):
        async with ExtractiveUpstream().send(ask(body=b"{")):
            pass


TIDE = (
    hit(
        "plan: Single ride; price_eur: 1.90; valid_for: one ride\n"
        "plan: Monthly plan; price_eur: 27.00; valid_for: 30 days",
        title="pricing",
    ),
    hit(
        "Reverse gear is limited to 3 km/h. Dogs may travel in the box if they are tied to the ring.",
        title="Pelican manual",
    ),
    hit("Herons may be taken on the ferries of Line 3. Tidewheel is an operator in Marnholm.", title="About Tidewheel"),
    hit("Refunds and complaints\n\nAn unused plan can be returned within 14 days.", title="Refunds and complaints"),
)


@pytest.mark.parametrize(
    "query",
    [
        "Does Tidewheel operate in Paris?",
        "Can I take my dog on a Heron?",
        "How many gears does the Pelican have?",
        "What does the Weekly plan cost?",
        "When was the Pelican introduced?",
        "How long may a dog travel in the box?",
    ],
)
def test_a_true_sentence_about_something_else_is_never_given_as_an_answer(query: str) -> None:
    assert asked(query, TIDE) == NO_ANSWER


def test_the_one_row_of_a_table_that_answers_is_quoted_and_not_the_whole_table() -> None:
    said = asked("What does the Monthly plan cost?", TIDE)
    assert said == "plan: Monthly plan; price_eur: 27.00; valid_for: 30 days [1]."


def test_a_heading_is_never_quoted_as_an_answer() -> None:
    assert "complaints" not in asked("Can I get a refund?", TIDE)
