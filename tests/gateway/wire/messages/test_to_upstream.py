"""A chat request on its way to the Messages API: nothing is lost, and what cannot be carried is refused by name."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gateway.errors import RequestError
from gateway.wire.messages.to_upstream import Carrying, messages_request

USER = {"role": "user", "content": "Hi"}
TOOL = {"type": "function", "function": {"name": "look", "description": "Looks.", "parameters": {"type": "object"}}}
PNG = "data:image/png;base64,iVBORw0KGgo="
PDF = "data:application/pdf;base64,JVBERi0xLjQ="


def call(name: str, arguments: str, call_id: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def sent(*messages: Any, carrying: Carrying | None = None, **fields: Any) -> dict[str, Any]:
    body = {"model": "claude", "messages": list(messages or [USER]), **fields}
    return dict(msgspec.json.decode(messages_request(msgspec.json.encode(body), carrying or Carrying())))


def test_a_plain_question_arrives_with_the_limit_the_api_demands() -> None:
    assert sent() == {
        "model": "claude",
        "max_tokens": 8192,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}],
    }
    assert sent(max_tokens=7)["max_tokens"] == 7
    assert sent(max_tokens=7, max_completion_tokens=9)["max_tokens"] == 9


def test_system_and_developer_words_keep_their_place() -> None:
    out = sent(
        {"role": "system", "content": "Be brief."},
        {
            "role": "developer",
            "content": [{"type": "text", "text": "In French.", "cache_control": {"type": "ephemeral"}}],
        },
        USER,
        {"role": "assistant", "content": "Salut"},
        USER,
        {"role": "system", "content": "Now in German."},
    )
    assert out["system"] == [
        {"type": "text", "text": "Be brief."},
        {"type": "text", "text": "In French.", "cache_control": {"type": "ephemeral"}},
    ]
    assert [message["role"] for message in out["messages"]] == ["user", "assistant", "user", "system"]


def test_a_round_of_parallel_tools_with_signed_thinking_comes_back_whole() -> None:
    details = [
        {"type": "reasoning.text", "text": "hm", "signature": "s1", "format": "anthropic-claude-v1", "index": 0},
        {"type": "reasoning.encrypted", "data": "xx", "format": "anthropic-claude-v1", "index": 1},
    ]
    out = sent(
        USER,
        {
            "role": "assistant",
            "content": "Looking.",
            "reasoning_content": "hm",
            "reasoning_details": details,
            "tool_calls": [call("look", '{"at": 1}', "call|1"), call("look", "", "call_2")],
        },
        {"role": "tool", "tool_call_id": "call|1", "content": "one"},
        {"role": "tool", "tool_call_id": "call_2", "content": [{"type": "text", "text": "two"}], "is_error": True},
        {"role": "user", "content": "And?"},
        tools=[TOOL],
    )
    assistant, user = out["messages"][1:]
    assert assistant["content"] == [
        {"type": "thinking", "thinking": "hm", "signature": "s1"},
        {"type": "redacted_thinking", "data": "xx"},
        {"type": "text", "text": "Looking."},
        {"type": "tool_use", "id": "call_1", "name": "look", "input": {"at": 1}},
        {"type": "tool_use", "id": "call_2", "name": "look", "input": {}},
    ]
    assert user["content"] == [
        {"type": "tool_result", "tool_use_id": "call_1", "content": "one"},
        {
            "type": "tool_result",
            "tool_use_id": "call_2",
            "content": [{"type": "text", "text": "two"}],
            "is_error": True,
        },
        {"type": "text", "text": "And?"},
    ]


def test_images_and_documents_arrive() -> None:
    native = {"type": "search_result", "source": "s", "title": "t", "content": [{"type": "text", "text": "x"}]}
    parts = [
        {"type": "image_url", "image_url": {"url": PNG, "detail": "low"}},
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
        {"type": "file", "file": {"file_data": PDF, "filename": "a.pdf"}, "prompt_cache_breakpoint": True},
        {"type": "file", "file": {"file_data": "data:text/plain;base64,aGk="}},
        {"type": "file", "file": {"file_id": "file_1"}},
        native,
    ]
    assert sent({"role": "user", "content": parts})["messages"][0]["content"] == [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}},
        {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0xLjQ="},
            "title": "a.pdf",
            "cache_control": {"type": "ephemeral"},
        },
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "hi"}},
        {"type": "document", "source": {"type": "file", "file_id": "file_1"}},
        native,
    ]


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("auto", {"type": "auto", "disable_parallel_tool_use": True}),
        ("required", {"type": "any", "disable_parallel_tool_use": True}),
        ("none", {"type": "none"}),
        ({"type": "function", "function": {"name": "look"}},
         {"type": "tool", "name": "look", "disable_parallel_tool_use": True}),
        (None, {"type": "auto", "disable_parallel_tool_use": True}),
    ],
)  # fmt: skip
def test_the_choice_of_a_tool_holds(choice: Any, expected: Any) -> None:
    fields = {} if choice is None else {"tool_choice": choice}
    out = sent(tools=[TOOL], parallel_tool_calls=False, **fields)
    assert out["tool_choice"] == expected
    assert out["tools"] == [{"name": "look", "description": "Looks.", "input_schema": {"type": "object"}}]


def test_the_settings_that_both_know_hold() -> None:
    schema = {"type": "object", "properties": {}}
    out = sent(
        temperature=0.5, top_p=0.9, top_k=5, stop="END", stream=True, user="u1", service_tier="default",
        response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": schema}},
        reasoning_effort="high", stream_options={"include_usage": True}, prompt_cache_key="k", n=1, logprobs=False,
        frequency_penalty=0, store=False, parallel_tool_calls=True,
    )  # fmt: skip
    assert {name: out[name] for name in out if name not in ("messages", "model", "max_tokens")} == {
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 5,
        "stop_sequences": ["END"],
        "stream": True,
        "metadata": {"user_id": "u1"},
        "service_tier": "standard_only",
        "thinking": {"type": "adaptive"},
        "output_config": {"format": {"type": "json_schema", "schema": schema}, "effort": "high"},
    }


def test_effort_becomes_a_budget_within_the_limit_for_older_models() -> None:
    budget = Carrying(thinking="budget")
    assert sent(reasoning_effort="low", carrying=budget)["thinking"] == {"type": "enabled", "budget_tokens": 2048}
    short = sent(reasoning_effort="high", max_tokens=3000, carrying=budget)
    assert short["thinking"]["budget_tokens"] == 1500
    assert "thinking" not in sent(reasoning_effort="high", max_tokens=500, carrying=budget)
    assert sent(reasoning_effort="none", carrying=budget)["thinking"] == {"type": "disabled"}


def test_a_tool_turn_whose_thinking_the_client_lost_is_still_answered() -> None:
    """Models that think by budget refuse the result of a call that comes back without its thinking."""
    turn = [
        USER,
        {"role": "assistant", "content": None, "tool_calls": [call("look", "{}", "c1")]},
        {"role": "tool", "tool_call_id": "c1", "content": "x"},
    ]
    budget = Carrying(thinking="budget")
    assert "thinking" not in sent(*turn, tools=[TOOL], reasoning_effort="low", carrying=budget)
    assert "thinking" in sent(*turn, USER, tools=[TOOL], reasoning_effort="low", carrying=budget)
    assert "thinking" in sent(*turn, tools=[TOOL], reasoning_effort="low")


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"n": 2}, "n"),
        ({"logprobs": True}, "logprobs"),
        ({"seed": 7}, "seed"),
        ({"logit_bias": {"1": 2}}, "logit_bias"),
        ({"frequency_penalty": 0.5}, "frequency_penalty"),
        ({"modalities": ["text", "audio"]}, "modalities"),
        ({"audio": {"voice": "x"}}, "audio"),
        ({"store": True}, "store"),
        ({"web_search_options": {"user_location": None}}, "web_search_options"),
        ({"temperature": 1.5}, "temperature"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"tools": [{"type": "custom", "custom": {"name": "x"}}]}, "tools[0]"),
        ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "tools[0]"),
        ({"tool_choice": {"type": "allowed_tools"}}, "tool_choice"),
        ({"service_tier": "flex"}, "service_tier"),
        ({"metadata": {"ticket": "1"}}, "metadata"),
        ({"unheard_of": 1}, "unheard_of"),
        ({"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]}, "messages[0].content[0]"),
        ({"messages": [{"role": "function", "name": "f", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "name": "Ann", "content": "x"}]}, "messages[0].name"),
        ({"messages": [{"role": "assistant", "tool_calls": [call("f", "[1]", "c")]}]}, "messages[0].tool_calls[0]"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0]"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,x"}}]}]},
         "messages[0].content[0]"),
        ({"messages": [{"role": "user", "content": [{"type": "file", "file": {"file_data": "data:a/b;base64,x"}}]}]},
         "messages[0].content[0]"),
    ],
)  # fmt: skip
def test_what_cannot_be_carried_is_refused_by_name_and_not_dropped(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(RequestError) as refused:
        sent(**{"messages": [USER], **fields}) if "messages" not in fields else sent(*fields["messages"])
    assert refused.value.param == param
    assert refused.value.status == 400


def test_an_operator_may_let_named_fields_be_left_out() -> None:
    out = sent(seed=7, metadata={"ticket": "1"}, carrying=Carrying(ignored=frozenset({"seed", "metadata"})))
    assert "seed" not in out
    assert "metadata" not in out


def test_a_tool_that_the_client_runs_for_claude_arrives_as_it_is() -> None:
    tool = {"type": "bash_20250124", "name": "bash"}
    assert sent(tools=[tool])["tools"] == [tool]


def test_what_another_vendors_model_thought_is_not_handed_to_claude() -> None:
    foreign = {"type": "reasoning.encrypted", "format": "openai-responses-v1", "data": "opaque"}
    own = {"type": "reasoning.encrypted", "format": "anthropic-claude-v1", "data": "xx"}
    turn = {"role": "assistant", "content": "Well.", "reasoning_details": [foreign, own]}
    blocks = sent(USER, turn, USER)["messages"][1]["content"]
    assert blocks == [{"type": "redacted_thinking", "data": "xx"}, {"type": "text", "text": "Well."}]
