"""An answer of the Messages API as a chat completion: golden pieces, and the same answer streamed or not."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.errors import UpstreamProtocolError
from gateway.wire.chat import parse_delta
from gateway.wire.fold import fold
from gateway.wire.messages.from_upstream import MessageReading, error_envelope
from gateway.wire.outgoing import completion_object
from tests.servers.messages import message, message_events, text, thought, tool_use

LINKED = {
    "type": "search_result_location", "source": "https://a.example/x", "title": "X", "cited_text": "x",
    "search_result_index": 0, "start_block_index": 0, "end_block_index": 1,
}  # fmt: skip
PAGE = {
    "type": "page_location", "cited_text": "y", "document_index": 0, "document_title": None, "start_page_number": 1,
    "end_page_number": 2,
}  # fmt: skip


def whole(value: dict[str, Any]) -> dict[str, Any]:
    return dict(msgspec.json.decode(MessageReading(7).whole(msgspec.json.encode(value))))


def chunks(value: dict[str, Any], size: int = 5) -> list[bytes]:
    reading = MessageReading(7)
    return [out for event in message_events(value, size=size) for out in reading.event(msgspec.json.encode(event))]


def folded(data: list[bytes]) -> dict[str, Any]:
    return completion_object(fold(parse_delta(item, whole=False) for item in data))


def test_a_whole_message_keeps_all_it_says() -> None:
    value = message(
        thought("hm", "sig"),
        {"type": "redacted_thinking", "data": "xx"},
        text("It is ", LINKED),
        text("blue.", PAGE),
        tool_use("look", {"at": 1}, "t1"),
        tool_use("wait", {}, "t2"),
        stop_reason="tool_use",
    )
    completion = whole(value)
    (choice,) = completion["choices"]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"] == {
        "role": "assistant",
        "content": "It is blue.",
        "refusal": None,
        "reasoning_content": "hm",
        "reasoning_details": [
            {"type": "reasoning.text", "text": "hm", "format": "anthropic-claude-v1", "signature": "sig", "index": 0},
            {"type": "reasoning.encrypted", "data": "xx", "format": "anthropic-claude-v1", "index": 1},
        ],
        "tool_calls": [
            {"id": "t1", "type": "function", "function": {"name": "look", "arguments": '{"at":1}'}},
            {"id": "t2", "type": "function", "function": {"name": "wait", "arguments": "{}"}},
        ],
        "annotations": [
            {
                "type": "url_citation",
                "url_citation": {"start_index": 0, "end_index": 6, "title": "X", "url": "https://a.example/x"},
                "citation": LINKED,
            },
            {"type": "page_location", "page_location": {**PAGE, "start_index": 6, "end_index": 11}},
        ],
    }
    assert (completion["id"], completion["created"], completion["model"]) == ("msg_test", 7, "claude-test")


def test_cached_tokens_count_as_prompt_tokens_and_keep_their_own_names() -> None:
    assert whole(message(text("Hi")))["usage"] == {
        "prompt_tokens": 8,
        "completion_tokens": 4,
        "total_tokens": 12,
        "prompt_tokens_details": {"cached_tokens": 1, "cache_write_tokens": 2},
        "cache_creation_input_tokens": 2,
        "cache_read_input_tokens": 1,
    }


@pytest.mark.parametrize(
    ("stop_reason", "finish"),
    [
        ("end_turn", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("tool_use", "tool_calls"),
        ("refusal", "content_filter"),
        ("something_new", "stop"),
    ],
)
def test_why_an_answer_ended_is_told(stop_reason: str, finish: str) -> None:
    value = message(text("Hi"), stop_reason=stop_reason)
    assert whole(value)["choices"][0]["finish_reason"] == finish
    assert folded(chunks(value)[:-1])["choices"][0]["finish_reason"] == finish


def test_the_golden_stream_of_two_parallel_tools() -> None:
    """Portkey-AI/gateway #1275, BerriAI/litellm #25321: indices stuck at 0, input empty."""
    value = message(tool_use("look", {"at": 1}, "t1"), tool_use("wait", {}, "t2"), stop_reason="tool_use")
    *events, done = chunks(value, size=4)
    assert done == b"[DONE]"
    decoded = [msgspec.json.decode(event) for event in events]
    assert [choice["delta"] for event in decoded for choice in event["choices"]] == [
        {"role": "assistant", "content": ""},
        {"tool_calls": [{"index": 0, "id": "t1", "type": "function", "function": {"name": "look", "arguments": ""}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"at'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '": 1'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": "}"}}]},
        {"tool_calls": [{"index": 1, "id": "t2", "type": "function", "function": {"name": "wait", "arguments": ""}}]},
        {"tool_calls": [{"index": 1, "function": {"arguments": "{}"}}]},
        {},
    ]
    assert decoded[-1]["choices"] == []
    assert all("usage" not in event for event in decoded[:-1])
    assert {event["id"] for event in decoded} == {"msg_test"}


words = st.text(max_size=40)
blocks = st.one_of(
    st.builds(text, words),
    st.builds(text, words, st.sampled_from([LINKED, PAGE])),
    st.builds(tool_use, st.sampled_from(["look", "wait"]), st.dictionaries(words, words | st.integers(), max_size=3)),
)
thoughts = st.lists(
    st.builds(thought, words, st.text(min_size=1, max_size=9))
    | st.builds(lambda data: {"type": "redacted_thinking", "data": data}, st.text(min_size=1, max_size=9)),
    max_size=2,
)


@given(thoughts=thoughts, said=st.lists(blocks, max_size=5), size=st.integers(1, 9))
@settings(max_examples=150, deadline=None)
def test_a_streamed_answer_is_never_another_than_a_whole_one(
    thoughts: list[dict[str, Any]], said: list[dict[str, Any]], size: int
) -> None:
    value = message(*thoughts, *said, stop_sequence="END")
    plain = completion_object(fold([parse_delta(msgspec.json.encode(whole(value)), whole=True)]))
    streamed = folded(chunks(value, size)[:-1])
    assert _comparable(streamed) == _comparable(plain)


def _comparable(completion: dict[str, Any]) -> Any:
    (choice,) = completion["choices"]
    spoken = choice["message"]
    calls = [
        {**call, "function": {**call["function"], "arguments": msgspec.json.decode(call["function"]["arguments"])}}
        for call in spoken.get("tool_calls") or ()
    ]
    details = [{k: v for k, v in item.items() if v != ""} for item in spoken.get("reasoning_details") or ()]
    # A citation over no text at all is over nothing.
    notes = spoken["annotations"]
    said = spoken.get("content") or "", spoken.get("reasoning_content") or "", calls, details, notes
    return said, choice["finish_reason"], choice["stop_reason"], completion["usage"], completion["model"]


def test_a_block_nobody_asked_for_is_an_error_and_never_lost_in_silence() -> None:
    value = message({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}})
    with pytest.raises(UpstreamProtocolError, match="server_tool_use"):
        whole(value)
    with pytest.raises(UpstreamProtocolError, match="server_tool_use"):
        chunks(value)


def test_an_error_has_the_shape_that_openai_clients_read() -> None:
    body = b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"r1"}'
    expected = {
        "error": {"message": "Overloaded", "type": "overloaded_error", "param": None, "code": "overloaded_error"},
        "request_id": "r1",
    }
    assert msgspec.json.decode(error_envelope(body)) == expected
    assert MessageReading(7).event(body) == [error_envelope(body)]
    assert error_envelope(b"<html>") == b"<html>"


def test_a_new_kind_of_event_harms_nothing() -> None:
    assert MessageReading(7).event(b'{"type":"something_new"}') == []
