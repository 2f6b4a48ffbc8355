"""JSON objects and lists whose values stay as the bytes they came in. Knows no dialect.

What passes through is never decoded and encoded again, so numbers, escapes and unknown keys leave as they came.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

Value: TypeAlias = bytes | msgspec.Raw

_FIELDS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ITEMS: Final = msgspec.json.Decoder(list[msgspec.Raw])


def _as_dict(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


_ENCODER: Final = msgspec.json.Encoder(enc_hook=_as_dict)
# Keys that nearly every request or answer has, as they are written.
_NAMES: Final = (
    "model messages stream temperature top_p max_tokens max_completion_tokens tools tool_choice n stop stream_options "
    "response_format seed user metadata id object created choices usage grounding system_fingerprint service_tier "
    "index message delta finish_reason logprobs role content refusal annotations"
)
_KEYS: Final = {name: b'"%b":' % name.encode() for name in _NAMES.split()}
_KEY: Final = re.compile(rb'[ \t\r\n]*("[^"\\]*(?:\\.[^"\\]*)*")[ \t\r\n]*:[ \t\r\n]*', re.DOTALL)
_NEXT: Final = re.compile(rb"[ \t\r\n]*([,}])")
_BRACKET: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|([\[{])|[\]}]', re.DOTALL)
_USUAL_PASSES: Final = 10
_NOT_BRACKETS: Final = bytes(byte for byte in range(256) if byte not in b"[]{}")


def encode(value: Any) -> bytes:
    """Compact JSON. Lone surrogates, which JSON can carry but UTF-8 cannot, are written as escapes."""
    try:
        return _ENCODER.encode(value)
    except UnicodeEncodeError:
        return json.dumps(_plain(value), separators=(",", ":")).encode()


def decode(data: Value) -> Any:
    """Any JSON value; lone surrogates, NaN and infinities of careless writers are taken as they are.

    Raises `ValueError` (of which msgspec's errors are kinds) for anything else, and `RecursionError` for deep nesting.
    """
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError:
        return json.loads(bytes(data))


def fields(data: Value) -> dict[str, msgspec.Raw]:
    """Top-level keys of an object to the bytes of their values. Raises `ValueError` for anything but an object."""
    try:
        return _FIELDS.decode(data)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        value = json.loads(bytes(data))
        if not isinstance(value, dict):
            raise ValueError("not a JSON object") from None
        return {key: msgspec.Raw(encode(item)) for key, item in value.items()}


def items(data: Value) -> list[msgspec.Raw]:
    """The elements of a list as bytes. Raises `ValueError` for anything but a list."""
    return _ITEMS.decode(data)


def write_object(pairs: Mapping[str, Value]) -> bytes:
    """The object with these values, compact between them."""
    keys = _KEYS
    written = [(keys.get(key) or _ENCODER.encode(key) + b":") + value for key, value in pairs.items()]
    return b"{" + b",".join(written) + b"}"


def write_list(values: Iterable[Value]) -> bytes:
    """The list of these values, compact between them."""
    return b"[" + b",".join(values) + b"]"


def spans(data: bytes, values: Mapping[str, Value]) -> dict[str, tuple[int, int]] | None:
    """Where each value stands in `data`, given what `fields(data)` returned. None if a key occurs twice."""
    found: dict[str, tuple[int, int]] = {}
    position = data.index(b"{") + 1
    while (key := _KEY.match(data, position)) is not None:
        name = msgspec.json.decode(key[1])
        value = bytes(values[name])
        start = key.end()
        position = start + len(value)
        # The last of two equal keys is the one in `values`: the first is found out by its other value or its name.
        following = _NEXT.match(data, position)
        if name in found or following is None or not data.startswith(value, start):
            return None
        found[name] = (start, position)
        position = following.end()
        if following[1] == b"}":
            break
    return found


def deeper_than(data: bytes, levels: int) -> bool:
    """Whether lists and objects in `data`, which is JSON, stand in each other more than `levels` deep."""
    if len(data) <= 2 * levels or data.count(b"[") + data.count(b"{") <= levels:
        return False
    # Pairs with nothing between are taken out, at most two levels a pass, which is much faster than to look at each
    # bracket. What is left then is deeper than answers are, or text that holds brackets.
    brackets = data.translate(None, _NOT_BRACKETS)
    for _ in range(min(levels // 2, _USUAL_PASSES)):
        brackets = brackets.replace(b"[]", b"").replace(b"{}", b"")
    return bool(brackets) and _goes_below(data, levels)


def _goes_below(data: bytes, levels: int) -> bool:
    depth = 0
    for match in _BRACKET.finditer(data):
        if match[1]:
            depth += 1
            if depth > levels:
                return True
        elif match[0][:1] != b'"':
            depth -= 1
    return False


def repeats_a_key(data: bytes, values: Mapping[str, Value]) -> bool:
    """Whether `data` names a top-level key twice, given what `fields(data)` returned."""
    size = 1 + 4 * len(values) + sum(map(len, values)) + sum(map(len, values.values()))
    # A compact object without repetition has exactly this size; anything else is looked at closely.
    return bool(values) and size != len(data) and spans(data, values) is None


def _plain(value: Any) -> Any:
    """`value` with raw parts decoded and mappings as dicts, as `json.dumps` wants them."""
    if isinstance(value, msgspec.Raw):
        return decode(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value
