"""What a client of the Messages API gets: golden streams, blocks with their citations, and the same either way."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.wire.messages.stream import MessagesDialect
from gateway.wire.outgoing import completion_events
from tests.gateway.wire.messages.reading import accumulated, events

DIALECT = MessagesDialect()
SOURCE = {"number": 1, "url": "https://docs.example/1", "title": "Manual"}
TEXT = "It goes 40 km. Ask me more!"


def note(start: int, end: int, url: str = "https://docs.example/1") -> dict[str, Any]:
    link = {"start_index": start, "end_index": end, "title": "Manual", "url": url}
    return {"type": "url_citation", "url_citation": link}


def grounding(*facts: tuple[int, int]) -> dict[str, Any]:
    evidence = [{"source": 1, "label": "true", "probability": 0.9, "quote": "40 km on one charge"}]
    found = [{"text": "", "start": start, "end": end, "label": "true", "evidence": evidence} for start, end in facts]
    return {"version": 1, "retrieval": {"sources": [SOURCE]}, "checks": [{"choice": 0, "facts": found}]}


def completion(finish: str = "stop", usage: Any = None, top: Any = None, **message: Any) -> dict[str, Any]:
    said = {"role": "assistant", "content": None, "refusal": None, **message}
    choice = {"index": 0, "message": said, "logprobs": None, "finish_reason": finish}
    usage = usage or {"prompt_tokens": 8, "completion_tokens": 4, "total_tokens": 12}
    head = {"id": "c1", "object": "chat.completion", "created": 7, "model": "m"}
    return {**head, "choices": [choice], "usage": usage, **(top or {})}


def body(value: dict[str, Any], *, held: bool = False) -> dict[str, Any]:
    return dict(msgspec.json.decode(DIALECT.body(msgspec.json.encode(value), held=held)))


def streamed(value: dict[str, Any], *, held: bool = False) -> bytes:
    writer = DIALECT.stream(held=held, include_usage=True)
    chunks = completion_events(msgspec.json.encode(value), include_usage=True)
    return b"".join(map(writer.chunk, chunks)) + writer.close()


def call(name: str, arguments: str, call_id: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def test_the_golden_stream_of_thinking_text_and_two_tools() -> None:
    """BerriAI/litellm #25561, #32357: message_start twice, input empty, blocks out of order."""
    details = [{"type": "reasoning.text", "text": "hm", "signature": "sig", "index": 0}]
    value = completion("tool_calls", content="Looking.", reasoning_content="hm", reasoning_details=details,
                       tool_calls=[call("look", '{"at": 1}', "t1"), call("wait", "", "t2")])  # fmt: skip
    found = events(streamed(value))
    start = found[0]["message"]
    assert (start["id"], start["content"], start["stop_reason"], start["role"]) == ("c1", [], None, "assistant")
    assert [{name: item for name, item in event.items() if name != "type"} for event in found[1:-1]] == [
        {"index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}},
        {"index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}},
        {"index": 0, "delta": {"type": "signature_delta", "signature": "sig"}},
        {"index": 0},
        {"index": 1, "content_block": {"type": "text", "text": ""}},
        {"index": 1, "delta": {"type": "text_delta", "text": "Looking."}},
        {"index": 1},
        {"index": 2, "content_block": {"type": "tool_use", "id": "t1", "name": "look", "input": {}}},
        {"index": 2, "delta": {"type": "input_json_delta", "partial_json": '{"at": 1}'}},
        {"index": 2},
        {"index": 3, "content_block": {"type": "tool_use", "id": "t2", "name": "wait", "input": {}}},
        {"index": 3, "delta": {"type": "input_json_delta", "partial_json": "{}"}},
        {"index": 3},
        {
            "delta": {"stop_reason": "tool_use", "stop_sequence": None},
            "usage": {
                "input_tokens": 8,
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": 0,
                "output_tokens": 4,
            },
        },
    ]


def test_pieces_of_parallel_calls_that_come_mixed_stay_apart() -> None:
    writer = DIALECT.stream(held=False, include_usage=True)
    pieces = [
        {"index": 0, "id": "t1", "type": "function", "function": {"name": "look", "arguments": ""}},
        {"index": 1, "id": "t2", "type": "function", "function": {"name": "wait", "arguments": ""}},
        {"index": 0, "function": {"arguments": '{"a"'}},
        {"index": 1, "function": {"arguments": '{"b"'}},
        {"index": 0, "function": {"arguments": ":1}"}},
        {"index": 1, "function": {"arguments": ":2}"}},
    ]
    out = b"".join(
        writer.chunk(msgspec.json.encode({"id": "c", "choices": [{"index": 0, "delta": {"tool_calls": [piece]}}]}))
        for piece in pieces
    )
    blocks = accumulated(out + writer.close())["content"]
    assert [(block["id"], block["name"], block["input"]) for block in blocks] == [
        ("t1", "look", {"a": 1}),
        ("t2", "wait", {"b": 2}),
    ]


def test_calls_whose_index_is_stuck_or_missing_stay_apart() -> None:
    for index in ({"index": 0}, {}):
        writer = DIALECT.stream(held=False, include_usage=True)
        out = b""
        for number in (1, 2):
            begun = {**index, "id": f"t{number}", "function": {"name": "look", "arguments": ""}}
            for piece in (begun, {**index, "function": {"arguments": json.dumps({"n": number})}}):
                delta = {"tool_calls": [piece]}
                out += writer.chunk(msgspec.json.encode({"id": "c", "choices": [{"index": 0, "delta": delta}]}))
        blocks = accumulated(out + writer.close())["content"]
        assert [(block["id"], block["input"]) for block in blocks] == [("t1", {"n": 1}), ("t2", {"n": 2})]


def test_citations_stand_on_the_text_they_support_where_nothing_left_before_the_verdict() -> None:
    value = completion(content=TEXT, annotations=[note(0, 14)], top={"grounding": grounding((0, 14))})
    citation = {
        "type": "search_result_location", "cited_text": "40 km on one charge", "source": "https://docs.example/1",
        "title": "Manual", "search_result_index": 0, "start_block_index": 0, "end_block_index": 1,
    }  # fmt: skip
    cited = {"type": "text", "text": "It goes 40 km.", "citations": [citation]}
    assert body(value, held=True)["content"] == [cited, {"type": "text", "text": " Ask me more!"}]
    assert body(value)["content"] == [{"type": "text", "text": TEXT, "citations": [citation]}]
    assert body(value)["grounding"] == value["grounding"]


def test_citations_of_the_model_itself_keep_their_own_form() -> None:
    page = {"type": "page_location", "cited_text": "y", "document_index": 0, "start_page_number": 1,
            "end_page_number": 2}  # fmt: skip
    linked = {**note(0, 3, "https://web.example"), "citation": {"type": "web_search_result_location", "url": "x"}}
    notes = [{"type": "page_location", "page_location": {**page, "start_index": 3, "end_index": 6}}, linked]
    blocks = body(completion(content="abcdef", annotations=notes), held=True)["content"]
    assert [(block["text"], block["citations"]) for block in blocks] == [
        ("abc", [linked["citation"]]),
        ("def", [page]),
    ]
    foreign = body(completion(content="abc", annotations=[note(0, 3, "https://web.example")]))["content"]
    assert foreign[0]["citations"][0]["type"] == "web_search_result_location"


def test_why_an_answer_ended_is_told_in_anthropics_words() -> None:
    for finish, reason in (("stop", "end_turn"), ("length", "max_tokens"), ("content_filter", "refusal")):
        assert body(completion(finish, content="x"))["stop_reason"] == reason
        assert accumulated(streamed(completion(finish, content="x")))["stop_reason"] == reason
    stopped = completion(content="x")
    stopped["choices"][0]["stop_reason"] = "END"
    for message in (body(stopped), accumulated(streamed(stopped))):
        assert (message["stop_reason"], message["stop_sequence"]) == ("stop_sequence", "END")
    called = completion("stop", tool_calls=[call("look", "{}", "t1")])
    assert body(called)["stop_reason"] == accumulated(streamed(called))["stop_reason"] == "tool_use"


def test_a_refusal_is_text_that_a_person_can_read() -> None:
    message = body(completion("content_filter", refusal="Withheld."))
    assert message["content"] == [{"type": "text", "text": "Withheld."}]
    assert message["stop_details"] == {"type": "refusal", "category": None, "explanation": "Withheld."}


def test_arguments_that_are_no_json_are_handed_on_and_not_swallowed() -> None:
    message = body(completion("tool_calls", tool_calls=[call("look", '{"at": ', "t1")]))
    assert message["content"][0]["input"] == {"unreadable_arguments": '{"at": '}


def test_cached_tokens_are_not_counted_twice() -> None:
    usage = {"prompt_tokens": 10, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 3}}
    assert body(completion(content="x", usage=usage))["usage"] == {
        "input_tokens": 7,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 3,
        "output_tokens": 4,
    }


def test_an_error_in_the_middle_ends_the_stream_without_a_clean_stop() -> None:
    writer = DIALECT.stream(held=False, include_usage=True)
    envelope = b'{"error":{"message":"cut","type":"server_error","param":null,"code":"upstream_cut"}}'
    assert events(writer.fail(envelope)) == [
        {"type": "error", "error": {"message": "cut", "type": "api_error", "code": "upstream_cut"}}
    ]


def test_an_error_page_of_a_proxy_becomes_an_error_that_the_sdk_can_read() -> None:
    assert json.loads(DIALECT.error(502, b"<html>"))["error"] == {"message": "<html>", "type": "api_error"}
    assert json.loads(DIALECT.error(529, b'{"error":"busy"}'))["error"]["type"] == "overloaded_error"


words = st.text(max_size=30)
calls = st.lists(st.dictionaries(words, words | st.integers(), max_size=2), max_size=3)
spans = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=4)


@given(
    text=words, thought=words, signature=st.sampled_from(["", "sig"]), arguments=calls, cited=spans, held=st.booleans()
)
@settings(max_examples=200, deadline=None)
def test_a_stream_never_says_anything_else_than_a_whole_message(
    text: str, thought: str, signature: str, arguments: list[dict[str, Any]], cited: list[tuple[int, int]], held: bool
) -> None:
    message: dict[str, Any] = {"content": text}
    if thought:
        detail = {"type": "reasoning.text", "text": thought, "signature": signature, "index": 0}
        message |= {"reasoning_content": thought, **({"reasoning_details": [detail]} if signature else {})}
    if arguments:
        message["tool_calls"] = [call("look", json.dumps(item), f"t{n}") for n, item in enumerate(arguments)]
    message["annotations"] = [note(*sorted(span)) for span in cited if text]
    value = completion("tool_calls" if arguments else "stop", top={"grounding": grounding()}, **message)
    one, other = body(value, held=held), accumulated(streamed(value, held=held))
    assert _comparable(one) == _comparable(other)
    assert "".join(block.get("text", "") for block in one["content"]) == text


def _comparable(message: dict[str, Any]) -> Any:
    blocks = [{name: item for name, item in block.items() if item is not None} for block in message["content"]]
    citations = [[{k: v for k, v in c.items() if v is not None} for c in b.pop("citations", [])] for b in blocks]
    names = ("id", "model", "stop_reason", "grounding")
    return blocks, citations, [message.get(name) for name in names], message["usage"]["input_tokens"]
