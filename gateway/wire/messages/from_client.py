"""A request of the Messages API as a chat completion request.

`native` says that the route's upstream speaks the Messages API itself: then everything that it alone understands goes
along, in the fields that `gateway.wire.messages.to_upstream` reads. Otherwise what chat completions cannot say is
refused by name. Knows no route and no connection.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gateway.errors import RequestError
from gateway.wire import raw
from gateway.wire.messages.content import Content, Part, unsupported
from gateway.wire.typed import flag, kind_of, mapping, number, string, word

_RENAMED: Final = {"temperature": "temperature", "top_p": "top_p", "top_k": "top_k", "stop_sequences": "stop"}
_HANDLED: Final = frozenset(
    {*_RENAMED, "model", "messages", "system", "max_tokens", "stream", "tools", "tool_choice", "metadata",
     "service_tier", "output_config", "thinking", "grounding"}
)  # fmt: skip
# Hints that change no answer of a model other than Claude.
_HINTS: Final = frozenset({"cache_control", "diagnostics", "inference_geo", "speed"})
_TOOL_KEYS: Final = frozenset({"name", "description", "input_schema", "type", "strict"})
_TOOL_HINTS: Final = frozenset({"cache_control", "eager_input_streaming"})
_EFFORT_FROM: Final = ((16_384, "high"), (4096, "medium"), (0, "low"))
_TIERS: Final = {"auto": "auto", "standard_only": "default"}


def chat_request(value: Mapping[str, Any], *, native: bool) -> dict[str, Any]:
    """The chat completion request that says the same. Raises `RequestError` with the parameter at fault."""
    content = Content(native=native)
    out: dict[str, Any] = {"model": value.get("model"), "messages": _messages(value, content)}
    limit = value.get("max_tokens")
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise _invalid("'max_tokens' must be a whole number of at least 1", "max_tokens")
    # What the dialect of reasoning models calls the limit; the older name is refused by them.
    out["max_tokens" if native else "max_completion_tokens"] = limit
    out.update((name, value[given]) for given, name in _RENAMED.items() if value.get(given) is not None)
    if flag(value.get("stream"), "stream"):
        out |= {"stream": True, "stream_options": {"include_usage": True}}
    _set_tools(out, value, native=native)
    _set_output(out, value, native=native)
    _set_account(out, value)
    for name, item in value.items():
        if name in _HANDLED or item is None:
            continue
        if native:
            out[name] = item
        elif name not in _HINTS and not (name == "context_management" and _clears_thinking_only(item)):
            raise unsupported(f"'{name}'", name)
    if "grounding" in value:
        out["grounding"] = value["grounding"]
    return out


def _invalid(what: str, param: str) -> RequestError:
    return RequestError(f"{what}.", code="invalid_value", param=param)


def _clears_thinking_only(value: Any) -> bool:
    """Context management that drops earlier thinking, which no other model is sent anyway."""
    edits = value.get("edits") if isinstance(value, dict) else None
    return isinstance(edits, list) and all(
        isinstance(edit, dict) and str(edit.get("type")).startswith("clear_thinking") for edit in edits
    )


def _messages(value: Mapping[str, Any], content: Content) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    if system := content.text_only(value.get("system"), "system"):
        messages.append({"role": "system", "content": system})
    given = value.get("messages")
    if not isinstance(given, list) or not given:
        raise _invalid("'messages' must be a list with at least one message", "messages")
    for position, message in enumerate(given):
        where = f"messages[{position}]"
        role = message.get("role") if isinstance(message, dict) else None
        blocks = message.get("content") if isinstance(message, dict) else None
        if role == "user":
            messages += _user(blocks, where, content)
        elif role == "assistant":
            messages.append(_assistant(blocks, where, content))
        elif role == "system":
            messages.append({"role": "system", "content": content.text_only(blocks, f"{where}.content") or ""})
        else:
            raise _invalid(f"'{where}.role' must be user, assistant or system", f"{where}.role")
    return messages


def _user(blocks: Any, where: str, content: Content) -> list[dict[str, Any]]:
    """A user's turn: results of tools first, each a message of its own, then what the user says."""
    if isinstance(blocks, str):
        return [{"role": "user", "content": blocks}]
    messages, parts = [], []
    for position, block in enumerate(_list(blocks, where)):
        place = f"{where}.content[{position}]"
        if kind_of(block) == "tool_result":
            messages.append(_tool_result(block, place, content))
        else:
            parts.append(content.part(block, place))
    if parts:
        messages.append({"role": "user", "content": content.plain(parts)})
    return messages


def _tool_result(block: Mapping[str, Any], where: str, content: Content) -> dict[str, Any]:
    given = block.get("content") or ""
    result = given if isinstance(given, str) else content.result(_list(given, where), f"{where}.content")
    call_id = string(block.get("tool_use_id"), f"{where}.tool_use_id")
    message: dict[str, Any] = {"role": "tool", "tool_call_id": call_id, "content": result}
    if content.native:
        message.update((name, block[name]) for name in ("is_error", "cache_control") if block.get(name))
    elif block.get("is_error"):
        # Chat completions have no mark for it, and a model has to know.
        told = result if isinstance(result, str) else "\n".join(part["text"] for part in result)
        message["content"] = f"Error: {told}"
    return message


def _assistant(blocks: Any, where: str, content: Content) -> dict[str, Any]:
    if isinstance(blocks, str):
        return {"role": "assistant", "content": blocks}
    message: dict[str, Any] = {"role": "assistant", "content": None}
    parts: list[Part] = []
    thoughts: list[dict[str, Any]] = []
    calls: list[dict[str, Any]] = []
    for position, block in enumerate(_list(blocks, where)):
        place, kind = f"{where}.content[{position}]", kind_of(block)
        if kind == "text":
            parts.append(content.part({k: v for k, v in block.items() if k != "citations"}, place))
        elif kind in ("thinking", "redacted_thinking"):
            thoughts.append(dict(block))
        elif kind == "tool_use":
            calls.append(_tool_call(block, place, content))
        else:
            raise unsupported(f"'{place}' of type {kind!r}", place, remedy="text, thinking and tool_use can be sent")
    if parts:
        message["content"] = parts if content.native else "".join(part["text"] for part in parts)
    _set_thoughts(message, thoughts, native=content.native)
    if calls:
        message["tool_calls"] = calls
    return message


def _set_thoughts(message: dict[str, Any], thoughts: list[dict[str, Any]], *, native: bool) -> None:
    """Thinking for the model that thought it: what Claude signed is Claude's alone, the rest is a reasoning model's."""
    if native:
        details = [_detail(thought, index) for index, thought in enumerate(thoughts)]
        message.update({"reasoning_details": details} if details else {})
        return
    unsigned = [
        str(thought["thinking"]) for thought in thoughts if thought.get("thinking") and not thought.get("signature")
    ]
    if unsigned:
        message["reasoning_content"] = "".join(unsigned)


def _detail(thought: Mapping[str, Any], index: int) -> dict[str, Any]:
    if thought.get("type") == "redacted_thinking":
        return {"type": "reasoning.encrypted", "data": thought.get("data"), "index": index}
    return {
        "type": "reasoning.text",
        "text": thought.get("thinking"),
        "signature": thought.get("signature"),
        "index": index,
    }


def _tool_call(block: Mapping[str, Any], where: str, content: Content) -> dict[str, Any]:
    if not isinstance(block.get("id"), str) or not isinstance(block.get("name"), str):
        raise _invalid(f"'{where}' must have an id and a name", where)
    function = {"name": block["name"], "arguments": raw.encode(block.get("input") or {}).decode()}
    call: dict[str, Any] = {"id": block["id"], "type": "function", "function": function}
    if content.native and block.get("cache_control"):
        call["cache_control"] = block["cache_control"]
    return call


def _list(blocks: Any, where: str) -> list[dict[str, Any]]:
    if not isinstance(blocks, list) or not all(isinstance(block, dict) for block in blocks):
        raise _invalid(f"'{where}.content' must be a string or a list of blocks", f"{where}.content")
    return blocks


def _set_tools(out: dict[str, Any], value: Mapping[str, Any], *, native: bool) -> None:
    tools = value.get("tools")
    if tools:
        out["tools"] = [
            _tool(tool, f"tools[{place}]", native=native) for place, tool in enumerate(_list(tools, "tools"))
        ]
    choice = value.get("tool_choice")
    if choice is None:
        return
    kind = choice.get("type") if isinstance(choice, dict) else None
    if kind == "tool":
        out["tool_choice"] = {"type": "function", "function": {"name": choice.get("name")}}
    elif kind in ("auto", "none", "any"):
        out["tool_choice"] = "required" if kind == "any" else kind
    else:
        raise _invalid("'tool_choice.type' must be auto, any, tool or none", "tool_choice")
    if choice.get("disable_parallel_tool_use"):
        out["parallel_tool_calls"] = False


def _tool(tool: Mapping[str, Any], where: str, *, native: bool) -> dict[str, Any]:
    if tool.get("type") not in (None, "custom"):
        if native and kind_of(tool) is not None:
            return dict(tool)
        raise unsupported(
            f"'{where}', a tool of type {tool['type']!r},", where, remedy="tools with a schema can be sent"
        )
    function: dict[str, Any] = {"name": tool.get("name"), "parameters": tool.get("input_schema")}
    function.update((name, tool[name]) for name in ("description", "strict") if tool.get(name) is not None)
    more = {name: item for name, item in tool.items() if name not in _TOOL_KEYS and item}
    if not native and (unknown := [name for name in more if name not in _TOOL_HINTS]):
        raise unsupported(f"'{where}.{unknown[0]}'", f"{where}.{unknown[0]}")
    return {"type": "function", "function": function, **(more if native else {})}


def _set_output(out: dict[str, Any], value: Mapping[str, Any], *, native: bool) -> None:
    thinking = mapping(value.get("thinking"), "thinking")
    config = mapping(value.get("output_config"), "output_config")
    if native:
        out.update({"thinking": thinking} if thinking else {})
        out.update({"output_config": config} if config else {})
        return
    effort = word(config.get("effort"), "output_config.effort")
    if not effort and thinking.get("type") == "enabled":
        budget = number(thinking.get("budget_tokens"), "thinking.budget_tokens") or 0
        effort = next((said for least, said in _EFFORT_FROM if budget >= least), "low")
    if effort:
        out["reasoning_effort"] = effort
    wanted = config.get("format")
    if isinstance(wanted, dict):
        schema = {"name": "answer", "schema": wanted.get("schema"), "strict": True}
        out["response_format"] = {"type": "json_schema", "json_schema": schema}


def _set_account(out: dict[str, Any], value: Mapping[str, Any]) -> None:
    metadata = mapping(value.get("metadata"), "metadata")
    if metadata.get("user_id"):
        out["user"] = metadata["user_id"]
    tier = word(value.get("service_tier"), "service_tier")
    if tier is not None:
        if tier not in _TIERS:
            raise _invalid("'service_tier' must be auto or standard_only", "service_tier")
        out["service_tier"] = _TIERS[tier]
