"""`/v1/embeddings` answered by an encoder of our own, in the words of OpenAI's API.

Source: https://platform.openai.com/docs/api-reference/embeddings. `input_type: query` takes the encoder's form for
questions, anything else that for passages. It knows no route and keeps nothing.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Literal, Protocol

import msgspec

from gateway.errors import OverloadedError, RequestError
from gateway.upstream.base import RawReply
from retrieval.errors import EncodeError

MOST_INPUTS: Final = 2048


class Encoding(Protocol):
    """Texts to vectors, batched with those of others. Raises `EncodeError`."""

    async def encode_queries(self, texts: Sequence[str]) -> Any: ...

    async def encode_passages(self, texts: Sequence[str]) -> Any: ...


class _Asked(msgspec.Struct):
    input: str | list[str]
    model: str = ""
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = None
    input_type: str = ""


class LocalEmbeddings:
    """One encoder with `dimension` numbers a vector; `count` gives the tokens of a text, of which `max_tokens` fit."""

    def __init__(
        self, name: str, encoding: Encoding, *, count: Callable[[str], int], dimension: int, max_tokens: int
    ) -> None:
        self.name = name
        self._encoding = encoding
        self._count = count
        self._dimension = dimension
        self._max_tokens = max_tokens

    def forward(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes, authorization: str | None
    ) -> _Embedding:
        """Answer. Entering raises `RequestError`, or `OverloadedError` when the encoder cannot."""
        return _Embedding(self, method, body)

    async def _answer(self, method: str, body: bytes) -> bytes:
        if method != "POST":
            raise RequestError("use POST for /v1/embeddings", code="method_not_allowed")
        asked = _read(body)
        texts = [asked.input] if isinstance(asked.input, str) else asked.input
        if asked.dimensions not in (None, self._dimension):
            raise RequestError(
                f"'dimensions' can only be {self._dimension} here; leave it out",
                code="invalid_value",
                param="dimensions",
            )
        counts = await asyncio.to_thread(lambda: [self._count(text) for text in texts])
        self._require_fitting(counts)
        query = asked.input_type in ("query", "search_query")
        try:
            encode = self._encoding.encode_queries if query else self._encoding.encode_passages
            vectors = await encode(texts)
        except EncodeError as error:
            raise OverloadedError(f"the encoder cannot answer: {error}", code="embeddings_unavailable") from error
        data = [
            {"object": "embedding", "index": index, "embedding": _written(vector, asked.encoding_format)}
            for index, vector in enumerate(vectors)
        ]
        used = sum(counts)
        usage = {"prompt_tokens": used, "total_tokens": used}
        return msgspec.json.encode({"object": "list", "data": data, "model": asked.model or self.name, "usage": usage})

    def _require_fitting(self, counts: Sequence[int]) -> None:
        if not 0 < len(counts) <= MOST_INPUTS:
            raise RequestError(f"'input' must hold 1 to {MOST_INPUTS} texts", code="invalid_value", param="input")
        for index, count in enumerate(counts):
            if count == 0:
                raise RequestError(f"'input[{index}]' is empty", code="invalid_value", param="input")
            if count > self._max_tokens:
                raise RequestError(
                    f"'input[{index}]' has {count} tokens, and this encoder reads {self._max_tokens}; split it",
                    code="context_length_exceeded",
                    param="input",
                )


def _read(body: bytes) -> _Asked:
    try:
        return msgspec.json.decode(body, type=_Asked)
    except msgspec.ValidationError as error:
        raise RequestError(
            f"the request is not valid: {error}; 'input' is a text or a list of texts, not of tokens",
            code="invalid_value",
        ) from error
    except (msgspec.DecodeError, RecursionError) as error:
        raise RequestError("the request is not valid JSON", code="invalid_json") from error


def _written(vector: Any, form: str) -> list[float] | str:
    """As numbers, or as the base64 of little-endian floats, which OpenAI's SDKs ask for."""
    if form == "base64":
        return base64.b64encode(vector.astype("<f4").tobytes()).decode()
    numbers: list[float] = vector.tolist()
    return numbers


class _Embedding:
    """Context of one request."""

    def __init__(self, embeddings: LocalEmbeddings, method: str, body: bytes) -> None:
        self._embeddings = embeddings
        self._method = method
        self._body = body

    async def __aenter__(self) -> RawReply:
        answer = await self._embeddings._answer(self._method, self._body)
        return RawReply(200, {"content-type": "application/json"}, _once(answer))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing is held open."""


async def _once(data: bytes) -> AsyncIterator[bytes]:
    yield data
