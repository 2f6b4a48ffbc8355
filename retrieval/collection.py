"""A collection: documents on disk as passages that can be searched, kept by one writer and read by many processes.

A directory holds the passage store (SQLite), one index snapshot per generation, a write lock and, during an ingest,
staged vectors. The store's commit is the one point at which a generation becomes visible; each search asks it for the
generation first, so that a reader in another process never answers from a state that is gone.

Knows nothing of queries as text, HTTP or routes.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import numpy as np
import numpy.typing as npt

from retrieval.errors import IndexCorruptError, RetrievalError, SearchError
from retrieval.index.base import require_same
from retrieval.index.faiss import FaissIndex
from retrieval.ingest import FileIngest, IngestReport, Outcome
from retrieval.load import installed_loaders
from retrieval.lock import WriteLock
from retrieval.store import Counts, PassageStore, StoredDocument, StoreState
from retrieval.types import Encoder, Hit, IndexStats, Passage, Scope, Signature
from retrieval.visibility import visible
from retrieval.writer import (
    LOCK,
    STORE,
    CollectionSettings,
    CollectionWriter,
    IngestOptions,
    leftovers,
    remove_leftovers,
)

if TYPE_CHECKING:
    from retrieval.types import Vectors

EVERYTHING = Scope()
# A reader that meets this many new generations in a row during one search gives up on seeing a still one.
ATTEMPTS = 5
# Masks of distinct scopes kept per generation; one costs eight bytes a visible passage.
SCOPES_KEPT = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionStats:
    """Counts, the index's own counts, the generation and the bytes on disk."""

    counts: Counts
    index: IndexStats
    generation: int
    bytes_on_disk: int


@dataclass(frozen=True, slots=True)
class _Loaded:
    """The index of one generation, and the masks of scopes that were asked for."""

    generation: int
    snapshot: str
    index: FaissIndex
    scopes: OrderedDict[tuple[object, ...], npt.NDArray[np.int64] | None]


class Collection:
    """One collection. Every method is safe from any thread; `open` makes it, `close` ends it."""

    def __init__(self, directory: Path, settings: CollectionSettings, encoder: Encoder) -> None:
        self._directory = directory
        self._settings = settings
        self._encoder = encoder
        self._store = PassageStore(directory / STORE)
        self._loaded: _Loaded | None = None
        self._loading = threading.Lock()

    @classmethod
    def open(
        cls, directory: Path, settings: CollectionSettings, encoder: Encoder, *, for_rebuild: bool = False
    ) -> Self:
        """Open a collection, made empty if it is not there, and remove what a crashed ingest left.

        Raises `IndexMismatchError` when it was made with another encoder or splitter and `IndexCorruptError` when its
        files are damaged, unless `for_rebuild`: then it opens and can only be ingested with the rebuild option.
        """
        collection = cls(directory, settings, encoder)
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RetrievalError(
                f"the collection directory {directory} cannot be made: {error.strerror}",
                hint="choose a directory this user may write to",
            ) from error
        collection._store = PassageStore.open(directory / STORE)
        try:
            collection._clean_if_free()
            if not for_rebuild:
                collection._current()
        except BaseException:
            collection.close()
            raise
        return collection

    def close(self) -> None:
        """Close the store. Searches after this raise `RetrievalError`."""
        self._store.close()
        self._loaded = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def directory(self) -> Path:
        return self._directory

    def signature(self) -> Signature:
        """The encoder's signature with the splitter's settings: what an index has to be made with."""
        return replace(self._encoder.signature(), splitter=self._settings.split.describe())

    # --- reading ---

    def brief(self, limit: int) -> bool:
        """Whether a search would take about a millisecond: newest generation loaded, at most `limit` vectors."""
        loaded = self._loaded
        return (
            loaded is not None and loaded.generation == self._store.generation() and loaded.index.stats().live <= limit
        )

    def search(self, queries: Vectors, k: int, scope: Scope = EVERYTHING) -> list[list[Hit]]:
        """Per query up to `k` hits the scope may see, best first, no text twice.

        Raises `SearchError` for a wrong shape, `IndexMismatchError` and `IndexCorruptError` when a newer generation
        on disk cannot be used.
        """
        for _ in range(ATTEMPTS):
            loaded = self._current()
            hits = self._search(loaded, queries, k, scope)
            if hits is not None:
                return hits
        raise SearchError(
            f"the collection {self._directory} changed {ATTEMPTS} times during one search",
            hint="something ingests into it without a pause; let it ingest larger batches less often",
        )

    def _search(self, loaded: _Loaded, queries: Vectors, k: int, scope: Scope) -> list[list[Hit]] | None:
        """`None` when the generation changed meanwhile."""
        generation, allowed = self._allowed(loaded, scope)
        if generation != loaded.generation:
            return None
        # Room for the same text in several documents; wider still when that was not enough.
        fetch = k + max(4, k // 2)
        while True:
            found = loaded.index.search(queries, fetch, allowed)
            generation, passages = self._store.passages({row for line in found for row, _ in line})
            if generation != loaded.generation:
                return None
            hits = [_collapsed(line, passages, k, scope) for line in found]
            if all(len(line) < fetch or len(best) >= k for line, best in zip(found, hits, strict=True)):
                return hits
            fetch *= 4

    def _allowed(self, loaded: _Loaded, scope: Scope) -> tuple[int, npt.NDArray[np.int64] | None]:
        key = (tuple(sorted(scope.filters.items())), scope.groups)
        kept = loaded.scopes
        try:
            return loaded.generation, kept[key]
        except KeyError:
            generation, allowed = self._store.allowed(scope)
        if generation == loaded.generation:
            kept[key] = allowed
            while len(kept) > SCOPES_KEPT:
                kept.popitem(last=False)
        return generation, allowed

    def passage(self, passage_id: str, groups: frozenset[str] = frozenset()) -> Passage | None:
        """A passage by id if it exists and these groups may see it."""
        passage = self._store.passage(passage_id)
        return passage if passage and visible(passage.metadata, Scope(groups=groups)) else None

    def documents(self) -> list[StoredDocument]:
        """Every document, by id, whoever may see it: for the operator."""
        return self._store.documents()

    def stats(self) -> CollectionStats:
        loaded = self._current()
        files = (path for path in self._directory.rglob("*") if path.is_file())
        return CollectionStats(
            counts=self._store.counts(),
            index=loaded.index.stats(),
            generation=loaded.generation,
            bytes_on_disk=sum(path.stat().st_size for path in files),
        )

    def verify(self) -> tuple[str, ...]:
        """Reads everything back and compares; one sentence per thing that is wrong, empty when all is well."""
        problems = [f"passage store: {line}" for line in self._store.damage()]
        try:
            state = self._store.state()
            index = self._load(state, None)
        except RetrievalError as error:
            return (*problems, str(error))
        rows = self._store.rows()
        missing = 0
        for first in range(0, len(rows), 10_000):
            part = rows[first : first + 10_000]
            missing += len(part) - index.live(part)
        if missing:
            problems.append(f"{missing} passages are not in the index")
        if (extra := index.stats().live - (len(rows) - missing)) > 0:
            problems.append(f"the index holds {extra} vectors of passages that do not exist")
        return tuple(problems)

    # --- the generation ---

    def _current(self) -> _Loaded:
        loaded = self._loaded
        if loaded is not None and loaded.generation == self._store.generation():
            return loaded
        with self._loading:
            return self._reloaded()

    def _reloaded(self) -> _Loaded:
        for attempt in range(ATTEMPTS):
            state, loaded = self._store.state(), self._loaded
            if loaded is not None and loaded.generation == state.generation:
                return loaded
            try:
                index = loaded.index if loaded and loaded.snapshot == state.snapshot else self._load(state, loaded)
            except IndexCorruptError:
                # The writer removes a snapshot when the next one is published: look at the newest again.
                if attempt + 1 < ATTEMPTS and self._store.generation() != state.generation:
                    continue
                raise
            self._loaded = _Loaded(state.generation, state.snapshot, index, OrderedDict())
            return self._loaded
        raise SearchError(f"the collection {self._directory} changes faster than it can be read")

    def _load(self, state: StoreState, loaded: _Loaded | None) -> FaissIndex:
        signature = self.signature()
        if state.signature is not None:
            require_same(state.signature, signature, where=f"the collection {self._directory}")
        if not state.snapshot:
            return FaissIndex(signature, self._settings.index)
        return FaissIndex.load(
            self._directory / state.snapshot,
            signature=signature,
            settings=self._settings.index,
            reuse=loaded.index if loaded else None,
        )

    # --- writing ---

    def ingest(self, paths: Sequence[Path], options: IngestOptions | None = None) -> IngestReport:
        """Bring the collection in line with the files at and under `paths`; see `FileIngest.run` for what goes.

        Everything becomes visible at once or, after an error or a crash, nothing does. Raises `CollectionBusyError`
        while another ingest runs, `IndexMismatchError` when the encoder or the splitter changed, `LoadError` for a path
        that does not exist. A file that cannot be read is a problem in the report.
        """
        options = options or IngestOptions()
        loaders = options.loaders or installed_loaders()

        def change(files: FileIngest, reload: bool) -> Outcome:
            return files.run(paths, loaders, prune=options.prune, reload=reload)

        return self._writer().run(change, options)

    def forget(self, paths: Iterable[Path]) -> IngestReport:
        """Drop every file at or under `paths` from the collection; the files themselves are left alone."""
        return self._writer().run(lambda files, _: files.forget(paths), IngestOptions())

    def _writer(self) -> CollectionWriter:
        return CollectionWriter(
            directory=self._directory, settings=self._settings, encoder=self._encoder, signature=self.signature()
        )

    def _clean_if_free(self) -> None:
        """Remove what a crashed writer left, unless one is at work: then it is that writer's."""
        if not leftovers(self._directory, keep=self._store.state().snapshot):
            return
        lock = WriteLock(self._directory / LOCK, wait_s=0.0)
        if lock.acquire():
            try:
                remove_leftovers(self._directory, keep=self._store.state().snapshot)
            finally:
                lock.release()


def _collapsed(line: Sequence[tuple[int, float]], passages: Mapping[int, Passage], k: int, scope: Scope) -> list[Hit]:
    """The k best hits that still exist and may be seen, each text once."""
    hits: list[Hit] = []
    texts: set[str] = set()
    for row, score in line:
        passage = passages.get(row)
        # The index was asked for allowed rows only; what leaves is checked once more against the stored metadata.
        if passage is None or passage.sha256 in texts or not visible(passage.metadata, scope):
            continue
        texts.add(passage.sha256)
        hits.append(Hit(passage=passage, score=score))
        if len(hits) == k:
            break
    return hits
