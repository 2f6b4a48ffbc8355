"""What a client of the Responses API gets: golden events, and the same items either way."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.responses import Response

from gateway.wire.outgoing import completion_events
from gateway.wire.responses.to_client import ResponsesDialect
from tests.gateway.wire.messages.test_to_client import call, completion, grounding, note
from tests.gateway.wire.responses.reading import accumulated, events

DIALECT = ResponsesDialect({"instructions": "Be brief.", "temperature": 0.5, "metadata": {"a": "b"}})


def body(value: dict[str, Any]) -> dict[str, Any]:
    response = dict(msgspec.json.decode(DIALECT.body(msgspec.json.encode(value), held=False)))
    Response.model_validate(response)
    return response


def streamed(value: dict[str, Any]) -> bytes:
    writer = DIALECT.stream(held=False, include_usage=True)
    chunks = completion_events(msgspec.json.encode(value), include_usage=True)
    return b"".join(map(writer.chunk, chunks)) + writer.close()


def test_a_whole_response_says_all_and_repeats_what_was_asked() -> None:
    value = completion(content="It goes 40 km.", annotations=[note(0, 14)], top={"grounding": grounding()},
                       reasoning_content="hm")  # fmt: skip
    response = body(value)
    assert response["output"] == [
        {"type": "reasoning", "id": "rs_c1", "summary": [], "status": "completed",
         "content": [{"type": "reasoning_text", "text": "hm"}]},
        {"type": "message", "id": "msg_c1", "status": "completed", "role": "assistant", "content": [
            {"type": "output_text", "text": "It goes 40 km.", "logprobs": [], "annotations": [
                {"type": "url_citation", "start_index": 0, "end_index": 14, "title": "Manual",
                 "url": "https://docs.example/1"}]}]},
    ]  # fmt: skip
    assert (response["id"], response["status"], response["store"]) == ("resp_c1", "completed", False)
    assert (response["instructions"], response["temperature"], response["metadata"]) == ("Be brief.", 0.5, {"a": "b"})
    assert response["grounding"] == value["grounding"]
    assert response["usage"] == {
        "input_tokens": 8,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 4,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 12,
    }


def test_the_golden_stream_of_text_and_a_call() -> None:
    value = completion("tool_calls", content="Looking.", tool_calls=[call("look", '{"at": 1}', "t1")])
    found = events(streamed(value))
    assert [event["type"].removeprefix("response.") for event in found] == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_item.added",
        "function_call_arguments.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "function_call_arguments.done",
        "output_item.done",
        "completed",
    ]
    assert found[5]["item"] == {
        "type": "function_call", "id": "fc_c1_0", "call_id": "t1", "status": "in_progress", "name": "look",
        "arguments": "",
    }  # fmt: skip


def test_an_answer_that_was_cut_or_withheld_is_incomplete() -> None:
    for finish, reason in (("length", "max_output_tokens"), ("content_filter", "content_filter")):
        value = completion(finish, content="x")
        for response in (body(value), accumulated(streamed(value))):
            assert (response["status"], response["incomplete_details"]) == ("incomplete", {"reason": reason})


def test_a_refusal_is_a_part_of_its_own() -> None:
    value = completion("content_filter", refusal="Withheld.")
    for response in (body(value), accumulated(streamed(value))):
        assert response["output"][0]["content"] == [{"type": "refusal", "refusal": "Withheld."}]


def test_a_custom_tool_keeps_its_free_text() -> None:
    custom = {"id": "t1", "type": "custom", "custom": {"name": "patch", "input": "*** Begin"}}
    value = completion("tool_calls", tool_calls=[custom])
    for response in (body(value), accumulated(streamed(value))):
        (item,) = response["output"]
        assert (item["type"], item["name"], item["input"]) == ("custom_tool_call", "patch", "*** Begin")


def test_an_error_in_the_middle_is_raised_by_the_sdk() -> None:
    writer = DIALECT.stream(held=False, include_usage=True)
    envelope = b'{"error":{"message":"cut","type":"server_error","param":null,"code":"upstream_cut"}}'
    (event,) = events(writer.fail(envelope))
    assert (event["type"], event["message"], event["code"]) == ("error", "cut", "upstream_cut")
    assert event["error"]["message"] == "cut"
    with pytest.raises(openai.APIError, match="cut"):
        raise openai.APIError(event["message"], request=None, body=event["error"])  # type: ignore[arg-type]


words = st.text(max_size=30)


@given(
    text=words,
    thought=words,
    signed=st.booleans(),
    arguments=st.lists(st.dictionaries(words, words | st.integers(), max_size=2), max_size=3),
    spans=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=3),
)
@settings(max_examples=150, deadline=None)
def test_a_stream_never_says_anything_else_than_a_whole_response(
    text: str, thought: str, signed: bool, arguments: list[dict[str, Any]], spans: list[tuple[int, int]]
) -> None:
    message: dict[str, Any] = {"content": text}
    if thought:
        message["reasoning_content"] = thought
    if signed:
        detail = {"type": "reasoning.text", "text": thought, "signature": "sig", "index": 0}
        message["reasoning_details"] = [detail]
    if arguments:
        message["tool_calls"] = [call("look", json.dumps(item), f"t{n}") for n, item in enumerate(arguments)]
    message["annotations"] = [note(*sorted(span)) for span in spans if text]
    value = completion("tool_calls" if arguments else "stop", top={"grounding": grounding()}, **message)
    assert body(value) == accumulated(streamed(value))
