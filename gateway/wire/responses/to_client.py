"""A chat completion as a response: its items, and their events chunk by chunk. Knows no connection.

A stream is made of the same items as the whole response: what is begun while text flows is completed from it at the
end, where the annotations and the verdict are known. Items of one answer may be open at the same time, as this
protocol allows, each under its own output index.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from gateway.wire import raw
from gateway.wire.calls import Calls
from gateway.wire.fold import Fold
from gateway.wire.loose import content_text, loose_text
from gateway.wire.outgoing import completion_events, completion_object
from gateway.wire.responses.from_client import pack_reasoning
from gateway.wire.types import Delta, DeltaView

_ECHOED: Final[Mapping[str, Any]] = {
    "instructions": None, "max_output_tokens": None, "max_tool_calls": None, "metadata": {},
    "parallel_tool_calls": True,
    "reasoning": {"effort": None, "summary": None}, "safety_identifier": None, "temperature": None,
    "text": {"format": {"type": "text"}}, "tool_choice": "auto", "tools": [], "top_logprobs": None, "top_p": None,
    "truncation": "disabled", "user": None, "prompt_cache_key": None,
}  # fmt: skip


_OPENED: Final[Mapping[str, Mapping[str, Any]]] = {
    "message": {"role": "assistant", "content": []},
    "reasoning": {"summary": [], "content": []},
}


class ResponsesDialect:
    """The Responses API for one request, whose settings its answer repeats (`gateway.wire.dialect.Dialect`)."""

    def __init__(self, asked: Mapping[str, Any]) -> None:
        given = {name: asked[name] for name in _ECHOED if asked.get(name) is not None}
        self._echo = {**_ECHOED, **given}

    def body(self, data: bytes, *, held: bool) -> bytes:
        return raw.encode(self.response(raw.decode(data)))

    def error(self, status: int, body: bytes) -> bytes:
        return body

    def stream(self, *, held: bool, include_usage: bool) -> ResponsesWriter:
        return ResponsesWriter(self)

    def response(self, completion: Mapping[str, Any], order: Sequence[str] = ()) -> dict[str, Any]:
        """The response that says what a chat completion says; items stand in the `order` of ids, then as usual."""
        choices = completion.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
        finish = choice.get("finish_reason")
        reason = {"length": "max_output_tokens", "content_filter": "content_filter"}.get(finish or "")
        status = "incomplete" if reason else "completed"
        identity = response_id(completion.get("id"))
        items = items_of(choice, identity, status)
        items.sort(key=lambda item: order.index(item["id"]) if item["id"] in order else len(order))
        out = self.head(completion)
        out |= {"status": status, "output": items, "usage": _usage(completion.get("usage"))}
        out["incomplete_details"] = {"reason": reason} if reason else None
        if completion.get("grounding") is not None:
            out["grounding"] = completion["grounding"]
        return out

    def head(self, completion: Mapping[str, Any]) -> dict[str, Any]:
        """A response that is in progress."""
        return {
            "id": response_id(completion.get("id")),
            "object": "response",
            "created_at": completion.get("created") or 0,
            "status": "in_progress",
            "background": False,
            "error": None,
            "incomplete_details": None,
            "model": completion.get("model") or "",
            "output": [],
            "previous_response_id": None,
            "service_tier": completion.get("service_tier"),
            "store": False,
            "usage": None,
            **self._echo,
        }


def response_id(completion_id: Any) -> str:
    """The id of the response to a completion."""
    return f"resp_{str(completion_id or '0').removeprefix('chatcmpl-')}"


def items_of(choice: Mapping[str, Any], identity: str, status: str) -> list[dict[str, Any]]:
    """Reasoning, message and calls of a choice."""
    said = choice.get("message")
    said = said if isinstance(said, dict) else {}
    text, thoughts = content_text(said.get("content") or "")
    items = _reasoning(said, thoughts, identity, status)
    content: list[dict[str, Any]] = []
    if text:
        logprobs = (choice.get("logprobs") or {}).get("content") or []
        notes = [_annotation(note) for note in said.get("annotations") or () if isinstance(note, dict)]
        content.append({"type": "output_text", "text": text, "annotations": notes, "logprobs": logprobs})
    if refusal := loose_text(said.get("refusal")):
        content.append({"type": "refusal", "refusal": refusal})
    if content:
        head = {"type": "message", "id": _message_id(identity), "status": status, "role": "assistant"}
        items.append({**head, "content": content})
    for position, call in enumerate(said.get("tool_calls") or ()):
        if isinstance(call, dict):
            items.append(_call_item(call, position, identity, status))
    return items


def _message_id(identity: str) -> str:
    return f"msg_{identity[5:]}"


def _reasoning_id(identity: str) -> str:
    return f"rs_{identity[5:]}"


def _call_id(identity: str, position: int) -> str:
    return f"fc_{identity[5:]}_{position}"


def _reasoning(said: Mapping[str, Any], thoughts: str, identity: str, status: str) -> list[dict[str, Any]]:
    details = said.get("reasoning_details")
    text = loose_text(said.get("reasoning_content")) or loose_text(said.get("reasoning")) or thoughts
    if not text and not details:
        return []
    item: dict[str, Any] = {"type": "reasoning", "id": _reasoning_id(identity), "summary": [], "status": status}
    item["content"] = [{"type": "reasoning_text", "text": text}] if text else []
    if isinstance(details, list) and details:
        item["encrypted_content"] = pack_reasoning(details)
    return [item]


def _call_item(call: Mapping[str, Any], position: int, identity: str, status: str) -> dict[str, Any]:
    head = {"id": _call_id(identity, position), "call_id": call.get("id") or "", "status": status}
    custom = call.get("custom")
    if isinstance(custom, dict):
        return {"type": "custom_tool_call", **head, "name": custom.get("name"), "input": custom.get("input") or ""}
    function = call.get("function")
    function = function if isinstance(function, dict) else {}
    arguments = function.get("arguments") or "{}"
    return {"type": "function_call", **head, "name": function.get("name"), "arguments": arguments}


def _annotation(note: Mapping[str, Any]) -> dict[str, Any]:
    """An annotation as this dialect writes it: flat."""
    kind = note.get("type")
    inner = note.get(kind) if isinstance(kind, str) else None
    return {"type": kind, **inner} if isinstance(inner, dict) else dict(note)


def _usage(usage: Any) -> dict[str, Any] | None:
    if not isinstance(usage, dict):
        return None
    prompt = usage.get("prompt_tokens_details") or {}
    completion = usage.get("completion_tokens_details") or {}
    return {
        "input_tokens": usage.get("prompt_tokens") or 0,
        "input_tokens_details": {
            "cached_tokens": prompt.get("cached_tokens") or 0,
            "cache_write_tokens": prompt.get("cache_write_tokens") or 0,
        },
        "output_tokens": usage.get("completion_tokens") or 0,
        "output_tokens_details": {"reasoning_tokens": completion.get("reasoning_tokens") or 0},
        "total_tokens": usage.get("total_tokens") or 0,
    }


class ResponsesWriter:
    """One stream of events, numbered."""

    def __init__(self, dialect: ResponsesDialect) -> None:
        self._dialect = dialect
        self._fold = Fold()
        self._number = 0
        self._identity = ""
        self._order: list[str] = []
        self._calls = Calls()
        self._begun_calls: set[int] = set()
        self._parts: set[tuple[str, str]] = set()

    def chunk(self, data: bytes) -> bytes:
        value = raw.decode(data)
        self._fold.add(Delta(data, DeltaView()))
        out = self._start(value)
        for choice in value.get("choices") or ():
            delta = choice.get("delta") if isinstance(choice, dict) and choice.get("index") in (0, None) else None
            if isinstance(delta, dict):
                out += list(self._delta(delta))
        return self._written(out)

    def whole(self, data: bytes) -> bytes:
        return b"".join([self.chunk(chunk) for chunk in completion_events(data, include_usage=True)])

    def close(self) -> bytes:
        completion = completion_object(self._fold.answer())
        out = self._start(completion)
        response = self._dialect.response(completion, self._order)
        for item in response["output"]:
            out += list(self._finish(item))
        out.append({"type": f"response.{response['status']}", "response": response})
        return self._written(out)

    def fail(self, envelope: bytes) -> bytes:
        try:
            error = raw.decode(envelope).get("error")
        except (ValueError, AttributeError, RecursionError):
            error = None
        error = error if isinstance(error, dict) else {"message": str(error or "the answer failed")}
        event = {"type": "error", **{name: error.get(name) for name in ("code", "message", "param")}, "error": error}
        return self._written([event])

    def _written(self, events: Sequence[Mapping[str, Any]]) -> bytes:
        written = []
        for event in events:
            numbered = {"type": event["type"], "sequence_number": self._number, **event}
            self._number += 1
            written.append(b"event: %b\ndata: %b\n\n" % (str(event["type"]).encode(), raw.encode(numbered)))
        return b"".join(written)

    def _start(self, value: Mapping[str, Any]) -> list[dict[str, Any]]:
        if self._identity:
            return []
        self._identity = response_id(value.get("id"))
        head = self._dialect.head(value)
        return [{"type": f"response.{name}", "response": head} for name in ("created", "in_progress")]

    def _delta(self, delta: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        text, thoughts = content_text(delta.get("content") or "")
        thoughts += loose_text(delta.get("reasoning_content")) or loose_text(delta.get("reasoning"))
        if thoughts or delta.get("reasoning_details"):
            yield from self._flow(_reasoning_id(self._identity), "reasoning", "reasoning_text", thoughts)
        if text:
            yield from self._flow(_message_id(self._identity), "message", "output_text", text)
        for piece in delta.get("tool_calls") or ():
            if isinstance(piece, dict):
                yield from self._call(piece)

    def _flow(self, item_id: str, kind: str, part: str, text: str) -> Iterator[dict[str, Any]]:
        """Text of an item that has one part."""
        if item_id not in self._order:
            yield from self._added(_begun({"type": kind, "id": item_id, **_OPENED[kind]}))
        place = {"item_id": item_id, "output_index": self._order.index(item_id), "content_index": 0}
        if text and (item_id, part) not in self._parts:
            self._parts.add((item_id, part))
            yield {"type": "response.content_part.added", **place, "part": _empty_part(part)}
        if text:
            more: dict[str, Any] = {"logprobs": []} if part == "output_text" else {}
            yield {"type": f"response.{part}.delta", **place, "delta": text, **more}

    def _added(self, item: dict[str, Any]) -> Iterator[dict[str, Any]]:
        self._order.append(item["id"])
        yield {"type": "response.output_item.added", "output_index": len(self._order) - 1, "item": item}

    def _call(self, piece: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        position, call, arguments = self._calls.take(piece)
        item_id = _call_id(self._identity, position)
        if position not in self._begun_calls:
            self._begun_calls.add(position)
            said = {"name": call.name, "input" if call.custom else "arguments": ""}
            kind = "custom_tool_call" if call.custom else "function_call"
            head = {"type": kind, "id": item_id, "call_id": call.call_id, "status": "in_progress"}
            yield from self._added({**head, **said})
        if arguments:
            place = {"item_id": item_id, "output_index": self._order.index(item_id)}
            kind = "custom_tool_call_input" if call.custom else "function_call_arguments"
            yield {"type": f"response.{kind}.delta", **place, "delta": arguments}

    def _finish(self, item: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """What completes an item, and the whole of it if none of it has left."""
        item_id = item["id"]
        if item_id not in self._order:
            yield from self._added(_begun(item))
        place = {"item_id": item_id, "output_index": self._order.index(item_id)}
        if item["type"] in ("function_call", "custom_tool_call"):
            name = "input" if item["type"] == "custom_tool_call" else "arguments"
            kind = "custom_tool_call_input" if name == "input" else "function_call_arguments"
            yield {"type": f"response.{kind}.done", **place, name: item[name]}
        for index, part in enumerate(item.get("content") or ()):
            yield from self._finish_part(part, {**place, "content_index": index})
        yield {"type": "response.output_item.done", "output_index": place["output_index"], "item": item}

    def _finish_part(self, part: Mapping[str, Any], place: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        kind, name = part["type"], "refusal" if part["type"] == "refusal" else "text"
        if (place["item_id"], kind) not in self._parts:
            yield {"type": "response.content_part.added", **place, "part": _empty_part(kind)}
            yield {"type": f"response.{kind}.delta", **place, "delta": part[name], **_logprobs(part, [])}
        for index, annotation in enumerate(part.get("annotations") or ()):
            more = {"annotation_index": index, "annotation": annotation}
            yield {"type": "response.output_text.annotation.added", **place, **more}
        yield {"type": f"response.{kind}.done", **place, name: part[name], **_logprobs(part, part.get("logprobs"))}
        yield {"type": "response.content_part.done", **place, "part": part}


def _begun(item: Mapping[str, Any]) -> dict[str, Any]:
    """An item of which nothing has been said yet."""
    empty: dict[str, Any] = {"content": [], "summary": [], "arguments": "", "input": ""}
    begun = {name: empty.get(name, value) for name, value in item.items() if name != "encrypted_content"}
    return {**begun, "status": "in_progress"}


def _empty_part(kind: str) -> dict[str, Any]:
    if kind == "refusal":
        return {"type": kind, "refusal": ""}
    return {"type": kind, "text": "", **({"annotations": [], "logprobs": []} if kind == "output_text" else {})}


def _logprobs(part: Mapping[str, Any], value: Any) -> dict[str, Any]:
    return {"logprobs": value or []} if part["type"] == "output_text" else {}
