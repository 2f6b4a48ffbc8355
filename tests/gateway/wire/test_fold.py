"""A streamed answer folds into the answer that the same server would have sent in one body."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion

from gateway.errors import UpstreamProtocolError
from gateway.wire import chat, raw
from gateway.wire.fold import Fold, fold
from gateway.wire.types import Delta
from tests.gateway.wire.completions import as_deltas, as_whole, completions, streamed


def chunk(delta: dict[str, Any], index: int = 0, **fields: Any) -> Delta:
    return as_deltas([{"id": "c", "model": "m", "choices": [{"index": index, "delta": delta, **fields}]}])[0]


def calls(*pieces: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return fold([chunk({"tool_calls": list(piece)}) for piece in pieces]).choices[0].tool_calls


def call(name: str, arguments: str = "", **fields: Any) -> dict[str, Any]:
    return {**fields, "function": {"name": name, "arguments": arguments}}


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_streamed_answer_is_the_answer_that_one_body_would_have_been(data: st.DataObject) -> None:
    completion = data.draw(completions())
    chunks = data.draw(streamed(completion))
    answer = fold(as_deltas(chunks))
    assert chat.completion_object(answer) == completion
    assert chat.completion_object(fold([as_whole(completion)])) == completion
    assert json.loads(chat.completion(answer)) == completion
    ChatCompletion.model_validate(chat.completion_object(answer))


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_the_running_text_is_what_the_pieces_say_and_asking_for_it_changes_nothing(data: st.DataObject) -> None:
    completion = data.draw(completions())
    deltas = as_deltas(data.draw(streamed(completion)))
    state = Fold()
    texts: dict[int, str] = {}
    for delta in deltas:
        state.add(delta)
        for index, text in chat.content_pieces(delta):
            texts[index] = texts.get(index, "") + text
        for index in state.indexes():
            assert state.text(index) == texts.get(index, "")
        state.answer()
    assert state.answer() == fold(deltas)
    assert state.text(99) == ""


def test_parallel_calls_stay_apart_when_the_index_is_missing() -> None:
    assert calls(
        [call("a", "{", id="1"), call("b", "[", id="2")], [call("", "]", id="2")], [call("", "}", id="1")]
    ) == [
        {"id": "1", "type": "function", "function": {"name": "a", "arguments": "{}"}},
        {"id": "2", "type": "function", "function": {"name": "b", "arguments": "[]"}},
    ]


def test_parallel_calls_stay_apart_when_the_index_is_stuck_at_zero() -> None:
    folded = calls(
        [call("a", index=0, id="1")], [call("", "{}", index=0)], [call("b", index=0, id="2")], [call("", "[]", index=0)]
    )
    assert [(c["id"], c["function"]["name"], c["function"]["arguments"]) for c in folded] == [
        ("1", "a", "{}"),
        ("2", "b", "[]"),
    ]


def test_calls_without_index_and_id_are_told_apart_by_their_names() -> None:
    folded = calls([call("a", "{}")], [call("a", "[]")], [{"function": {"arguments": " "}}])
    assert [c["function"] for c in folded] == [{"name": "a", "arguments": "{}"}, {"name": "a", "arguments": "[] "}]


def test_calls_come_in_index_order_and_a_name_repeated_with_every_piece_counts_once() -> None:
    folded = calls(
        [call("b", "1", index=1, id="2")], [call("a", "1", index=0, id="1")], [call("b", "2", index=1, id="2")]
    )
    assert [(c["id"], c["function"]["name"], c["function"]["arguments"]) for c in folded] == [
        ("1", "a", "1"),
        ("2", "b", "12"),
    ]


def test_a_name_in_pieces_and_an_id_that_changes_within_a_call_do_not_make_new_calls() -> None:
    folded = calls(
        [call("get_", index=0, id="x1")],
        [call("weather", index=0, id="")],
        [{"index": 0, "id": "x2", "function": {"arguments": "{}"}}],
    )
    assert folded == [{"id": "x1", "type": "function", "function": {"name": "get_weather", "arguments": "{}"}}]


def test_whole_calls_without_ids_in_one_body_stay_apart() -> None:
    message = {"role": "assistant", "content": None, "tool_calls": [call("a", ""), call("a", "")]}
    answer = fold([as_whole({"choices": [{"index": 0, "message": message}]})])
    assert len(answer.choices[0].tool_calls) == 2


def test_choices_keep_their_index_whatever_order_they_come_in() -> None:
    answer = fold(
        [chunk({"content": "b"}, 1), chunk({"content": "a"}, 0), chunk({"content": "B"}, 1, finish_reason="stop")]
    )
    assert [(i, c.content, c.finish_reason) for i, c in answer.choices.items()] == [(0, "a", None), (1, "bB", "stop")]


def test_usage_is_the_last_one_said_and_not_the_sum_of_running_totals() -> None:
    deltas = as_deltas(
        [{"choices": [], "usage": {"total_tokens": n}} for n in (1, 2, 3)] + [{"choices": [], "usage": None}]
    )
    assert fold(deltas).usage == {"total_tokens": 3}


def test_random_padding_does_not_become_part_of_the_answer() -> None:
    answer = fold(
        as_deltas(
            [{"id": "", "choices": [], "obfuscation": "x"}, {"id": "a", "choices": []}, {"id": "b", "choices": []}]
        )
    )
    assert answer.envelope == {"id": "a"}


def test_thinking_parts_are_not_taken_for_content() -> None:
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "Yes"}]
    answer = fold([chunk({"content": parts}), chunk({"content": "."})])
    assert (answer.choices[0].content, answer.choices[0].reasoning) == ("Yes.", "hm")


def test_reasoning_sent_under_two_names_is_not_doubled() -> None:
    answer = fold([chunk({"reasoning": "a", "reasoning_content": "a"}), chunk({"reasoning": "b"})])
    assert answer.choices[0].reasoning == "ab"
    assert answer.choices[0].extra == {"reasoning": "ab", "reasoning_content": "a"}


def test_indexed_lists_of_unknown_fields_continue_entry_by_entry() -> None:
    pieces = [
        [{"index": 0, "type": "t", "text": "a"}],
        [{"index": 1, "text": "x"}, {"index": 0, "type": "t", "text": "b"}],
    ]
    answer = fold([chunk({"reasoning_details": piece}) for piece in pieces])
    assert answer.choices[0].extra["reasoning_details"] == [
        {"index": 0, "type": "t", "text": "ab"},
        {"index": 1, "text": "x"},
    ]


def test_an_emoji_cut_in_two_by_the_server_comes_out_whole() -> None:
    pieces = [
        b'{"choices":[{"index":0,"delta":{"content":"%b"}}]}' % half for half in (b"\\ud83d", b"\\ude00!", b"\\ud83d")
    ]
    deltas = [chat.parse_delta(piece, whole=False) for piece in pieces]
    assert fold(deltas).choices[0].content == "😀!�"
    assert json.loads(chat.completion(fold(deltas)))["choices"][0]["message"]["content"] == "😀!�"


def test_an_answer_of_many_deltas_is_folded_completely() -> None:
    answer = fold([chunk({"content": "wörd "})] * 20_000)
    assert answer.choices[0].content == "wörd " * 20_000


@pytest.mark.parametrize(
    "data",
    [
        {"choices": [{"index": "1", "delta": {"content": "x"}}]},
        {"choices": [{"index": 1.0, "delta": {"content": "x"}, "finish_reason": 5}]},
        {
            "choices": [
                {"index": 1, "delta": {"content": "x", "reasoning_content": ["r"], "refusal": {}}, "logprobs": []}
            ]
        },
        {"id": 7, "model": None, "choices": [None, {"delta": {"content": "x", "tool_calls": {}, "annotations": "?"}}]},
        {"choices": [{"index": 1, "delta": {"content": "x"}}], "usage": "none"},
    ],
)
def test_a_vendors_odd_types_do_not_lose_the_answer(data: dict[str, Any]) -> None:
    delta = chat.parse_delta(json.dumps(data).encode(), whole=False)
    assert list(chat.content_pieces(delta)) == [(1, "x")]
    assert fold([delta]).choices[1].content == "x"
    assert delta.view.choices is not None
    assert delta.view.choices[-1].index == 1


@pytest.mark.parametrize("data", [b"", b"{", b"[1]", b"null", b"\xff", b'{"a":"\xff"}', b"[" * 100_000, b"oops <html>"])
def test_what_is_no_json_object_is_an_upstream_error_that_does_not_quote_it(data: bytes) -> None:
    with pytest.raises(UpstreamProtocolError) as caught:
        chat.parse_delta(data, whole=False)
    assert "oops" not in caught.value.message


@pytest.mark.parametrize("opening", ["[", '{"a":', '[{"index":0,"a":'])
@pytest.mark.parametrize("place", ["top", "choice", "message", "content"])
def test_an_answer_nested_to_the_bound_is_folded_and_written_and_a_deeper_one_is_an_upstream_error(
    opening: str, place: str
) -> None:
    closing = opening.replace("[", "]").replace("{", "}") if len(opening) == 1 else "}" if opening[0] == "{" else "}]"

    def answer(levels: int) -> bytes:
        count = levels // (1 + (opening[:2] == "[{"))
        deep = opening * count + "1" + closing * count
        top, choice, said = (f'"x":{deep},' if place == name else "" for name in ("top", "choice", "message"))
        content = deep if place == "content" else '"yes"'
        message = f'{{{said}"content":{content}}}'
        return f'{{{top}"choices":[{{"index":0,{choice}"message":{message},"delta":{message}}}]}}'.encode()

    for whole in (False, True):
        folded = fold([chat.parse_delta(answer(chat.MAX_DEPTH - 6), whole)])
        assert json.loads(chat.completion(folded))["choices"]
        with pytest.raises(UpstreamProtocolError, match="levels deep"):
            chat.parse_delta(answer(chat.MAX_DEPTH + 2), whole)


@given(st.recursive(st.text() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_depth_is_that_of_the_value_whatever_its_texts_hold(value: Any) -> None:
    def depth(value: Any) -> int:
        inner = value.values() if isinstance(value, dict) else value
        return 0 if not isinstance(value, dict | list) else 1 + max(map(depth, inner), default=0)

    data = json.dumps(value, ensure_ascii=False).encode()
    for levels in range(5):
        assert raw.deeper_than(data + b" " * 2 * levels, levels) == (depth(value) > levels)


def test_text_full_of_brackets_is_no_depth() -> None:
    assert not raw.deeper_than(json.dumps({"a": '[{"\\' * 1_000}).encode(), 20)


@pytest.mark.parametrize("index", [10**30, -(10**30), 2**53 + 1])
def test_an_answer_under_an_absurd_index_is_the_same_to_the_view_and_to_the_fold(index: int) -> None:
    delta = chat.parse_delta(
        json.dumps({"choices": [{"index": index, "delta": {"content": "x"}}]}).encode(), whole=False
    )
    assert list(chat.content_pieces(delta)) == [(0, "x")]
    assert fold([delta]).choices[0].content == "x"


def test_an_error_inside_a_success_is_seen() -> None:
    assert chat.parse_delta(b'{"error":{"message":"x"},"choices":[{"index":"a"}]}', whole=False).view.error
    assert chat.parse_delta(b'{"error":{"message":"x"}}', whole=False).view.error
