"""Query text to hits over one or several collections.

Knows nothing of prompts, of score thresholds or of where a scope's groups come from.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from retrieval.collection import Collection
from retrieval.errors import EncodeError, IndexMismatchError, RetrievalError, SearchError
from retrieval.hybrid import Question
from retrieval.index.base import differences
from retrieval.split import embedding_text
from retrieval.spread import spread
from retrieval.types import Hit, Reranker, Retrieved, Scope, Signature
from retrieval.visibility import visible

if TYPE_CHECKING:
    import numpy.typing as npt


# To spread k hits, so many times k are looked at.
SPREAD_OVER = 3


class QueryEncoder(Protocol):
    """Encodes one query, off the event loop; shape `(dimension,)`. Several callers may share one batch."""

    async def encode_query(self, text: str) -> npt.NDArray[np.float32]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrieverSettings:
    """How a retriever searches.

    `collections` are searched when a scope names none; empty means all it was given. `k` is used when a scope has none,
    and no scope gets more than `max_k`. A collection of at most `inline_until` vectors is searched on the event loop.
    At 10,000 vectors a search holds its thread for 1 ms, and for 2 to 3 ms right after an encoding has emptied the
    cache; handing it over measured no slower (6 to 10 ms a retrieval either way), and answers that stream do not wait.
    `diversity` trades place for being unlike earlier hits (0: off). `neighbours` passages before and after each hit in
    its document come after all hits. A reranker sees `rerank_candidates` hits and has `rerank_timeout_s`.
    """

    collections: tuple[str, ...] = ()
    k: int = 9
    max_k: int = 200
    inline_until: int = 2_000
    diversity: float = 0.0
    neighbours: int = 0
    rerank_candidates: int = 30
    rerank_timeout_s: float = 1.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.diversity <= 1.0 or self.neighbours < 0 or self.rerank_candidates < 1:
            raise ValueError("diversity lies in [0, 1], neighbours is not negative, rerank_candidates is at least 1")
        if not 1 <= self.k <= self.max_k:
            raise ValueError("k lies between 1 and max_k")


class CollectionRetriever:
    """Encodes a query once and searches every collection of the scope with it.

    Raises `IndexMismatchError` for collections of different encoders: their scores cannot be compared.
    """

    def __init__(
        self,
        collections: Mapping[str, Collection],
        encoder: QueryEncoder,
        settings: RetrieverSettings | None = None,
        reranker: Reranker | None = None,
    ) -> None:
        self._collections = dict(collections)
        _require_one_encoder(self._collections)
        self._encoder = encoder
        self._settings = settings or RetrieverSettings()
        self._reranker = reranker

    async def retrieve(self, query: str, scope: Scope) -> Retrieved:
        """The best hits of all collections together, each passage and each text once.

        A collection or a leg that fails is named in `detail` and the others are served; without a vector the lexical
        legs search alone. Raises `EncodeError` when the query cannot be encoded and no collection has a lexical leg,
        and `SearchError` when every collection failed.
        """
        names = scope.collections or self._settings.collections or tuple(self._collections)
        k = min(scope.k if scope.k is not None else self._settings.k, self._settings.max_k)
        if k < 1 or not names or not query.strip():
            return Retrieved(hits=())
        names = tuple(dict.fromkeys(names))
        question, unencoded = await self._question(query, names)
        wide = self._wide(k)
        results = await asyncio.gather(*(self._search(name, question, wide, scope) for name in names))
        failures = [result for result in results if isinstance(result, RetrievalError)]
        told = [unencoded] if unencoded else []
        for name, result in zip(names, results, strict=True):
            said = str(result) if isinstance(result, RetrievalError) else "" if unencoded else result.detail
            told += [f"collection {name!r}: {said}"] if said else []
        if len(failures) == len(names):
            detail = "; ".join(told)
            raise SearchError(f"no collection could be searched: {detail}", hint=failures[0].hint) from failures[0]
        found = [result.hits for result in results if not isinstance(result, RetrievalError)]
        ranks_only = any(c.ranks_only for name in names if (c := self._collections.get(name)))
        hits = interleaved(found, wide) if ranks_only else best([hit for hits in found for hit in hits], wide)
        hits = spread(await self._reranked(query, hits, told), k, self._settings.diversity)
        if self._settings.neighbours and hits:
            hits = await asyncio.to_thread(self._with_neighbours, hits, names, scope)
        return Retrieved(hits=hits, detail="; ".join(told))

    def _wide(self, k: int) -> int:
        """How many hits to choose k from."""
        reranked = self._settings.rerank_candidates if self._reranker else 0
        return max(k, reranked, SPREAD_OVER * k if self._settings.diversity else 0)

    async def _reranked(self, query: str, hits: tuple[Hit, ...], told: list[str]) -> tuple[Hit, ...]:
        """In the reranker's order; as they were, which `told` then says, when it fails or takes too long."""
        first = hits[: self._settings.rerank_candidates]
        if self._reranker is None or len(first) < 2:
            return hits
        try:
            async with asyncio.timeout(self._settings.rerank_timeout_s):
                texts = [embedding_text(hit.passage) for hit in first]
                scores = await asyncio.to_thread(self._reranker.score, query, texts)
        except TimeoutError:
            told.append(f"reranker: no answer within {self._settings.rerank_timeout_s:g} s")
            return hits
        except RetrievalError as error:
            told.append(f"reranker: {error}")
            return hits
        order = sorted(range(len(first)), key=lambda at: (-scores[at], at))
        return (*(first[at] for at in order), *hits[len(first) :])

    def _with_neighbours(self, hits: tuple[Hit, ...], names: Sequence[str], scope: Scope) -> tuple[Hit, ...]:
        """The hits, then what stands beside them in their documents, with the score of the hit it stands beside."""
        known = {hit.passage.id for hit in hits}
        beside = []
        for hit in hits:
            for name in names:
                collection = self._collections.get(name)
                for passage in collection.beside(hit.passage, self._settings.neighbours, scope) if collection else ():
                    if passage.id not in known:
                        known.add(passage.id)
                        beside.append(Hit(passage=passage, score=hit.score))
        return (*hits, *beside)

    async def _question(self, query: str, names: Sequence[str]) -> tuple[Question, str]:
        """The query with its vector; without one, and with the reason, where words can be searched all the same."""
        try:
            return Question(text=query, vector=await self._encoder.encode_query(query)), ""
        except EncodeError as error:
            if not any(c.has_words for name in names if (c := self._collections.get(name))):
                raise
            return Question(text=query, vector=None), f"dense leg: {error}"

    async def _search(self, name: str, question: Question, k: int, scope: Scope) -> Retrieved | RetrievalError:
        collection = self._collections.get(name)
        if collection is None:
            return SearchError("there is no collection of this name", hint="check the route's list of collections")
        try:
            if collection.brief(self._settings.inline_until):
                return collection.find(question, k, scope)
            return await asyncio.to_thread(collection.find, question, k, scope)
        except RetrievalError as error:
            return error


class StaticRetriever:
    """A shipped double: the same hits for every query, as far as the scope may see them. It knows no collections."""

    def __init__(self, hits: Iterable[Hit], *, k: int = 9) -> None:
        self._hits = tuple(hits)
        self._k = k

    async def retrieve(self, query: str, scope: Scope) -> Retrieved:
        seen = [hit for hit in self._hits if visible(hit.passage.metadata, scope)]
        return Retrieved(hits=best(seen, scope.k if scope.k is not None else self._k))


def _require_one_encoder(collections: Mapping[str, Collection]) -> None:
    first: tuple[str, Signature] | None = None
    for name, collection in collections.items():
        signature = replace(collection.signature(), splitter="")
        if first is None:
            first = name, signature
        elif found := differences(first[1], signature):
            raise IndexMismatchError(
                f"collections {first[0]!r} and {name!r} cannot be searched together, their encoders differ "
                f"({'; '.join(f'{field}: {left!r} and {right!r}' for field, left, right in found)})",
                hint="give both the same encoder and ingest again, or use them in different routes",
            )


def best(hits: Iterable[Hit], k: int) -> tuple[Hit, ...]:
    """The k best hits, each passage id and each text once; equal scores order by passage id."""
    return _once(sorted(hits, key=lambda hit: (-hit.score, hit.passage.id)), k)


def interleaved(lists: Sequence[Sequence[Hit]], k: int) -> tuple[Hit, ...]:
    """The first k of several ranked lists, first all first places, for scores that do not compare between lists."""
    placed = [(rank, -hit.score, hit.passage.id, hit) for hits in lists for rank, hit in enumerate(hits)]
    return _once([hit for *_, hit in sorted(placed, key=lambda each: each[:3])], k)


def _once(hits: Iterable[Hit], k: int) -> tuple[Hit, ...]:
    ids: set[str] = set()
    texts: set[str] = set()
    chosen: list[Hit] = []
    for hit in hits:
        if len(chosen) >= k:
            break
        if hit.passage.id not in ids and hit.passage.sha256 not in texts:
            ids.add(hit.passage.id)
            texts.add(hit.passage.sha256)
            chosen.append(hit)
    return tuple(chosen)
