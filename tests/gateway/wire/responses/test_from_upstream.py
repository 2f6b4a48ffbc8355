"""An answer of the Responses API as a chat completion: golden pieces, and the same answer streamed or not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import UpstreamProtocolError
from gateway.wire.chat import parse_delta
from gateway.wire.fold import fold
from gateway.wire.outgoing import completion_object
from gateway.wire.responses.from_upstream import ResponseReading
from gateway.wire.responses.to_client import ResponsesDialect
from tests.gateway.wire.completions import FUNCTION_CALL, TEXT, WORDS
from tests.servers.responses import custom_call, function_call, output_text, reasoning, response, response_events, said

CITED = {"type": "url_citation", "start_index": 0, "end_index": 2, "title": "X", "url": "https://a.example"}
OFTEN = response(
    reasoning("hm, well", "opaque"),
    said(output_text("It is "), output_text("blue.", CITED), identity="msg_1"),
    function_call("look", '{"at": 1}', "call_1"),
    custom_call("shell", "ls -l", "call_2"),
)


def whole(value: dict[str, Any]) -> dict[str, Any]:
    return dict(json.loads(ResponseReading(7).whole(json.dumps(value).encode())))


def chunks(events: list[dict[str, Any]]) -> list[bytes]:
    reading = ResponseReading(7)
    return [out for event in events for out in reading.event(json.dumps(event).encode())]


def folded(data: list[bytes]) -> dict[str, Any]:
    assert data[-1] == b"[DONE]"
    return completion_object(fold(parse_delta(item, whole=False) for item in data[:-1]))


def test_a_whole_response_keeps_all_it_says() -> None:
    assert whole(OFTEN) == {
        "id": "resp_1", "object": "chat.completion", "created": 1_700_000_000, "model": "m-1",
        "choices": [
            {
                "index": 0,
                "logprobs": None,
                "finish_reason": "tool_calls",
                "message": {
                    "role": "assistant",
                    "content": "It is blue.",
                    "refusal": None,
                    "reasoning_content": "hm, well",
                    "reasoning_details": [
                        {
                            "type": "reasoning.encrypted", "data": "opaque", "format": "openai-responses-v1",
                            "id": "rs_1", "index": 0,
                        }
                    ],
                    "tool_calls": [
                        {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"at": 1}'}},
                        {"id": "call_2", "type": "custom", "custom": {"name": "shell", "input": "ls -l"}},
                    ],
                    "annotations": [
                        {
                            "type": "url_citation",
                            "url_citation": {"start_index": 6, "end_index": 8, "title": "X", "url": "https://a.example"},
                        }
                    ],
                },
            }
        ],
        "usage": {
            "prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8,
            "prompt_tokens_details": {"cached_tokens": 2}, "completion_tokens_details": {"reasoning_tokens": 1},
        },
    }  # fmt: skip


@pytest.mark.parametrize("deltas", [True, False], ids=["in pieces", "whole items only"])
@pytest.mark.parametrize("size", [1, 4, 100])
def test_a_stream_says_what_the_whole_response_says(size: int, deltas: bool) -> None:
    streamed = folded(chunks(response_events(OFTEN, size=size, deltas=deltas)))
    plain = completion_object(fold([parse_delta(json.dumps(whole(OFTEN)).encode(), whole=True)]))
    assert {**streamed, "object": ""} == {**plain, "object": ""}


def test_the_first_chunk_has_the_role_and_the_last_the_usage() -> None:
    data = chunks(response_events(response("Hi.")))
    first, finish, usage = json.loads(data[0]), json.loads(data[-3]), json.loads(data[-2])
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert finish["choices"][0]["finish_reason"] == "stop"
    assert (usage["choices"], usage["usage"]["total_tokens"]) == ([], 8)


@pytest.mark.parametrize(
    ("reason", "finish"), [("max_output_tokens", "length"), ("content_filter", "content_filter"), ("new", "length")]
)
def test_an_answer_that_was_cut_says_why(reason: str, finish: str) -> None:
    value = response("Hal", status="incomplete", incomplete_details={"reason": reason})
    assert whole(value)["choices"][0]["finish_reason"] == finish
    assert folded(chunks(response_events(value)))["choices"][0]["finish_reason"] == finish


def test_a_response_that_failed_is_an_error_and_no_answer() -> None:
    value = response(status="failed", error={"code": "server_error", "message": "It broke."})
    assert whole(value)["error"]["message"] == "It broke."
    (told,) = chunks([{"type": "response.failed", "response": value}])
    assert json.loads(told)["error"]["code"] == "server_error"
    (told,) = chunks([{"type": "error", "code": "rate_limit_exceeded", "message": "Slow down.", "param": None}])
    assert json.loads(told)["error"] == {
        "message": "Slow down.", "type": "server_error", "param": None, "code": "rate_limit_exceeded"
    }  # fmt: skip
    assert whole(response(status="queued"))["error"]["code"] == "response_not_completed"


def test_work_that_the_upstream_did_by_itself_never_passes_as_an_answer() -> None:
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    with pytest.raises(UpstreamProtocolError, match="web_search_call"):
        whole(response(search, "Found."))
    with pytest.raises(UpstreamProtocolError, match="web_search_call"):
        chunks(response_events(response(search)))


def test_an_item_that_ends_otherwise_than_it_began_is_no_answer() -> None:
    events = response_events(response("Yes."))
    events[-2]["item"]["content"][0]["text"] = "No."
    with pytest.raises(UpstreamProtocolError, match="another text"):
        chunks(events)


@given(
    st.lists(TEXT, max_size=2),
    st.none() | WORDS,
    st.none() | WORDS,
    st.lists(FUNCTION_CALL, max_size=3),
    st.integers(1, 6),
)
def test_what_our_own_responses_say_comes_back_as_it_was(
    texts: list[str], refusal: str | None, thought: str | None, calls: list[dict[str, Any]], size: int
) -> None:
    """Towards clients and back: the two translations agree about every part of an answer."""
    content = "".join(texts)
    message: dict[str, Any] = {"role": "assistant", "content": content or None, "refusal": refusal}
    if thought:
        message["reasoning_content"] = thought
    if calls:
        message["tool_calls"] = [{"id": f"call_{n}", **call} for n, call in enumerate(calls)]
        for call in message["tool_calls"]:
            call["function"] = {**call["function"], "arguments": call["function"]["arguments"] or "{}"}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "tool_calls" if calls else "stop"}
    completion = {"id": "chatcmpl-1", "created": 1, "model": "m", "choices": [choice], "usage": None}
    value = ResponsesDialect({}).response(completion)
    back = whole(value)["choices"][0]
    expected = {**message, "content": content or (None if calls or refusal else "")}
    assert (back["message"], back["finish_reason"]) == (expected, choice["finish_reason"])
    streamed = folded(chunks(response_events(value, size=size)))["choices"][0]
    plain = completion_object(fold([parse_delta(json.dumps(whole(value)).encode(), whole=True)]))["choices"][0]
    for one in (streamed, plain):  # where nothing is said, "" and null are the same
        one["message"]["content"] = one["message"]["content"] or None
    assert streamed == plain
