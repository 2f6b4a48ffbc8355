"""Reading a judge's reply: a reply that is unclear must never become a verdict."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks.judge.prompts import classify_schema
from checks.judge.reply import LONGEST_REPLY, ReplyError, conform, load_strict, parse_reply, portable

SCHEMA = classify_schema()
GOOD = {"quote": "q", "label": "half_true", "confidence": 90}
RAW = json.dumps(GOOD)


@pytest.mark.parametrize(
    "text",
    [
        RAW,
        f"```json\n{RAW}\n```",
        f"Here is my verdict: {RAW} I hope it helps.",
        f'<think>maybe {{"label": "true"}} or not</think>{RAW}',
        f"{RAW}\n{RAW}",
        '{"quote":"q","label":"Half-True","confidence":90.0,"why":"because"}',
        f"[{RAW}]",
    ],
)
def test_a_usable_reply_is_not_thrown_away_for_its_wrapping(text: str) -> None:
    assert parse_reply(text, SCHEMA) == GOOD


@pytest.mark.parametrize(
    "text",
    [
        "", "no json", RAW[:-1], RAW[:20], '{"label": "true"}', '{"quote":"","label":"maybe","confidence":9}',
        '{"quote":"","label":"true. Or false","confidence":9}', '{"quote":"","label":"true","confidence":"90"}',
        '{"quote":"","label":"true","confidence":0.9}', '{"quote":"","label":"true","confidence":101}',
        '{"quote":"","label":"true","confidence":NaN}', '{"quote":"","label":"true","confidence":true}',
        '{"quote":"","label":"true","label":"false","confidence":90}', '{"quote":"","label":null,"confidence":90}',
        f'{RAW} or rather {{"quote":"","label":"false","confidence":90}}',
        f'{{"result": {RAW}', f'{{"result": {RAW}}}', "<think>hm {", f"<think>{RAW}", "{" * 5000, '{"a":' * 5000,
        RAW + " " * LONGEST_REPLY,
    ],
)  # fmt: skip
def test_an_unclear_or_cut_reply_is_never_a_verdict(text: str) -> None:
    with pytest.raises(ReplyError):
        parse_reply(text, SCHEMA)


def test_the_word_true_is_read_from_the_verdict_field_only() -> None:
    text = '{"quote":"It is true that 10.0 of 10","label":"false","confidence":10}'
    assert parse_reply(text, SCHEMA) == {"quote": "It is true that 10.0 of 10", "label": "false", "confidence": 10}


def test_a_json_boolean_spells_the_label_it_names() -> None:
    assert parse_reply('{"quote":"","label":false,"confidence":1}', SCHEMA)["label"] == "false"


@given(st.text(max_size=60), st.text(max_size=60))
def test_text_around_a_reply_never_changes_it_silently(before: str, after: str) -> None:
    try:
        assert parse_reply(before + RAW + after, SCHEMA) == GOOD
    except ReplyError:
        assert "{" in before + after or "<" in before + after


def test_lists_and_bounds_are_enforced() -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {
            "items": {"type": "array", "items": {"type": ["string", "null"], "maxLength": 2}, "minItems": 1}
        },
        "required": ["items"],
    }
    assert conform({"items": ["ab", None]}, schema) == {"items": ["ab", None]}
    for wrong in ({"items": []}, {"items": ["abc"]}, {"items": [1]}, {"items": "ab"}, [], None):
        with pytest.raises(ReplyError):
            conform(wrong, schema)
    assert portable(schema)["properties"]["items"] == {"type": "array", "items": {"type": ["string", "null"]}}


def test_a_schema_nobody_enforces_is_refused() -> None:
    with pytest.raises(ValueError, match="pattern"):
        conform({}, {"type": "object", "pattern": "x"})


def test_a_body_that_is_not_json_is_an_error_of_the_judge() -> None:
    with pytest.raises(ReplyError):
        load_strict("<html>busy</html>")
