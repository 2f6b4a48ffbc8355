"""The one writer of a collection: lock, edit, encode, snapshot, commit, in this order.

A crash before the commit leaves the old generation, a crash after it the new one; what lies around is removed by the
next writer. Knows nothing of searches.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from retrieval.edit import StoreEdit
from retrieval.errors import RetrievalError
from retrieval.index.base import IndexSettings, differences, require_same
from retrieval.index.faiss import FaissIndex
from retrieval.index.fusion import Fusion
from retrieval.index.lexical import LexicalIndex, LexicalSettings
from retrieval.ingest import FileIngest, IngestReport, Outcome, Progress, Stage, quiet
from retrieval.lexicon import LEXICONS, SNAPSHOTS, lexicon_of, publish_lexicon
from retrieval.lock import WriteLock
from retrieval.split import SplitSettings, split
from retrieval.staging import Staging, discard
from retrieval.store import StoreState
from retrieval.types import Document, Encoder, Loader, Passage, Signature
from retrieval.vectorise import Reuse, Vectoriser

STORE = "passages.sqlite"
LOCK = "write.lock"

Change = Callable[[FileIngest, bool], Outcome]


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionSettings:
    """How a collection splits, indexes and encodes.

    `encode_batch` is how many passages are encoded between two commits of staged vectors, `lock_wait_s` how long an
    ingest waits for another writer. `lexical` is `None` for vectors alone. `fusion` is `None` for what was fitted to
    the collection, else the default; `candidates` is how many passages each leg gives at least.
    """

    split: SplitSettings = field(default_factory=SplitSettings)
    index: IndexSettings = field(default_factory=IndexSettings)
    encode_batch: int = 128
    lock_wait_s: float = 1.0
    lexical: LexicalSettings | None = field(default_factory=LexicalSettings)
    fusion: Fusion | None = None
    candidates: int = 100

    def __post_init__(self) -> None:
        if self.candidates < 1:
            raise ValueError("candidates is at least 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestOptions:
    """How to ingest.

    `loaders` empty means the shipped ones and those of installed packages. `rebuild` encodes every passage anew, and
    splits every file anew where the encoder or the splitter changed. `prune` drops stored files that lie under none of
    the given paths, if there are any: for a collection whose configuration lists all of its sources.
    """

    loaders: tuple[Loader, ...] = ()
    rebuild: bool = False
    prune: bool = False
    progress: Callable[[Progress], None] = quiet


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionWriter:
    """Carries one change into a collection's directory."""

    directory: Path
    settings: CollectionSettings
    encoder: Encoder
    signature: Signature

    def run(self, change: Change, options: IngestOptions) -> IngestReport:
        """Apply `change` and publish it, all or nothing.

        Raises `CollectionBusyError` while another writer works, and `IndexMismatchError` when encoder or splitter
        changed and `options.rebuild` is not set.
        """
        lock = WriteLock(self.directory / LOCK, wait_s=self.settings.lock_wait_s)
        with lock, StoreEdit.begin(self.directory / STORE) as edit:
            state = edit.state()
            remove_leftovers(self.directory, keep=state.snapshot)
            reload = state.signature is not None and bool(differences(state.signature, self.signature))
            if state.signature is not None and not options.rebuild:
                require_same(state.signature, self.signature, where=f"the collection {self.directory}")
            last_row = edit.last_row()
            files = FileIngest(edit, self._split, options.progress)
            outcome = change(files, reload)
            encoded = 0
            if edit.changed or options.rebuild:
                state, encoded = self._publish(edit, state, outcome, last_row, options)
            else:
                self._mend_lexicon(edit, state)
                edit.keep()
                discard(self.directory)
            return _report(outcome, state.generation, encoded)

    def _split(self, document: Document) -> Sequence[Passage]:
        return split(document, self.encoder, self.settings.split)

    def _publish(
        self, edit: StoreEdit, state: StoreState, outcome: Outcome, last_row: int, options: IngestOptions
    ) -> tuple[StoreState, int]:
        rows = edit.rows() if options.rebuild else outcome.rows
        generation = state.generation + 1
        snapshot, encoded = state.snapshot, 0
        if rows or outcome.gone or options.rebuild:
            index = FaissIndex(self.signature, self.settings.index) if options.rebuild else self._index(state)
            reuse = None if options.rebuild else Reuse(vectors=index.vectors, last_row=last_row, freed=outcome.freed)
            encoded = self._fill(index, edit, rows, reuse, options)
            index.delete(outcome.gone)
            snapshot = f"{SNAPSHOTS}{generation:010d}"
            self._snapshot(index, self.directory / snapshot)
            if self.settings.lexical is not None:
                old = "" if options.rebuild else state.snapshot
                changes = (outcome.rows, outcome.gone)
                publish_lexicon(self.directory, self.settings.lexical, edit, (old, snapshot), changes)
        else:
            self._mend_lexicon(edit, state)
        options.progress(Progress(stage=Stage.SNAPSHOT, done=1, total=1, detail=snapshot))
        published = StoreState(generation=generation, snapshot=snapshot, signature=self.signature)
        edit.publish(published)
        options.progress(Progress(stage=Stage.PUBLISH, done=1, total=1, detail=str(generation)))
        remove_leftovers(self.directory, keep=snapshot)
        discard(self.directory)
        edit.checkpoint()
        return published, encoded

    def _mend_lexicon(self, edit: StoreEdit, state: StoreState) -> None:
        """Make the lexical leg where it is missing, damaged or of other languages, though no passage changed."""
        if self.settings.lexical is None or not state.snapshot:
            return
        try:
            LexicalIndex.load(lexicon_of(self.directory, state.snapshot), self.settings.lexical)
        except RetrievalError:
            publish_lexicon(self.directory, self.settings.lexical, edit, ("", state.snapshot), ((), ()))

    def _fill(
        self, index: FaissIndex, edit: StoreEdit, rows: list[int], reuse: Reuse | None, options: IngestOptions
    ) -> int:
        """Encode `rows` into the index; gives how many texts the encoder saw."""
        if not rows:
            return 0
        staging = Staging.open(self.directory, self.signature)
        try:
            vectoriser = Vectoriser(
                edit=edit,
                encoder=self.encoder,
                staging=staging,
                reuse=reuse,
                batch=self.settings.encode_batch,
                progress=options.progress,
            )
            index.upsert(*vectoriser.run(rows))
        finally:
            staging.close()
        return vectoriser.encoded

    def _snapshot(self, index: FaissIndex, directory: Path) -> None:
        try:
            index.snapshot(directory)
        except (OSError, RuntimeError) as error:  # faiss reports a full disk as RuntimeError
            raise RetrievalError(
                f"the index snapshot {directory} cannot be written: {error}",
                hint="free disk space or repair the directory; the collection is as it was before",
            ) from error

    def _index(self, state: StoreState) -> FaissIndex:
        if not state.snapshot:
            return FaissIndex(self.signature, self.settings.index)
        return FaissIndex.load(self.directory / state.snapshot, signature=self.signature, settings=self.settings.index)


def leftovers(directory: Path, *, keep: str) -> list[Path]:
    """Index snapshots, and words, that are not the current ones."""
    kept = {keep, lexicon_of(directory, keep).name} if keep else set()
    found = (*directory.glob(f"{SNAPSHOTS}*"), *directory.glob(f"{LEXICONS}*"))
    return [path for path in found if path.is_dir() and path.name not in kept]


def remove_leftovers(directory: Path, *, keep: str) -> None:
    """Remove what is not current; a reader that still maps a removed file keeps it until it lets go."""
    for path in leftovers(directory, keep=keep):
        shutil.rmtree(path, ignore_errors=True)


def _report(outcome: Outcome, generation: int, encoded: int) -> IngestReport:
    return IngestReport(
        added=outcome.added,
        changed=outcome.changed,
        removed=outcome.removed,
        unchanged=outcome.unchanged,
        passages_added=len(outcome.rows),
        passages_removed=len(outcome.gone),
        encoded=encoded,
        generation=generation,
        problems=tuple(outcome.problems),
    )
