"""Streams of the Responses API, put together and held against the types of OpenAI's own SDK."""

from __future__ import annotations

from typing import Any

import msgspec
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

from gateway.wire.sse import SseDecoder

_EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)


def events(body: bytes) -> list[dict[str, Any]]:
    """The data of each event, numbered without a gap, each under its own name and of a type that the SDK knows."""
    assert body.endswith(b"\n\n")
    decoder = SseDecoder()
    found = [msgspec.json.decode(data) for data in (*decoder.feed(body), *decoder.finish())]
    names = [line[7:].decode() for line in body.split(b"\n") if line.startswith(b"event: ")]
    assert names == [event["type"] for event in found]
    assert [event["sequence_number"] for event in found] == list(range(len(found)))
    for event in found:
        assert _EVENT.validate_python(event).type == event["type"]
    return found


def accumulated(body: bytes) -> dict[str, Any]:
    """The response at the end. What the deltas said is what its items say, each item begun once and ended once."""
    found = events(body)
    assert [event["type"] for event in found[:2]] == ["response.created", "response.in_progress"]
    response = dict(found[-1]["response"])
    said: dict[tuple[int, int], str] = {}
    added, done, notes = [], [], []
    for event in found:
        kind = event["type"]
        if kind == "response.output_item.added":
            assert event["output_index"] == len(added)
            added.append(event["item"])
        elif kind == "response.output_item.done":
            assert event["item"] == response["output"][event["output_index"]]
            done.append(event["output_index"])
        elif kind.endswith(".delta"):
            place = event["output_index"], event.get("content_index", 0)
            said[place] = said.get(place, "") + event["delta"]
        elif kind == "response.output_text.annotation.added":
            notes.append(event["annotation"])
    assert done == list(range(len(response["output"]))) == list(range(len(added)))
    whole: dict[tuple[int, int], str] = {}
    for index, item in enumerate(response["output"]):
        assert added[index]["id"] == item["id"]
        for place, part in enumerate(item.get("content") or ()):
            whole[index, place] = part.get("text") or part.get("refusal") or ""
        if item["type"] in ("function_call", "custom_tool_call"):
            whole[index, 0] = item.get("arguments") or item.get("input") or ""
    # A call without arguments is whole as an empty object, of which no piece came.
    assert {place: text for place, text in said.items() if text} == {
        place: text for place, text in whole.items() if text and (text != "{}" or place in said)
    }
    assert notes == [
        note
        for item in response["output"]
        for part in item.get("content") or ()
        for note in part.get("annotations") or ()
    ]
    return response
