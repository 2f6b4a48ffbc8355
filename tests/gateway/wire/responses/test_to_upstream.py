"""A chat request on its way to the Responses API: nothing is lost, and what cannot be carried is refused by name."""

from __future__ import annotations

import json
from typing import Any

import pytest
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming
from pydantic import TypeAdapter

from gateway.errors import RequestError
from gateway.wire.responses.to_upstream import ResponsesCarrying, responses_request

USER = {"role": "user", "content": "Hi"}
PARAMS: TypeAdapter[Any] = TypeAdapter(ResponseCreateParamsNonStreaming)


def sent(*messages: Any, carrying: ResponsesCarrying | None = None, **fields: Any) -> dict[str, Any]:
    body = {"model": "m", "messages": list(messages or [USER]), **fields}
    out: dict[str, Any] = json.loads(responses_request(json.dumps(body).encode(), carrying or ResponsesCarrying()))
    PARAMS.validate_python({name: value for name, value in out.items() if name != "stream"})
    return out


def test_a_plain_question_is_kept_nowhere() -> None:
    assert sent() == {"model": "m", "store": False, "input": [{"type": "message", "role": "user", "content": "Hi"}]}
    assert sent(store=True)["store"] is False


def test_settings_go_where_the_other_interface_has_them() -> None:
    schema = {"name": "s", "schema": {"type": "object"}, "strict": True}
    out = sent(
        max_completion_tokens=9,
        temperature=0.5,
        reasoning_effort="low",
        verbosity="low",
        response_format={"type": "json_schema", "json_schema": schema},
        metadata={"a": "b"},
        stream=True,
        stream_options={"include_usage": True},
        n=1,
        presence_penalty=0,
    )
    assert out["max_output_tokens"] == 9
    assert out["reasoning"] == {"effort": "low"}
    assert out["text"] == {"format": {"type": "json_schema", **schema}, "verbosity": "low"}
    assert out["include"] == ["reasoning.encrypted_content"]
    assert (out["temperature"], out["metadata"], out["stream"]) == (0.5, {"a": "b"}, True)
    assert not {"n", "stream_options", "response_format", "messages", "presence_penalty"} & out.keys()
    assert sent(logprobs=True, top_logprobs=2)["include"] == ["message.output_text.logprobs"]
    assert sent(response_format={"type": "json_object"})["text"] == {"format": {"type": "json_object"}}


def test_encrypted_reasoning_is_asked_for_only_where_models_reason() -> None:
    assert "include" not in sent()
    assert sent(carrying=ResponsesCarrying(reasoning=True))["include"] == ["reasoning.encrypted_content"]


def test_tools_keep_their_names_their_schemas_and_what_an_unsaid_strict_means() -> None:
    function = {"name": "look", "description": "Looks.", "parameters": {"type": "object"}}
    grammar = {"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: A"}}
    out = sent(
        tools=[
            {"type": "function", "function": function},
            {"type": "custom", "custom": {"name": "sh", "format": grammar}},
        ],
        tool_choice={"type": "function", "function": {"name": "look"}},
        parallel_tool_calls=False,
    )
    assert out["tools"] == [
        {"type": "function", **function, "strict": False},
        {"type": "custom", "name": "sh", "format": {"type": "grammar", "syntax": "lark", "definition": "start: A"}},
    ]
    assert out["tool_choice"] == {"type": "function", "name": "look"}
    assert out["parallel_tool_calls"] is False
    allowed = {"mode": "auto", "tools": [{"type": "function", "function": {"name": "look"}}]}
    assert sent(tool_choice={"type": "allowed_tools", "allowed_tools": allowed})["tool_choice"] == {
        "type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "look"}]
    }  # fmt: skip


def test_a_conversation_with_calls_becomes_items_in_their_order() -> None:
    detail = {
        "type": "reasoning.encrypted",
        "format": "openai-responses-v1",
        "id": "rs_1",
        "data": "opaque",
        "index": 0,
    }
    claude = {"type": "reasoning.encrypted", "format": "anthropic-claude-v1", "data": "xx"}
    calls = [
        {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at":1}'}},
        {"id": "c2", "type": "custom", "custom": {"name": "sh", "input": "ls"}},
    ]
    out = sent(
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [
            {"type": "text", "text": "See"},
            {"type": "image_url", "image_url": {"url": "https://a.example/x.png"}},
            {"type": "file", "file": {"file_id": "f1"}},
        ]},
        {"role": "assistant", "content": "Well.", "tool_calls": calls, "reasoning_details": [detail, claude]},
        {"role": "tool", "tool_call_id": "c1", "content": "seen"},
        {"role": "tool", "tool_call_id": "c2", "content": [{"type": "text", "text": "a.txt"}]},
    )  # fmt: skip
    assert out["input"] == [
        {"type": "message", "role": "system", "content": "Be brief."},
        {"type": "message", "role": "user", "content": [
            {"type": "input_text", "text": "See"},
            {"type": "input_image", "image_url": "https://a.example/x.png", "detail": "auto"},
            {"type": "input_file", "file_id": "f1"},
        ]},
        {"type": "reasoning", "summary": [], "encrypted_content": "opaque", "id": "rs_1"},
        {"type": "message", "role": "assistant", "content": "Well."},
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"at":1}'},
        {"type": "custom_tool_call", "call_id": "c2", "name": "sh", "input": "ls"},
        {"type": "function_call_output", "call_id": "c1", "output": "seen"},
        {"type": "custom_tool_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "a.txt"}]},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"n": 2}, "n"),
        ({"seed": 1}, "seed"),
        ({"stop": ["x"]}, "stop"),
        ({"logit_bias": {"1": 2}}, "logit_bias"),
        ({"presence_penalty": 0.5}, "presence_penalty"),
        ({"audio": {"voice": "alloy"}}, "audio"),
        ({"functions": [{"name": "f"}]}, "functions"),
        ({"tools": [{"type": "web_search"}]}, "tools[0]"),
        ({"tool_choice": {"type": "web_search"}}, "tool_choice"),
        ({"messages": [{"role": "user", "name": "Ann", "content": "Hi"}]}, "messages[0].name"),
        ({"messages": [{"role": "function", "name": "f", "content": "x"}]}, "messages[0].name"),
        ({"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]}, "messages[0].content[0]"),
    ],
)
def test_what_has_no_place_there_is_refused_by_name_and_left_out_where_the_operator_says_so(
    fields: dict[str, Any], param: str
) -> None:
    with pytest.raises(RequestError) as error:
        sent(**fields)
    assert error.value.param == param
    if param in ("seed", "stop"):
        assert param not in sent(carrying=ResponsesCarrying(ignored=frozenset({param})), **fields)
