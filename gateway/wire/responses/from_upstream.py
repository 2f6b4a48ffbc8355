"""Answers of the Responses API as chat completions: a whole response, or its events one by one.

Reasoning becomes `reasoning_content`, which clients show, and encrypted reasoning `reasoning_details`, which go back on
the next turn. What came only with the end of an item (servers differ) is said then. Knows no connection.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from gateway.errors import UpstreamProtocolError
from gateway.wire import raw
from gateway.wire.responses.to_upstream import REASONING_FORMAT

_DONE: Final = b"[DONE]"
_CALLS: Final = {"function_call": ("function", "arguments"), "custom_tool_call": ("custom", "input")}
_KNOWN: Final = frozenset({"message", "reasoning", *_CALLS})
_ENDS: Final = frozenset({"response.completed", "response.incomplete"})
_INCOMPLETE: Final = {"max_output_tokens": "length", "content_filter": "content_filter"}


class ResponseReading:
    """Translates one answer. `created` is the time of the completion where the server does not tell it."""

    def __init__(self, created: int) -> None:
        self._created = created
        self._head = b""
        self._said = _Said()

    def whole(self, data: bytes) -> bytes:
        """A response as a chat completion. What is none comes back as an error, or as it is."""
        try:
            value = raw.decode(data)
        except (ValueError, RecursionError):
            return data
        if not isinstance(value, dict) or value.get("object") != "response":
            return data
        if value.get("status") not in ("completed", "incomplete"):
            return _failure(value)
        said = _Said()
        deltas = [delta for item in value.get("output") or () for delta in said.rest(_item(item))]
        message = _message(deltas)
        choice: dict[str, Any] = {"index": 0, "message": message, "logprobs": said.logprobs()}
        choice["finish_reason"] = _finish(value, said)
        return raw.encode(
            {**self._envelope(value, "chat.completion"), "choices": [choice], "usage": usage_of(value.get("usage"))}
        )

    def event(self, data: bytes) -> list[bytes]:
        """One event as chunks; the last one as the end mark. Raises `UpstreamProtocolError` for unknown items."""
        try:
            value = raw.decode(data)
        except (ValueError, RecursionError):
            return [data]
        kind = value.get("type") if isinstance(value, dict) else None
        if kind == "error":
            error = value.get("error") if isinstance(value.get("error"), dict) else value
            return [_error(error)]
        if kind == "response.failed":
            return [_failure(value.get("response") or {})]
        if not self._head and kind == "response.created":
            self._head = raw.encode(self._envelope(value.get("response") or {}, "chat.completion.chunk"))[:-1]
            return [self._chunk({"role": "assistant", "content": ""})]
        if kind in _ENDS:
            return self._end(value.get("response") or {})
        # Kinds of events that are not known here announce, repeat or count what others say.
        return [self._chunk(delta, logprobs) for delta, logprobs in self._said.event(str(kind), value)]

    def _end(self, response: Mapping[str, Any]) -> list[bytes]:
        out = []
        if not self._head:
            raise UpstreamProtocolError("the upstream's stream has no response.created")
        for position, item in enumerate(response.get("output") or ()):
            out += [self._chunk(delta) for delta in self._said.rest(_item(item), position)]
        choice = {"index": 0, "delta": {}, "logprobs": None, "finish_reason": _finish(response, self._said)}
        out.append(b'%b,"choices":[%b]}' % (self._head, raw.encode(choice)))
        if response.get("usage"):
            out.append(b'%b,"choices":[],"usage":%b}' % (self._head, raw.encode(usage_of(response["usage"]))))
        return [*out, _DONE]

    def _chunk(self, delta: Mapping[str, Any], logprobs: Any = None) -> bytes:
        if not self._head:
            raise UpstreamProtocolError("the upstream's stream has no response.created")
        choice = {"index": 0, "delta": delta, "logprobs": logprobs, "finish_reason": None}
        return b'%b,"choices":[%b]}' % (self._head, raw.encode(choice))

    def _envelope(self, response: Mapping[str, Any], kind: str) -> dict[str, Any]:
        created = response.get("created_at")
        out = {
            "id": response.get("id"),
            "object": kind,
            "created": int(created) if isinstance(created, int | float) else self._created,
            "model": response.get("model"),
        }
        return {**out, **({"service_tier": response["service_tier"]} if response.get("service_tier") else {})}


class _Said:
    """What was said of each item, so that nothing is said twice and nothing is left out."""

    def __init__(self) -> None:
        self.length = 0
        self.calls: dict[int, int] = {}
        self._texts: dict[tuple[int, str, int], str] = {}
        self._starts: dict[tuple[int, int], int] = {}
        self._ended: set[int] = set()
        self._logprobs: list[Any] = []
        self._next = 0

    def logprobs(self) -> dict[str, Any] | None:
        """Those of the whole text."""
        return {"content": self._logprobs, "refusal": None} if self._logprobs else None

    def event(self, kind: str, value: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], Any]]:
        """Deltas of one event, with their logprobs."""
        place = _index(value.get("output_index"))
        if kind == "response.output_item.added":
            item = _item(value.get("item"))
            if item["type"] in _CALLS:
                yield self._begin(item, place), None
        elif kind == "response.output_item.done":
            for delta in self.rest(_item(value.get("item")), place):
                yield delta, None
        elif kind.endswith(".delta") and isinstance(value.get("delta"), str) and value["delta"]:
            delta = self._piece(kind.removeprefix("response.").removesuffix(".delta"), place, value)
            if delta:
                given = value.get("logprobs") if "content" in delta else None
                yield delta, {"content": given, "refusal": None} if given else None

    def _piece(self, name: str, place: int, value: Mapping[str, Any]) -> dict[str, Any]:
        text = value["delta"]
        if name in ("function_call_arguments", "custom_tool_call_input") and place in self.calls:
            kind, field = ("function", "arguments") if name.startswith("function") else ("custom", "input")
            self._note((place, field, 0), text)
            return {"tool_calls": [{"index": self.calls[place], kind: {field: text}}]}
        part = {"output_text": "content", "refusal": "refusal"}.get(name)
        if part is not None:
            at = _index(value.get("content_index"))
            if part == "content":
                self._starts.setdefault((place, at), self.length)
                self.length += len(text)
            self._note((place, part, at), text)
            return {part: text}
        if name in ("reasoning_text", "reasoning_summary_text"):
            self._note((place, "reasoning_content", 0), text)
            return {"reasoning_content": text}
        return {}

    def _note(self, place: tuple[int, str, int], text: str) -> None:
        self._texts[place] = self._texts.get(place, "") + text

    def _begin(self, item: Mapping[str, Any], place: int) -> dict[str, Any]:
        kind, field = _CALLS[item["type"]]
        self.calls[place] = len(self.calls)
        head = {"index": self.calls[place], "id": item.get("call_id"), "type": kind}
        return {"tool_calls": [{**head, kind: {"name": item.get("name"), field: ""}}]}

    def rest(self, item: Mapping[str, Any], place: int | None = None) -> Iterator[dict[str, Any]]:
        """What a whole item says that was not said before, `place` being its index in the output."""
        if place is None:
            place, self._next = self._next, self._next + 1
        if place in self._ended:
            return
        self._ended.add(place)
        if item["type"] in _CALLS:
            kind, field = _CALLS[item["type"]]
            if place not in self.calls:
                yield self._begin(item, place)
            if missing := self._missing((place, field, 0), item.get(field)):
                yield {"tool_calls": [{"index": self.calls[place], kind: {field: missing}}]}
        elif item["type"] == "reasoning":
            yield from self._reasoning(item, place)
        else:
            for index, part in enumerate(item.get("content") or ()):
                yield from self._part(part if isinstance(part, dict) else {}, place, index)

    def _part(self, part: Mapping[str, Any], place: int, index: int) -> Iterator[dict[str, Any]]:
        if part.get("type") == "refusal":
            if missing := self._missing((place, "refusal", index), part.get("refusal")):
                yield {"refusal": missing}
            return
        start = self._starts.setdefault((place, index), self.length)
        if missing := self._missing((place, "content", index), part.get("text")):
            self.length += len(missing)
            yield {"content": missing}
        self._logprobs += part.get("logprobs") or ()
        notes = [annotation_of(note, start) for note in part.get("annotations") or () if isinstance(note, dict)]
        if notes:
            yield {"annotations": notes}

    def _reasoning(self, item: Mapping[str, Any], place: int) -> Iterator[dict[str, Any]]:
        if (place, "reasoning_content", 0) not in self._texts:
            parts = [*(item.get("summary") or ()), *(item.get("content") or ())]
            text = "".join(str(part.get("text") or "") for part in parts if isinstance(part, dict))
            if text:
                yield {"reasoning_content": text}
        if item.get("encrypted_content"):
            detail = {"type": "reasoning.encrypted", "data": item["encrypted_content"], "format": REASONING_FORMAT}
            yield {"reasoning_details": [{**detail, "id": item.get("id"), "index": place}]}

    def _missing(self, place: tuple[int, str, int], whole: Any) -> str:
        """What of a text was not said yet. Raises when something else was said."""
        said = self._texts.get(place, "")
        text = whole if isinstance(whole, str) else said
        if not text.startswith(said):
            raise UpstreamProtocolError("the upstream ended an item with another text than it had streamed")
        self._texts[place] = text
        return text[len(said) :]


def usage_of(usage: Any) -> dict[str, Any]:
    """Usage in the words of chat completions."""
    usage = usage if isinstance(usage, dict) else {}
    prompt, completion = usage.get("input_tokens") or 0, usage.get("output_tokens") or 0
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": usage.get("total_tokens") or prompt + completion,
        "prompt_tokens_details": usage.get("input_tokens_details") or {},
        "completion_tokens_details": usage.get("output_tokens_details") or {},
    }


def annotation_of(note: Mapping[str, Any], start: int) -> dict[str, Any]:
    """An annotation in the nested form of chat completions, over the whole content: `start` is where its part began."""
    kind = str(note.get("type"))
    inner = {name: value for name, value in note.items() if name != "type"}
    for name in ("start_index", "end_index"):
        if isinstance(inner.get(name), int):
            inner[name] += start
    return {"type": kind, kind: inner}


def _message(deltas: list[dict[str, Any]]) -> dict[str, Any]:
    """One message of the deltas of whole items."""
    texts = {name: "".join(delta.get(name) or "" for delta in deltas) for name in ("content", "refusal")}
    thoughts = "".join(delta.get("reasoning_content") or "" for delta in deltas)
    details = [detail for delta in deltas for detail in delta.get("reasoning_details") or ()]
    notes = [note for delta in deltas for note in delta.get("annotations") or ()]
    calls: dict[int, dict[str, Any]] = {}
    for piece in (piece for delta in deltas for piece in delta.get("tool_calls") or ()):
        call = calls.setdefault(piece["index"], {name: piece[name] for name in piece if name != "index"})
        for kind, field in _CALLS.values():
            if kind in piece and call.get(kind) is not piece[kind]:
                call[kind] = {**call[kind], field: call[kind][field] + piece[kind][field]}
    message: dict[str, Any] = {"role": "assistant"}
    message["content"] = texts["content"] if texts["content"] or not (calls or texts["refusal"]) else None
    message["refusal"] = texts["refusal"] or None
    message.update({"reasoning_content": thoughts} if thoughts else {})
    message.update({"reasoning_details": details} if details else {})
    message.update({"tool_calls": [calls[index] for index in sorted(calls)]} if calls else {})
    message.update({"annotations": notes} if notes else {})
    return message


def _finish(response: Mapping[str, Any], said: _Said) -> str:
    details = response.get("incomplete_details")
    if response.get("status") == "incomplete":
        reason = details.get("reason") if isinstance(details, dict) else None
        return _INCOMPLETE.get(str(reason), "length")
    return "tool_calls" if said.calls else "stop"


def _failure(response: Mapping[str, Any]) -> bytes:
    error = response.get("error")
    if isinstance(error, dict):
        return _error(error)
    return _error(
        {"message": f"the upstream's response is {response.get('status')!r}", "code": "response_not_completed"}
    )


def _error(error: Mapping[str, Any]) -> bytes:
    code = error.get("code")
    envelope = {"message": error.get("message"), "type": "server_error", "param": error.get("param"), "code": code}
    return raw.encode({"error": envelope})


def _index(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _item(item: Any) -> Mapping[str, Any]:
    kind = item.get("type") if isinstance(item, dict) else None
    if kind not in _KNOWN:
        raise UpstreamProtocolError(
            f"the upstream sent an item of type {str(kind)[:60]!r}, for which chat completions have no place"
        )
    found: Mapping[str, Any] = item
    return found
