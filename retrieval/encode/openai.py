"""An encoder behind any endpoint that speaks OpenAI's `POST /v1/embeddings`.

The model's tokenizer is not at hand, so tokens are approximated (see `approximate_offsets`). Knows nothing of passages,
queues or indexes. HTTP libraries are imported with the first request: a gateway with another encoder does not wait.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from retrieval.encode.base import SignedEncoder, approximate_offsets, unit_rows
from retrieval.errors import EncodeError
from retrieval.types import Signature

if TYPE_CHECKING:
    import httpx
    from tenacity import RetryCallState

    from retrieval.types import Vectors

RETRIED = frozenset({408, 409, 429, 500, 502, 503, 504})
ERROR_EXCERPT = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAIEncoderSettings:
    """Where and what. `base_url` ends before `/embeddings`, as in `https://api.openai.com/v1`.

    `dimensions` is sent when set, for models that can shorten their vectors. A request holds at most `batch_items`
    texts and about `batch_tokens` tokens. `attempts` counts the first one; waits grow up to `longest_wait_s`.
    """

    base_url: str
    model: str
    revision: str = ""
    dimensions: int | None = None
    max_tokens: int = 8191
    batch_items: int = 128
    batch_tokens: int = 100_000
    attempts: int = 4
    longest_wait_s: float = 20.0
    query_prefix: str = ""
    passage_prefix: str = ""


class OpenAIEncoder(SignedEncoder):
    """`Encoder` over HTTP. `client` carries time-outs, proxies, certificates and the key; whoever made it closes it."""

    def __init__(
        self,
        settings: OpenAIEncoderSettings,
        client: httpx.Client,
        dimension: int,
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._settings = settings
        self._url = f"{settings.base_url.rstrip('/')}/embeddings"
        self._client = client
        self._sleep = sleep
        super().__init__(
            Signature(
                model=settings.model,
                revision=settings.revision,
                dimension=dimension,
                max_tokens=settings.max_tokens,
                query_prefix=settings.query_prefix,
                passage_prefix=settings.passage_prefix,
            )
        )

    @classmethod
    def open(
        cls, settings: OpenAIEncoderSettings, client: httpx.Client, *, sleep: Callable[[float], None] = time.sleep
    ) -> OpenAIEncoder:
        """Asks the endpoint for one vector to learn the dimension. Raises `EncodeError` when it cannot be reached."""
        probe = cls(settings, client, 0, sleep=sleep)
        return cls(settings, client, len(probe._request(["dimension"])[0]), sleep=sleep)

    def token_offsets(self, text: str) -> Sequence[tuple[int, int]]:
        return approximate_offsets(text)

    def _encode(self, prefix: str, texts: Sequence[str]) -> Vectors:
        prepared = [self._prepared(prefix + text) for text in texts]
        self._cut.record(sum(cut for _, _, cut in prepared))
        vectors = np.empty((len(prepared), self.dimension), dtype=np.float32)
        for first, last in self._batches([tokens for _, tokens, _ in prepared]):
            rows = self._request([text for text, _, _ in prepared[first:last]])
            widths = {len(row) for row in rows}
            if widths != {self.dimension}:
                raise EncodeError(
                    f"{self._url} sent vectors of {sorted(widths)} numbers, the first ones had {self.dimension}",
                    hint="the endpoint changed its model; restart, and ingest again",
                )
            vectors[first:last] = rows
        if not np.isfinite(vectors).all():
            raise EncodeError(f"{self._url} sent numbers that are not finite", hint="look at the endpoint's own log")
        return unit_rows(vectors)

    def _prepared(self, text: str) -> tuple[str, int, bool]:
        """(text to send, approximate tokens, whether it was cut)."""
        limit = self._settings.max_tokens
        if len(text) <= limit:  # no token is shorter than a code point
            return text or " ", len(text), False
        spans = approximate_offsets(text)
        if len(spans) <= limit:
            return text, len(spans), False
        return text[: spans[limit - 1][1]], limit, True

    def _batches(self, tokens: Sequence[int]) -> Iterator[tuple[int, int]]:
        first, total = 0, 0
        for position, count in enumerate(tokens):
            full = position - first >= self._settings.batch_items or total + count > self._settings.batch_tokens
            if full and position > first:
                yield first, position
                first, total = position, 0
            total += count
        if first < len(tokens):
            yield first, len(tokens)

    # --- HTTP ---

    def _request(self, texts: Sequence[str]) -> list[list[float]]:
        from tenacity import Retrying, retry_if_exception_type, stop_after_attempt

        body: dict[str, Any] = {"model": self._settings.model, "input": list(texts), "encoding_format": "float"}
        if self._settings.dimensions is not None:
            body["dimensions"] = self._settings.dimensions
        retrying = Retrying(
            retry=retry_if_exception_type(_TryAgain),
            stop=stop_after_attempt(self._settings.attempts),
            wait=self._wait,
            sleep=self._sleep,
            reraise=True,
        )
        try:
            response = retrying(self._post, body)
        except _TryAgain as error:
            raise EncodeError(
                f"{self._url} failed {self._settings.attempts} times, last with: {error}",
                hint="check that the endpoint is up and what its rate limit is",
            ) from error
        return self._vectors(response, len(texts))

    def _post(self, body: dict[str, Any]) -> httpx.Response:
        import httpx

        try:
            response = self._client.post(self._url, json=body)
        except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
            raise EncodeError(
                f"{self._url} is not a URL: {error}", hint="set base_url, as in http://host:port/v1"
            ) from error
        except httpx.HTTPError as error:
            raise _TryAgain(f"{type(error).__name__}: {error}", None) from error
        if response.status_code in RETRIED:
            raise _TryAgain(f"status {response.status_code}: {_excerpt(response)}", _retry_after(response))
        if response.is_error or response.is_redirect:
            hint = (
                "check the key"
                if response.status_code in (401, 403)
                else "check base_url, the model name and max_tokens"
            )
            raise EncodeError(f"{self._url} answered {response.status_code}: {_excerpt(response)}", hint=hint)
        return response

    def _wait(self, state: RetryCallState) -> float:
        from tenacity import wait_random_exponential

        longest = self._settings.longest_wait_s
        error = state.outcome.exception() if state.outcome else None
        if isinstance(error, _TryAgain) and error.after_s is not None:
            return min(error.after_s, longest)
        return float(wait_random_exponential(multiplier=0.5, max=longest)(state))

    def _vectors(self, response: httpx.Response, count: int) -> list[list[float]]:
        try:
            entries = sorted(response.json()["data"], key=lambda entry: int(entry["index"]))
            rows = [[float(number) for number in entry["embedding"]] for entry in entries]
            in_order = [int(entry["index"]) for entry in entries] == list(range(count))
        except (ValueError, KeyError, TypeError) as error:
            raise EncodeError(
                f"{self._url} sent no embeddings: {_excerpt(response)}", hint="is it an OpenAI-compatible endpoint?"
            ) from error
        if not in_order or not all(rows):
            raise EncodeError(f"{self._url} sent {len(rows)} vectors for {count} texts", hint="lower batch_items")
        return rows


class _TryAgain(Exception):
    """A failure that may pass; `after_s` is the wait that the endpoint asked for."""

    def __init__(self, message: str, after_s: float | None) -> None:
        super().__init__(message)
        self.after_s = after_s


def _excerpt(response: httpx.Response) -> str:
    return " ".join(response.text[:ERROR_EXCERPT].split())


def _retry_after(response: httpx.Response) -> float | None:
    try:
        return max(0.0, float(response.headers.get("retry-after", "")))
    except ValueError:
        return None
