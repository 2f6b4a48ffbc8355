"""A chat completion request as a request of the Messages API.

What the Messages API has no place for is refused by name, unless the operator lets it be left out. What changes no
answer (cache keys, stream options) has no effect there and is left out. Knows no connection and no answer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from gateway.errors import RequestError
from gateway.wire import raw
from gateway.wire.messages.parts import FORMAT, Block, blocks_of, mark_cached, unsupported
from gateway.wire.typed import kind_of, listing, mapping, number, word

_SAME: Final = (
    "model", "stream", "temperature", "top_p", "top_k", "thinking", "cache_control", "container", "context_management",
    "diagnostics", "inference_geo", "speed", "user_profile_id",
)  # fmt: skip
# Without effect on any answer: hints to a cache, and what only shapes the way back, which is ours.
_HINTS: Final = frozenset({"stream_options", "prompt_cache_key", "prompt_cache_retention", "prompt_cache_options"})
_HANDLED: Final = frozenset(
    {
        *_SAME, *_HINTS, "messages", "max_tokens", "max_completion_tokens", "stop", "tools", "tool_choice",
        "parallel_tool_calls", "response_format", "reasoning_effort", "output_config", "user", "safety_identifier",
        "metadata", "service_tier",
    }
)  # fmt: skip
# Values that ask for nothing.
_NEUTRAL: Final[Mapping[str, tuple[Any, ...]]] = {
    "n": (1,),
    "modalities": (["text"],),
    "verbosity": ("medium",),
}
_TIERS: Final = {"auto": "auto", "default": "standard_only", "standard_only": "standard_only"}
_EFFORTS: Final = {"minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "xhigh", "max": "max"}
_BUDGETS: Final = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 16_384, "xhigh": 32_768, "max": 32_768}
_LEAST_BUDGET: Final = 1024
_TOOL_EXTRAS: Final = ("input_examples", "defer_loading", "eager_input_streaming", "allowed_callers")
_NOT_IN_IDS: Final = re.compile(r"[^a-zA-Z0-9_-]")
# Run by Anthropic's own servers; their calls and results are blocks that chat completions have no place for.
_SERVER_TOOLS: Final = ("web_search", "web_fetch", "code_execution", "tool_search", "mcp_toolset")


@dataclass(frozen=True, slots=True, kw_only=True)
class Carrying:
    """How requests are translated. `max_tokens` is for requests without one, which the Messages API refuses.

    `thinking` says what `reasoning_effort` becomes: `adaptive` (an effort, the model decides) or `budget` (tokens, for
    models before that). `ignored` names request fields that may be left out.
    """

    max_tokens: int = 8192
    thinking: Literal["adaptive", "budget"] = "adaptive"
    ignored: frozenset[str] = frozenset()


def messages_request(body: bytes, carrying: Carrying) -> bytes:
    """The request as the Messages API takes it. Raises `RequestError` for what cannot be carried, naming it."""
    chat: dict[str, Any] = raw.decode(body)
    _refuse_unknown(chat, carrying.ignored)
    conversation = _Conversation(carrying.ignored)
    for position, message in enumerate(chat["messages"]):
        conversation.add(message, f"messages[{position}]")
    out: dict[str, Any] = {name: chat[name] for name in _SAME if chat.get(name) is not None}
    limit = chat.get("max_completion_tokens") or chat.get("max_tokens")
    out["max_tokens"] = number(limit, "max_completion_tokens") or carrying.max_tokens
    if conversation.system:
        out["system"] = conversation.system
    out["messages"] = conversation.messages
    if (number(out.get("temperature"), "temperature") or 0) > 1:
        raise unsupported("'temperature' above 1", "temperature", remedy="the Messages API takes 0 to 1")
    if stop := chat.get("stop"):
        out["stop_sequences"] = [stop] if isinstance(stop, str) else stop
    _set_tools(out, chat)
    _set_output(out, chat, carrying, conversation)
    _set_account(out, chat, carrying.ignored)
    return raw.encode(out)


def _refuse_unknown(chat: Mapping[str, Any], ignored: frozenset[str]) -> None:
    for name, value in chat.items():
        if name in _HANDLED or name in ignored or value in (None, False, 0, [], {}) or value in _NEUTRAL.get(name, ()):
            continue
        raise unsupported(f"'{name}'", name, remedy="leave it out, or have it listed in the upstream's ignore_fields")


class _Conversation:
    """Messages in the making: neighbours of one role become one, as the Messages API reads them anyway."""

    def __init__(self, ignored: frozenset[str]) -> None:
        self.system: list[Block] = []
        self.messages: list[dict[str, Any]] = []
        self.owes_thinking = False
        """The turn of the model that tool results follow came back without its thinking."""
        self._ignored = ignored

    def add(self, message: Any, where: str) -> None:
        message = mapping(message, where)
        role = message.get("role")
        if message.get("name") and role in ("user", "assistant", "system") and "name" not in self._ignored:
            raise unsupported(f"'{where}.name'", f"{where}.name", remedy="put the name into the text")
        if role in ("system", "developer"):
            self._instruct(_cached(blocks_of(message.get("content"), f"{where}.content"), message))
        elif role == "user":
            self._say("user", _cached(blocks_of(message.get("content"), f"{where}.content"), message))
        elif role == "assistant":
            blocks = _assistant(message, where)
            thought = bool(blocks) and blocks[0]["type"] in ("thinking", "redacted_thinking")
            self.owes_thinking = bool(message.get("tool_calls")) and not thought
            self._say("assistant", blocks)
        elif role == "tool":
            self._say("user", [_tool_result(message, where)])
        else:
            raise unsupported(
                f"'{where}' of role {role!r}", f"{where}.role", remedy="use system, user, assistant or tool"
            )

    def _instruct(self, blocks: list[Block]) -> None:
        if not self.messages:
            self.system += blocks
        else:
            self._say("system", blocks)

    def _say(self, role: str, blocks: list[Block]) -> None:
        if not blocks:
            return
        if role != "assistant":
            self.owes_thinking = self.owes_thinking and blocks[0]["type"] == "tool_result"
        if self.messages and self.messages[-1]["role"] == role:
            self.messages[-1]["content"] += blocks
        else:
            self.messages.append({"role": role, "content": blocks})


def _cached(blocks: list[Block], message: Mapping[str, Any]) -> list[Block]:
    if blocks:
        mark_cached(blocks[-1], message)
    return blocks


def _assistant(message: Mapping[str, Any], where: str) -> list[Block]:
    for name in ("function_call", "audio"):
        if message.get(name):
            raise unsupported(f"'{where}.{name}'", f"{where}.{name}")
    blocks = _thinking(message)
    blocks += blocks_of(message.get("content"), f"{where}.content")
    if isinstance(message.get("refusal"), str):
        blocks += blocks_of(message["refusal"], f"{where}.refusal")
    for position, call in enumerate(listing(message.get("tool_calls"), f"{where}.tool_calls")):
        blocks.append(_tool_use(call, f"{where}.tool_calls[{position}]"))
    return _cached(blocks, message)


def _thinking(message: Mapping[str, Any]) -> list[Block]:
    """Signed thinking that the client kept; what bears no signature is nothing that the model would take back."""
    blocks: list[Block] = []
    details = message.get("reasoning_details")
    for item in details if isinstance(details, list) else ():
        # What another vendor's model thought is not sent. (SDKs that put a stream together repeat the name.)
        if not isinstance(item, dict) or not str(item.get("format") or FORMAT).startswith(FORMAT):
            continue
        if item.get("signature"):
            text = item.get("text") or ""
            blocks.append({"type": "thinking", "thinking": text, "signature": item["signature"]})
        elif item.get("type") == "reasoning.encrypted" and item.get("data"):
            blocks.append({"type": "redacted_thinking", "data": item["data"]})
    return blocks


def _tool_use(call: Any, where: str) -> Block:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        raise unsupported(f"'{where}', a tool call that is no function,", where)
    arguments = function.get("arguments") or "{}"
    try:
        value = raw.decode(arguments.encode())
    except (ValueError, RecursionError, AttributeError):
        value = None
    if not isinstance(value, dict):
        raise RequestError(
            f"'{where}.function.arguments' must be a JSON object in a string.", code="invalid_value", param=where
        )
    block = {"type": "tool_use", "id": _tool_id(call.get("id"), where), "name": function.get("name"), "input": value}
    return mark_cached(block, call)


def _tool_result(message: Mapping[str, Any], where: str) -> Block:
    block: Block = {"type": "tool_result", "tool_use_id": _tool_id(message.get("tool_call_id"), where)}
    content = message.get("content")
    if content:
        block["content"] = content if isinstance(content, str) else blocks_of(content, f"{where}.content")
    if message.get("is_error"):
        block["is_error"] = True
    return mark_cached(block, message)


def _tool_id(value: Any, where: str) -> str:
    """The id with the characters that the Messages API takes; the same id always becomes the same."""
    if not isinstance(value, str) or not value:
        raise RequestError(f"'{where}' has no tool call id.", code="missing_required_parameter", param=where)
    return _NOT_IN_IDS.sub("_", value)


def _set_tools(out: dict[str, Any], chat: Mapping[str, Any]) -> None:
    tools = listing(chat.get("tools"), "tools")
    if tools:
        out["tools"] = [_tool(tool, f"tools[{position}]") for position, tool in enumerate(tools)]
    choice = _tool_choice(chat.get("tool_choice"))
    if tools and chat.get("parallel_tool_calls") is False:
        choice = choice or {"type": "auto"}
        if choice["type"] != "none":
            choice["disable_parallel_tool_use"] = True
    if choice is not None and (tools or choice["type"] != "auto"):
        out["tool_choice"] = choice


def _tool(tool: Any, where: str) -> Block:
    kind = kind_of(tool)
    function = tool.get("function") if kind == "function" else None
    if isinstance(function, dict):
        block: Block = {
            "name": function.get("name"),
            "input_schema": function.get("parameters") or {"type": "object", "properties": {}},
        }
        if function.get("description"):
            block["description"] = function["description"]
        if function.get("strict"):
            block["strict"] = True
        block.update((name, tool[name]) for name in _TOOL_EXTRAS if tool.get(name))
        return mark_cached(block, tool)
    if isinstance(kind, str) and "name" in tool and kind != "custom" and not kind.startswith(_SERVER_TOOLS):
        return dict(tool)  # a tool of Anthropic's that the client runs, such as bash_20250124
    raise unsupported(f"'{where}', a tool of type {kind!r},", where, remedy="functions can be sent")


def _tool_choice(choice: Any) -> dict[str, Any] | None:
    if choice is None:
        return None
    if isinstance(choice, str) and choice in ("auto", "none", "required"):
        return {"type": "any" if choice == "required" else choice}
    if isinstance(choice, dict) and choice.get("type") == "function" and isinstance(choice.get("function"), dict):
        return {"type": "tool", "name": choice["function"].get("name")}
    kind = choice.get("type") if isinstance(choice, dict) else choice
    raise unsupported(f"'tool_choice' {kind!r}", "tool_choice", remedy="use auto, none, required or one function")


def _set_output(out: dict[str, Any], chat: Mapping[str, Any], carrying: Carrying, conversation: _Conversation) -> None:
    config = dict(mapping(chat.get("output_config"), "output_config"))
    wanted = mapping(chat.get("response_format"), "response_format")
    if wanted and wanted.get("type") != "text":
        schema = mapping(wanted.get("json_schema"), "response_format.json_schema").get("schema")
        if wanted.get("type") != "json_schema" or not isinstance(schema, dict):
            raise unsupported(
                f"'response_format' {wanted.get('type')!r}",
                "response_format",
                remedy="give a json_schema, or say in the prompt what JSON you want",
            )
        config["format"] = {"type": "json_schema", "schema": schema}
    effort = word(chat.get("reasoning_effort"), "reasoning_effort")
    if effort and "thinking" not in out:
        if effort == "none":
            out["thinking"] = {"type": "disabled"}
        elif effort not in _EFFORTS:
            raise unsupported(f"'reasoning_effort' {effort!r}", "reasoning_effort", remedy=f"use {', '.join(_EFFORTS)}")
        elif carrying.thinking == "adaptive":
            out["thinking"] = {"type": "adaptive"}
            config.setdefault("effort", _EFFORTS[effort])
        elif not conversation.owes_thinking:
            # Models that think by budget refuse tool results whose call comes back without its thinking.
            budget = min(_BUDGETS[effort], out["max_tokens"] // 2)
            if budget >= _LEAST_BUDGET:
                out["thinking"] = {"type": "enabled", "budget_tokens": budget}
    if config:
        out["output_config"] = config


def _set_account(out: dict[str, Any], chat: Mapping[str, Any], ignored: frozenset[str]) -> None:
    metadata = dict(mapping(chat.get("metadata"), "metadata"))
    user = metadata.pop("user_id", None) or chat.get("safety_identifier") or chat.get("user")
    if metadata and "metadata" not in ignored:
        raise unsupported("'metadata' beside user_id", "metadata")
    if user:
        out["metadata"] = {"user_id": user}
    tier = word(chat.get("service_tier"), "service_tier")
    if tier is not None:
        if tier not in _TIERS:
            raise unsupported(f"'service_tier' {tier!r}", "service_tier", remedy="use auto or default")
        out["service_tier"] = _TIERS[tier]
