"""A request of the Responses API as a chat completion request. Knows no route and no connection.

`native` says that the upstream takes back the reasoning that it signed or encrypted.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Final

from gateway.errors import RequestError
from gateway.wire import raw
from gateway.wire.typed import flag, kind_of, listing, mapping, string, word

_RENAMED: Final = {"max_output_tokens": "max_completion_tokens"}
_DONE_HERE: Final = frozenset(
    {"input", "instructions", "tools", "tool_choice", "text", "reasoning", "stream", "include", "top_logprobs"}
)
# What only labels the response, or concerns tools that OpenAI's servers run; they are refused, so it has no effect.
_WITHOUT_EFFECT: Final = frozenset({"metadata", "max_tool_calls", "stream_options"})
# What needs a conversation that is kept, or a machine that goes on alone.
_KEPT: Final[Mapping[str, str]] = {
    "previous_response_id": "this gateway keeps no responses; send the earlier turns as items of input",
    "conversation": "this gateway keeps no conversations; send the earlier turns as items of input",
    "prompt": "this gateway has no stored prompts; send its text as instructions",
    "background": "an answer is checked before it is given, so there is nothing to come back for; leave it out",
    "store": "this gateway keeps no responses for clients; set store: false, and read /v1/exchanges for its records",
    "context_management": "this gateway keeps no conversations; leave it out",
}
_NOT_HERE: Final = ("messages", "n", "functions", "function_call", "response_format", "logprobs")
_CARRIES: Final = "gg1."
"""Marks reasoning that this gateway packed into `encrypted_content`."""


def chat_request(value: Mapping[str, Any], *, native: bool) -> dict[str, Any]:
    """The chat completion request that says the same. Raises `RequestError` with the parameter at fault."""
    for name in _NOT_HERE:
        if name in value:
            raise _unsupported(f"'{name}' belongs to chat completions; this is the Responses API", name)
    for name, remedy in _KEPT.items():
        if value.get(name):
            raise _unsupported(f"'{name}' is not served: {remedy}", name)
    if value.get("truncation") not in (None, "disabled"):
        raise _unsupported("'truncation' other than disabled is not served; shorten the input", "truncation")
    out: dict[str, Any] = {"model": value.get("model"), "messages": _messages(value, native=native)}
    if flag(value.get("stream"), "stream"):
        out |= {"stream": True, "stream_options": {"include_usage": True}}
    _set_tools(out, value)
    _set_output(out, value)
    for name, item in value.items():
        if name not in _DONE_HERE and name not in _WITHOUT_EFFECT and name not in _KEPT and item is not None:
            out.setdefault(_RENAMED.get(name, name), item)
    out.pop("truncation", None)
    return out


def pack_reasoning(details: list[Any]) -> str:
    """Signed reasoning as a text that the client keeps and hands back unread."""
    return _CARRIES + base64.b64encode(raw.encode(details)).decode()


def _unsupported(message: str, param: str) -> RequestError:
    return RequestError(message, code="unsupported_parameter", param=param)


def _invalid(what: str, param: str) -> RequestError:
    return RequestError(f"{what}.", code="invalid_value", param=param)


def _messages(value: Mapping[str, Any], *, native: bool) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    if value.get("instructions"):
        messages.append({"role": "system", "content": string(value["instructions"], "instructions")})
    given = value.get("input")
    if isinstance(given, str):
        return [*messages, {"role": "user", "content": given}]
    if not isinstance(given, list) or not given:
        raise _invalid("'input' must be a string or a list with at least one item", "input")
    turns = _Turns(messages, native=native)
    for position, item in enumerate(given):
        turns.add(item if isinstance(item, dict) else {}, f"input[{position}]")
    return messages


class _Turns:
    """Messages in the making: reasoning, text and calls of one turn of the model become one message."""

    def __init__(self, messages: list[dict[str, Any]], *, native: bool) -> None:
        self._messages = messages
        self._native = native
        self._turn: dict[str, Any] | None = None

    def add(self, item: Mapping[str, Any], where: str) -> None:
        kind = kind_of(item) or ("message" if "role" in item else None)
        if kind == "message":
            self._message(item, where)
        elif kind == "reasoning":
            self._reasoning(item, where)
        elif kind == "function_call":
            function = {"name": item.get("name"), "arguments": string(item.get("arguments"), f"{where}.arguments")}
            self._call({"id": item.get("call_id"), "type": "function", "function": function})
        elif kind == "custom_tool_call":
            custom = {"name": item.get("name"), "input": string(item.get("input"), f"{where}.input")}
            self._call({"id": item.get("call_id"), "type": "custom", "custom": custom})
        elif kind in ("function_call_output", "custom_tool_call_output"):
            content = _content(item.get("output"), f"{where}.output", tool=True)
            self._say({"role": "tool", "tool_call_id": item.get("call_id"), "content": content})
        else:
            raise _unsupported(f"'{where}' of type {kind!r} is not served; send messages, function calls and their "
                               "outputs, and reasoning", where)  # fmt: skip

    def _message(self, item: Mapping[str, Any], where: str) -> None:
        role = item.get("role")
        if role not in ("user", "assistant", "system", "developer"):
            raise _invalid(f"'{where}.role' must be user, assistant, system or developer", f"{where}.role")
        content = _content(item.get("content"), f"{where}.content")
        if role != "assistant":
            self._say({"role": role, "content": content})
        elif self._turn is not None and self._turn["content"] is None and "tool_calls" not in self._turn:
            self._turn["content"] = content
        else:
            self._begin()["content"] = content

    def _reasoning(self, item: Mapping[str, Any], where: str) -> None:
        details = _unpacked(item.get("encrypted_content"))
        texts = [
            part.get("text") for part in listing(item.get("content"), f"{where}.content") if isinstance(part, dict)
        ]
        turn = self._begin()
        if details and self._native:
            turn["reasoning_details"] = details
        elif not details and any(texts):
            turn["reasoning_content"] = "".join(text for text in texts if isinstance(text, str))

    def _call(self, call: dict[str, Any]) -> None:
        turn = self._turn if self._turn is not None else self._begin()
        turn.setdefault("tool_calls", []).append(call)

    def _begin(self) -> dict[str, Any]:
        self._turn = {"role": "assistant", "content": None}
        self._messages.append(self._turn)
        return self._turn

    def _say(self, message: dict[str, Any]) -> None:
        self._turn = None
        self._messages.append(message)


def _unpacked(packed: Any) -> list[Any]:
    if not isinstance(packed, str) or not packed.startswith(_CARRIES):
        return []
    try:
        details = raw.decode(base64.b64decode(packed[len(_CARRIES) :], validate=True))
    except (binascii.Error, ValueError, RecursionError):
        return []
    return details if isinstance(details, list) else []


def _content(content: Any, where: str, *, tool: bool = False) -> Any:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise _invalid(f"'{where}' must be a string or a list of parts", where)
    parts = [_part(part, f"{where}[{position}]") for position, part in enumerate(content)]
    if tool and any(part["type"] != "text" for part in parts):
        raise _unsupported(f"'{where}' holds an image or a file, which a tool's result cannot; send text", where)
    if len(parts) == 1 and parts[0]["type"] == "text":
        return parts[0]["text"]
    return parts


def _part(part: Any, where: str) -> dict[str, Any]:
    kind = kind_of(part)
    if kind in ("input_text", "output_text", "text"):
        return {"type": "text", "text": string(part.get("text"), f"{where}.text")}
    if kind == "refusal":
        return {"type": "text", "text": string(part.get("refusal"), f"{where}.refusal")}
    if kind == "input_image" and isinstance(part.get("image_url"), str):
        image = {"url": part["image_url"], **({"detail": part["detail"]} if part.get("detail") else {})}
        return {"type": "image_url", "image_url": image}
    if kind == "input_file" and (part.get("file_data") or part.get("file_id")):
        names = ("file_data", "file_id", "filename")
        return {"type": "file", "file": {name: part[name] for name in names if part.get(name)}}
    raise _unsupported(
        f"'{where}' of type {kind!r} is not served; send text, images by URL or data, files by data", where
    )


def _set_tools(out: dict[str, Any], value: Mapping[str, Any]) -> None:
    tools = listing(value.get("tools"), "tools")
    if tools:
        out["tools"] = [_tool(tool, f"tools[{position}]") for position, tool in enumerate(tools)]
    choice = value.get("tool_choice")
    if isinstance(choice, str):
        out["tool_choice"] = choice
    elif choice is not None:
        kind = kind_of(mapping(choice, "tool_choice"))
        if kind == "allowed_tools":
            named = [_named(tool) for tool in listing(choice.get("tools"), "tool_choice.tools")]
            out["tool_choice"] = {"type": kind, kind: {"mode": choice.get("mode"), "tools": named}}
        elif kind in ("function", "custom"):
            out["tool_choice"] = _named(choice)
        else:
            raise _unsupported(f"'tool_choice' of type {kind!r} is not served; name a function", "tool_choice")


def _named(tool: Any) -> dict[str, Any]:
    kind = kind_of(tool)
    if kind not in ("function", "custom"):
        raise _unsupported(f"'tool_choice' of type {kind!r} is not served; name a function", "tool_choice")
    return {"type": kind, kind: {"name": tool.get("name")}}


def _tool(tool: Any, where: str) -> dict[str, Any]:
    kind = kind_of(tool)
    if kind == "function":
        names: tuple[str, ...] = ("name", "description", "parameters", "strict")
    elif kind == "custom":
        names = ("name", "description", "format")
    else:
        raise _unsupported(
            f"'{where}', a tool of type {kind!r}, is not served: it would run unseen by the check; use functions",
            where,
        )
    inner = {name: tool[name] for name in names if tool.get(name) is not None}
    wanted = inner.get("format")
    if isinstance(wanted, dict) and wanted.get("type") == "grammar":
        grammar = {name: wanted.get(name) for name in ("syntax", "definition")}
        inner["format"] = {"type": "grammar", "grammar": grammar}
    return {"type": kind, kind: inner}


def _set_output(out: dict[str, Any], value: Mapping[str, Any]) -> None:
    text, reasoning = mapping(value.get("text"), "text"), mapping(value.get("reasoning"), "reasoning")
    wanted = mapping(text.get("format"), "text.format")
    if wanted and wanted.get("type") != "text":
        kind = kind_of(wanted)
        inner = {name: item for name, item in wanted.items() if name != "type" and item is not None}
        out["response_format"] = {"type": kind, **({"json_schema": inner} if kind == "json_schema" else {})}
    if text.get("verbosity"):
        out["verbosity"] = text["verbosity"]
    if reasoning.get("effort"):
        out["reasoning_effort"] = word(reasoning["effort"], "reasoning.effort")
    if "message.output_text.logprobs" in listing(value.get("include"), "include"):
        out["logprobs"] = True
        if value.get("top_logprobs"):
            out["top_logprobs"] = value["top_logprobs"]
