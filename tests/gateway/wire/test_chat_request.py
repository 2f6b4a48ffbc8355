"""Requests: what passes untouched, what is refused and how clearly."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import RequestError, TooLargeError
from gateway.wire import chat
from gateway.wire.types import GroundingOptions, Turn

USER = {"role": "user", "content": "hi"}
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
FULL: dict[str, Any] = {
    "model": "gpt-5",
    "messages": [
        {"role": "developer", "content": [{"type": "text", "text": "Be brief.", "prompt_cache_breakpoint": {"x": 1}}]},
        {"role": "user", "content": [{"type": "text", "text": "What?"}, {"type": "image_url", "image_url": {}}]},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "42"},
    ],
    "audio": {"voice": "x"}, "frequency_penalty": 0.10, "logit_bias": {"50256": -100}, "logprobs": True,
    "top_logprobs": 3, "max_completion_tokens": 9, "max_tokens": 9, "metadata": {"a": "b"}, "modalities": ["text"],
    "moderation": {"policy": {}},
    "n": 2, "parallel_tool_calls": False, "prediction": {"type": "content", "content": "x"}, "presence_penalty": 1e-7,
    "prompt_cache_key": "k", "prompt_cache_options": {"mode": "explicit"}, "reasoning_effort": "xhigh",
    "response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": {}}}, "safety_identifier": "u",
    "seed": 12345678901234567890, "service_tier": "flex", "stop": ["\n"], "store": True, "stream": True,
    "stream_options": {"include_usage": True, "include_obfuscation": False}, "temperature": 1.0,
    "tool_choice": {"type": "allowed_tools"}, "tools": [{"type": "custom", "custom": {"name": "g"}}], "top_p": 1,
    "user": "u", "verbosity": "low", "web_search_options": {}, "a field of 2031": {"deep": [1.0, 1e400, "é"]},
}  # fmt: skip


def parse(value: Any, headers: dict[str, str] | None = None) -> Any:
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return chat.parse_request(body, headers or {})


def refusal(value: Any, headers: dict[str, str] | None = None) -> RequestError:
    with pytest.raises(RequestError) as caught:
        parse(value, headers)
    assert caught.value.status in (400, 413)
    assert caught.value.retry is False
    return caught.value


def test_every_field_of_the_protocol_and_of_its_future_reaches_the_upstream() -> None:
    text = json.dumps(FULL).replace("Infinity", "1e400")
    request = parse(text.encode())
    sent = chat.encode_request(request)
    assert msgspec.json.decode(sent, type=dict[str, msgspec.Raw]) == msgspec.json.decode(
        text, type=dict[str, msgspec.Raw]
    )
    assert (request.model, request.stream, request.n) == ("gpt-5", True, 2)
    assert request.include_usage
    assert request.has_tools
    assert chat.is_tool_turn(request)


TEXT = st.text(st.characters(exclude_categories=["Cs"]))
SCALAR = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT
JSON = st.recursive(
    SCALAR, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3), max_leaves=8
)


@given(
    st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), JSON, max_size=5),
    st.sampled_from([None, 0, 2]),
    st.booleans(),
)
def test_values_reach_the_upstream_byte_for_byte(extra: dict[str, Any], indent: int | None, ascii_only: bool) -> None:
    known = {"model", "messages", "stream", "n", "stream_options", "tools", "functions", "grounding"}
    value = {**{k: v for k, v in extra.items() if k not in known}, "messages": [USER], "n": 1}
    body = json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode()
    request = chat.parse_request(body, {})
    sent = chat.encode_request(request)
    for key, raw_value in request.fields.items():
        assert bytes(raw_value) in body
        assert msgspec.json.decode(sent, type=dict[str, msgspec.Raw])[key] == raw_value
    assert json.loads(sent) == json.loads(body)


def test_a_route_without_retrieval_forwards_the_messages_array_byte_for_byte() -> None:
    messages = b'[ {"role":"user",  "content":"\\u0068i" , "x": 1.50} ]'
    request = chat.parse_request(b'{"messages": ' + messages + b' , "model":"a"}', {})
    assert messages in chat.encode_request(request, model="b")
    assert json.loads(chat.encode_request(request, model="b"))["model"] == "b"


def test_fields_can_be_set_and_dropped_without_touching_the_others() -> None:
    request = parse({"messages": [USER], "user": "u", "temperature": 0.10})
    sent = json.loads(
        chat.encode_request(request, set_fields={"stream": True, "raw": msgspec.Raw(b"[1]")}, drop=("user",))
    )
    assert sent == {"messages": [USER], "temperature": 0.1, "stream": True, "raw": [1]}


@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        (b"", "invalid_json", None),
        (b'{"messages": [', "invalid_json", None),
        (b'{"messages": [1,]}', "invalid_json", None),
        (b'{"messages": []} trailing', "invalid_json", None),
        (b'{"messages": [{"role":"user","content":NaN}]}', "invalid_json", None),
        (b'{"messages": [{"role":"user","content":"\xff"}]}', "invalid_utf8", None),
        (b'{"messages": [{"role":"user","content":"\xed\xa0\x80"}]}', "invalid_utf8", None),
        (b"[]", "invalid_type", None),
        (b"null", "invalid_type", None),
        (b"{}", "missing_required_parameter", "messages"),
        (b'{"messages": null}', "invalid_type", "messages"),
        (b'{"messages": {"role":"user"}}', "invalid_type", "messages"),
        (b'{"messages": []}', "empty_array", "messages"),
        (b'{"messages": [{"role":"user"}, 1]}', "invalid_type", "messages[1]"),
        (b'{"messages": [{"role":"user"}], "messages": []}', "duplicate_key", None),
        (b'{"model":"a","messages":[{"role":"user"}],"mod\\u0065l":"b"}', "duplicate_key", None),
        (b'{"messages": [{}], "grounding": {"release": "held", "release": "live"}}', "duplicate_key", "grounding"),
        (b'{"messages": [{}], "grounding": {"check": "off", "ch\\u0065ck": "off"}}', "duplicate_key", "grounding"),
        (b'{"messages": [{}], "grounding": { "filters": {"a": "1", "a": "2"}}}', "duplicate_key", "grounding.filters"),
        (b'{"messages": [{}], "model": 5}', "invalid_type", "model"),
        (b'{"messages": [{}], "stream": "yes"}', "invalid_type", "stream"),
        (b'{"messages": [{}], "n": "2"}', "invalid_type", "n"),
        (b'{"messages": [{}], "n": true}', "invalid_type", "n"),
        (b'{"messages": [{}], "n": 0}', "invalid_value", "n"),
        (b'{"messages": [{}], "n": 100000}', "invalid_value", "n"),
        (b'{"messages": [{}], "stream_options": true}', "invalid_type", "stream_options"),
        (b'{"messages": [{}], "stream_options": {"include_usage": 1}}', "invalid_type", "stream_options"),
        (b'{"messages": [{}], "tools": {}}', "invalid_type", "tools"),
        (b'{"messages": [{}], "x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "invalid_json", None),
    ],
)  # fmt: skip
def test_a_request_that_cannot_be_served_says_what_is_wrong(body: bytes, code: str, param: str | None) -> None:
    error = refusal(body)
    assert (error.code, error.param) == (code, param)
    assert error.envelope()["error"]["type"] == "invalid_request_error"


@given(st.binary(max_size=60) | st.text('{}[]",:messags nul1', max_size=60).map(str.encode))
def test_no_body_crashes_the_gateway(body: bytes) -> None:
    with contextlib.suppress(RequestError):
        chat.turns(chat.parse_request(body, {}))


@given(st.lists(st.tuples(st.sampled_from(["a", "b", "é", 'q"']), st.integers(0, 20)), max_size=5), st.booleans())
def test_a_key_given_twice_never_passes_for_one(pairs: list[tuple[str, int]], spaced: bool) -> None:
    comma, colon = (", ", ": ") if spaced else (",", ":")
    items = [f"{json.dumps(key)}{colon}{value}" for key, value in pairs]
    body = ("{" + comma.join([*items, '"messages":[{}]']) + "}").encode()
    if len({key for key, _ in pairs}) == len(pairs):
        chat.parse_request(body, {})
    else:
        assert refusal(body).code == "duplicate_key"


def test_a_million_tiny_messages_are_refused_and_not_worked_on() -> None:
    with pytest.raises(TooLargeError, match="10000"):
        chat.parse_request(b'{"messages":[' + b",".join([b"{}"] * 1_000_000) + b"]}", {})


def test_deep_nesting_inside_one_message_is_an_error_of_the_request() -> None:
    body = b'{"messages":[{"role":"user","content":' + b"[" * 100_000 + b"]" * 100_000 + b"}]}"
    assert refusal(body).code == "invalid_json"


def test_options_of_ours_never_reach_the_upstream() -> None:
    request = parse(
        {"messages": [USER], "grounding": {"release": "held", "filters": {"product": "x"}, "check": None}},
        {"X-Grounding-Base-Revision": "main", "authorization": "b"},
    )
    assert request.options == GroundingOptions(release="held", filters={"product": "x"}, base_revision="main")
    assert b"grounding" not in chat.encode_request(request)
    assert "grounding" not in chat.request_text(request)


@pytest.mark.parametrize(
    ("options", "headers", "code", "param"),
    [
        ({"relaese": "held"}, {}, "unknown_parameter", "grounding.relaese"),
        ({"unheard_of": 1}, {}, "unknown_parameter", "grounding.unheard_of"),
        ({"release": "later"}, {}, "invalid_value", "grounding.release"),
        ({"release": 1}, {}, "invalid_type", "grounding.release"),
        ({"check": False}, {}, "invalid_type", "grounding.check"),
        ({"filters": ["a"]}, {}, "invalid_type", "grounding.filters"),
        ({"filters": {"a": 1}}, {}, "invalid_type", "grounding.filters.a"),
        ({"filters": {str(i): "a" for i in range(40)}}, {}, "invalid_value", "grounding.filters"),
        ({"repository": "a\nb"}, {}, "invalid_value", "grounding.repository"),
        ({"revision": "a" * 5000}, {}, "invalid_value", "grounding.revision"),
        ([], {}, "invalid_type", "grounding"),
        (None, {"x-grounding-relase": "held"}, "unknown_parameter", "x-grounding-relase"),
        (None, {"x-grounding-filters": "product=x"}, "invalid_type", "x-grounding-filters"),
        ({"release": "held"}, {"x-grounding-release": "live"}, "conflicting_options", "grounding.release"),
    ],
)  # fmt: skip
def test_a_wrong_option_is_refused_and_not_silently_ignored(
    options: Any, headers: dict[str, str], code: str, param: str
) -> None:
    error = refusal({"messages": [USER], "grounding": options}, headers)
    assert (error.code, error.param) == (code, param)


def test_a_mistyped_option_gets_a_suggestion() -> None:
    assert "'release'" in refusal({"messages": [USER], "grounding": {"relaese": "held"}}).message
    assert "base_revision" in refusal({"messages": [USER], "grounding": {"zzz": "held"}}).message


def test_the_same_option_in_both_places_is_fine() -> None:
    request = parse({"messages": [USER], "grounding": {"release": "held"}}, {"x-grounding-release": "held"})
    assert request.options.release == "held"


def test_the_conversation_is_read_whatever_form_its_messages_have() -> None:
    request = parse(
        {
            "messages": [
                {"role": "developer", "content": [{"type": "text", "text": "Be"}, {"type": "text", "text": "brief."}]},
                {"role": "user", "content": [{"type": "image_url", "image_url": {}}, {"type": "text", "text": "?"}]},
                {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
                {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]},
                {"role": "assistant", "content": None, "refusal": "Never."},
                {"role": "assistant", "tool_calls": [], "function_call": {"name": "f", "arguments": ""}},
                {"role": "function", "name": "f", "content": "1"},
                {"role": "user", "content": ["loose", {"text": " part"}]},
                {"role": "user", "content": 5},
                {"role": "user"},
            ]
        }
    )  # fmt: skip
    assert chat.turns(request) == [
        Turn("developer", "Be\nbrief."),
        Turn("user", "?", media=True),
        Turn("assistant", "", tool_call=True),
        Turn("assistant", "No."),
        Turn("assistant", "Never."),
        Turn("assistant", "", tool_call=True),
        Turn("function", "1"),
        Turn("user", "loose part", media=True),
        Turn("user", "", media=True),
        Turn("user", ""),
    ]
    assert not chat.is_tool_turn(request)


@pytest.mark.parametrize("message", [{}, {"role": 1}, {"role": None, "content": "x"}])
def test_a_message_without_a_role_is_named(message: dict[str, Any]) -> None:
    request = parse({"messages": [USER, message]})
    for read in (chat.turns, chat.is_tool_turn):
        with pytest.raises(RequestError) as caught:
            read(request)
        assert caught.value.param == "messages[1].role"


def test_content_nested_beyond_all_reading_is_the_clients_error_and_not_ours() -> None:
    nested = b"[" * 900 + b"]" * 900
    request = chat.parse_request(b'{"model": "m", "messages": [{"role": "user", "content": ' + nested + b"}]}", {})
    with pytest.raises(RequestError) as error:
        chat.turns(request)
    assert error.value.param == "messages[0]"
