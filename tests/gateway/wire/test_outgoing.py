"""Objects that go out: ordinary chunks and bodies, with every value of the upstream's own intact."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionChunk

from gateway.wire import chat
from gateway.wire.fold import fold
from gateway.wire.types import Answer, ChoiceAnswer, Delta
from tests.gateway.wire.completions import as_deltas, as_whole, completions, streamed

FINISH = (
    b'{"id": "c1", "object":"chat.completion.chunk","created":17000000000000000001,"model":"m","x":1.50,"y":"\\u00e9",'
    b'"system_fingerprint":null,"choices":[{"index":1,"delta":{},"logprobs":null,"finish_reason":"stop","z":1e2}],"usage":null}'
)
NOTE = {"type": "url_citation", "url_citation": {"start_index": 0, "end_index": 2, "title": "T", "url": "https://a.b"}}


def raw_fields(data: bytes) -> dict[str, msgspec.Raw]:
    return msgspec.json.decode(data, type=dict[str, msgspec.Raw])


def test_the_verdict_rides_on_the_finish_chunk_without_touching_its_other_values() -> None:
    before, after = raw_fields(FINISH), raw_fields(chat.with_grounding(FINISH, {"version": 1}))
    assert json.loads(bytes(after.pop("grounding"))) == {"version": 1}
    assert after == before


def test_a_verdict_of_another_gateway_behind_us_is_replaced_and_not_doubled() -> None:
    once = chat.with_grounding(FINISH, {"version": 0})
    assert chat.with_grounding(once, {"version": 1}).count(b'"grounding"') == 1


def test_annotations_get_a_chunk_of_their_own_that_belongs_to_the_same_stream() -> None:
    chunk = json.loads(chat.annotation_chunk(FINISH, 1, [NOTE]))
    assert chunk == {
        "id": "c1", "object": "chat.completion.chunk", "created": 17000000000000000001, "model": "m",
        "system_fingerprint": None, "usage": None,
        "choices": [{"index": 1, "delta": {"annotations": [NOTE]}, "logprobs": None, "finish_reason": None}],
    }  # fmt: skip
    assert ChatCompletionChunk.model_validate(chunk).choices[0].delta.annotations == [NOTE]  # type: ignore[attr-defined]


def test_chunks_of_a_server_without_a_usage_key_do_not_grow_one() -> None:
    template = b'{"id":"c","choices":[{"delta":{"content":"the \\"usage\\" of it"}}]}'
    assert "usage" not in json.loads(chat.delta_chunk(template, 0, {"content": "x"}))


def test_a_chunk_made_after_a_whole_body_is_a_chunk() -> None:
    chunk = json.loads(
        chat.finish_chunk(b'{"id":"c","object":"chat.completion","choices":[]}', 2, "length", {"version": 1})
    )
    assert chunk["object"] == "chat.completion.chunk"
    assert chunk["choices"] == [{"index": 2, "delta": {}, "logprobs": None, "finish_reason": "length"}]
    assert chunk["grounding"] == {"version": 1}


def test_upstream_annotations_are_held_back_and_nothing_else_is() -> None:
    only = as_deltas([{"id": "c", "choices": [{"index": 0, "delta": {"annotations": [NOTE], "content": None}}]}])[0]
    assert chat.without_annotations(only) is None
    more = chat.parse_delta(
        b'{"v":1.0,"choices":[{"index":0,"delta":{"content":"\\u0061","annotations":[1]},"w":2.0}]}', whole=False
    )
    assert chat.without_annotations(more) == b'{"v":1.0,"choices":[{"index":0,"delta":{"content":"\\u0061"},"w":2.0}]}'
    says_more: list[dict[str, Any]] = [{"finish_reason": "stop"}, {"logprobs": {"content": []}}]
    for kept in says_more:
        delta = as_deltas([{"choices": [{"index": 0, "delta": {"annotations": [NOTE]}, **kept}]}])[0]
        assert chat.without_annotations(delta) is not None


def test_a_whole_body_keeps_every_byte_of_its_values() -> None:
    body = (
        b'{"id":"c","choices":[ {"index":1,"message":{"role":"assistant","content":"\\u0061b","x":1.50,'
        b'"annotations":[ {"type":"file"} ]},"z":1e2},'
        b'{"index":0,"message":{"role":"assistant","content":"c"}} ],"vendor":{"a": 1.0}}'
    )
    out = chat.finish_whole(body, {1: [NOTE]}, {"version": 1})
    first, second = msgspec.json.decode(bytes(raw_fields(out)["choices"]), type=list[dict[str, msgspec.Raw]])
    message = raw_fields(bytes(first["message"]))
    assert (bytes(message["content"]), bytes(message["x"]), bytes(first["z"])) == (b'"\\u0061b"', b"1.50", b"1e2")
    assert json.loads(bytes(message["annotations"])) == [{"type": "file"}, NOTE]
    assert bytes(second["message"]) == b'{"role":"assistant","content":"c"}'
    assert bytes(raw_fields(out)["vendor"]) == b'{"a": 1.0}'
    assert raw_fields(chat.finish_whole(body, {}, None)) == raw_fields(body)


@settings(max_examples=60, deadline=None)
@given(completions(), st.booleans())
def test_a_body_given_to_a_streaming_client_says_the_same(completion: dict[str, Any], usage: bool) -> None:
    completion["grounding"] = {"version": 1}
    events = chat.completion_events(json.dumps(completion).encode(), include_usage=usage)
    chunks = [json.loads(event) for event in events]
    answer = fold([chat.parse_delta(event, whole=False) for event in events])
    if not usage:
        completion.pop("usage", None)
    assert chat.completion_object(answer) == completion
    assert chunks[0]["choices"][0]["delta"]["role"] == "assistant"
    finishing = [chunk for chunk in chunks if chunk["choices"] and chunk["choices"][0]["finish_reason"]]
    assert [("grounding" in chunk) for chunk in chunks].count(True) == 1
    assert finishing[-1]["grounding"] == {"version": 1}
    assert all((chunk["choices"] == []) == bool(chunk.get("usage")) for chunk in chunks)
    assert all(("usage" in chunk) == usage for chunk in chunks)
    for chunk in chunks:
        ChatCompletionChunk.construct(**chunk)
        assert (chunk["id"], chunk["model"], chunk["object"]) == ("chatcmpl-1", "m-1", "chat.completion.chunk")
        for choice in chunk["choices"]:
            for position, call in enumerate(choice["delta"].get("tool_calls", [])):
                assert call["index"] == position


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_stream_and_body_of_one_answer_give_the_client_the_same_object(data: st.DataObject) -> None:
    completion = data.draw(completions())
    deltas = as_deltas(data.draw(streamed(completion)))
    notes = {0: [NOTE]}
    from_stream = chat.completion(fold(deltas), notes, {"version": 1})
    from_body = chat.finish_whole(as_whole(completion).data, notes, {"version": 1})
    assert json.loads(from_stream) == json.loads(from_body)


def answer(**fields: Any) -> Answer:
    return Answer(
        choices={0: ChoiceAnswer(index=0, **fields)}, envelope={"id": "c", "model": "m", "citations": ["secret"]}
    )


def test_what_restates_a_removed_sentence_goes_with_it() -> None:
    note = {"type": "url_citation", "url_citation": {"start_index": 3, "end_index": 8, "url": "u"}}
    gone = {"type": "url_citation", "url_citation": {"start_index": 0, "end_index": 3, "url": "u"}}
    other = {"type": "file_citation", "file_citation": {"file_id": "f"}}
    before = answer(
        content="A. Good.", reasoning="A!", extra={"reasoning_content": "A!", "x": 1},
        logprobs={"content": [{"token": "A"}]}, audio={"transcript": "A."}, annotations=[gone, note, other, "odd"],
    )  # fmt: skip
    after = chat.replaced(before, {0: "Good."}).choices[0]
    moved = {"type": "url_citation", "url_citation": {"start_index": 0, "end_index": 5, "url": "u"}}
    assert after == ChoiceAnswer(index=0, content="Good.", extra={"x": 1}, annotations=[moved, other, "odd"])
    assert chat.replaced(before, {0: "A. Good."}) == before


def test_a_blocked_answer_leaves_nothing_of_itself_in_the_refusal() -> None:
    before = answer(
        content="secret", reasoning="secret", refusal="secret", extra={"note": "secret"}, tool_calls=[{"id": "secret"}],
        annotations=[{"type": "secret"}], logprobs={"content": [{"token": "secret"}]}, audio={"transcript": "secret"},
        choice_extra={"x": "secret"}, finish_reason="stop",
    )  # fmt: skip
    refused = chat.completion(chat.refused(before, "I cannot say."))
    assert b"secret" not in refused
    choice = json.loads(refused)["choices"][0]
    assert (choice["finish_reason"], choice["message"]["refusal"], choice["message"]["content"]) == (
        "content_filter",
        "I cannot say.",
        None,
    )
    assert chat.refused(before, "No.", {0: "So far."}).choices[0].content == "So far."


def test_a_repair_names_the_failed_statements_and_keeps_the_prompt_before_it() -> None:
    request = chat.parse_request(b'{"messages":[ {"role":"user","content":"\\u0068ow?"} ],"model":"m"}', {})
    repaired = chat.repair_request(request, answer(content="It is 7 {x}."), {0: ["It is\n7 {x}."]})
    assert repaired.messages[0] == request.messages[0]
    sent = json.loads(chat.encode_request(repaired))["messages"]
    assert [message["role"] for message in sent] == ["user", "assistant", "user"]
    assert sent[1]["content"] == "It is 7 {x}."
    assert "- It is 7 {x}.\n" in sent[2]["content"]


@pytest.mark.parametrize("fields", [{"content": "x"}, {"tool_calls": [{"id": "1"}], "refusal": "r", "extra": {"a": 1}}])
def test_what_a_choice_says_beside_its_text_can_leave_in_one_delta(fields: dict[str, Any]) -> None:
    other = chat.other_fields(ChoiceAnswer(index=0, **fields))
    assert "content" not in other
    folded = fold([Delta(chat.delta_chunk(b"{}", 0, other), chat.parse_delta(b"{}", whole=False).view)]).choices[0]
    assert (folded.refusal, folded.extra) == (fields.get("refusal"), fields.get("extra", {}))
