"""Edits of an answer's texts: nothing but what they name changes, and places in the text are found again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from checks.types import TextEdit
from gateway.wire.edits import Moves, apply, edited, fits, texts
from gateway.wire.types import Answer, ChoiceAnswer


@st.composite
def edited_texts(draw: st.DrawFn) -> tuple[str, list[TextEdit]]:
    text = draw(st.text("ab é🚲\n", min_size=0, max_size=40))
    borders = sorted(draw(st.lists(st.integers(0, len(text)), max_size=8)))
    pairs = zip(borders[::2], borders[1::2], strict=False)
    return text, [TextEdit(start, end, draw(st.text("XY", max_size=3))) for start, end in pairs]


@given(edited_texts())
def test_every_character_outside_the_edits_stays_in_its_order(case: tuple[str, list[TextEdit]]) -> None:
    text, edits = case
    assert fits(text, edits)
    outside = [text[a:b] for a, b in zip([0, *(e.end for e in edits)], [*(e.start for e in edits), None], strict=True)]
    expected = outside[0] + "".join(e.replacement + kept for e, kept in zip(edits, outside[1:], strict=True))
    assert apply(text, edits) == expected


@given(edited_texts(), st.integers(0, 40), st.integers(0, 40))
def test_a_span_no_edit_touches_is_the_same_text_at_its_new_place(
    case: tuple[str, list[TextEdit]], start: int, length: int
) -> None:
    text, edits = case
    end = min(len(text), start + length)
    if start >= end or any(edit.start < end and edit.end > start for edit in edits):
        return
    first, last = Moves(edits).span(start, end)
    assert apply(text, edits)[first:last] == text[start:end]


@given(edited_texts())
def test_a_removed_span_is_an_empty_one_where_it_stood(case: tuple[str, list[TextEdit]]) -> None:
    text, edits = case
    removed = [TextEdit(edit.start, edit.end) for edit in edits if edit.start < edit.end]
    moves = Moves(removed)
    for edit in removed:
        first, last = moves.span(edit.start, edit.end)
        assert first == last
        assert apply(text, removed)[:first] == apply(text[: edit.start], [e for e in removed if e.end <= edit.start])


def test_edits_that_overlap_run_backwards_or_leave_the_text_do_not_fit() -> None:
    assert not fits("abc", [TextEdit(0, 2), TextEdit(1, 3)])
    assert not fits("abc", [TextEdit(2, 3), TextEdit(0, 1)])
    assert not fits("abc", [TextEdit(2, 1)])
    assert not fits("abc", [TextEdit(-1, 1)])
    assert not fits("abc", [TextEdit(2, 4)])
    assert fits("abc", [TextEdit(3, 3, "d")])


def test_arguments_of_every_kind_of_call_are_read_and_edited_and_the_rest_stays() -> None:
    calls = [
        {"id": "1", "type": "function", "function": {"name": "f", "arguments": "abc", "odd": 1}},
        {"id": "2", "type": "custom", "custom": {"name": "g", "input": "def"}},
        {"id": "3", "type": "function", "function": {"name": "h", "arguments": {"an": "object"}}},
    ]
    choice = ChoiceAnswer(0, tool_calls=calls, function_call={"name": "old", "arguments": "ghi"}, extra={"x": 1})
    assert texts(choice) == {"tool_calls[0]": "abc", "tool_calls[1]": "def", "function_call": "ghi"}
    edits = [
        TextEdit(0, 1, part="tool_calls[0]"),
        TextEdit(1, 2, "-", part="tool_calls[1]"),
        TextEdit(3, 3, "!", part="function_call"),
    ]
    out = edited(Answer({0: choice}), {0: edits}, removes=True).choices[0]
    assert texts(out) == {"tool_calls[0]": "bc", "tool_calls[1]": "d-f", "function_call": "ghi!"}
    assert out.tool_calls[0]["function"] == {"name": "f", "arguments": "bc", "odd": 1}
    assert out.tool_calls[2] is calls[2]
    assert choice.tool_calls[0]["function"]["arguments"] == "abc"
