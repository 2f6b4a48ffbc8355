"""A reranker behind HTTP: one request scores all texts against the query.

Two dialects: `cohere` (`{query, documents, model}` to `{results: [{index, relevance_score}]}`, which Jina, Voyage-like
servers, vLLM and Infinity speak too) and `tei` (`{query, texts}` to `[{index, score}]`, Text Embeddings Inference).

Knows nothing of hits; a caller bounds how long it waits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import httpx

from retrieval.errors import SearchError


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointSettings:
    """`url` is the whole address of the endpoint, e.g. `https://api.example.com/v1/rerank`."""

    url: str
    dialect: Literal["cohere", "tei"] = "cohere"
    model: str = ""


class EndpointReranker:
    """Scores by a server. Raises `SearchError` when it cannot be reached or its answer cannot be used."""

    def __init__(self, settings: EndpointSettings, client: httpx.Client) -> None:
        self._settings = settings
        self._client = client

    def score(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """One score a text, higher is better."""
        if not texts:
            return []
        try:
            answer = self._client.post(self._settings.url, json=self._body(query, texts))
            answer.raise_for_status()
            return self._read(answer.json(), len(texts))
        except httpx.HTTPStatusError as error:
            raise SearchError(f"the reranker answered {error.response.status_code}") from error
        except httpx.HTTPError as error:
            raise SearchError(f"the reranker cannot be reached ({type(error).__name__})") from error
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise SearchError("the reranker's answer cannot be read: check url and dialect") from error

    def _body(self, query: str, texts: Sequence[str]) -> dict[str, Any]:
        if self._settings.dialect == "tei":
            return {"query": query, "texts": list(texts), "truncate": True}
        model = {"model": self._settings.model} if self._settings.model else {}
        return {"query": query, "documents": list(texts), "top_n": len(texts), **model}

    def _read(self, body: Any, count: int) -> list[float]:
        if self._settings.dialect == "tei":
            pairs = {int(item["index"]): float(item["score"]) for item in body}
        else:
            pairs = {int(item["index"]): float(item["relevance_score"]) for item in body["results"]}
        # A text without a score must not sink silently to the end: that would be a verdict nobody gave.
        if pairs.keys() != set(range(count)) or not all(map(math.isfinite, pairs.values())):
            raise ValueError("scores are missing")
        return [pairs[index] for index in range(count)]
