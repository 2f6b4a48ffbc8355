"""Answers as a server of Anthropic's Messages API gives them: whole, and as events with their names.

server.enqueue(json_reply(message(text("Hello"))))
server.enqueue(message_reply(message(thought("hm", "sig"), tool_use("look", {"at": 1})), size=3))
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tests.servers.upstream import Reply, json_reply

USAGE = {"input_tokens": 5, "cache_creation_input_tokens": 2, "cache_read_input_tokens": 1, "output_tokens": 4}


def text(said: str, *citations: Mapping[str, Any]) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "text", "text": said}
    return {**block, "citations": list(citations)} if citations else block


def thought(said: str, signature: str) -> dict[str, Any]:
    return {"type": "thinking", "thinking": said, "signature": signature}


def tool_use(name: str, arguments: Mapping[str, Any], call_id: str = "toolu_1") -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": dict(arguments)}


def message(*content: Mapping[str, Any], stop_reason: str = "end_turn", **fields: Any) -> dict[str, Any]:
    return {
        "id": "msg_test",
        "type": "message",
        "role": "assistant",
        "model": "claude-test",
        "content": list(content),
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": USAGE,
        **fields,
    }


def error(kind: str, said: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": said}, "request_id": "req_test"}


def message_events(whole: Mapping[str, Any], *, size: int = 5) -> Iterator[dict[str, Any]]:
    """The events that say the same; text in pieces of `size` characters, a ping among them."""
    usage = whole["usage"]
    started = {**whole, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    yield {"type": "message_start", "message": started}
    yield {"type": "ping"}
    for index, block in enumerate(whole["content"]):
        yield from _block_events(index, block, size)
    ending = {name: whole.get(name) for name in ("stop_reason", "stop_sequence", "stop_details")}
    yield {"type": "message_delta", "delta": ending, "usage": {"output_tokens": usage["output_tokens"]}}
    yield {"type": "message_stop"}


def message_reply(whole: Mapping[str, Any], *, size: int = 5) -> Reply:
    """A streamed answer."""
    return events_reply(*message_events(whole, size=size))


def events_reply(*events: Mapping[str, Any]) -> Reply:
    """An event stream with names, as it comes from Anthropic."""
    body = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
    return json_reply(body.encode(), content_type="text/event-stream; charset=utf-8")


def _block_events(index: int, block: Mapping[str, Any], size: int) -> Iterator[dict[str, Any]]:
    begun, deltas = _pieces(block, size)
    yield {"type": "content_block_start", "index": index, "content_block": begun}
    for delta in deltas:
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}


def _pieces(block: Mapping[str, Any], size: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    if block["type"] == "text":
        deltas: list[dict[str, Any]] = [{"type": "text_delta", "text": piece} for piece in _cut(block["text"], size)]
        deltas += [{"type": "citations_delta", "citation": citation} for citation in block.get("citations") or ()]
        return {"type": "text", "text": ""}, deltas
    if block["type"] == "thinking":
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in _cut(block["thinking"], size)]
        deltas.append({"type": "signature_delta", "signature": block["signature"]})
        return {"type": "thinking", "thinking": "", "signature": ""}, deltas
    if block["type"] == "tool_use":
        pieces = _cut(json.dumps(block["input"]), size) if block["input"] else [""]
        return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    return dict(block), []


def _cut(said: str, size: int) -> list[str]:
    return [said[start : start + size] for start in range(0, len(said), size)]
