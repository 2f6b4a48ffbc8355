"""Errors in the envelope of the Messages API: `{"type": "error", "error": {"type", "message"}}`.

Source: https://platform.claude.com/docs/en/api/errors.
"""

from __future__ import annotations

from typing import Any, Final

from gateway.wire import raw

_BY_STATUS: Final = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_TYPES: Final = frozenset({*_BY_STATUS.values(), "invalid_request_error", "api_error"})
_MOST: Final = 2000


def error_body(status: int, body: bytes) -> bytes:
    """An error of OpenAI's envelope, or whatever an upstream sent, in Anthropic's; status 0 stands for none."""
    try:
        value = raw.decode(body)
    except (ValueError, RecursionError):
        value = None
    given = value.get("error") if isinstance(value, dict) else None
    if isinstance(given, dict):
        error = {name: item for name, item in given.items() if item is not None}
    else:
        error = {"message": given if isinstance(given, str) else body[:_MOST].decode("utf-8", "replace")}
    error["type"] = _type(status, error.get("type"))
    error.setdefault("message", "")
    out: dict[str, Any] = {"type": "error", "error": error}
    if isinstance(value, dict) and isinstance(value.get("request_id"), str):
        out["request_id"] = value["request_id"]
    return raw.encode(out)


def _type(status: int, said: Any) -> str:
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    if isinstance(said, str) and said in _TYPES:
        return said
    return "invalid_request_error" if 400 <= status < 500 else "api_error"
