"""An answer as the events of the Messages API, chunk by chunk or from a whole message. Knows no connection.

Blocks come one after another, each begun, continued and ended before the next, as clients of this API expect. Of
parallel tool calls the first flows; pieces of the others wait for the end, since chat completions may mix them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gateway.wire import raw
from gateway.wire.calls import Call, Calls
from gateway.wire.fold import Fold
from gateway.wire.loose import content_text, loose_int, loose_text
from gateway.wire.messages.errors import error_body
from gateway.wire.messages.to_client import (
    Block,
    citations_of,
    distinct,
    ending_of,
    message_of,
    thinking_block,
    usage_of,
)
from gateway.wire.outgoing import completion
from gateway.wire.types import Delta, DeltaView


class MessagesDialect:
    """Anthropic's Messages API, towards clients (`gateway.wire.dialect.Dialect`)."""

    def body(self, data: bytes, *, held: bool) -> bytes:
        return raw.encode(message_of(raw.decode(data), split=held))

    def error(self, status: int, body: bytes) -> bytes:
        return error_body(status, body)

    def stream(self, *, held: bool, include_usage: bool) -> MessagesWriter:
        return MessagesWriter(held=held)


def sse_event(value: Mapping[str, Any]) -> bytes:
    """One event under its own name."""
    return b"event: %b\ndata: %b\n\n" % (str(value["type"]).encode(), raw.encode(value))


class MessagesWriter:
    """One stream of events. `held`: all is known at the end, and text is split by its citations only there."""

    def __init__(self, *, held: bool) -> None:
        self._fold = Fold() if held else None
        self._live = _LiveMessage()
        self._done = False

    def chunk(self, data: bytes) -> bytes:
        if self._fold is not None:
            self._fold.add(Delta(data, DeltaView()))
            return b""
        return b"".join(map(sse_event, self._live.chunk(raw.decode(data))))

    def whole(self, data: bytes) -> bytes:
        self._done = True
        return b"".join(map(sse_event, _events(message_of(raw.decode(data), split=self._fold is not None))))

    def close(self) -> bytes:
        if self._done:
            return b""
        if self._fold is not None:
            return self.whole(completion(self._fold.answer()))
        return b"".join(map(sse_event, self._live.close()))

    def fail(self, envelope: bytes) -> bytes:
        return b"event: error\ndata: %b\n\n" % error_body(0, envelope)


def _events(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The events that say what a whole message says."""
    ending: dict[str, Any] = {
        name: message.get(name) for name in ("stop_reason", "stop_sequence", "stop_details") if name in message
    }
    usage = message["usage"]
    start = {**message, "content": [], "stop_reason": None, "stop_sequence": None}
    start["usage"] = {**usage, "output_tokens": 0}
    for name in ("grounding", "stop_details"):
        start.pop(name, None)
    yield {"type": "message_start", "message": start}
    for index, block in enumerate(message["content"]):
        yield from _block_events(index, block)
    yield from _last_events(ending, usage, message.get("grounding"))


def _last_events(ending: Mapping[str, Any], usage: Mapping[str, Any], grounding: Any) -> Iterator[dict[str, Any]]:
    last: dict[str, Any] = {"type": "message_delta", "delta": dict(ending), "usage": dict(usage)}
    if grounding is not None:
        last["grounding"] = grounding
    yield last
    yield {"type": "message_stop"}


def _block_events(index: int, block: Block) -> Iterator[dict[str, Any]]:
    kind = block["type"]
    begun, deltas = dict(block), []
    if kind == "text":
        begun = {"type": "text", "text": ""}
        deltas.append({"type": "text_delta", "text": block["text"]})
        deltas += [{"type": "citations_delta", "citation": citation} for citation in block.get("citations") or ()]
    elif kind == "thinking":
        begun = {"type": "thinking", "thinking": "", "signature": ""}
        deltas.append({"type": "thinking_delta", "thinking": block["thinking"]})
        if block["signature"]:
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
    elif kind == "tool_use":
        begun["input"] = {}
        deltas.append({"type": "input_json_delta", "partial_json": raw.encode(block["input"]).decode()})
    yield {"type": "content_block_start", "index": index, "content_block": begun}
    for delta in deltas:
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}


class _LiveMessage:
    """A message whose blocks leave as they come."""

    def __init__(self) -> None:
        self._started = False
        self._blocks = 0
        self._open: tuple[str, int] | None = None
        self._calls = Calls()
        self._flowing: int | None = None
        self._late: list[str] = []
        self._refusal: list[str] = []
        self._annotations: list[Any] = []
        self._choice: dict[str, Any] = {}
        self._usage: Any = None
        self._grounding: Any = None

    def chunk(self, value: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """What one chunk adds."""
        if not self._started:
            yield self._start(value)
        self._grounding = value.get("grounding") or self._grounding
        self._usage = value.get("usage") or self._usage
        for choice in value.get("choices") or ():
            if not isinstance(choice, dict) or choice.get("index") not in (0, None):
                continue
            self._choice.update((name, item) for name, item in choice.items() if name != "delta" and item is not None)
            delta = choice.get("delta")
            if isinstance(delta, dict):
                yield from self._delta(delta)

    def close(self) -> Iterator[dict[str, Any]]:
        """What waited for the end, and the end."""
        if not self._started:
            yield self._start({})
        calls = self._calls.all
        if not calls and self._annotations:
            yield from self._cite()
        yield from self._end_block()
        for text in (self._late, self._refusal):
            if text:
                yield from self._whole_block({"type": "text", "text": "".join(text)})
        for index, call in enumerate(calls):
            if index != self._flowing:
                yield from self._whole_call(call)
        refusal = "".join(self._refusal)
        ending = ending_of(self._choice, called=bool(calls), refusal=refusal)
        yield from _last_events(ending, usage_of(self._usage), self._grounding)

    def _start(self, value: Mapping[str, Any]) -> dict[str, Any]:
        self._started = True
        message = message_of({"id": value.get("id"), "model": value.get("model")}, split=False)
        return {"type": "message_start", "message": {**message, "stop_reason": None}}

    def _delta(self, delta: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        yield from self._thought(delta)
        text, thoughts = content_text(delta.get("content") or "")
        if thoughts:
            yield from self._thinking({"text": thoughts}, 0)
        if text and self._calls.all:
            self._late.append(text)
        elif text:
            yield from self._begin("text", 0, {"type": "text", "text": ""})
            yield self._piece({"type": "text_delta", "text": text})
        if delta.get("refusal"):
            self._refusal.append(loose_text(delta["refusal"]))
        for piece in delta.get("tool_calls") or ():
            if isinstance(piece, dict):
                yield from self._tool(piece)
        if isinstance(delta.get("annotations"), list):
            self._annotations += delta["annotations"]

    def _thought(self, delta: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        details = delta.get("reasoning_details")
        if isinstance(details, list) and details:
            for place, detail in enumerate(details):
                if isinstance(detail, dict):
                    index = loose_int(detail.get("index"))
                    yield from self._thinking(detail, place if index is None else index)
            return
        text = loose_text(delta.get("reasoning_content")) or loose_text(delta.get("reasoning"))
        if text:
            yield from self._thinking({"text": text}, 0)

    def _thinking(self, detail: Mapping[str, Any], index: int) -> Iterator[dict[str, Any]]:
        block = thinking_block(detail)
        if block["type"] == "redacted_thinking":
            yield from self._whole_block(block)
            return
        yield from self._begin("thinking", index, {"type": "thinking", "thinking": "", "signature": ""})
        if block["thinking"]:
            yield self._piece({"type": "thinking_delta", "thinking": block["thinking"]})
        if block["signature"]:
            yield self._piece({"type": "signature_delta", "signature": block["signature"]})

    def _tool(self, piece: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        index, call, arguments = self._calls.take(piece)
        if self._flowing is None and arguments and index == 0:
            # Its name is whole once arguments come.
            self._flowing = index
            yield from self._begin("tool", index, self._begun(call))
        if self._flowing == index and arguments:
            yield self._piece({"type": "input_json_delta", "partial_json": arguments})

    def _begun(self, call: Call) -> Block:
        return {"type": "tool_use", "id": call.call_id, "name": call.name, "input": {}}

    def _whole_call(self, call: Call) -> Iterator[dict[str, Any]]:
        yield from self._begin("tool", -1 - self._blocks, self._begun(call))
        yield self._piece({"type": "input_json_delta", "partial_json": "".join(call.arguments) or "{}"})
        yield from self._end_block()

    def _whole_block(self, block: Block) -> Iterator[dict[str, Any]]:
        yield from self._end_block()
        yield from _block_events(self._blocks, block)
        self._blocks += 1

    def _cite(self) -> Iterator[dict[str, Any]]:
        if self._open is not None and self._open[0] == "text":
            for citation in distinct(citations_of(self._annotations, self._grounding)):
                yield self._piece({"type": "citations_delta", "citation": citation})

    def _begin(self, kind: str, index: int, block: Block) -> Iterator[dict[str, Any]]:
        if self._open == (kind, index):
            return
        yield from self._end_block()
        self._open = (kind, index)
        yield {"type": "content_block_start", "index": self._blocks, "content_block": block}

    def _piece(self, delta: dict[str, Any]) -> dict[str, Any]:
        return {"type": "content_block_delta", "index": self._blocks, "delta": delta}

    def _end_block(self) -> Iterator[dict[str, Any]]:
        if self._open is not None:
            yield {"type": "content_block_stop", "index": self._blocks}
            self._open = None
            self._blocks += 1
