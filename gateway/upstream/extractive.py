"""Answers from the retrieved passages without a language model: their best sentences, verbatim, with their sources.

The choice of sentences is `gateway.upstream.passages`; this is the shell that makes completions of it. It opens no
connection and keeps nothing between requests. `temperature`, `max_tokens`, `stop` and the like change nothing: there is
nothing to sample and an answer is a few sentences. Tools are never called. What it cannot honour it refuses.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any

import msgspec
import Stemmer

from gateway.errors import RequestError
from gateway.upstream.base import Attempt, RawReply, UpstreamReply, UpstreamRequest
from gateway.upstream.passages import answer
from gateway.wire.chat import parse_delta
from gateway.wire.types import Delta

_PIECE = re.compile(r"\s*\S+(?:\s+\S+){0,3}")
_BYTES_PER_TOKEN = 4
_MAX_N = 128


class _StreamOptions(msgspec.Struct):
    include_usage: bool | None = None


class _Asked(msgspec.Struct):
    """What of the request's body concerns this upstream; it is read from the body, which is what counts."""

    model: str | None = None
    n: int | None = None
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    response_format: dict[str, Any] | None = None
    tool_choice: Any = None
    modalities: list[str] | None = None
    logprobs: bool | None = None


class ExtractiveUpstream:
    """An `Upstream` that quotes `request.hits` in answer to `request.query`, at most `max_sentences` sentences.

    Usage counts are rough: UTF-8 bytes of the request's body and of the answer, divided by four. `clock` gives Unix
    time, `new_id` what follows `chatcmpl-`.
    """

    def __init__(
        self,
        name: str = "extractive",
        *,
        max_sentences: int = 3,
        clock: Callable[[], float] = time.time,
        new_id: Callable[[], str] = lambda: uuid.uuid4().hex,
    ) -> None:
        self._name = name
        self._max_sentences = max_sentences
        self._clock = clock
        self._new_id = new_id
        self._english = Stemmer.Stemmer("english")
        self._russian = Stemmer.Stemmer("russian")

    @property
    def name(self) -> str:
        return self._name

    async def aopen(self) -> None:
        """Nothing to open."""

    async def aclose(self) -> None:
        """Nothing to close."""

    def send(self, request: UpstreamRequest) -> _Extraction:
        """Answer. Entering raises `RequestError` for what plain sentences cannot give: JSON formats, forced tools,
        audio, log-probabilities, more than 128 choices."""
        return _Extraction(self, request)

    def forward(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes, authorization: str | None
    ) -> AbstractAsyncContextManager[RawReply]:
        """Refused: there is no server behind this upstream."""
        raise RequestError(
            f"the upstream {self._name!r} answers chat completions only; {path} needs a model server as upstream",
            code="unsupported_path",
        )

    def _stem(self, words: Sequence[str]) -> Sequence[str]:
        return [(self._english if word.isascii() else self._russian).stemWord(word) for word in words]

    def _objects(self, request: UpstreamRequest) -> list[Delta]:
        asked = _checked(request.body)
        pieces = answer(request.query, request.hits, self._stem, limit=self._max_sentences)
        prompt = max(1, len(request.body) // _BYTES_PER_TOKEN)
        count = asked.n or 1
        completion = count * max(1, len("".join(pieces).encode()) // _BYTES_PER_TOKEN)
        usage = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
        envelope = {
            "id": f"chatcmpl-{self._new_id()}",
            "object": "chat.completion.chunk" if asked.stream else "chat.completion",
            "created": int(self._clock()),
            "model": asked.model or request.model or self._name,
        }
        if not asked.stream:
            message = {"role": "assistant", "content": "".join(pieces), "refusal": None}
            choices = [
                {"index": index, "message": message, "logprobs": None, "finish_reason": "stop"}
                for index in range(count)
            ]
            return [parse_delta(msgspec.json.encode({**envelope, "choices": choices, "usage": usage}), whole=True)]
        with_usage = asked.stream_options is not None and bool(asked.stream_options.include_usage)
        return [
            parse_delta(msgspec.json.encode({**envelope, **event}), whole=False)
            for event in _events(pieces, count, usage if with_usage else None)
        ]


def _events(pieces: Sequence[str], count: int, usage: dict[str, int] | None) -> list[dict[str, Any]]:
    """Events of a stream without their envelope: role, a few words at a time, finish; usage where asked for."""
    words = [match.group() for piece in pieces for match in _PIECE.finditer(piece)]
    parts: list[tuple[dict[str, str], str | None]] = [({"role": "assistant", "content": ""}, None)]
    parts += [({"content": word}, None) for word in words]
    parts.append(({}, "stop"))
    none_yet: dict[str, Any] = {} if usage is None else {"usage": None}
    events: list[dict[str, Any]] = [
        {"choices": [{"index": index, "delta": part, "logprobs": None, "finish_reason": finish}], **none_yet}
        for part, finish in parts
        for index in range(count)
    ]
    if usage is not None:
        events.append({"choices": [], "usage": usage})
    return events


def _checked(body: bytes) -> _Asked:
    """What is asked for. Raises `RequestError` for what cannot be honoured."""
    try:
        asked = msgspec.json.decode(body, type=_Asked)
    except msgspec.ValidationError as exc:
        raise RequestError(f"the request is not valid: {exc}") from exc
    except msgspec.DecodeError as exc:
        raise RequestError(f"the request is not valid JSON: {exc}", code="invalid_json") from exc
    refuse = "the extractive upstream quotes documents; it cannot "
    kind = (asked.response_format or {}).get("type", "text")
    if kind != "text":
        raise RequestError(f"{refuse}write {kind}", param="response_format", code="unsupported_parameter")
    if asked.tool_choice not in (None, "auto", "none"):
        raise RequestError(f"{refuse}call a tool", param="tool_choice", code="unsupported_parameter")
    if asked.modalities and asked.modalities != ["text"]:
        raise RequestError(f"{refuse}speak", param="modalities", code="unsupported_parameter")
    if asked.logprobs:
        raise RequestError(f"{refuse}give log-probabilities", param="logprobs", code="unsupported_parameter")
    if asked.n is not None and not 1 <= asked.n <= _MAX_N:
        raise RequestError(f"n must be between 1 and {_MAX_N}", param="n")
    return asked


class _Extraction:
    """Context of one answer."""

    __slots__ = ("_request", "_upstream")

    def __init__(self, upstream: ExtractiveUpstream, request: UpstreamRequest) -> None:
        self._upstream = upstream
        self._request = request

    async def __aenter__(self) -> UpstreamReply:
        began = time.perf_counter()
        deltas = self._upstream._objects(self._request)
        kind = "application/json" if deltas[0].whole else "text/event-stream"
        attempts = (Attempt(self._upstream.name, 200, time.perf_counter() - began),)
        return UpstreamReply(200, {"content-type": kind}, _each(deltas), attempts)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing is held."""


async def _each(deltas: Sequence[Delta]) -> AsyncIterator[Delta]:
    for delta in deltas:
        yield delta
