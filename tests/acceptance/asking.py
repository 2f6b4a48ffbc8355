"""Asking through the official SDK, streamed or not, and what was said: the same shape whichever way it came."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx
from openai import AsyncOpenAI

from gateway.wire.sse import SseDecoder

BOTH = [False, True]
"""Client modes: plain and streamed."""

QUESTION = "How heavy is the Falcon drone?"


@dataclass
class Said:
    """An answer as a client sees it. Everything is by choice index, but for what an answer has once."""

    texts: dict[int, str] = field(default_factory=lambda: defaultdict(str))
    refusals: dict[int, str] = field(default_factory=lambda: defaultdict(str))
    reasoning: dict[int, str] = field(default_factory=lambda: defaultdict(str))
    finishes: dict[int, str] = field(default_factory=dict)
    calls: dict[int, dict[int, dict[str, str]]] = field(default_factory=lambda: defaultdict(dict))
    logprobs: dict[int, list[Any]] = field(default_factory=lambda: defaultdict(list))
    annotations: dict[int, list[Any]] = field(default_factory=lambda: defaultdict(list))
    roles: dict[int, str] = field(default_factory=dict)
    usage: dict[str, Any] | None = None
    grounding: dict[str, Any] | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return self.texts[0]

    @property
    def exchange(self) -> str:
        return self.headers["x-grounding-exchange"]

    @property
    def checks(self) -> list[dict[str, Any]]:
        assert self.grounding is not None
        return list(self.grounding["checks"])

    @property
    def labels(self) -> list[str | None]:
        return [fact["label"] for check in self.checks for fact in check["facts"]]


def user(text: str = QUESTION) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text}]


def body(text: str = QUESTION, **fields: Any) -> dict[str, Any]:
    """A request without the SDK."""
    return {"model": "m", "messages": user(text), **fields}


async def ask(client: AsyncOpenAI, *, stream: bool, messages: Any = None, model: str = "m", **fields: Any) -> Said:
    """Ask once and take in the whole answer."""
    create: Any = client.chat.completions.with_raw_response.create
    raw = await create(model=model, messages=messages or user(), stream=stream, **fields)
    said = Said(headers=raw.headers)
    parsed = raw.parse()
    if not stream:
        _take(said, parsed.model_dump(exclude_unset=True), "message")
        return said
    async for chunk in parsed:
        _take(said, chunk.model_dump(exclude_unset=True), "delta")
    return said


def _take(said: Said, value: dict[str, Any], part: str) -> None:
    for choice in value["choices"]:
        _take_choice(said, choice, choice.get(part) or {})
    said.usage = value.get("usage") or said.usage
    said.grounding = value.get("grounding") or said.grounding
    known = {"id", "object", "created", "model", "choices", "usage", "grounding"}
    said.extra.update({key: item for key, item in value.items() if key not in known and item is not None})


def _take_choice(said: Said, choice: dict[str, Any], message: dict[str, Any]) -> None:
    index = choice["index"]
    said.texts[index] += message.get("content") or ""
    said.refusals[index] += message.get("refusal") or ""
    said.reasoning[index] += message.get("reasoning_content") or ""
    if message.get("role"):
        said.roles[index] = message["role"]
    for place, call in enumerate(message.get("tool_calls") or ()):
        kept = said.calls[index].setdefault(call.get("index", place), {"id": "", "name": "", "arguments": ""})
        kept["id"] += call.get("id") or ""
        kept["name"] += call["function"].get("name") or ""
        kept["arguments"] += call["function"].get("arguments") or ""
    said.annotations[index] += message.get("annotations") or []
    if choice.get("logprobs"):
        said.logprobs[index] += choice["logprobs"]["content"] or []
    if choice.get("finish_reason"):
        said.finishes[index] = choice["finish_reason"]


@dataclass
class Wire:
    """A streamed answer as bytes."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def events(self) -> list[bytes]:
        decoder = SseDecoder()
        return [*decoder.feed(self.body), *decoder.finish()]


async def ask_raw(http: httpx.AsyncClient, path: str, **fields: Any) -> Wire:
    """A streamed request without the SDK, for what the SDK does not show."""
    async with http.stream("POST", path, json=body(stream=True, **fields)) as response:
        return Wire(response.status_code, response.headers, await response.aread())
