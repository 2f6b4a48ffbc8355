"""`/v1/completions`: what is asked reaches the model, what cannot be asked is refused by name, and nothing is lost."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.errors import RequestError
from gateway.wire.completions import TextDialect, chat_request

HEAD = {"id": "chatcmpl-7", "object": "chat.completion.chunk", "created": 1, "model": "m"}


def test_a_prompt_becomes_the_users_message_and_the_rest_passes() -> None:
    asked = {"model": "m", "prompt": "Hi", "max_tokens": 5, "seed": 1, "odd": {}, "logprobs": None, "echo": False}
    assert chat_request(asked) == {
        "model": "m",
        "max_tokens": 5,
        "seed": 1,
        "odd": {},
        "messages": [{"role": "user", "content": "Hi"}],
        "stream": False,
    }
    assert chat_request({"prompt": ["Hi"]})["messages"][0]["content"] == "Hi"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({}, "prompt"),
        ({"prompt": ""}, "prompt"),
        ({"prompt": ["a", "b"]}, "prompt"),
        ({"prompt": [1, 2]}, "prompt"),
        ({"prompt": [[1], [2]]}, "prompt"),
        ({"prompt": "a", "echo": True}, "echo"),
        ({"prompt": "a", "suffix": "b"}, "suffix"),
        ({"prompt": "a", "logprobs": 0}, "logprobs"),
        ({"prompt": "a", "best_of": 3}, "best_of"),
        ({"prompt": "a", "n": 2, "best_of": 3}, "best_of"),
        ({"prompt": "a", "messages": []}, "messages"),
        ({"prompt": "a", "tools": [{}]}, "tools"),
    ],
)
def test_what_cannot_be_asked_here_is_refused_by_name(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(RequestError) as error:
        chat_request({"model": "m", **fields})
    assert error.value.param == param


def test_a_whole_answer_has_its_text_its_usage_and_its_verdict() -> None:
    choices = [
        {"index": 0, "message": {"role": "assistant", "content": "Yes.", "annotations": []}, "finish_reason": "stop"},
        {"index": 1, "message": {"role": "assistant", "content": None, "refusal": "No."}, "finish_reason": "length"},
    ]
    grounding = {"version": 1}
    body = {
        **HEAD,
        "object": "chat.completion",
        "choices": choices,
        "usage": {"total_tokens": 3},
        "grounding": grounding,
    }
    assert json.loads(TextDialect().body(json.dumps(body).encode(), held=False)) == {
        "id": "cmpl-7",
        "object": "text_completion",
        "created": 1,
        "model": "m",
        "usage": {"total_tokens": 3},
        "grounding": grounding,
        "choices": [
            {"text": "Yes.", "index": 0, "logprobs": None, "finish_reason": "stop"},
            {"text": "No.", "index": 1, "logprobs": None, "finish_reason": "length"},
        ],
    }


def test_a_stream_has_the_events_that_say_something_and_its_end() -> None:
    writer = TextDialect().stream(held=False, include_usage=True)
    chunks: list[dict[str, Any]] = [
        {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]},
        {"choices": [{"index": 0, "delta": {"reasoning_content": "Hm."}, "finish_reason": None}]},
        {"choices": [{"index": 0, "delta": {"content": "Yes."}, "finish_reason": None}]},
        {"choices": [{"index": 0, "delta": {"annotations": [{}]}, "finish_reason": None}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "grounding": {"version": 1}},
        {"choices": [], "usage": {"total_tokens": 3}},
    ]
    written = b"".join(writer.chunk(json.dumps({**HEAD, **chunk}).encode()) for chunk in chunks) + writer.close()
    events = [line.removeprefix("data: ") for line in written.decode().split("\n\n") if line]
    assert events[-1] == "[DONE]"
    thought, text, finish, usage = [json.loads(event) for event in events[:-1]]
    assert thought["choices"][0]["reasoning_content"] == "Hm."
    assert text == {
        "id": "cmpl-7", "object": "text_completion", "created": 1, "model": "m",
        "choices": [{"text": "Yes.", "index": 0, "logprobs": None, "finish_reason": None}],
    }  # fmt: skip
    assert (finish["choices"][0]["finish_reason"], finish["grounding"]) == ("stop", {"version": 1})
    assert (usage["choices"], usage["usage"]) == ([], {"total_tokens": 3})
