"""Answers of the Messages API as chat completions: a whole message, or its events one by one.

Thinking becomes `reasoning_content`, which clients show, and `reasoning_details`, which carry the signature that makes
it good for the next turn. Citations become annotations over the text block that bears them. Knows no connection.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gateway.errors import UpstreamProtocolError
from gateway.wire import raw
from gateway.wire.messages.parts import FORMAT

_FINISHES: Final = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}
_DONE: Final = b"[DONE]"
_LINKED: Final = frozenset({"web_search_result_location", "search_result_location"})


def error_envelope(data: bytes) -> bytes:
    """An error of the Messages API as OpenAI's envelope; anything else as it is."""
    try:
        value = raw.decode(data)
    except (ValueError, RecursionError):
        return data
    error = value.get("error") if isinstance(value, dict) else None
    if not isinstance(error, dict) or "code" in error:
        return data
    envelope = {"message": error.get("message"), "type": error.get("type"), "param": None, "code": error.get("type")}
    out: dict[str, Any] = {"error": envelope}
    if isinstance(value.get("request_id"), str):
        out["request_id"] = value["request_id"]
    return raw.encode(out)


class MessageReading:
    """Translates one answer. `created` is the time of the completion, in seconds since the epoch."""

    __slots__ = ("_blocks", "_calls", "_created", "_head", "_length", "_thoughts", "_usage")

    def __init__(self, created: int) -> None:
        self._created = created
        self._head = b""
        self._blocks: dict[int, _Block] = {}
        self._calls = 0
        self._thoughts = 0
        self._length = 0
        self._usage: dict[str, Any] = {}

    def whole(self, data: bytes) -> bytes:
        """A message as a chat completion. What is no message comes back as an error, or as it is."""
        try:
            value = raw.decode(data)
        except (ValueError, RecursionError):
            return data
        if not isinstance(value, dict) or value.get("type") != "message":
            return error_envelope(data)
        message, finish = _said(value)
        usage = usage_of(value.get("usage") or {})
        completion: dict[str, Any] = {
            "id": value.get("id"),
            "object": "chat.completion",
            "created": self._created,
            "model": value.get("model"),
            "choices": [{"index": 0, "message": message, "logprobs": None, **finish}],
            "usage": usage,
        }
        if tier := (value.get("usage") or {}).get("service_tier"):
            completion["service_tier"] = tier
        return raw.encode(completion)

    def event(self, data: bytes) -> list[bytes]:
        """One event as chunks; the last one as the end mark. Raises `UpstreamProtocolError` for unknown blocks."""
        try:
            value = raw.decode(data)
        except (ValueError, RecursionError):
            return [data]
        kind = value.get("type") if isinstance(value, dict) else None
        if kind == "content_block_delta":
            return self._delta(value)
        if kind == "content_block_start":
            return self._start(value)
        if kind == "content_block_stop":
            return self._stop(value)
        if kind == "message_start":
            return self._open(value.get("message") or {})
        if kind == "message_delta":
            return self._finish(value)
        if kind == "message_stop":
            return [_DONE]
        if kind == "error":
            return [error_envelope(data)]
        # New kinds of events are to be expected (the API's own versioning rule), and say nothing of the answer.
        return []

    def _open(self, message: Mapping[str, Any]) -> list[bytes]:
        self._usage = dict(message.get("usage") or {})
        head: dict[str, Any] = {
            "id": message.get("id"),
            "object": "chat.completion.chunk",
            "created": self._created,
            "model": message.get("model"),
        }
        if tier := self._usage.get("service_tier"):
            head["service_tier"] = tier
        self._head = raw.encode(head)[:-1] + b',"choices":['
        return [self._chunk({"role": "assistant", "content": ""})]

    def _chunk(self, delta: Mapping[str, Any]) -> bytes:
        return b'%b{"index":0,"delta":%b,"logprobs":null,"finish_reason":null}]}' % (self._opened(), raw.encode(delta))

    def _opened(self) -> bytes:
        if not self._head:
            raise UpstreamProtocolError("the upstream's stream has no message_start")
        return self._head

    def _start(self, event: Mapping[str, Any]) -> list[bytes]:
        value = event.get("content_block") or {}
        block = self._blocks[event.get("index", 0)] = _Block(value.get("type"), self._length)
        if block.kind == "text":
            return self._text(block, value.get("text"))
        if block.kind in ("thinking", "redacted_thinking"):
            block.place = self._thoughts
            self._thoughts += 1
            return self._thought(block, value)
        if block.kind == "tool_use":
            block.place = self._calls
            self._calls += 1
            function: dict[str, Any] = {"name": value.get("name"), "arguments": ""}
            if value.get("input"):
                block.spoken = True
                function["arguments"] = raw.encode(value["input"]).decode()
            call = {"index": block.place, "id": value.get("id"), "type": "function", "function": function}
            return [self._chunk({"tool_calls": [call]})]
        raise _unknown_block(block.kind)

    def _delta(self, event: Mapping[str, Any]) -> list[bytes]:
        delta = event.get("delta") or {}
        block = self._blocks.get(event.get("index", 0))
        if block is None:
            raise UpstreamProtocolError("the upstream sent a delta of a block that it had not begun")
        kind = delta.get("type")
        if kind == "text_delta":
            return self._text(block, delta.get("text"))
        if kind == "input_json_delta":
            piece = delta.get("partial_json")
            if not piece:
                return []
            block.spoken = True
            return [self._chunk({"tool_calls": [{"index": block.place, "function": {"arguments": piece}}]})]
        if kind in ("thinking_delta", "signature_delta"):
            return self._thought(block, delta)
        if kind == "citations_delta" and isinstance(delta.get("citation"), dict):
            block.citations.append(delta["citation"])
        return []

    def _text(self, block: _Block, text: Any) -> list[bytes]:
        if not text:
            return []
        self._length += len(text)
        return [self._chunk({"content": text})]

    def _thought(self, block: _Block, value: Mapping[str, Any]) -> list[bytes]:
        delta: dict[str, Any] = {}
        if block.kind == "redacted_thinking":
            delta["reasoning_details"] = [_encrypted(value, block.place)]
        else:
            text, signature = value.get("thinking"), value.get("signature")
            if not text and not signature:
                return []
            detail: dict[str, Any] = {"type": "reasoning.text", "format": FORMAT, "index": block.place}
            if text:
                delta["reasoning_content"] = detail["text"] = text
            if signature:
                detail["signature"] = signature
            delta["reasoning_details"] = [detail]
        return [self._chunk(delta)]

    def _stop(self, event: Mapping[str, Any]) -> list[bytes]:
        block = self._blocks.get(event.get("index", 0))
        if block is None:
            return []
        if block.kind == "tool_use" and not block.spoken:
            # A tool without parameters is called with no input at all; to chat clients that is an empty object.
            return [self._chunk({"tool_calls": [{"index": block.place, "function": {"arguments": "{}"}}]})]
        if block.citations:
            span = (block.start, self._length)
            return [self._chunk({"annotations": [annotation_of(citation, span) for citation in block.citations]})]
        return []

    def _finish(self, event: Mapping[str, Any]) -> list[bytes]:
        said = {name: value for name, value in (event.get("usage") or {}).items() if value is not None}
        self._usage.update(said)
        finish = _finish_of(event.get("delta") or {})
        choice = {"index": 0, "delta": {}, "logprobs": None, **finish}
        head = self._opened()
        return [
            b"%b%b]}" % (head, raw.encode(choice)),
            b'%b],"usage":%b}' % (head, raw.encode(usage_of(self._usage))),
        ]


class _Block:
    """A block that is being streamed; `place` counts tool calls and thoughts by themselves."""

    __slots__ = ("citations", "kind", "place", "spoken", "start")

    def __init__(self, kind: Any, start: int) -> None:
        self.kind = kind
        self.start = start
        self.place = 0
        self.spoken = False
        self.citations: list[dict[str, Any]] = []


def usage_of(usage: Mapping[str, Any]) -> dict[str, Any]:
    """Usage in OpenAI's terms, where the prompt counts with what came from a cache, and in Anthropic's own beside."""
    written, read = usage.get("cache_creation_input_tokens") or 0, usage.get("cache_read_input_tokens") or 0
    prompt = (usage.get("input_tokens") or 0) + written + read
    completion = usage.get("output_tokens") or 0
    out: dict[str, Any] = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": read, "cache_write_tokens": written},
    }
    details = usage.get("output_tokens_details")
    if isinstance(details, dict) and isinstance(details.get("thinking_tokens"), int):
        out["completion_tokens_details"] = {"reasoning_tokens": details["thinking_tokens"]}
    known = ("input_tokens", "output_tokens", "service_tier")
    out.update((name, value) for name, value in usage.items() if name not in known and value is not None)
    return out


def annotation_of(citation: Mapping[str, Any], span: tuple[int, int]) -> dict[str, Any]:
    """A citation as an annotation over the code points `span` of the content."""
    place = {"start_index": span[0], "end_index": span[1]}
    kind = str(citation.get("type"))
    if kind in _LINKED:
        url = citation.get("url") or citation.get("source") or ""
        linked = {**place, "title": citation.get("title") or url, "url": url}
        return {"type": "url_citation", "url_citation": linked, "citation": dict(citation)}
    return {"type": kind, kind: {**citation, **place}}


def _said(value: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The chat message that says what a whole message says, and how it ended."""
    texts: list[str] = []
    details: list[dict[str, Any]] = []
    calls: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    length = 0
    for block in value.get("content") or ():
        kind = block.get("type")
        if kind == "text":
            text = block.get("text") or ""
            span = (length, length + len(text))
            annotations += [annotation_of(citation, span) for citation in block.get("citations") or ()]
            texts.append(text)
            length = span[1]
        elif kind == "thinking":
            detail = {"type": "reasoning.text", "text": block.get("thinking") or "", "format": FORMAT}
            details.append({**detail, "signature": block.get("signature") or "", "index": len(details)})
        elif kind == "redacted_thinking":
            details.append(_encrypted(block, len(details)))
        elif kind == "tool_use":
            function = {"name": block.get("name"), "arguments": raw.encode(block.get("input") or {}).decode()}
            calls.append({"id": block.get("id"), "type": "function", "function": function})
        else:
            raise _unknown_block(kind)
    message: dict[str, Any] = {"role": "assistant", "content": "".join(texts) if texts or not calls else None}
    message["refusal"] = None
    if thoughts := "".join(detail.get("text") or "" for detail in details):
        message["reasoning_content"] = thoughts
    message.update({"reasoning_details": details} if details else {})
    message.update({"tool_calls": calls} if calls else {})
    message.update({"annotations": annotations} if annotations else {})
    return message, _finish_of(value)


def _encrypted(block: Mapping[str, Any], index: int) -> dict[str, Any]:
    return {"type": "reasoning.encrypted", "data": block.get("data"), "format": FORMAT, "index": index}


def _finish_of(value: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a choice that say how it ended; the stop sequence that was met stands where vLLM puts it."""
    finish: dict[str, Any] = {"finish_reason": _FINISHES.get(value.get("stop_reason") or "", "stop")}
    if value.get("stop_sequence") is not None:
        finish["stop_reason"] = value["stop_sequence"]
    if isinstance(value.get("stop_details"), dict):
        finish["stop_details"] = value["stop_details"]
    return finish


def _unknown_block(kind: Any) -> UpstreamProtocolError:
    return UpstreamProtocolError(
        f"the upstream sent a block of type {str(kind)[:60]!r}, for which chat completions have no place"
    )
