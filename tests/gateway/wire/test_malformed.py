"""Requests with any value in any place: each translation carries it or refuses it by name, and never crashes."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from gateway.errors import RequestError
from gateway.wire.messages import from_client as messages
from gateway.wire.messages.to_upstream import Carrying, messages_request
from gateway.wire.responses import from_client as responses
from tests.gateway.wire.messages.test_from_client import RICH

CALL = {"id": "t1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
CHAT: dict[str, Any] = {
    "model": "m",
    "messages": [
        {"role": "system", "content": "x"},
        {"role": "user", "content": [
            {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}},
            {"type": "image_url", "image_url": {"url": "https://a.example/b.png"}},
            {"type": "file", "file": {"file_data": "data:text/plain;base64,aGk=", "filename": "a"}},
        ]},
        {"role": "assistant", "content": "x", "tool_calls": [CALL], "refusal": "x",
         "reasoning_details": [{"type": "reasoning.text", "text": "x", "signature": "s"}]},
        {"role": "tool", "tool_call_id": "t1", "content": [{"type": "text", "text": "x"}]},
    ],
    "tools": [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}],
    "tool_choice": {"type": "function", "function": {"name": "look"}},
    "response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "object"}}},
    "reasoning_effort": "low", "service_tier": "auto", "metadata": {"user_id": "u"}, "max_tokens": 5000,
    "temperature": 0.5, "stop": ["x"], "output_config": {"effort": "low"}, "parallel_tool_calls": False,
}  # fmt: skip
RESPONSES: dict[str, Any] = {
    "model": "m", "instructions": "x", "stream": True, "include": ["message.output_text.logprobs"],
    "input": [
        {"role": "user", "content": [{"type": "input_text", "text": "x"}, {"type": "input_image", "image_url": "x"}]},
        {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "x"}], "encrypted_content": "gg1.W10="},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "x"}]},
        {"type": "function_call", "call_id": "t1", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "t1", "output": "x"},
    ],
    "tools": [{"type": "function", "name": "look"}, {"type": "custom", "name": "x", "format": {"type": "grammar"}}],
    "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "look"}]},
    "text": {"format": {"type": "json_schema", "name": "x"}, "verbosity": "low"}, "reasoning": {"effort": "low"},
}  # fmt: skip
ODD: list[Any] = [None, True, 7, -1.5, "", "x", [], {}, [7], {"type": ["x"]}, [[]], [{}], {"a": 1}, [None]]


def places(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for key, item in inner for found in [(*here, key), *places(item, (*here, key))]]


def changed(value: Any, place: tuple[Any, ...], odd: Any) -> Any:
    value = copy.deepcopy(value)
    holder = value
    for key in place[:-1]:
        holder = holder[key]
    holder[place[-1]] = odd
    return value


def to_claude(value: dict[str, Any], thinking: Any = "budget") -> None:
    messages_request(msgspec.json.encode(value), Carrying(thinking=thinking))


TRANSLATIONS: dict[str, tuple[dict[str, Any], Callable[[dict[str, Any]], Any]]] = {
    "chat to claude": (CHAT, to_claude),
    "messages to chat": (
        {**RICH, "tools": RICH["tools"][:1], "container": None, "context_management": None},
        lambda value: messages.chat_request(value, native=False),
    ),
    "messages to claude": (RICH, lambda value: to_claude(messages.chat_request(value, native=True))),
    "responses to chat": (RESPONSES, lambda value: responses.chat_request(value, native=False)),
    "responses to claude": (RESPONSES, lambda value: responses.chat_request(value, native=True)),
}


def complaint(translate: Callable[[dict[str, Any]], Any], value: dict[str, Any]) -> BaseException | None:
    """What a translation raises that is no word to the client."""
    try:
        translate(value)
    except RequestError as refused:
        return None if refused.status == 400 else refused
    except Exception as crash:
        return crash
    return None


@pytest.mark.parametrize("name", TRANSLATIONS)
def test_a_client_with_a_mistake_is_told_and_never_sees_a_crash(name: str) -> None:
    value, translate = TRANSLATIONS[name]
    # What the gateway reads for itself before any translation is checked where it is read.
    tried = [place for place in places(value) if place not in (("messages",), ("model",))]
    crashes = [
        (place, odd, repr(crash))
        for place in tried
        for odd in ODD
        if (crash := complaint(translate, changed(value, place, odd))) is not None
    ]
    assert crashes == []
