"""Tolerant reading of answers whose types are not the protocol's: what can be read is, nothing raises.

Used only after the typed view failed, so that an odd vendor's answer still passes, and is still checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway.wire.types import MAX_INDEX, ChoiceView, DeltaView, MessageView


def loose_text(value: Any) -> str:
    """Text of whatever stands where text belongs: a string, parts with text, lists of them."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return loose_text(value.get("text")) or loose_text(value.get("content"))
    if isinstance(value, list):
        return "".join(map(loose_text, value))
    return ""


def content_text(value: Any) -> tuple[str, str]:
    """Content and reasoning of whatever stands under `content`: a string, or parts of which some may be thinking."""
    if isinstance(value, str):
        return value, ""
    parts = value if isinstance(value, list) else [value]
    thoughts = [part["thinking"] for part in parts if isinstance(part, Mapping) and "thinking" in part]
    rest = [part for part in parts if not (isinstance(part, Mapping) and "thinking" in part)]
    return loose_text(rest), loose_text(thoughts)


def loose_int(value: Any) -> int | None:
    """An index written as an integer, as a float without fraction or as a string; None for anything else."""
    if isinstance(value, bool):
        return None
    try:
        return int(value) if int(value) == float(value) and -MAX_INDEX <= int(value) <= MAX_INDEX else None
    except (TypeError, ValueError, OverflowError):
        return None


def loose_view(value: Mapping[str, Any]) -> DeltaView:
    """The view of a decoded object, each field only where it has a readable form."""
    choices = value.get("choices")
    return DeltaView(
        choices=[_choice(item, position) for position, item in enumerate(choices)]
        if isinstance(choices, list)
        else None,
        usage=_mapping(value.get("usage")),
        error=value.get("error"),
        id=_string(value.get("id")),
        model=_string(value.get("model")),
    )


def _choice(value: Any, position: int) -> ChoiceView:
    if not isinstance(value, Mapping):
        return ChoiceView(index=position)
    index = loose_int(value.get("index"))
    return ChoiceView(
        index=position if index is None else index,
        delta=_message(value.get("delta")),
        message=_message(value.get("message")),
        finish_reason=_string(value.get("finish_reason")),
        logprobs=_mapping(value.get("logprobs")),
    )


def _message(value: Any) -> MessageView | None:
    if not isinstance(value, Mapping):
        return None
    return MessageView(
        role=_string(value.get("role")),
        content=value.get("content"),
        refusal=loose_text(value.get("refusal")) or None,
        reasoning_content=loose_text(value.get("reasoning_content")) or None,
        reasoning=value.get("reasoning"),
        tool_calls=_list(value.get("tool_calls")),
        function_call=_mapping(value.get("function_call")),
        audio=_mapping(value.get("audio")),
        annotations=_list(value.get("annotations")),
    )


def _string(value: Any) -> str | None:
    return value if isinstance(value, str) else None if value is None else str(value)


def _mapping(value: Any) -> dict[str, Any] | None:
    return value if isinstance(value, dict) else None


def _list(value: Any) -> list[Any] | None:
    return value if isinstance(value, list) else None
