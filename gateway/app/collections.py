"""Encoders, collections and retrievers by their configuration; the lookup of cited passages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Final

from gateway.app.encoders import build_encoder
from gateway.config.model import (
    CollectionConfig,
    EncoderConfig,
    GatewayConfig,
    RerankConfig,
    RetrievalConfig,
    RouteConfig,
    SearchConfig,
)
from gateway.upstream.embeddings import LocalEmbeddings
from retrieval.collection import Collection
from retrieval.encode.batcher import Batcher
from retrieval.errors import RetrievalError
from retrieval.index.base import IndexSettings
from retrieval.index.fusion import Fusion, FusionMethod
from retrieval.index.lexical import LexicalSettings
from retrieval.retriever import CollectionRetriever, RetrieverSettings
from retrieval.split import SplitSettings
from retrieval.types import Encoder, Passage, Reranker
from retrieval.writer import CollectionSettings

_COUNTED: Final = 2_048
"""Texts whose number of tokens is remembered: some megabytes."""


def collection_directory(config: GatewayConfig, name: str) -> Path:
    """Where a collection lies."""
    return config.data_dir / "collections" / name


def collection_settings(config: CollectionConfig) -> CollectionSettings:
    """The settings of a collection's section."""
    return CollectionSettings(
        split=SplitSettings(target_tokens=config.splitter.tokens, overlap_sentences=config.splitter.overlap_sentences),
        index=IndexSettings(flat_until=config.hnsw_from),
        lexical=LexicalSettings(languages=config.search.languages) if config.search.mode == "hybrid" else None,
        fusion=fusion_of(config.search),
        candidates=config.search.candidates,
    )


def fusion_of(config: SearchConfig) -> Fusion | None:
    """The fusion that a section asks for; `None` leaves it to what was fitted to the collection."""
    if config.fusion is None and config.lexical_weight is None:
        return None
    return Fusion(method=FusionMethod(config.fusion or "calibrated"), lexical_weight=config.lexical_weight)


def open_collection(config: GatewayConfig, name: str, encoder: Encoder, *, for_rebuild: bool = False) -> Collection:
    """A collection of the configuration, made empty if it is not there yet."""
    section = config.collections[name]
    directory = collection_directory(config, name)
    return Collection.open(directory, collection_settings(section), encoder, for_rebuild=for_rebuild)


def build_reranker(config: RerankConfig) -> tuple[Reranker, Callable[[], None]]:
    """The reranker of a section, and what closes its connections."""
    import httpx

    from retrieval.rerank import EndpointReranker, EndpointSettings

    headers = {"authorization": f"Bearer {config.api_key.get_secret_value()}"} if config.api_key else {}
    client = httpx.Client(headers=headers, timeout=config.timeout)
    settings = EndpointSettings(url=config.url, dialect=config.dialect, model=config.model or "")
    return EndpointReranker(settings, client), client.close


class CollectionSet:
    """The collections that a configuration's routes read, with one batcher per encoder."""

    def __init__(self, config: GatewayConfig, resources: AsyncExitStack) -> None:
        self._config = config
        self._resources = resources
        self._batchers: dict[EncoderConfig, Batcher] = {}
        self._encoders: dict[EncoderConfig, Encoder] = {}
        self._collections: dict[str, Collection] = {}

    async def retriever(self, names: Sequence[str], k: int) -> CollectionRetriever:
        """A retriever over these collections. Raises `IndexMismatchError` when their encoders differ."""
        opened = {name: await self._open(name) for name in names}
        batcher = self._batchers[self._config.collections[names[0]].encoder]
        return CollectionRetriever(opened, batcher, RetrieverSettings(collections=tuple(names), k=k))

    async def prompt_retriever(self, config: RetrievalConfig) -> CollectionRetriever:
        """The retriever of a route's prompts: as above, and with what the section adds to a search."""
        opened = {name: await self._open(name) for name in config.collections}
        batcher = self._batchers[self._config.collections[config.collections[0]].encoder]
        settings = RetrieverSettings(collections=config.collections, k=config.k, diversity=config.diversity)
        settings = replace(settings, neighbours=config.neighbours)
        if config.rerank is None:
            return CollectionRetriever(opened, batcher, settings)
        settings = replace(settings, rerank_candidates=config.rerank.candidates, rerank_timeout_s=config.rerank.timeout)
        reranker, close = build_reranker(config.rerank)
        self._resources.callback(close)
        return CollectionRetriever(opened, batcher, settings, reranker)

    async def embeddings(self, name: str) -> LocalEmbeddings:
        """The encoder of a collection, for texts of clients. Other callers share its batches."""
        encoder, batcher = await self._encoder(self._config.collections[name].encoder)
        return LocalEmbeddings(
            name,
            batcher,
            count=lambda text: len(encoder.token_offsets(text)),
            dimension=encoder.dimension,
            max_tokens=encoder.max_tokens,
        )

    async def _encoder(self, section: EncoderConfig) -> tuple[Encoder, Batcher]:
        if section not in self._encoders:
            encoder = self._encoders[section] = build_encoder(section)
            self._batchers[section] = await self._resources.enter_async_context(Batcher(encoder))
        return self._encoders[section], self._batchers[section]

    async def _open(self, name: str) -> Collection:
        if name not in self._collections:
            section = self._config.collections[name]
            await self._encoder(section.encoder)
            collection = open_collection(self._config, name, self._encoders[section.encoder])
            self._resources.callback(collection.close)
            self._collections[name] = collection
        return self._collections[name]

    def token_counter(self, names: Sequence[str]) -> Callable[[str], int]:
        """Counts tokens as the encoder of these collections does: near enough to a chat model's for a budget."""
        encoder = self._encoders[self._config.collections[names[0]].encoder]
        return lru_cache(maxsize=_COUNTED)(lambda text: len(encoder.token_offsets(text)))

    def passage(self, passage_id: str, routes: Sequence[str], groups: frozenset[str]) -> Passage | None:
        """A passage by id, if one of these routes reads its collection and its groups allow it."""
        for name in dict.fromkeys(n for route in routes for n in collections_of(self._config.routes[route])):
            collection = self._collections.get(name)
            if collection is not None:
                try:
                    found = collection.passage(passage_id, groups)
                except RetrievalError:
                    continue
                if found is not None:
                    return found
        return None


def collections_of(route: RouteConfig) -> tuple[str, ...]:
    """Every collection that a route reads, for prompts or for evidence."""
    retrieval = route.retrieval.collections if route.retrieval else ()
    return tuple(dict.fromkeys((*retrieval, *check_collections(route))))


def check_collections(route: RouteConfig) -> tuple[str, ...]:
    """Where a route's check searches: its own collections, else those of the prompt."""
    own: tuple[str, ...] = getattr(route.check, "collections", ())
    return own or (route.retrieval.collections if route.retrieval else ())


def used_collections(config: GatewayConfig) -> Mapping[str, CollectionConfig]:
    """The collections that some route reads."""
    used = {name for route in config.routes.values() for name in collections_of(route)}
    return {name: section for name, section in config.collections.items() if name in used}
