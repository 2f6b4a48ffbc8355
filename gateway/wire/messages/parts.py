"""Content of chat messages as blocks of the Messages API. Knows no roles and no conversation."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from gateway.errors import RequestError
from gateway.wire.typed import kind_of

Block: TypeAlias = dict[str, Any]

FORMAT: Final = "anthropic-claude-v1"
"""How `reasoning_details` names thinking that Claude signed, as OpenRouter does."""
NATIVE: Final = frozenset({"image", "document", "search_result", "container_upload"})
"""Blocks of the Messages API that a chat request may hold as content parts."""
_DATA_URL: Final = re.compile(r"data:([\w.+-]+/[\w.+-]+)((?:;[\w=.+-]+)*?)(;base64)?,", re.IGNORECASE)
_TEXT: Final = frozenset({"text/plain", "text/markdown", "text/csv", "text/html"})


def unsupported(what: str, param: str, *, remedy: str = "leave it out") -> RequestError:
    """The refusal, by name, of what the Messages API cannot carry."""
    return RequestError(
        f"{what} cannot be sent to this route's upstream, which speaks Anthropic's Messages API; {remedy}",
        code="unsupported_parameter",
        param=param,
    )


def blocks_of(content: Any, where: str) -> list[Block]:
    """Content of a message, a string or parts, as blocks; empty text makes none.

    Raises `RequestError` for a part that has no block, naming it by `where`.
    """
    if content is None:
        return []
    if isinstance(content, str):
        return [text_block(content)] if content else []
    if not isinstance(content, list):
        raise RequestError(f"'{where}' must be a string or a list of parts.", code="invalid_type", param=where)
    return [
        block for position, part in enumerate(content) if (block := _block_of(part, f"{where}[{position}]")) is not None
    ]


def text_block(text: str) -> Block:
    """A block of text."""
    return {"type": "text", "text": text}


def mark_cached(block: Block, source: Mapping[str, Any]) -> Block:
    """The block with the cache breakpoint that its source asks for, in Anthropic's words or in OpenAI's."""
    if isinstance(source.get("cache_control"), dict):
        block["cache_control"] = source["cache_control"]
    elif source.get("prompt_cache_breakpoint"):
        block["cache_control"] = {"type": "ephemeral"}
    return block


def _block_of(part: Any, where: str) -> Block | None:
    kind = kind_of(part)
    if kind in ("text", "refusal"):
        text = part.get(kind)
        return mark_cached(text_block(text), part) if isinstance(text, str) and text else None
    if kind == "image_url":
        return mark_cached(_image(part.get("image_url"), where), part)
    if kind == "file":
        return mark_cached(_file(part.get("file"), where), part)
    if kind in NATIVE:
        return dict(part)
    raise unsupported(f"'{where}' of type {kind!r}", where, remedy="text, images and files can be")


def _image(value: Any, where: str) -> Block:
    url = value.get("url") if isinstance(value, dict) else value
    if not isinstance(url, str):
        raise RequestError(f"'{where}.image_url' has no url.", code="invalid_type", param=where)
    if not url.startswith("data:"):
        return {"type": "image", "source": {"type": "url", "url": url}}
    media_type, data = _data_url(url, where)
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}


def _file(value: Any, where: str) -> Block:
    file = value if isinstance(value, dict) else {}
    if isinstance(file.get("file_id"), str):
        return {"type": "document", "source": {"type": "file", "file_id": file["file_id"]}}
    if not isinstance(file.get("file_data"), str):
        raise RequestError(f"'{where}.file' has neither file_data nor file_id.", code="invalid_type", param=where)
    media_type, data = _data_url(file["file_data"], where)
    block: Block = {"type": "document"}
    if media_type == "application/pdf":
        block["source"] = {"type": "base64", "media_type": media_type, "data": data}
    elif media_type in _TEXT:
        block["source"] = {"type": "text", "media_type": "text/plain", "data": _decoded(data, where)}
    elif media_type.startswith("image/"):
        return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}
    else:
        raise unsupported(f"'{where}', a file of type {media_type},", where, remedy="send PDF, text or images")
    if file.get("filename"):
        block["title"] = file["filename"]
    return block


def _data_url(url: str, where: str) -> tuple[str, str]:
    """Media type and base64 data of a data URL (RFC 2397); a bare base64 string of a PDF is one to OpenAI, too."""
    found = _DATA_URL.match(url[:200])
    if found is None and url.startswith("JVBERi0"):
        return "application/pdf", url
    if found is None or not found[3]:
        raise RequestError(
            f"'{where}' must be a data URL with base64 data, such as data:image/png;base64,...",
            code="invalid_value",
            param=where,
        )
    return found[1].lower(), url[found.end() :]


def _decoded(data: str, where: str) -> str:
    try:
        return base64.b64decode(data, validate=True).decode()
    except (binascii.Error, ValueError):
        raise RequestError(f"'{where}' is not UTF-8 text in base64.", code="invalid_value", param=where) from None
