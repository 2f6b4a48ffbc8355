"""A chat completion as a message of the Messages API: its blocks, its citations, its ending. Streams are `stream`.

Where nothing left before the verdict, text is split into blocks so that each citation stands on the text it supports,
as Claude does it. Where text left earlier, it is one block, and the citations stand at its end: a streamed and a plain
answer have the same blocks. Knows no connection.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from gateway.wire import raw
from gateway.wire.loose import content_text, loose_text

Block: TypeAlias = dict[str, Any]

_STOPS: Final = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "refusal",
}
_NATIVE: Final = frozenset({"char_location", "page_location", "content_block_location"})
_USAGE: Final = ("cache_creation", "server_tool_use", "inference_geo", "speed")


def message_of(completion: Mapping[str, Any], *, split: bool) -> dict[str, Any]:
    """The message that says what a chat completion says; of several choices the first."""
    choices = completion.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
    said = choice.get("message")
    said = said if isinstance(said, dict) else {}
    grounding = completion.get("grounding")
    text, thoughts = content_text(said.get("content") or "")
    calls = [block for call in said.get("tool_calls") or () if (block := tool_use_of(call)) is not None]
    notes = citations_of(said.get("annotations"), grounding)
    content = _thinking(said, thoughts)
    if text:
        content += _split(text, notes) if split else [_unsplit(text, [] if calls else notes)]
    if refusal := loose_text(said.get("refusal")):
        content.append({"type": "text", "text": refusal})
    ending = ending_of(choice, called=bool(calls), refusal=refusal)
    message: dict[str, Any] = {
        "id": completion.get("id") or "msg_0",
        "type": "message",
        "role": "assistant",
        "model": completion.get("model") or "",
        "content": content + calls,
        **ending,
        "usage": usage_of(completion.get("usage")),
    }
    if grounding is not None:
        message["grounding"] = grounding
    return message


def tool_use_of(call: Any) -> Block | None:
    """A tool call as a block. Arguments that are no JSON object are handed on as text, not swallowed."""
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        return None
    arguments = function.get("arguments") or "{}"
    try:
        value = raw.decode(str(arguments).encode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        value = {"unreadable_arguments": arguments}
    return {"type": "tool_use", "id": call.get("id") or "", "name": function.get("name") or "", "input": value}


def ending_of(choice: Mapping[str, Any], *, called: bool, refusal: str) -> dict[str, Any]:
    """`stop_reason`, `stop_sequence` and, for a refusal, `stop_details`."""
    finish = choice.get("finish_reason") or "stop"
    reason = _STOPS.get(finish, "end_turn")
    sequence = choice.get("stop_reason")
    if reason == "end_turn" and called:
        reason = "tool_use"  # some servers say `stop` for it
    elif reason == "end_turn" and isinstance(sequence, str):
        reason = "stop_sequence"
    ending: dict[str, Any] = {
        "stop_reason": reason,
        "stop_sequence": sequence if reason == "stop_sequence" else None,
    }
    details = choice.get("stop_details")
    if isinstance(details, dict):
        ending["stop_details"] = details
    elif reason == "refusal":
        ending["stop_details"] = {"type": "refusal", "category": None, "explanation": refusal or None}
    return ending


def usage_of(usage: Any) -> dict[str, Any]:
    """Usage in Anthropic's terms, where tokens from a cache are not among the input tokens."""
    given: Mapping[str, Any] = usage if isinstance(usage, dict) else {}
    details = given.get("prompt_tokens_details")
    details = details if isinstance(details, dict) else {}
    read = given.get("cache_read_input_tokens") or details.get("cached_tokens") or 0
    written = given.get("cache_creation_input_tokens") or details.get("cache_write_tokens") or 0
    out = {
        "input_tokens": max(0, (given.get("prompt_tokens") or 0) - read - written),
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": read,
        "output_tokens": given.get("completion_tokens") or 0,
    }
    reasoning = given.get("completion_tokens_details")
    if isinstance(reasoning, dict) and isinstance(reasoning.get("reasoning_tokens"), int):
        out["output_tokens_details"] = {"thinking_tokens": reasoning["reasoning_tokens"]}
    out.update((name, given[name]) for name in _USAGE if given.get(name) is not None)
    return out


Note: TypeAlias = tuple[int, int, dict[str, Any]]
"""A citation over code points `start` to `end` of the content."""


def citations_of(annotations: Any, grounding: Any) -> list[Note]:
    """Citations in text order: Claude's own as they came, the gateway's as results of a search that it did itself."""
    sources = _Sources(grounding)
    notes: list[Note] = []
    for annotation in annotations if isinstance(annotations, list) else ():
        kind = annotation.get("type") if isinstance(annotation, dict) else None
        holder = annotation.get(kind) if isinstance(kind, str) else None
        if not isinstance(holder, dict):
            continue
        start, end = holder.get("start_index"), holder.get("end_index")
        if not isinstance(start, int) or not isinstance(end, int):
            continue
        native = annotation.get("citation")
        if isinstance(native, dict):
            notes.append((start, end, native))
        elif kind in _NATIVE:
            notes.append((start, end, {k: v for k, v in holder.items() if k not in ("start_index", "end_index")}))
        elif kind == "url_citation":
            notes.append((start, end, sources.citation(start, end, holder)))
    return sorted(notes, key=lambda note: (note[0], note[1]))


class _Sources:
    """Sources and evidence of a `grounding` object, to say what a link of ours stands for."""

    def __init__(self, grounding: Any) -> None:
        self._numbers: dict[str, int] = {}
        self._quotes: dict[tuple[int, int, int], str] = {}
        if not isinstance(grounding, dict):
            return
        for source in (grounding.get("retrieval") or {}).get("sources") or ():
            self._numbers.setdefault(source["url"], source["number"])
        for check in grounding.get("checks") or ():
            for fact in check.get("facts") or ():
                for evidence in fact.get("evidence") or ():
                    place = (fact["start"], fact["end"], evidence["source"])
                    self._quotes.setdefault(place, evidence.get("quote") or "")

    def citation(self, start: int, end: int, link: Mapping[str, Any]) -> dict[str, Any]:
        url, title = link.get("url") or "", link.get("title") or None
        number = self._numbers.get(url)
        if number is None:
            where = {"url": url, "title": title, "encrypted_index": ""}
            return {"type": "web_search_result_location", "cited_text": "", **where}
        return {
            "type": "search_result_location",
            "cited_text": self._quotes.get((start, end, number), ""),
            "source": url,
            "title": title,
            "search_result_index": number - 1,
            "start_block_index": 0,
            "end_block_index": 1,
        }


def distinct(notes: Sequence[Note]) -> list[dict[str, Any]]:
    """Citations without their places, each once."""
    out: list[dict[str, Any]] = []
    for _, _, citation in notes:
        if citation not in out:
            out.append(citation)
    return out


def _unsplit(text: str, notes: Sequence[Note]) -> Block:
    block: Block = {"type": "text", "text": text}
    return {**block, "citations": distinct(notes)} if notes else block


def _split(text: str, notes: Sequence[Note]) -> list[Block]:
    """Blocks of which each cited span is one of its own; blank text between them stays with the block before."""
    blocks: list[Block] = []
    position = 0

    def add(end: int, citations: list[dict[str, Any]]) -> None:
        nonlocal position
        piece = text[position:end]
        position = max(position, end)
        if blocks and not piece.strip():
            blocks[-1]["text"] += piece
            if citations:
                blocks[-1]["citations"] = [*(blocks[-1].get("citations") or ()), *citations]
        elif piece:
            blocks.append({"type": "text", "text": piece, **({"citations": citations} if citations else {})})

    spans: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for start, end, citation in notes:
        spans.setdefault((start, min(end, len(text))), []).append(citation)
    for (start, end), citations in spans.items():
        if start > position:
            add(start, [])
        add(end, citations)
    add(len(text), [])
    return blocks


def _thinking(said: Mapping[str, Any], thoughts: str) -> list[Block]:
    """Thinking with the signature it came with; a reasoning model of another kind has none."""
    details = said.get("reasoning_details")
    blocks = [thinking_block(item) for item in details if isinstance(item, dict)] if isinstance(details, list) else []
    if blocks:
        return blocks
    text = loose_text(said.get("reasoning_content")) or loose_text(said.get("reasoning")) or thoughts
    return [thinking_block({"text": text})] if text else []


def thinking_block(detail: Mapping[str, Any]) -> Block:
    """One item of `reasoning_details` as a block."""
    if detail.get("type") == "reasoning.encrypted":
        return {"type": "redacted_thinking", "data": detail.get("data") or ""}
    text = detail.get("text") or detail.get("summary") or ""
    return {"type": "thinking", "thinking": text, "signature": detail.get("signature") or ""}
