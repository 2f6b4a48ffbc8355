"""Numbers, dates and units meet however they are written; different ones never do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks.facts.normalise import number_readings, quantities
from checks.facts.quantity import Quantity, agrees, conflicts


def only(text: str) -> Quantity:
    """The one quantity of a text."""
    (found,) = quantities(text)
    return found


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1,200,000", "1.2 million"),
        ("1,200,000", "1 200 000"),
        ("1.200.000", "1200000"),
        ("1 200 000", "1,2 млн"),
        ("16.181", "16,181"),
        ("12.05.2021", "May 12, 2021"),
        ("2021-05-12", "12 May 2021"),
        ("12 мая 2021", "12th of May 2021"),
        ("May 2021", "12 May 2021"),
        ("2021", "12 May 2021"),
        ("3 November", "November 3, 2020"),
        ("20%", "20 percent"),
        ("20 per cent", "20 процентов"),
        ("1 km", "1000 metres"),
        ("2.5 kg", "2500 g"),
        ("90 minutes", "1.5 hours"),
        ("1 hour 30 minutes", "90 min"),
        ("half an hour", "30 minutes"),
        ("one year", "12 months"),
        ("two weeks", "14 days"),
        ("$5 million", "5,000,000 dollars"),
        ("€7.50", "7.5 euros"),
        ("EUR 7.50", "7,50 €"),
        ("50 cents", "0.50 euros"),
        ("twenty-five bikes", "25 bikes"),
        ("two hundred and five", "205"),
        ("five thousand", "5,000"),
        ("two dozen", "24"),
        ("the third floor", "the 3rd floor"),
        ("пять тысяч рублей", "5000 руб."),
        ("3 часа", "180 минут"),
        ("7:30 pm", "19:30"),
        ("7 pm", "19:00"),
        ("five working days", "5 days"),
        ("5kg", "5 kg"),
        ("about 50 km", "49.5 km"),
    ],
)
def test_true_answer_is_not_called_false_for_writing_a_number_another_way(one: str, other: str) -> None:
    assert agrees(only(one), only(other))
    assert not conflicts(only(one), only(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("5 kg", "6 kg"),
        ("5 kg", "5 g"),
        ("5 km", "5 kg"),
        ("5 minutes", "5 hours"),
        ("five weeks", "five working days"),
        ("12 May 2021", "13 May 2021"),
        ("12.05.2021", "12 May 2022"),
        ("$5", "€5"),
        ("20 percent", "25 percent"),
        ("1.2 million euros", "1.2 billion euros"),
        ("14 bikes", "41 bikes"),
        ("1998", "1989"),
        ("19:30", "7:30 am"),
    ],
)
def test_changed_number_date_or_unit_does_not_slip_through(one: str, other: str) -> None:
    assert not agrees(only(one), only(other))
    assert conflicts(only(one), only(other))


@given(st.integers(min_value=1000, max_value=10**9))
def test_grouping_marks_never_change_a_number(value: int) -> None:
    plain = only(str(value))
    for grouped in (f"{value:,}", f"{value:,}".replace(",", " "), f"{value:,}".replace(",", "\u00a0")):
        assert agrees(plain, only(grouped))
        assert agrees(only(grouped), plain)


@given(st.integers(min_value=0, max_value=10**6), st.integers(min_value=0, max_value=10**6))
def test_two_plain_numbers_agree_only_when_equal(one: int, other: int) -> None:
    assert agrees(only(f"{one} bikes"), only(f"{other} bikes")) == (one == other)


@given(st.decimals(min_value=0, max_value=10**6, places=2))
def test_decimal_comma_and_decimal_point_are_one(value: object) -> None:
    assert set(number_readings(str(value))) & set(number_readings(str(value).replace(".", ",")))


@given(st.text(max_size=300))
def test_any_text_is_read_without_an_error_and_spans_stay_inside(text: str) -> None:
    last = 0
    for quantity in quantities(text):
        assert 0 <= quantity.start < quantity.end <= len(text)
        assert quantity.start >= last
        last = quantity.start
