"""Values of a request whose type is not known yet, taken as what they should be or refused by name. Pure."""

from __future__ import annotations

from typing import Any

from gateway.errors import RequestError


def kind_of(value: Any) -> str | None:
    """The `type` of a part, block, item or tool; None for what has none that can be read."""
    kind = value.get("type") if isinstance(value, dict) else None
    return kind if isinstance(kind, str) else None


def mapping(value: Any, where: str) -> dict[str, Any]:
    """An object; {} where there is none. Raises `RequestError`."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _wrong(where, "an object")
    return value


def listing(value: Any, where: str) -> list[Any]:
    """A list; [] where there is none. Raises `RequestError`."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise _wrong(where, "a list")
    return value


def word(value: Any, where: str) -> str | None:
    """A string or None. Raises `RequestError`."""
    if value is not None and not isinstance(value, str):
        raise _wrong(where, "a string")
    return value


def string(value: Any, where: str) -> str:
    """A string. Raises `RequestError`."""
    if not isinstance(value, str):
        raise _wrong(where, "a string")
    return value


def flag(value: Any, where: str) -> bool:
    """True or false; false where there is neither. Raises `RequestError`."""
    if value is not None and not isinstance(value, bool):
        raise _wrong(where, "true or false")
    return bool(value)


def number(value: Any, where: str) -> float | None:
    """A number or None. Raises `RequestError`."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float))):
        raise _wrong(where, "a number")
    return value


def _wrong(where: str, what: str) -> RequestError:
    return RequestError(f"'{where}' must be {what}.", code="invalid_type", param=where)
