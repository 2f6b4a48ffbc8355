"""Streams of the Messages API as Anthropic's own SDK puts them together."""

from __future__ import annotations

from typing import Any

import msgspec
from anthropic.lib.streaming._messages import accumulate_event
from anthropic.types import RawMessageStreamEvent
from pydantic import TypeAdapter

from gateway.wire.sse import SseDecoder

_EVENT: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)


def events(body: bytes) -> list[dict[str, Any]]:
    """The data of each event; every one stands under its own name and ends with a blank line."""
    assert body.endswith(b"\n\n")
    decoder = SseDecoder()
    found = [msgspec.json.decode(data) for data in (*decoder.feed(body), *decoder.finish())]
    names = [line[7:].decode() for line in body.split(b"\n") if line.startswith(b"event: ")]
    assert names == [event["type"] for event in found]
    return found


def accumulated(body: bytes) -> dict[str, Any]:
    """The message that a stream says. Every event is valid by the SDK's types, and blocks come one after another."""
    snapshot: Any = None
    pieces: dict[int, bytes] = {}
    grounding, begun, is_open = None, -1, False
    found = events(body)
    for event in found:
        kind = event["type"]
        if kind == "content_block_start":
            assert (is_open, event["index"]) == (False, begun + 1)
            begun, is_open = event["index"], True
        elif kind in ("content_block_delta", "content_block_stop"):
            assert (is_open, event["index"]) == (True, begun)
            is_open = kind == "content_block_delta"
        grounding = event.get("grounding", grounding)
        snapshot = accumulate_event(event=_EVENT.validate_python(event), current_snapshot=snapshot, json_bufs=pieces)
    assert [event["type"] for event in found if event["type"].startswith("message")] == [
        "message_start",
        "message_delta",
        "message_stop",
    ]
    message = dict(snapshot.model_dump(exclude_none=True))
    return {**message, "grounding": grounding} if grounding is not None else message
