"""A judge's text to one JSON object that meets a schema, or the reason why not. Pure.

Tolerant of wrapping: code fences, prose, a thinking block around the object. Strict about meaning: exactly one object,
no key twice, no number out of range, no word off the offered menu, nothing missing. Nothing is ever filled in.
Knows the JSON Schema keywords this project uses; an unknown keyword is an error of the caller.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

LONGEST_REPLY = 262_144
"""Characters; a longer reply is refused unread."""

_THINKING = re.compile(r"<(think|thinking|reasoning)>.*?</\1>", re.DOTALL | re.IGNORECASE)
_UNFINISHED_THINKING = re.compile(r"<(think|thinking|reasoning)>", re.IGNORECASE)
_OBJECT_START = re.compile(r"\{\s*[\"}]")
_BOUNDS = frozenset({"minItems", "maxItems", "minimum", "maximum", "minLength", "maxLength"})
_KEYWORDS = _BOUNDS | {
    "type", "properties", "required", "additionalProperties", "enum", "items", "description", "title", "const",
}  # fmt: skip


class ReplyError(ValueError):
    """A reply that cannot be used; the message says what is wrong with it."""


def parse_reply(text: str, schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The one object in `text` that meets `schema`, without members the schema does not name.

    Raises `ReplyError` when there is none, more than one, or one that does not meet the schema.
    """
    return conform(_only_object(text), schema)


def conform(value: Any, schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """`value` checked against an object schema; raises `ReplyError`."""
    checked = _checked(value, schema, "reply")
    if not isinstance(checked, dict):
        raise ReplyError("the reply is not an object")
    return checked


def load_strict(text: str) -> Any:
    """JSON without repeated keys, NaN or infinity; raises `ReplyError`."""
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        raise ReplyError(f"not valid JSON: {error}") from error


def portable(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema without bounds, which the vendors' strict modes refuse; `conform` still enforces them."""
    kept: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _BOUNDS:
            continue
        if key == "properties":
            kept[key] = {name: portable(inner) for name, inner in value.items()}
        else:
            kept[key] = portable(value) if key == "items" else value
    return kept


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ReplyError("a member stands twice in one object")
    return found


def _no_constant(name: str) -> Any:
    raise ReplyError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant)


def _only_object(text: str) -> Any:
    if len(text) > LONGEST_REPLY:
        raise ReplyError(f"the reply is longer than {LONGEST_REPLY} characters")
    text = _THINKING.sub("", text)
    if _UNFINISHED_THINKING.search(text):
        raise ReplyError("the reply ends inside its reasoning")
    found: list[Any] = []
    at = 0
    while start := _OBJECT_START.search(text, at):
        try:
            value, at = _DECODER.raw_decode(text, start.start())
        except ReplyError:
            raise
        except (ValueError, RecursionError) as error:
            # Never look inside a broken object: its parts may say something else than the whole.
            raise ReplyError(f"the reply has a broken object: {error}") from error
        if value not in found:
            found.append(value)
    if not found:
        raise ReplyError("the reply has no JSON object" if text.strip() else "the reply is empty")
    if len(found) > 1:
        raise ReplyError("the reply has more than one object, and they differ")
    return found[0]


def _checked(value: Any, schema: Mapping[str, Any], where: str) -> Any:
    if unknown := schema.keys() - _KEYWORDS:
        raise ValueError(f"schema keywords this project does not know: {sorted(unknown)}")
    if "enum" in schema:
        value = _from_menu(value, schema["enum"], where)
    if "const" in schema and value != schema["const"]:
        raise ReplyError(f"{where} must be {schema['const']!r}")
    kinds = schema.get("type")
    if kinds is None:
        return value
    for kind in [kinds] if isinstance(kinds, str) else kinds:
        if _is(value, kind):
            return _TYPED[kind](value, schema, where) if kind in _TYPED else value
    raise ReplyError(f"{where} must be of type {kinds}, not {type(value).__name__}")


def _from_menu(value: Any, menu: list[Any], where: str) -> Any:
    """The offered word that `value` spells (case, space and hyphen aside); JSON true and false may stand for words."""
    for offered in menu:
        if type(offered) is type(value) and offered == value:
            return offered
    spelled = _spelling(value)
    matching = [offered for offered in menu if isinstance(offered, str) and _spelling(offered) == spelled]
    if spelled is None or len(matching) != 1:
        raise ReplyError(f"{where} is off the menu: {str(value)[:80]!r}")
    return matching[0]


def _spelling(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return re.sub(r"[\s_-]+", "_", value.strip().casefold()) if isinstance(value, str) else None


def _is(value: Any, kind: str) -> bool:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    kinds: dict[str, bool] = {
        "object": isinstance(value, dict),
        "array": isinstance(value, list),
        "string": isinstance(value, str),
        "boolean": isinstance(value, bool),
        "null": value is None,
        "number": number,
        "integer": number and (isinstance(value, int) or float(value).is_integer()),
    }
    return kinds[kind]


def _object(value: dict[str, Any], schema: Mapping[str, Any], where: str) -> dict[str, Any]:
    properties: Mapping[str, Any] = schema.get("properties", {})
    if missing := [name for name in schema.get("required", ()) if name not in value]:
        raise ReplyError(f"{where} lacks {', '.join(missing)}")
    return {
        name: _checked(value[name], inner, f"{where}.{name}") for name, inner in properties.items() if name in value
    }


def _array(value: list[Any], schema: Mapping[str, Any], where: str) -> list[Any]:
    _bounded(len(value), schema.get("minItems"), schema.get("maxItems"), f"the number of items of {where}")
    inner = schema.get("items", {})
    return [_checked(item, inner, f"{where}[{index}]") for index, item in enumerate(value)]


def _string(value: str, schema: Mapping[str, Any], where: str) -> str:
    _bounded(len(value), schema.get("minLength"), schema.get("maxLength"), f"the length of {where}")
    return value


def _number(value: float, schema: Mapping[str, Any], where: str) -> float:
    _bounded(value, schema.get("minimum"), schema.get("maximum"), where)
    return value


def _integer(value: float, schema: Mapping[str, Any], where: str) -> int:
    return int(_number(value, schema, where))


def _bounded(value: float, least: float | None, most: float | None, where: str) -> None:
    if (least is not None and value < least) or (most is not None and value > most):
        raise ReplyError(f"{where} is {value}, outside {least} to {most}")


_TYPED: dict[str, Any] = {
    "object": _object, "array": _array, "string": _string, "number": _number, "integer": _integer,
}  # fmt: skip
