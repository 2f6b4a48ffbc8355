"""A chat completion request as a request of the Responses API.

What the Responses API has no place for is refused by name, unless the operator lets it be left out. Nothing is kept at
the upstream (`store: false`), since the client sends its whole conversation. Knows no connection and no answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from gateway.errors import RequestError
from gateway.wire import raw
from gateway.wire.typed import kind_of, listing, mapping, string

REASONING_FORMAT: Final = "openai-responses-v1"
"""How `reasoning_details` names reasoning that a Responses server encrypted, as OpenRouter does."""
_ENCRYPTED: Final = "reasoning.encrypted_content"
_LOGPROBS: Final = "message.output_text.logprobs"
_MADE_HERE: Final = frozenset(
    {
        "messages", "max_tokens", "max_completion_tokens", "reasoning_effort", "reasoning", "verbosity", "text",
        "response_format", "logprobs", "tools", "tool_choice", "stream_options", "store", "include", "input",
    }
)  # fmt: skip
# Without a place there; the value that stands for "not asked" may be sent all the same.
_NO_PLACE: Final[Mapping[str, tuple[Any, ...]]] = {
    "n": (1,),
    "seed": (),
    "stop": ((), [], ""),
    "logit_bias": ({},),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "prediction": (),
    "audio": (),
    "modalities": (["text"],),
    "functions": (),
    "function_call": (),
    "web_search_options": (),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponsesCarrying:
    """`reasoning`: the models behind reason, and their encrypted reasoning is asked for, to be handed back on the next
    turn. `ignored` names request fields that are left out instead of refused."""

    reasoning: bool = False
    ignored: frozenset[str] = frozenset()


def responses_request(body: bytes, carrying: ResponsesCarrying) -> bytes:
    """The body to send. Raises `RequestError` with the parameter at fault."""
    chat = raw.decode(body)
    for name, neutral in _NO_PLACE.items():
        value = chat.get(name)
        if value is not None and value not in neutral and name not in carrying.ignored:
            raise unsupported(f"'{name}'", name)
    out = {
        name: value
        for name, value in chat.items()
        if value is not None and name not in _MADE_HERE and name not in _NO_PLACE and name not in carrying.ignored
    }
    out["input"] = _items(listing(chat.get("messages"), "messages"), carrying)
    out["store"] = False
    limit = chat.get("max_completion_tokens") or chat.get("max_tokens")
    if limit is not None:
        out["max_output_tokens"] = limit
    _set_output(out, chat)
    _set_tools(out, chat)
    _set_reasoning(out, chat, carrying)
    return raw.encode(out)


def unsupported(what: str, param: str, *, remedy: str = "leave it out") -> RequestError:
    """The refusal, by name, of what the Responses API cannot carry."""
    return RequestError(
        f"{what} cannot be sent to this route's upstream, which speaks the Responses API; {remedy}",
        code="unsupported_parameter",
        param=param,
    )


def _set_output(out: dict[str, Any], chat: Mapping[str, Any]) -> None:
    text = dict(mapping(chat.get("text"), "text"))
    wanted = mapping(chat.get("response_format"), "response_format")
    kind = kind_of(wanted)
    if kind == "json_schema":
        text["format"] = {"type": kind, **mapping(wanted.get("json_schema"), "response_format.json_schema")}
    elif kind is not None:
        text["format"] = dict(wanted)
    if chat.get("verbosity"):
        text["verbosity"] = chat["verbosity"]
    if text:
        out["text"] = text
    if chat.get("logprobs"):
        out["include"] = [_LOGPROBS]
    elif chat.get("logprobs") is None or chat.get("logprobs") is False:
        out.pop("top_logprobs", None)


def _set_reasoning(out: dict[str, Any], chat: Mapping[str, Any], carrying: ResponsesCarrying) -> None:
    reasoning = dict(mapping(chat.get("reasoning"), "reasoning"))
    if chat.get("reasoning_effort"):
        reasoning["effort"] = chat["reasoning_effort"]
    if reasoning:
        out["reasoning"] = reasoning
    # Models that do not reason refuse to be asked for it.
    if carrying.reasoning or reasoning:
        out["include"] = [*out.get("include", []), _ENCRYPTED]


def _set_tools(out: dict[str, Any], chat: Mapping[str, Any]) -> None:
    tools = listing(chat.get("tools"), "tools")
    if tools:
        out["tools"] = [_tool(tool, f"tools[{position}]") for position, tool in enumerate(tools)]
    choice = chat.get("tool_choice")
    if isinstance(choice, str):
        out["tool_choice"] = choice
    elif choice is not None:
        kind = kind_of(mapping(choice, "tool_choice"))
        if kind == "allowed_tools":
            allowed = mapping(choice.get(kind), f"tool_choice.{kind}")
            named = [_named(tool) for tool in listing(allowed.get("tools"), f"tool_choice.{kind}.tools")]
            out["tool_choice"] = {"type": kind, "mode": allowed.get("mode"), "tools": named}
        else:
            out["tool_choice"] = _named(choice)


def _named(tool: Any) -> dict[str, Any]:
    kind = kind_of(tool)
    inner = tool.get(kind) if kind in ("function", "custom") else None
    if not isinstance(inner, dict):
        raise unsupported(f"'tool_choice' {kind!r}", "tool_choice", remedy="name a function or a custom tool")
    return {"type": kind, "name": inner.get("name")}


def _tool(tool: Any, where: str) -> dict[str, Any]:
    kind = kind_of(tool)
    inner = tool.get(kind) if kind in ("function", "custom") else None
    if not isinstance(inner, dict):
        raise unsupported(
            f"'{where}', a tool of type {kind!r},", where, remedy="functions and custom tools can be sent"
        )
    out = {"type": kind, **inner}
    if kind == "function":
        out.setdefault("parameters", {"type": "object", "properties": {}})
        # The two interfaces differ in what an unsaid `strict` means.
        out["strict"] = bool(inner.get("strict"))
    elif kind_of(inner.get("format")) == "grammar":
        out["format"] = {"type": "grammar", **mapping(inner["format"].get("grammar"), f"{where}.custom.format.grammar")}
    return out


# -- the conversation --------------------------------------------------------------------------------------------------


def _items(messages: list[Any], carrying: ResponsesCarrying) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    custom: set[str] = set()
    for position, given in enumerate(messages):
        where = f"messages[{position}]"
        message = mapping(given, where)
        role = message.get("role")
        if message.get("name") and role != "tool" and "name" not in carrying.ignored:
            raise unsupported(f"'{where}.name'", f"{where}.name", remedy="put the name into the text")
        if role in ("system", "developer", "user"):
            items.append({"type": "message", "role": role, "content": _parts(message.get("content"), where)})
        elif role == "assistant":
            items += _turn(message, where, custom)
        elif role == "tool":
            identity = message.get("tool_call_id")
            kind = "custom_tool_call_output" if identity in custom else "function_call_output"
            content = message.get("content")
            output = content if isinstance(content, str) else _parts(content, where)
            items.append({"type": kind, "call_id": identity, "output": output})
        else:
            raise unsupported(
                f"'{where}' of role {role!r}", f"{where}.role", remedy="use system, user, assistant or tool"
            )
    return items


def _turn(message: Mapping[str, Any], where: str, custom: set[str]) -> list[dict[str, Any]]:
    """What the model said: its reasoning, its text, its calls."""
    for name in ("function_call", "audio"):
        if message.get(name):
            raise unsupported(f"'{where}.{name}'", f"{where}.{name}")
    items = _reasoning(message)
    said = []
    content = message.get("content")
    for part in [{"type": "text", "text": content}] if isinstance(content, str) else listing(content, where):
        kind = kind_of(part)
        if kind not in ("text", "refusal"):
            raise unsupported(f"'{where}' with a part of type {kind!r}", where, remedy="text and refusals can be sent")
        said.append(string(part.get(kind), f"{where}.content"))
    said.append(string(message.get("refusal") or "", f"{where}.refusal"))
    if text := "".join(said):
        # An item with parts would need the id that the upstream once gave it, which chat completions do not keep.
        items.append({"type": "message", "role": "assistant", "content": text})
    for position, call in enumerate(listing(message.get("tool_calls"), f"{where}.tool_calls")):
        items.append(_call(call, f"{where}.tool_calls[{position}]", custom))
    return items


def _call(call: Any, where: str, custom: set[str]) -> dict[str, Any]:
    kind = kind_of(call)
    inner = call.get(kind) if kind in ("function", "custom") else None
    if not isinstance(inner, dict):
        raise unsupported(f"'{where}', a call of type {kind!r},", where)
    head = {"call_id": call.get("id"), "name": inner.get("name")}
    if kind == "custom":
        custom.add(str(call.get("id")))
        return {"type": "custom_tool_call", **head, "input": inner.get("input") or ""}
    return {"type": "function_call", **head, "arguments": inner.get("arguments") or "{}"}


def _reasoning(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Encrypted reasoning that the client kept; other reasoning is nothing that the model would take back."""
    details = message.get("reasoning_details")
    items = []
    for detail in details if isinstance(details, list) else ():
        if isinstance(detail, dict) and detail.get("format") == REASONING_FORMAT and detail.get("data"):
            item = {"type": "reasoning", "summary": [], "encrypted_content": detail["data"]}
            items.append({**item, **({"id": detail["id"]} if detail.get("id") else {})})
    return items


def _parts(content: Any, where: str) -> Any:
    if isinstance(content, str):
        return content
    return [
        _part(part, f"{where}.content[{position}]")
        for position, part in enumerate(listing(content, f"{where}.content"))
    ]


def _part(part: Any, where: str) -> dict[str, Any]:
    kind = kind_of(part)
    marks = {name: part[name] for name in ("prompt_cache_breakpoint",) if kind and part.get(name) is not None}
    if kind == "text":
        return {"type": "input_text", "text": part.get("text") or "", **marks}
    if kind == "image_url":
        image = part.get("image_url")
        image = image if isinstance(image, dict) else {"url": image}
        return {"type": "input_image", "image_url": image.get("url"), "detail": image.get("detail") or "auto", **marks}
    if kind == "file":
        file = mapping(part.get("file"), f"{where}.file")
        names = ("file_data", "file_id", "filename")
        return {"type": "input_file", **{name: file[name] for name in names if file.get(name)}, **marks}
    raise unsupported(f"'{where}' of type {kind!r}", where, remedy="text, images and files can be sent")
