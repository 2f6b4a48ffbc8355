"""The chat completions dialect: requests in, views of deltas, objects out.

Requests and answers keep the client's and the upstream's own bytes; only what the gateway needs is read. Knows no
route, no retrieval and no transport. What `gateway.wire.outgoing` and `gateway.wire.rewrite` make is named here as
well, so that `chat` is the whole dialect for its callers.
"""

from __future__ import annotations

import codecs
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import msgspec

from gateway.errors import RequestError, TooLargeError, UpstreamProtocolError
from gateway.wire import raw
from gateway.wire.loose import content_text, loose_text, loose_view
from gateway.wire.options import parse_options
from gateway.wire.outgoing import (
    annotation_chunk,
    closing_chunk,
    completion,
    completion_events,
    completion_object,
    delta_chunk,
    finish_chunk,
    finish_whole,
    other_fields,
    unknown_fields,
    with_grounding,
    without_annotations,
)
from gateway.wire.rewrite import refused, repair_request, replaced, with_messages, with_model, with_usage_told
from gateway.wire.types import ChatRequest, Delta, DeltaView, Turn

__all__ = [
    "BOM",
    "RequestLimits",
    "annotation_chunk",
    "closing_chunk",
    "completion",
    "completion_events",
    "completion_object",
    "content_pieces",
    "delta_chunk",
    "encode_request",
    "finish_chunk",
    "finish_whole",
    "is_tool_turn",
    "other_fields",
    "parse_delta",
    "parse_request",
    "refused",
    "repair_request",
    "replaced",
    "request_text",
    "top_level",
    "turns",
    "unknown_fields",
    "with_grounding",
    "with_messages",
    "with_model",
    "with_usage_told",
    "without_annotations",
]

_FIELDS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_VIEW: Final = msgspec.json.Decoder(DeltaView)
_PIECE: Final = 1024 * 1024
BOM: Final = b"\xef\xbb\xbf"
_ABSENT: Final = msgspec.Raw(b"")
_EMPTY: Final = (b"", b"null", b"[]", b"{}")
MAX_DEPTH: Final = 128
"""What an answer may be nested. Folding and writing it take several frames of the stack a level."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLimits:
    """Bounds of what a request may ask for; the size of its body is bounded where it is read."""

    max_messages: int = 10_000
    max_choices: int = 128


DEFAULT_LIMITS: Final = RequestLimits()


class _Part(msgspec.Struct, gc=False):
    type: str | None = None
    text: str | None = None
    refusal: str | None = None


class _Message(msgspec.Struct, gc=False):
    role: str
    content: str | list[_Part] | None = None
    refusal: str | None = None
    tool_calls: msgspec.Raw = _ABSENT
    function_call: msgspec.Raw = _ABSENT


class _Role(msgspec.Struct, gc=False):
    role: str


class _StreamOptions(msgspec.Struct, gc=False):
    include_usage: bool | None = None


_MESSAGE: Final = msgspec.json.Decoder(_Message)
_ROLE: Final = msgspec.json.Decoder(_Role)
_STRING: Final = msgspec.json.Decoder(str | None)
_BOOL: Final = msgspec.json.Decoder(bool | None)
_INT: Final = msgspec.json.Decoder(int | None)
_OPTIONS: Final = msgspec.json.Decoder(_StreamOptions | None)


def parse_request(body: bytes, headers: Mapping[str, str], limits: RequestLimits = DEFAULT_LIMITS) -> ChatRequest:
    """A request body and its headers as a value; every value of the body keeps its bytes.

    Raises `RequestError` (400) with OpenAI's codes and the parameter at fault, `TooLargeError` (413) past a limit.
    """
    body = body.removeprefix(BOM)
    fields = top_level(body)
    messages = _messages(fields, limits)
    n = _value(_INT, fields, "n", "an integer")
    if n is not None and not 1 <= n <= limits.max_choices:
        raise RequestError(f"'n' must be between 1 and {limits.max_choices}, not {n}.", code="invalid_value", param="n")
    stream_options = _value(_OPTIONS, fields, "stream_options", "an object with booleans")
    has_tools = _is_filled_list(fields, "tools")
    return ChatRequest(
        fields=fields,
        messages=messages,
        model=_value(_STRING, fields, "model", "a string"),
        stream=bool(_value(_BOOL, fields, "stream", "true or false")),
        n=n or 1,
        include_usage=bool(stream_options and stream_options.include_usage),
        has_tools=_is_filled_list(fields, "functions") or has_tools,
        options=parse_options(fields.pop("grounding", None), headers),
    )


def encode_request(
    request: ChatRequest,
    *,
    model: str | None = None,
    messages: Sequence[raw.Value] | None = None,
    set_fields: Mapping[str, Any] | None = None,
    drop: Collection[str] = (),
) -> bytes:
    """The request as JSON, without our own options. What is not named here leaves in the bytes it came in.

    `set_fields` are encoded, or taken as they are where they are `msgspec.Raw`; `drop` names top-level keys.
    """
    fields: dict[str, raw.Value] = dict(request.fields)
    if model is not None:
        fields["model"] = raw.encode(model)
    if messages is not None and messages is not request.messages:
        fields["messages"] = raw.write_list(messages)
    for key, value in (set_fields or {}).items():
        fields[key] = raw.encode(value)
    for key in drop:
        fields.pop(key, None)
    return raw.write_object(fields)


def request_text(request: ChatRequest) -> str:
    """The request as the client sent it, without our own options, as JSON text."""
    return encode_request(request).decode()


def turns(request: ChatRequest) -> list[Turn]:
    """The conversation as text, one turn per message, in order. Raises `RequestError` for a message without a role."""
    return [_turn(message, position) for position, message in enumerate(request.messages)]


def is_tool_turn(request: ChatRequest) -> bool:
    """Whether the client hands in the result of a tool: the answer goes on for the same user turn as before."""
    last = len(request.messages) - 1
    try:
        return _ROLE.decode(request.messages[last]).role in ("tool", "function")
    except msgspec.DecodeError:
        _bad_role(last)


def parse_delta(data: bytes, whole: bool) -> Delta:
    """One object of an upstream with its typed view.

    A vendor's odd types do not fail: the view then holds what can be read. Raises `UpstreamProtocolError` for anything
    that is not a JSON object, or one too deep to be folded and recorded; the message does not quote it, since it may
    hold text that must not leave.
    """
    if raw.deeper_than(data, MAX_DEPTH):
        raise UpstreamProtocolError(f"the upstream sent JSON that is nested more than {MAX_DEPTH} levels deep")
    try:
        if not data.isascii():
            data.decode()  # the typed view skips what it does not know, wrong bytes included
        return Delta(data, _VIEW.decode(data), whole)
    except (UnicodeDecodeError, msgspec.DecodeError, RecursionError):
        pass
    try:
        value = raw.decode(data)
    except (ValueError, RecursionError) as error:
        kind = "a body" if whole else "an event"
        raise UpstreamProtocolError(f"the upstream sent {kind} of {len(data)} bytes that is not JSON") from error
    if not isinstance(value, dict):
        raise UpstreamProtocolError("the upstream sent JSON that is not an object")
    return Delta(data, loose_view(value), whole)


def content_pieces(delta: Delta) -> Iterator[tuple[int, str]]:
    """(choice, text) of every choice to whose content a delta adds."""
    for choice in delta.view.choices or ():
        message = choice.message if delta.whole else choice.delta or choice.message
        if message is not None and message.content is not None:
            text, _ = content_text(message.content)
            if text:
                yield choice.index, text


def top_level(body: bytes) -> dict[str, msgspec.Raw]:
    """The top-level keys of a request body with the bytes of their values. Raises `RequestError`."""
    if not _is_utf8(body):
        raise RequestError("The request body is not valid UTF-8.", code="invalid_utf8")
    try:
        fields = _FIELDS.decode(body)
    except msgspec.ValidationError:
        raise RequestError("The request body must be a JSON object.", code="invalid_type") from None
    except msgspec.DecodeError as error:
        raise RequestError(f"The request body is not valid JSON: {error}.", code="invalid_json") from None
    except RecursionError:
        raise RequestError("The request body is nested too deeply.", code="invalid_json") from None
    if raw.repeats_a_key(body, fields):
        raise RequestError(
            "The request body names a top-level key twice; which value counts would be a guess. Send each key once.",
            code="duplicate_key",
        )
    return fields


def _is_utf8(body: bytes) -> bool:
    if body.isascii():
        return True
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(body), _PIECE):
            decoder.decode(body[start : start + _PIECE])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _messages(fields: Mapping[str, msgspec.Raw], limits: RequestLimits) -> tuple[msgspec.Raw, ...]:
    value = fields.get("messages")
    if value is None:
        raise RequestError("'messages' is missing.", code="missing_required_parameter", param="messages")
    try:
        messages = raw.items(value)
    except ValueError:
        raise RequestError("'messages' must be a list.", code="invalid_type", param="messages") from None
    if not messages:
        raise RequestError("'messages' must have at least one message.", code="empty_array", param="messages")
    if len(messages) > limits.max_messages:
        raise TooLargeError(
            f"'messages' has {len(messages)} messages; this gateway accepts {limits.max_messages}. "
            "Send fewer, or have its limit raised."
        )
    for position, message in enumerate(messages):
        if memoryview(message)[0] != 0x7B:
            raise RequestError(
                f"'messages[{position}]' must be an object.", code="invalid_type", param=f"messages[{position}]"
            )
    return tuple(messages)


def _value(decoder: msgspec.json.Decoder[Any], fields: Mapping[str, msgspec.Raw], name: str, kind: str) -> Any:
    value = fields.get(name)
    if value is None:
        return None
    try:
        return decoder.decode(value)
    except msgspec.DecodeError:
        raise RequestError(f"'{name}' must be {kind}.", code="invalid_type", param=name) from None


def _is_filled_list(fields: Mapping[str, msgspec.Raw], name: str) -> bool:
    value = fields.get(name)
    if value is None:
        return False
    if bytes(value) == b"null":
        return False
    try:
        return bool(raw.items(value))
    except ValueError:
        raise RequestError(f"'{name}' must be a list.", code="invalid_type", param=name) from None


def _turn(message: msgspec.Raw, position: int) -> Turn:
    try:
        view = _MESSAGE.decode(message)
    except (msgspec.DecodeError, RecursionError):
        return _loose_turn(message, position)
    content, media = view.content, False
    if isinstance(content, list):
        media = any(part.text is None and part.refusal is None for part in content)
        content = "\n".join([part.text or part.refusal or "" for part in content if part.text or part.refusal])
    return Turn(
        role=view.role,
        text=content or view.refusal or "",
        media=media,
        tool_call=bytes(view.tool_calls) not in _EMPTY or bytes(view.function_call) not in _EMPTY,
    )


def _loose_turn(message: msgspec.Raw, position: int) -> Turn:
    try:
        value = raw.decode(message)
        text = loose_text(value.get("content"))
    except (ValueError, RecursionError):
        raise RequestError(
            f"'messages[{position}]' cannot be read.", code="invalid_json", param=f"messages[{position}]"
        ) from None
    role = value.get("role")
    if not isinstance(role, str):
        _bad_role(position)
    content = value.get("content")
    return Turn(
        role=role,
        text=text,
        media=content is not None and not isinstance(content, str),
        tool_call=bool(value.get("tool_calls") or value.get("function_call")),
    )


def _bad_role(position: int) -> NoReturn:
    raise RequestError(
        f"'messages[{position}].role' must be a string.", code="invalid_type", param=f"messages[{position}].role"
    )
