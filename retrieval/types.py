"""The values and seams of retrieval. Pure: no I/O, no clock, no third party but numpy for the shapes.

Text offsets count Unicode code points of `Document.text`; `document.text[passage.start:passage.end] == passage.text`
always holds. Vectors are float32, L2-normalised, shape `(n, dimension)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Vectors = npt.NDArray[np.float32]

NO_METADATA: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class Section:
    """Where a heading or a page begins: `offset` in code points, `heading` path outermost first, `page` from 1."""

    offset: int
    heading: tuple[str, ...] = ()
    page: int | None = None


@dataclass(frozen=True, slots=True)
class Document:
    """One loaded document.

    `id` is stable for a source (never content-derived), `source` is what a person would open (path or URL),
    `url` the public address if there is one, `sha256` the hex digest of `text` in UTF-8.
    """

    id: str
    source: str
    title: str
    text: str
    sha256: str
    url: str | None = None
    sections: tuple[Section, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=lambda: NO_METADATA)


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of a document, the unit of search and of evidence.

    `id` is stable while (document id, start, text) stay the same; `sha256` is the hex digest of `text`.
    `heading` and `page` tell a reader where in the document it stands.
    """

    id: str
    document_id: str
    title: str
    text: str
    start: int
    end: int
    sha256: str
    url: str | None = None
    source: str = ""
    heading: tuple[str, ...] = ()
    page: int | None = None
    metadata: Mapping[str, str] = field(default_factory=lambda: NO_METADATA)


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage found for a query; `score` is cosine similarity (dense) or the fused score, higher is better."""

    passage: Passage
    score: float


@dataclass(frozen=True, slots=True)
class Scope:
    """What a search may see. Immutable parts of a request: nothing a model writes can widen it.

    `collections` empty means the retriever's own default; `filters` are equality constraints on passage metadata;
    `groups` are the caller's groups, from its key.
    """

    collections: tuple[str, ...] = ()
    filters: Mapping[str, str] = field(default_factory=lambda: NO_METADATA)
    groups: frozenset[str] = frozenset()
    k: int | None = None


class RetrievalStatus(StrEnum):
    """How retrieval went; part of every answer and every record."""

    GROUNDED = "grounded"
    WEAK = "weak"
    NO_CONTEXT = "no_context"
    FAILED = "failed"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class Signature:
    """What made the vectors of an index. Two indexes mix only when all of this is equal."""

    model: str
    revision: str
    dimension: int
    max_tokens: int
    query_prefix: str = ""
    passage_prefix: str = ""
    splitter: str = ""


@dataclass(frozen=True, slots=True)
class IndexStats:
    """Counts of an index: live and deleted entries, its kind (`flat`, `hnsw`), bytes held, its generation."""

    live: int
    deleted: int
    kind: str
    bytes: int
    generation: int


@runtime_checkable
class Encoder(Protocol):
    """Texts to vectors. Synchronous and batched; callers put it on a worker thread."""

    @property
    def dimension(self) -> int: ...

    @property
    def max_tokens(self) -> int:
        """Tokens a passage may have; longer input is cut by the model, so splitters stay below."""
        ...

    def signature(self) -> Signature: ...

    def encode_passages(self, texts: Sequence[str]) -> Vectors: ...

    def encode_queries(self, texts: Sequence[str]) -> Vectors: ...

    def token_offsets(self, text: str) -> Sequence[tuple[int, int]]:
        """Code point spans of the model's own tokens of `text`, without special tokens."""
        ...


@runtime_checkable
class Reranker(Protocol):
    """Scores (query, text) pairs, higher is better. Synchronous and batched."""

    def score(self, query: str, texts: Sequence[str]) -> Sequence[float]: ...


@runtime_checkable
class Index(Protocol):
    """Vectors under our own stable int64 ids. Synchronous; safe to search while another thread writes."""

    def signature(self) -> Signature: ...

    def upsert(self, ids: Sequence[int], vectors: Vectors) -> None: ...

    def delete(self, ids: Iterable[int]) -> None: ...

    def search(
        self, queries: Vectors, k: int, allowed: npt.NDArray[np.int64] | None = None
    ) -> list[list[tuple[int, float]]]:
        """Per query up to `k` (id, cosine) pairs, best first; fewer when fewer exist; never a deleted id, never -1."""
        ...

    def snapshot(self, directory: Path) -> None:
        """Write atomically: a reader sees the old state or the new one, whatever happens in between."""
        ...

    def stats(self) -> IndexStats: ...


@dataclass(frozen=True, slots=True)
class Retrieved:
    """What a retriever found, best first. `detail` names a failed leg or store, for logs and the record."""

    hits: tuple[Hit, ...]
    detail: str = ""


@runtime_checkable
class Retriever(Protocol):
    """Query in, hits out. Raises `RetrievalError` when it could not search; an empty result is not an error."""

    async def retrieve(self, query: str, scope: Scope) -> Retrieved: ...


@runtime_checkable
class Loader(Protocol):
    """One file format to documents. `suffixes` are lower case with the dot."""

    suffixes: tuple[str, ...]

    def load(self, path: Path, *, root: Path) -> Iterable[Document]:
        """Yields the documents of a file; raises `LoadError` naming the file and what to do."""
        ...
