"""Requests of the Messages API: nothing is lost towards Claude, and towards other models nothing without a word."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gateway.errors import RequestError
from gateway.wire.messages.from_client import chat_request
from gateway.wire.messages.to_upstream import Carrying, messages_request

USER = {"role": "user", "content": "Hi"}
CACHED = {"type": "ephemeral", "ttl": "1h"}
RICH: dict[str, Any] = {
    "model": "claude",
    "max_tokens": 99,
    "system": [{"type": "text", "text": "Be brief.", "cache_control": CACHED}],
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "See:", "cache_control": CACHED},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}},
                {
                    "type": "document",
                    "source": {"type": "text", "media_type": "text/plain", "data": "x"},
                    "citations": {"enabled": True},
                },
                {
                    "type": "search_result",
                    "source": "s",
                    "title": "t",
                    "content": [{"type": "text", "text": "x"}],
                    "citations": {"enabled": True},
                },
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "sig"},
                {"type": "redacted_thinking", "data": "xx"},
                {"type": "text", "text": "Looking."},
                {"type": "tool_use", "id": "t1", "name": "look", "input": {"at": 1}},
                {"type": "tool_use", "id": "t2", "name": "look", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": "no", "is_error": True},
                {
                    "type": "tool_result",
                    "tool_use_id": "t2",
                    "content": [
                        {"type": "text", "text": "x"},
                        {"type": "image", "source": {"type": "url", "url": "https://a.example/b.png"}},
                    ],
                    "cache_control": CACHED,
                },
                {"type": "text", "text": "And?"},
            ],
        },
    ],
    "tools": [
        {"name": "look", "description": "Looks.", "input_schema": {"type": "object"}, "cache_control": CACHED,
         "input_examples": [{"at": 1}]},
        {"type": "bash_20250124", "name": "bash"},
    ],
    "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
    "thinking": {"type": "adaptive", "display": "omitted"},
    "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": {"type": "object"}}},
    "metadata": {"user_id": "u1"},
    "stop_sequences": ["END"],
    "temperature": 0.5,
    "top_k": 5,
    "top_p": 0.5,
    "service_tier": "standard_only",
    "stream": True,
    "cache_control": CACHED,
    "context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]},
    "container": "c1",
    "inference_geo": "eu",
    "speed": "fast",
}  # fmt: skip


def chat(native: bool = False, **fields: Any) -> dict[str, Any]:
    return chat_request({"model": "m", "max_tokens": 9, "messages": [USER], **fields}, native=native)


def test_a_request_for_claude_reaches_claude_as_it_was() -> None:
    sent = messages_request(msgspec.json.encode(chat_request(RICH, native=True)), Carrying())
    assert msgspec.json.decode(sent) == RICH


def test_the_same_question_for_another_model_says_the_same() -> None:
    plain = {k: v for k, v in RICH.items() if k not in ("context_management", "container")}
    messages = [
        {"role": "user", "content": [RICH["messages"][0]["content"][0], RICH["messages"][0]["content"][1],
                                     {"type": "document", "title": "T", "source": {"type": "text", "data": "x"}}]},
        RICH["messages"][1],
        {"role": "user", "content": [RICH["messages"][2]["content"][0], {"type": "text", "text": "And?"}]},
    ]  # fmt: skip
    tools = [{"name": "look", "description": "Looks.", "input_schema": {"type": "object"}}]
    assert chat_request({**plain, "messages": messages, "tools": tools}, native=False) == {
        "model": "claude",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "See:"},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
                    {"type": "text", "text": "T\n\nx"},
                ],
            },
            {
                "role": "assistant",
                "content": "Looking.",
                "tool_calls": [
                    {"id": "t1", "type": "function", "function": {"name": "look", "arguments": '{"at":1}'}},
                    {"id": "t2", "type": "function", "function": {"name": "look", "arguments": "{}"}},
                ],
            },
            {"role": "tool", "tool_call_id": "t1", "content": "Error: no"},
            {"role": "user", "content": "And?"},
        ],
        "max_completion_tokens": 99,
        "temperature": 0.5,
        "top_p": 0.5,
        "top_k": 5,
        "stop": ["END"],
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": [
            {
                "type": "function",
                "function": {"name": "look", "parameters": {"type": "object"}, "description": "Looks."},
            }
        ],
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "reasoning_effort": "low",
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": {"type": "object"}, "strict": True},
        },
        "user": "u1",
        "service_tier": "default",
    }


def test_a_budget_of_thinking_becomes_an_effort() -> None:
    for budget, effort in ((1024, "low"), (8000, "medium"), (32_000, "high")):
        assert chat(thinking={"type": "enabled", "budget_tokens": budget})["reasoning_effort"] == effort
    assert "reasoning_effort" not in chat(thinking={"type": "disabled"})


def test_thinking_goes_back_to_the_model_that_thought_it_and_to_no_other() -> None:
    blocks = [{"type": "thinking", "thinking": "mine", "signature": ""}, {"type": "text", "text": "x"}]
    signed = [{"type": "thinking", "thinking": "Claude's", "signature": "sig"}, {"type": "text", "text": "x"}]
    turns = [USER, {"role": "assistant", "content": blocks}, {"role": "assistant", "content": signed}]
    _, own, other = chat(messages=turns)["messages"]
    assert own == {"role": "assistant", "content": "x", "reasoning_content": "mine"}
    assert other == {"role": "assistant", "content": "x"}


def test_a_coding_agents_housekeeping_does_not_stop_it() -> None:
    edits = {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}
    assert "context_management" not in chat(context_management=edits, cache_control=CACHED)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"container": "c1"}, "container"),
        ({"mcp_servers": [{"url": "x"}]}, "mcp_servers"),
        ({"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}}, "context_management"),
        ({"tools": [{"type": "bash_20250124", "name": "bash"}]}, "tools[0]"),
        ({"tools": [{"name": "x", "input_schema": {}, "input_examples": [{}]}]}, "tools[0].input_examples"),
        ({"messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "file", "file_id": "f"}}]}]},
         "messages[0].content[0]"),
        ({"messages": [{"role": "user", "content": [{"type": "document", "source": {"type": "url", "url": "x"}}]}]},
         "messages[0].content[0]"),
        ({"messages": [{"role": "user", "content": [
            {"type": "document", "source": {"type": "text", "data": "x"}, "citations": {"enabled": True}}]}]},
         "messages[0].content[0].citations"),
        ({"messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [
            {"type": "image", "source": {"type": "url", "url": "x"}}]}]}]}, "messages[0].content[0].content[0]"),
        ({"messages": [{"role": "assistant", "content": [{"type": "server_tool_use"}]}]}, "messages[0].content[0]"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": 7}]}, "messages[0].content"),
        ({"messages": ["x"]}, "messages[0].role"),
        ({"max_tokens": None}, "max_tokens"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"tool_choice": {"type": "some"}}, "tool_choice"),
        ({"system": [{"type": "image"}]}, "system[0]"),
        ({"service_tier": "flex"}, "service_tier"),
    ],
)  # fmt: skip
def test_what_another_model_cannot_be_told_is_refused_by_name(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(RequestError) as refused:
        chat(**fields)
    assert refused.value.param == param
