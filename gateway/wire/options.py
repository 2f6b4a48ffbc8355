"""Our own options of a request: the top-level key `grounding` and the headers `x-grounding-*`.

Checks their form only. Whether a route allows an option is the route's business.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, Final

from gateway.errors import RequestError
from gateway.wire import raw
from gateway.wire.types import GroundingOptions

PREFIX: Final = "x-grounding-"
RELEASES: Final = ("live", "sentence", "held", "detached")
NAMES: Final = ("release", "check", "filters", "repository", "revision", "base_revision", "timeout")
MAX_TEXT: Final = 2048
MAX_FILTERS: Final = 32
MAX_TIMEOUT_S: Final = 86_400
_NONE: Final = GroundingOptions()


def parse_options(body: raw.Value | None, headers: Mapping[str, str]) -> GroundingOptions:
    """Options from the value of `grounding` (None if absent) and from the headers, whose names may have any case.

    Raises `RequestError` for an unknown option, a value of the wrong form, and one set to two values.
    """
    given = _of_body(body) if body is not None else {}
    for name, value in headers.items():
        if name[0] in "xX" and name[: len(PREFIX)].lower() == PREFIX:
            option = name[len(PREFIX) :].lower().replace("-", "_")
            parsed = _of_header(option, name.lower(), value)
            if option in given and given[option] != parsed:
                raise RequestError(
                    f"The option {option!r} is set to one value in the body's 'grounding' and to another in the header "
                    f"{name.lower()!r}. Send it once.",
                    code="conflicting_options",
                    param=f"grounding.{option}",
                )
            given[option] = parsed
    return GroundingOptions(**given) if given else _NONE


def _of_body(body: raw.Value) -> dict[str, Any]:
    value = raw.decode(body)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise RequestError("'grounding' must be an object of options.", code="invalid_type", param="grounding")
    _require_distinct(body, "grounding")
    if isinstance(value.get("filters"), dict):
        _require_distinct(raw.fields(body)["filters"], "grounding.filters")
    return {
        name: _checked(name, item, f"grounding.{name}")
        for name, item in value.items()
        if item is not None or name not in NAMES
    }


def _of_header(option: str, name: str, text: str) -> Any:
    value: Any = text
    if option == "filters":
        try:
            value = raw.decode(text.encode())
        except (ValueError, RecursionError):
            raise RequestError(
                f'The header {name!r} must hold a JSON object of strings, for example {{"product": "x100"}}.',
                code="invalid_type",
                param=name,
            ) from None
        if isinstance(value, dict):
            _require_distinct(text.encode(), name)
    if option == "timeout":
        try:
            value = float(text)
        except ValueError:
            value = text
    return _checked(option, value, name)


def _require_distinct(data: raw.Value, param: str) -> None:
    """Raises `RequestError` for an object that names a key twice: which of the two were meant would be a guess."""
    if raw.repeats_a_key(bytes(data), raw.fields(data)):
        raise RequestError(f"{param!r} names a key twice. Send each once.", code="duplicate_key", param=param)


def _checked(option: str, value: Any, param: str) -> Any:
    if option not in NAMES:
        close = difflib.get_close_matches(option, NAMES, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else f" Known options: {', '.join(NAMES)}."
        raise RequestError(f"Unknown grounding option {option!r}.{hint}", code="unknown_parameter", param=param)
    if option == "filters":
        return _filters(value, param)
    if option == "timeout":
        return _seconds(value, param)
    _text(value, param)
    if option == "release" and value not in RELEASES:
        raise RequestError(
            f"{param!r} must be one of {', '.join(RELEASES)}, not {value!r}.", code="invalid_value", param=param
        )
    return value


def _seconds(value: Any, param: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= MAX_TIMEOUT_S:
        raise RequestError(
            f"{param!r} must be a number of seconds above 0, at most {MAX_TIMEOUT_S}.",
            code="invalid_value",
            param=param,
        )
    return float(value)


def _filters(value: Any, param: str) -> dict[str, str]:
    if not isinstance(value, dict):
        raise RequestError(f"{param!r} must be an object of strings.", code="invalid_type", param=param)
    if len(value) > MAX_FILTERS:
        raise RequestError(f"{param!r} has more than {MAX_FILTERS} filters.", code="invalid_value", param=param)
    for key, item in value.items():
        _text(key, param)
        _text(item, f"{param}.{key}")
    return value


def _text(value: Any, param: str) -> None:
    if not isinstance(value, str) or not value:
        raise RequestError(f"{param!r} must be a string that is not empty.", code="invalid_type", param=param)
    if len(value) > MAX_TEXT or not value.isprintable():
        raise RequestError(
            f"{param!r} must have at most {MAX_TEXT} characters, all of them printable.",
            code="invalid_value",
            param=param,
        )
