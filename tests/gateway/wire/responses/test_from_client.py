"""Requests of the Responses API: what they say reaches the model, and what cannot be kept is refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.errors import RequestError
from gateway.wire.responses.from_client import chat_request, pack_reasoning

SIGNED = [{"type": "reasoning.text", "text": "hm", "signature": "sig", "index": 0}]


def chat(native: bool = False, **fields: Any) -> dict[str, Any]:
    return chat_request({"model": "m", "input": "Hi", **fields}, native=native)


def test_a_plain_question() -> None:
    assert chat(instructions="Be brief.", max_output_tokens=9, user="u", top_k=3) == {
        "model": "m",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
        "max_completion_tokens": 9,
        "user": "u",
        "top_k": 3,
    }


def test_items_of_one_turn_become_one_message() -> None:
    items = [
        {"role": "developer", "content": "In French."},
        {"role": "user", "content": [{"type": "input_text", "text": "See:"},
                                     {"type": "input_image", "image_url": "data:x", "detail": "low"},
                                     {"type": "input_file", "file_data": "data:y", "filename": "a.pdf"}]},
        {"type": "reasoning", "id": "rs", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Looking."}]},
        {"type": "function_call", "call_id": "t1", "name": "look", "arguments": "{}"},
        {"type": "custom_tool_call", "call_id": "t2", "name": "patch", "input": "x"},
        {"type": "function_call_output", "call_id": "t1", "output": "one"},
        {"type": "custom_tool_call_output", "call_id": "t2", "output": [{"type": "input_text", "text": "two"}]},
        {"role": "user", "content": "And?"},
    ]  # fmt: skip
    assert chat(input=items)["messages"] == [
        {"role": "developer", "content": "In French."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "See:"},
                {"type": "image_url", "image_url": {"url": "data:x", "detail": "low"}},
                {"type": "file", "file": {"file_data": "data:y", "filename": "a.pdf"}},
            ],
        },
        {
            "role": "assistant",
            "content": "Looking.",
            "reasoning_content": "hm",
            "tool_calls": [
                {"id": "t1", "type": "function", "function": {"name": "look", "arguments": "{}"}},
                {"id": "t2", "type": "custom", "custom": {"name": "patch", "input": "x"}},
            ],
        },
        {"role": "tool", "tool_call_id": "t1", "content": "one"},
        {"role": "tool", "tool_call_id": "t2", "content": "two"},
        {"role": "user", "content": "And?"},
    ]


def test_signed_reasoning_comes_back_to_claude_and_to_nobody_else() -> None:
    packed = pack_reasoning(SIGNED)
    items = [
        {"role": "user", "content": "Hi"},
        {"type": "reasoning", "summary": [], "encrypted_content": packed},
        {"type": "function_call", "call_id": "t1", "name": "look", "arguments": "{}"},
    ]
    assert chat(native=True, input=items)["messages"][1]["reasoning_details"] == SIGNED
    other = chat(input=items)["messages"][1]
    assert "reasoning_details" not in other
    assert "reasoning_content" not in other
    foreign = [items[0], {"type": "reasoning", "encrypted_content": "gAAAA"}, items[2]]
    assert "reasoning_details" not in chat(native=True, input=foreign)["messages"][1]


def test_settings_take_their_names_in_chat_completions() -> None:
    schema = {"type": "json_schema", "name": "x", "schema": {"type": "object"}, "strict": True}
    out = chat(
        stream=True,
        text={"format": schema, "verbosity": "low"},
        reasoning={"effort": "low", "summary": "auto"},
        tools=[
            {"type": "function", "name": "look", "parameters": {"type": "object"}, "strict": True},
            {"type": "custom", "name": "patch", "format": {"type": "grammar", "syntax": "lark", "definition": "x"}},
        ],
        tool_choice={"type": "function", "name": "look"},
        include=["message.output_text.logprobs"],
        top_logprobs=2,
        store=False,
        metadata={"a": "b"},
        truncation="disabled",
    )
    del out["model"], out["messages"]
    assert out == {
        "stream": True,
        "stream_options": {"include_usage": True},
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "x", "schema": {"type": "object"}, "strict": True},
        },
        "verbosity": "low",
        "reasoning_effort": "low",
        "tools": [
            {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}, "strict": True}},
            {
                "type": "custom",
                "custom": {
                    "name": "patch",
                    "format": {"type": "grammar", "grammar": {"syntax": "lark", "definition": "x"}},
                },
            },
        ],
        "tool_choice": {"type": "function", "function": {"name": "look"}},
        "logprobs": True,
        "top_logprobs": 2,
    }
    allowed = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "look"}]}
    assert chat(tool_choice=allowed)["tool_choice"]["allowed_tools"]["tools"][0]["function"] == {"name": "look"}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"background": True}, "background"),
        ({"store": True}, "store"),
        ({"prompt": {"id": "p"}}, "prompt"),
        ({"truncation": "auto"}, "truncation"),
        ({"tools": [{"type": "web_search"}]}, "tools[0]"),
        ({"tool_choice": {"type": "web_search"}}, "tool_choice"),
        ({"input": []}, "input"),
        ({"input": 7}, "input"),
        ({"input": ["x"]}, "input[0]"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0]"),
        ({"input": [{"type": "web_search_call"}]}, "input[0]"),
        ({"input": [{"role": "tool", "content": "x"}]}, "input[0].role"),
        ({"input": [{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}]}, "input[0].content[0]"),
        ({"input": [{"role": "user", "content": [{"type": "input_audio"}]}]}, "input[0].content[0]"),
        ({"input": [{"type": "function_call_output", "call_id": "t", "output": [
            {"type": "input_image", "image_url": "x"}]}]}, "input[0].output"),
    ],
)  # fmt: skip
def test_what_needs_a_memory_or_a_server_of_openai_is_refused_by_name(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(RequestError) as refused:
        chat(**fields)
    assert refused.value.param == param
