"""Segmentation: nothing of an answer may go unchecked because of how it is written or how it arrives."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from checks.facts.segment import LONGEST, SegmentStream, iterate, segments, settled


def texts(answer: str) -> list[str]:
    return [segment.text for segment in segments(answer)]


ATOMS = st.sampled_from(
    [
        "Foo", "bar", "A", "т", "д", "г", "В", "Он", "It", "Dr", "e.g", "U.S", ".", ". ", "! ", "? ", "...", "…", "。",
        "「", "」", "(", ")", "[", "]", "[1]", "[1", " [2]", '"', "“", "”", "«", "»", "`", "```", "\n", "\n\n", "\r\n",
        "\r", "- ", "* ", "1. ", "12", "2) ", "# ", "| a | b |", "|---|---|", "|", "> ", ":", " ", "  ", "\t", "**",
        "_", "x" * 50, "word word word word ", "กรุงเทพมหานครเป็นเมืองหลวงของ", "é", "e\u0301", "1998", "5.6", "👍",
        "~~~", "\u2028", "—", ",", "y " * 200, "z" * 650, "\u200b", "【1†s】", "²", "'", "3. Oktober", "؟", "।",
    ]
)  # fmt: skip
ANSWERS = st.one_of(
    st.lists(ATOMS, max_size=40).map("".join),
    st.text(max_size=120),
)


@given(ANSWERS)
@settings(max_examples=400, deadline=None)
def test_no_visible_character_of_an_answer_escapes_checking(answer: str) -> None:
    end = 0
    for segment in segments(answer):
        assert answer[segment.start : segment.end] == segment.text
        assert segment.start >= end
        assert segment.text.strip() == segment.text != ""
        assert answer[end : segment.start].strip() == ""
        end = segment.end
    assert answer[end:].strip() == ""


@given(ANSWERS, st.integers(0, 400))
@settings(max_examples=600, deadline=None)
@example("AAA|1. \nA| a | b |。`# x 1. Dr|? ```...。", 30)
@example("a\r\n", 2)
@example("[| a | b |! กรุงเทพมหานครเป็นเมืองหลวงของ [2]~~~」». [1.12** [2]. More words", 70)
@example("It is so. [1, 2] More words follow here.", 13)
def test_a_sentence_released_early_is_the_sentence_of_the_whole_answer(answer: str, cut: int) -> None:
    whole = segments(answer)
    border = settled(answer[:cut])
    head = segments(answer[:border])
    assert whole[: len(head)] == head
    assert border == (head[-1].end if head else 0)


@given(ANSWERS, st.lists(st.integers(1, 30), max_size=40))
@settings(max_examples=300, deadline=None)
def test_a_streamed_answer_gives_the_same_facts_as_a_plain_one(answer: str, sizes: list[int]) -> None:
    stream, found, rest = SegmentStream(), [], answer
    for size in sizes:
        found += stream.feed(rest[:size])
        rest = rest[size:]
    found += stream.feed(rest)
    assert stream.text == answer
    assert stream.settled <= len(answer)
    assert found + stream.finish() == segments(answer)
    assert list(iterate(answer)) == segments(answer)


def test_sentences_settle_while_the_answer_is_written() -> None:
    stream = SegmentStream()
    assert [s.text for s in stream.feed("Paris is big. It")] == []
    assert [s.text for s in stream.feed(" has parks")] == ["Paris is big."]
    assert [s.text for s in stream.feed(".[1] And museums of note")] == ["It has parks.[1]"]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("東京は日本の首都です。人口は1400万人", ["東京は日本の首都です。", "人口は1400万人"]),
        ("「はい。そうです」と言った。次", ["「はい。そうです」と言った。", "次"]),
        ("दिल्ली राजधानी है। यह बड़ा है॥ और", ["दिल्ली राजधानी है।", "यह बड़ा है॥", "और"]),
        ("هل هذا صحيح؟ باريس عاصمة فرنسا۔ نعم", ["هل هذا صحيح؟", "باريس عاصمة فرنسا۔", "نعم"]),
        ("กรุงเทพมหานครเป็นเมืองหลวงของประเทศไทย มีประชากรมาก", ["กรุงเทพมหานครเป็นเมืองหลวงของประเทศไทย", "มีประชากรมาก"]),
        ("Νέα πόλη. Άλλη πόλη", ["Νέα πόλη.", "Άλλη πόλη"]),
    ],
)
def test_answers_in_any_script_are_split_and_keep_a_last_line_without_a_stop(answer: str, expected: list[str]) -> None:
    assert texts(answer) == expected


@pytest.mark.parametrize(
    "sentence",
    [
        "Dr. Smith met Mr. Jones.",
        "It costs 5.60 USD, e.g. in the U.S. and the U.K. market.",
        "See Fig. 3 and pp. 12 of vol. 2.",
        "Version 1.2.3 runs at https://example.com/a.b?c=1.5 for x.y@example.com users.",
        "A. S. Pushkin was born in 1799.",
        "J.R.R. Tolkien and J.-P. Sartre never met.",
        "Yahoo! is a company.",
        "He waited... and left.",
        'She said "Stop. Go back." and left.',
        "It is big (see Table 2. It has more).",
        "Am 3. Oktober 1990 wurde Deutschland vereint.",
        "А. С. Пушкин родился в 1799 г. в Москве.",
        "Яблоки, груши и т. д. продаются на рынке.",
        "См. рис. 3 и табл. 5.6, т. е. приложение.",
        "Он жил в г. Казани на ул. Ленина.",
        "В 1998 г. Россия объявила дефолт.",
        "Он сказал: «Привет. Как дела?» и ушёл.",
        "«Стой!» — сказал он.",
    ],
)
def test_a_fact_is_not_torn_apart_at_an_abbreviation_an_initial_or_a_number(sentence: str) -> None:
    assert texts(sentence) == [sentence]
    assert texts(f"{sentence}\n\nNext one.") == [sentence, "Next one."]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("It was founded in 1998. Then it grew.", ["It was founded in 1998.", "Then it grew."]),
        ("Take vitamin C. It helps.", ["Take vitamin C.", "It helps."]),
        ("Это витамин C. Он полезен.", ["Это витамин C.", "Он полезен."]),
        ("Он родился в 1998 г. Он жил в Омске.", ["Он родился в 1998 г.", "Он жил в Омске."]),
        ("Яблоки и т. д. Москва — столица.", ["Яблоки и т. д.", "Москва — столица."]),
        ("He moved to the U.S. He liked it.", ["He moved to the U.S.", "He liked it."]),
        ("Really?! Yes… It is.", ["Really?!", "Yes…", "It is."]),
        ('"It is." "He was."', ['"It is."', '"He was."']),
        ("**Bold.** Plain.", ["**Bold.**", "Plain."]),
        ("你好!世界很大。", ["你好!", "世界很大。"]),
    ],
)
def test_two_facts_are_not_judged_as_one(answer: str, expected: list[str]) -> None:
    assert texts(answer) == expected


def test_a_citation_mark_stays_with_the_sentence_it_supports() -> None:
    assert texts("It is big.[1] It is old. [2, 3] It is red【4†src】. End") == [
        "It is big.[1]",
        "It is old. [2, 3]",
        "It is red【4†src】.",
        "End",
    ]


def test_list_items_carry_the_sentence_that_introduces_them() -> None:
    answer = "Paris has three airports:\n1. Orly. It is old.\n2. Beauvais\n   - far away\n\nThat is all."
    found = [(s.text, s.context) for s in segments(answer)]
    lead = "Paris has three airports:"
    assert found == [
        (lead, ""),
        ("1. Orly.", lead),
        ("It is old.", lead),
        ("2. Beauvais", lead),
        ("- far away", f"{lead} Beauvais"),
        ("That is all.", ""),
    ]


def test_table_rows_carry_the_header_that_gives_them_meaning() -> None:
    answer = "| City | Population |\n|------|---:|\n| Paris | 2.1 M |\n| Rome | 2.8 M |\n\nDone, it is."
    header, paris, rome, rest = segments(answer)
    assert not header.checkable
    assert (paris.text, paris.context, paris.checkable) == ("| Paris | 2.1 M |", "City | Population", True)
    assert rome.context == "City | Population"
    assert rest.context == ""


def test_a_second_table_does_not_inherit_the_header_of_the_first() -> None:
    answer = "| a | b |\n|---|---|\n| 1 | 2 |\n\n| c | d |\n|---|---|\n| 3 | 4 |\n\n| 5 | 6 |"
    assert [(s.text[:5], s.context, s.checkable) for s in segments(answer)] == [
        ("| a |", "", False),
        ("| 1 |", "a | b", True),
        ("| c |", "", False),
        ("| 3 |", "c | d", True),
        ("| 5 |", "", True),
    ]


def test_a_quotation_is_not_torn_where_a_long_sentence_is_cut() -> None:
    quote = '"It was big. It was old and red and blue and green."'
    answer = "word " * 112 + quote + " word" * 60 + "."
    found = texts(answer)
    assert len(found) == 2
    assert sum(quote in text for text in found) == 1
    assert segments(answer[: settled(answer + "\n\nNext one, and more.")]) == segments(answer)


def test_headings_give_context_and_code_is_not_judged() -> None:
    answer = "## Warranty\nIt lasts two years.\n\n```py\nx = 1. Y\n\nz\n```\n`pip install x`\n> Quoted. Twice"
    assert [(s.text, s.context, s.checkable) for s in segments(answer)] == [
        ("## Warranty", "", False),
        ("It lasts two years.", "Warranty", True),
        ("```py\nx = 1. Y\n\nz\n```", "", False),
        ("`pip install x`", "Warranty", False),
        ("> Quoted.", "Warranty", True),
        ("Twice", "Warranty", True),
    ]


def test_hard_wrapped_sentences_are_judged_whole() -> None:
    wrapped = "The gateway keeps every verdict together with the sources that\nsupport it, in a database of\nyour own."
    assert texts(wrapped) == [wrapped]
    assert texts("Name: Paris\nCountry: France") == ["Name: Paris", "Country: France"]


def test_an_endless_sentence_is_cut_at_commas_and_still_covered() -> None:
    clause = "one more clause that says a little, "
    found = segments(clause * 60)
    assert all(len(s.text) <= LONGEST for s in found)
    assert all(s.text.endswith(",") for s in found)
    assert sum(len(s.text.replace(" ", "")) for s in found) == len((clause * 60).replace(" ", ""))


def test_a_false_statement_in_a_heading_is_still_judged() -> None:
    assert segments("# Paris is the capital of Germany")[0].checkable
    assert segments("**Paris is the capital of Germany**")[0].checkable
    assert not segments("# History of Paris")[0].checkable


@pytest.mark.parametrize(
    "unit",
    [".", "! ", "a. ", "(", '"q ', "`", "``x ", "| a |\n", "|- ", "- a\n", "x.[1] ", "[[", "# a\n", "```\n", ":a\n"],
)
def test_no_answer_can_stall_the_gateway_while_it_is_split(unit: str) -> None:
    answer = unit * (60_000 // len(unit))
    assert segments(answer)
