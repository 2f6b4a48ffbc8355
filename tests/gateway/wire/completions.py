"""Random completions as a server would send them in one body, and random ways of streaming the same."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st

from gateway.wire.chat import parse_delta
from gateway.wire.types import Delta

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=24)
WORDS = TEXT.filter(bool)
FLAG: st.SearchStrategy[bool] = st.booleans()
TOKEN = st.fixed_dictionaries({"token": TEXT, "logprob": st.just(-0.5), "top_logprobs": st.just([])})
FUNCTION_CALL = st.fixed_dictionaries(
    {
        "type": st.just("function"),
        "function": st.fixed_dictionaries({"name": st.sampled_from(["search", "get_weather"]), "arguments": TEXT}),
    }
)
CUSTOM_CALL = st.fixed_dictionaries(
    {
        "type": st.just("custom"),
        "custom": st.fixed_dictionaries({"name": st.just("shell"), "input": TEXT}),
    }
)
ANNOTATION = st.fixed_dictionaries(
    {
        "type": st.just("url_citation"),
        "url_citation": st.fixed_dictionaries(
            {"start_index": st.integers(0, 5), "end_index": st.integers(6, 9), "title": TEXT, "url": TEXT}
        ),
    }
)


@st.composite
def messages(draw: st.DrawFn) -> dict[str, Any]:
    message: dict[str, Any] = {
        "role": "assistant",
        "content": draw(st.none() | TEXT),
        "refusal": draw(st.none() | WORDS),
        "annotations": draw(st.lists(ANNOTATION, max_size=2)),
    }
    calls = draw(st.lists(FUNCTION_CALL | CUSTOM_CALL, max_size=3))
    if calls:
        message["tool_calls"] = [{"id": f"call_{n}", **call} for n, call in enumerate(calls)]
    if draw(st.booleans()):
        message["reasoning_content"] = draw(WORDS)
    if draw(st.booleans()):
        message["audio"] = {"id": "audio_1", "data": draw(TEXT), "transcript": draw(TEXT), "expires_at": 17}
    if draw(st.booleans()):
        message["function_call"] = {"name": "old", "arguments": draw(TEXT)}
    if draw(st.booleans()):
        message["vendor"] = {"note": draw(WORDS), "score": 3, "safe": True}
    return message


@st.composite
def completions(draw: st.DrawFn) -> dict[str, Any]:
    """A completion in the normal form: keys that may be absent or null are present as null or empty."""
    choices = []
    for index in range(draw(st.integers(1, 3))):
        choice: dict[str, Any] = {
            "index": index,
            "message": draw(messages()),
            "logprobs": draw(
                st.none() | st.fixed_dictionaries({"content": st.lists(TOKEN, max_size=3), "refusal": st.none()})
            ),
            "finish_reason": draw(st.sampled_from(["stop", "length", "tool_calls", "content_filter"])),
        }
        if draw(st.booleans()):
            choice["stop_reason"] = 32000
        choices.append(choice)
    completion: dict[str, Any] = {
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1_700_000_000, "model": "m-1",
        "system_fingerprint": "fp", "service_tier": "default", "choices": choices,
    }  # fmt: skip
    if draw(st.booleans()):
        completion["usage"] = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
    if draw(st.booleans()):
        completion["citations"] = ["https://example.org"]
    return completion


def split_text(draw: st.DrawFn, text: str) -> list[str]:
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=4)))
    edges = [0, *cuts, len(text)]
    return [text[a:b] for a, b in pairwise(edges)]


@st.composite
def streamed(draw: st.DrawFn, completion: dict[str, Any]) -> list[dict[str, Any]]:
    """Chunks that say what `completion` says: every text cut anywhere, the choices interleaved."""
    head = {key: completion[key] for key in ("id", "created", "model", "system_fingerprint", "service_tier")}
    head["object"] = "chat.completion.chunk"
    queues = [_choice_chunks(draw, choice) for choice in completion["choices"]]
    chunks = []
    while any(queues):
        queue = queues[draw(st.sampled_from([n for n, waiting in enumerate(queues) if waiting]))]
        together = [queue.pop(0)]
        others = [other for other in queues if other and other is not queue]
        if draw(FLAG) and others:
            together.append(others[0].pop(0))
        chunks.append({**head, "choices": together})
    if "citations" in completion:
        chunks.append({**head, "choices": [], "citations": completion["citations"]})
    if "usage" in completion:
        chunks.append({**head, "choices": [], "usage": completion["usage"]})
    return chunks


def _choice_chunks(draw: st.DrawFn, choice: dict[str, Any]) -> list[dict[str, Any]]:
    message, index = choice["message"], choice["index"]
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": None, "refusal": None}]
    if message["content"] is not None:
        deltas += [{"content": piece} for piece in split_text(draw, message["content"])]
    for key in ("refusal", "reasoning_content"):
        if message.get(key):
            deltas += [{key: piece} for piece in split_text(draw, message[key])]
    for number, call in enumerate(message.get("tool_calls", ())):
        kind, field = ("function", "arguments") if call["type"] == "function" else ("custom", "input")
        first = {"index": number, "id": call["id"], "type": call["type"]}
        deltas.append({"tool_calls": [{**first, kind: {"name": call[kind]["name"], field: ""}}]})
        deltas += [
            {"tool_calls": [{"index": number, kind: {field: piece}}]} for piece in split_text(draw, call[kind][field])
        ]
    if "function_call" in message:
        deltas.append({"function_call": {"name": message["function_call"]["name"], "arguments": ""}})
        deltas += [
            {"function_call": {"arguments": piece}} for piece in split_text(draw, message["function_call"]["arguments"])
        ]
    if "audio" in message:
        audio = message["audio"]
        deltas.append({"audio": {"id": audio["id"]}})
        for key in ("transcript", "data"):
            deltas += [{"audio": {key: piece}} for piece in split_text(draw, audio[key])]
        deltas.append({"audio": {"expires_at": audio["expires_at"]}})
    if "vendor" in message:
        note = message["vendor"]["note"]
        deltas += [{"vendor": {"note": piece, "score": 3, "safe": True}} for piece in split_text(draw, note)]
    deltas += [{"annotations": [annotation]} for annotation in message["annotations"]]
    chunks: list[dict[str, Any]] = [{"index": index, "delta": delta, "finish_reason": None} for delta in deltas]
    if choice["logprobs"] is not None:
        chunks.append({"index": index, "delta": {}, "logprobs": {"content": [], "refusal": None}})
        chunks += [
            {"index": index, "delta": {}, "logprobs": {"content": [token], "refusal": None}, "finish_reason": None}
            for token in choice["logprobs"]["content"]
        ]
    finish = {key: value for key, value in choice.items() if key not in ("message", "logprobs")}
    return [*chunks, {**finish, "delta": {}}]


def as_deltas(chunks: list[dict[str, Any]]) -> list[Delta]:
    return [parse_delta(json.dumps(chunk).encode(), whole=False) for chunk in chunks]


def as_whole(completion: dict[str, Any]) -> Delta:
    return parse_delta(json.dumps(completion).encode(), whole=True)
