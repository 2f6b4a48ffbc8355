"""Blocks of the Messages API as content parts of chat messages. Knows no conversation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from gateway.errors import RequestError
from gateway.wire.messages.parts import NATIVE
from gateway.wire.typed import kind_of

Part: TypeAlias = dict[str, Any]


def unsupported(what: str, param: str, *, remedy: str = "leave it out") -> RequestError:
    """The refusal, by name, of what chat completions cannot carry."""
    return RequestError(
        f"{what} cannot be sent to this route's upstream, which speaks chat completions; {remedy}",
        code="unsupported_parameter",
        param=param,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """Translates content. `native`: the upstream speaks the Messages API, so its own blocks may go along as parts."""

    native: bool

    def part(self, block: Mapping[str, Any], where: str) -> Part:
        """One block of a user or an assistant. Raises `RequestError` for what has no part."""
        kind = kind_of(block)
        if kind == "text":
            part = {"type": "text", "text": _string(block.get("text"), f"{where}.text")}
            if self.native and block.get("cache_control"):
                part["cache_control"] = block["cache_control"]
            return part
        if self.native and kind in NATIVE:
            return dict(block)
        if kind == "image":
            return _image(block, where)
        if kind == "document":
            return _document(block, where)
        if kind == "search_result":
            return _search_result(block, where)
        raise unsupported(f"'{where}' of type {kind!r}", where, remedy="text, images and documents can be sent")

    def plain(self, parts: Sequence[Part]) -> str | list[Part]:
        """Parts as a string where they are no more than one: some servers read nothing else."""
        if len(parts) == 1 and parts[0].keys() == {"type", "text"}:
            return str(parts[0]["text"])
        return list(parts)

    def text_only(self, blocks: Any, where: str) -> str | list[Part]:
        """Content of which only text is allowed; "" where there is none."""
        if blocks is None or isinstance(blocks, str):
            return blocks or ""
        if not isinstance(blocks, list):
            raise RequestError(
                f"'{where}' must be a string or a list of text blocks.", code="invalid_type", param=where
            )
        parts = []
        for position, block in enumerate(blocks):
            place = f"{where}[{position}]"
            if not isinstance(block, dict) or block.get("type") != "text":
                raise RequestError(f"'{place}' must be a text block.", code="invalid_type", param=place)
            parts.append(self.part(block, place))
        return self.plain(parts) if parts else ""

    def result(self, blocks: Sequence[Mapping[str, Any]], where: str) -> str | list[Part]:
        """Content of a tool's result."""
        parts = [self.part(block, f"{where}[{position}]") for position, block in enumerate(blocks)]
        for position, part in enumerate(parts):
            if not self.native and part["type"] != "text":
                place = f"{where}[{position}]"
                raise unsupported(f"'{place}', an image or a file in a tool's result,", place, remedy="send text")
        return self.plain(parts) if parts else ""


def _string(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise RequestError(f"'{where}' must be a string.", code="invalid_type", param=where)
    return value


def _image(block: Mapping[str, Any], where: str) -> Part:
    source = block.get("source")
    source = source if isinstance(source, dict) else {}
    if source.get("type") == "url":
        url = _string(source.get("url"), f"{where}.source.url")
    elif source.get("type") == "base64":
        url = f"data:{source.get('media_type')};base64,{_string(source.get('data'), f'{where}.source.data')}"
    else:
        raise unsupported(f"'{where}', an image by {source.get('type')!r},", where, remedy="send base64 or a url")
    return {"type": "image_url", "image_url": {"url": url}}


def _document(block: Mapping[str, Any], where: str) -> Part:
    _refuse_citations(block, where)
    source = block.get("source")
    source = source if isinstance(source, dict) else {}
    kind, title = kind_of(source), block.get("title") or "document"
    if kind == "base64":
        data = f"data:{source.get('media_type')};base64,{_string(source.get('data'), f'{where}.source.data')}"
        named = title if str(title).endswith(".pdf") else f"{title}.pdf"
        return {"type": "file", "file": {"filename": named, "file_data": data}}
    if kind == "text":
        return _quoted(title, block.get("context"), _string(source.get("data"), f"{where}.source.data"))
    if kind == "content":
        content = source.get("content")
        return _quoted(title, block.get("context"), content if isinstance(content, str) else _texts(content, where))
    raise unsupported(f"'{where}', a document by {kind!r},", where, remedy="send base64 or text")


def _search_result(block: Mapping[str, Any], where: str) -> Part:
    _refuse_citations(block, where)
    return _quoted(block.get("title"), block.get("source"), _texts(block.get("content"), where))


def _refuse_citations(block: Mapping[str, Any], where: str) -> None:
    wanted = block.get("citations")
    if isinstance(wanted, dict) and wanted.get("enabled"):
        raise unsupported(f"'{where}.citations'", f"{where}.citations", remedy="leave it out, or use retrieval")


def _texts(blocks: Any, where: str) -> str:
    if not isinstance(blocks, list) or not all(isinstance(b, dict) and b.get("type") == "text" for b in blocks):
        raise unsupported(f"'{where}.content'", f"{where}.content", remedy="send text blocks")
    return "\n".join(str(block.get("text")) for block in blocks)


def _quoted(title: Any, about: Any, text: str) -> Part:
    head = "\n".join(str(line) for line in (title, about) if line)
    return {"type": "text", "text": f"{head}\n\n{text}" if head else text}
