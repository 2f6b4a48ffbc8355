"""A collection: documents on disk as passages that can be searched, kept by one writer and read by many processes.

A directory holds the passage store (SQLite), per generation an index snapshot and the words of the same passages, a
write lock and, during an ingest, staged vectors. The store's commit is the one point at which a generation becomes
visible; each search asks it for the generation first, so that a reader in another process never answers from a state
that is gone.

Knows nothing of HTTP or routes.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from retrieval.distinct import distinct_hits
from retrieval.errors import IndexCorruptError, RetrievalError, SearchError
from retrieval.hybrid import Candidates, Legs, Question, Rows, candidates, fused, read_fitted, words_of
from retrieval.index.base import require_same
from retrieval.index.faiss import FaissIndex
from retrieval.index.fusion import Fusion, FusionMethod
from retrieval.index.lexical import LexicalIndex
from retrieval.ingest import FileIngest, IngestReport, Outcome
from retrieval.lexicon import Lexicon
from retrieval.load import installed_loaders
from retrieval.lock import WriteLock
from retrieval.store import Counts, PassageStore, StoredDocument, StoreState
from retrieval.types import Encoder, Hit, IndexStats, Passage, Retrieved, Scope, Signature
from retrieval.visibility import visible
from retrieval.writer import (
    LOCK,
    STORE,
    Change,
    CollectionSettings,
    CollectionWriter,
    IngestOptions,
    leftovers,
    remove_leftovers,
)

if TYPE_CHECKING:
    from retrieval.types import Vectors

Line: TypeAlias = Sequence[tuple[int, float]]
Result = TypeVar("Result")
EVERYTHING = Scope()
# A reader that meets this many new generations in a row during one search gives up on seeing a still one.
ATTEMPTS = 5
# Masks of distinct scopes kept per generation; one costs eight bytes a visible passage.
SCOPES_KEPT = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionStats:
    """Counts, the index's own, the generation, bytes on disk, and passages in the lexical leg if it serves."""

    counts: Counts
    index: IndexStats
    generation: int
    bytes_on_disk: int
    lexical: int | None


@dataclass(frozen=True, slots=True)
class _Loaded:
    """The legs of one generation, why the lexical one is missing if it is, and the masks of scopes asked for."""

    generation: int
    snapshot: str
    index: FaissIndex
    lexical: LexicalIndex | None
    missing: str
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
        self._fusion = settings.fusion or Fusion()
        self._lexicon = Lexicon(directory, settings.lexical, self._store)

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
        collection._lexicon = Lexicon(directory, settings.lexical, collection._store)
        try:
            collection._clean_if_free()
            if settings.fusion is None:
                collection._fusion = read_fitted(directory) or collection._fusion
            if not for_rebuild:
                collection._current()
        except BaseException:
            collection.close()
            raise
        return collection

    def close(self) -> None:
        """Close the store. Searches after this raise `RetrievalError`."""
        self._lexicon.close()
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

    @property
    def has_words(self) -> bool:
        """Whether a question without a vector can be searched for here."""
        return self._settings.lexical is not None

    @property
    def ranks_only(self) -> bool:
        """Whether the scores of hits say no more than their order."""
        return self.has_words and self._fusion.method is FusionMethod.RRF

    # --- reading ---

    def brief(self, limit: int) -> bool:
        """Whether a search would take about a millisecond: newest generation loaded, at most `limit` vectors."""
        loaded = self._loaded
        return (
            loaded is not None and loaded.generation == self._store.generation() and loaded.index.stats().live <= limit
        )

    def search(self, queries: Vectors, k: int, scope: Scope = EVERYTHING) -> list[list[Hit]]:
        """Per query up to `k` hits of the dense leg that the scope may see, best first, no text twice.

        Raises `SearchError` for a wrong shape, `IndexMismatchError` and `IndexCorruptError` when a newer generation
        on disk cannot be used.
        """

        def attempt(loaded: _Loaded, allowed: Rows | None) -> list[list[Hit]] | None:
            # Room for the same text in several documents; wider still when that was not enough.
            fetch = k + max(4, k // 2)
            while True:
                found = loaded.index.search(queries, fetch, allowed)
                hits = self._opened(loaded, found, k, scope)
                if hits is None or all(
                    len(line) < fetch or len(best) >= k for line, best in zip(found, hits, strict=True)
                ):
                    return hits
                fetch *= 4

        return self._steady(scope, attempt)

    def find(self, question: Question, k: int, scope: Scope = EVERYTHING) -> Retrieved:
        """Up to `k` hits of both legs together; `detail` names a leg that failed. Raises as `search` does.

        Candidates per leg: at least the settings' count, and four times `k`.
        """
        if self._settings.lexical is None and question.vector is not None:
            return Retrieved(hits=tuple(self.search(question.vector.reshape(1, -1), k, scope)[0]))
        weight = self._weight(question.text)

        def attempt(loaded: _Loaded, allowed: Rows | None) -> Retrieved | None:
            legs = Legs(dense=loaded.index, lexical=loaded.lexical, missing=loaded.missing)
            fetch = max(self._settings.candidates, 4 * k)
            while True:
                found = candidates(legs, question, fetch, allowed, weight)
                ranked = fused(found, self._fusion.method, weight)
                # Most often a few more than k are enough, and passages that nobody gets are not read.
                for first in (k + max(4, k // 2), len(ranked)):
                    opened = self._opened(loaded, [ranked[:first]], k, scope)
                    if opened is None:
                        return None
                    hits = tuple(opened[0])
                    if len(hits) >= k or (first >= len(ranked) and not found.more):
                        return Retrieved(hits=hits, detail=found.detail)
                fetch *= 4

        found = self._steady(scope, attempt)
        loaded = self._loaded
        if loaded is not None and loaded.missing:
            self._lexicon.build_soon(self._take_lexicon)
        return found

    def candidates(self, question: Question, fetch: int) -> tuple[Candidates, dict[int, Passage]]:
        """`fetch` candidates of each leg, not fused, with their passages, whoever may see them: for evaluation."""

        def attempt(loaded: _Loaded, _: Rows | None) -> tuple[Candidates, dict[int, Passage]] | None:
            legs = Legs(dense=loaded.index, lexical=loaded.lexical, missing=loaded.missing)
            found = candidates(legs, question, fetch, None, 0.5)
            generation, passages = self._store.passages(found.cosines)
            return (found, passages) if generation == loaded.generation else None

        return self._steady(EVERYTHING, attempt)

    def _steady(self, scope: Scope, attempt: Callable[[_Loaded, Rows | None], Result | None]) -> Result:
        """What `attempt` gives on one generation; again when it gives `None`, since the generation changed."""
        for _ in range(ATTEMPTS):
            loaded = self._current()
            generation, allowed = self._allowed(loaded, scope)
            if generation == loaded.generation and (result := attempt(loaded, allowed)) is not None:
                return result
        raise SearchError(
            f"the collection {self._directory} changed {ATTEMPTS} times during one search",
            hint="something ingests into it without a pause; let it ingest larger batches less often",
        )

    def _opened(self, loaded: _Loaded, found: Sequence[Line], k: int, scope: Scope) -> list[list[Hit]] | None:
        """The passages of found rows, each text once; `None` when the generation changed meanwhile."""
        generation, passages = self._store.passages({row for line in found for row, _ in line})
        if generation != loaded.generation:
            return None
        return [distinct_hits(line, passages, k, scope) for line in found]

    def _weight(self, text: str) -> float:
        return self._fusion.weight(len(self._encoder.token_offsets(text)), words_of(text))

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

    def beside(self, passage: Passage, count: int, scope: Scope) -> list[Passage]:
        """Passages just before and after one of this collection that the scope may see, in reading order."""
        if self._store.passage(passage.id) is None:
            return []
        return [each for each in self._store.beside(passage, count) if visible(each.metadata, scope)]

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
            lexical=loaded.lexical.live if loaded.lexical else None,
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
        problems += self._lexicon.damage(state, rows)
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
            same = loaded is not None and loaded.snapshot == state.snapshot
            lexical, missing = self._lexicon.open(state, loaded.lexical if loaded else None, same=same)
            self._loaded = _Loaded(state.generation, state.snapshot, index, lexical, missing, OrderedDict())
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

    def _take_lexicon(self, snapshot: str, lexical: LexicalIndex | None, missing: str) -> None:
        """Put a lexical leg that was made in the background beside the vectors of its generation."""
        with self._loading:
            loaded = self._loaded
            if loaded is not None and loaded.snapshot == snapshot:
                self._loaded = replace(loaded, lexical=lexical, missing=missing)

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

        return self._written(change, options)

    def forget(self, paths: Iterable[Path]) -> IngestReport:
        """Drop every file at or under `paths` from the collection; the files themselves are left alone."""
        return self._written(lambda files, _: files.forget(paths), IngestOptions())

    def _written(self, change: Change, options: IngestOptions) -> IngestReport:
        report = CollectionWriter(
            directory=self._directory, settings=self._settings, encoder=self._encoder, signature=self.signature()
        ).run(change, options)
        # Words that were missing may have been made for a generation that is loaded already.
        if self._loaded is not None and self._loaded.missing:
            state = self._store.state()
            self._take_lexicon(state.snapshot, *self._lexicon.open(state, None, same=False))
        return report

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
