"""The lexical leg of a collection's directory: which directory belongs to a snapshot, and making one from the store.

Knows nothing of vectors. `retrieval.index.lexical` knows what is inside such a directory.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import numpy.typing as npt

from retrieval.edit import StoreEdit
from retrieval.errors import RetrievalError
from retrieval.index.lexical import LexicalIndex, LexicalSettings, advance, build, damage
from retrieval.lock import WriteLock
from retrieval.split import embedding_text
from retrieval.store import PassageStore, StoreState, batches

SNAPSHOTS = "index-"
LEXICONS = "lexical-"
BUILDING = ".lexical-building"
BUILD_LOCK = "lexical.lock"
READ_AT_ONCE = 2_000
# Between two attempts to make a missing lexical leg.
AGAIN_S = 5.0


class _Overtaken(Exception):
    """What was being built is not wanted any more."""


def lexicon_of(directory: Path, snapshot: str) -> Path:
    """Where the words of a snapshot's generation lie."""
    return directory / f"{LEXICONS}{snapshot.removeprefix(SNAPSHOTS)}"


class Lexicon:
    """The lexical leg of one collection: opened for a generation, made in the background where it is missing.

    Safe from any thread. `settings` is `None` where no lexical leg is wanted.
    """

    def __init__(self, directory: Path, settings: LexicalSettings | None, store: PassageStore) -> None:
        self._directory = directory
        self._settings = settings
        self._store = store
        self._starting = threading.Lock()
        self._builder: threading.Thread | None = None
        self._not_before_s = 0.0
        self._closing = threading.Event()

    def open(self, state: StoreState, known: LexicalIndex | None, *, same: bool) -> tuple[LexicalIndex | None, str]:
        """The leg of a generation, or why it is missing. `known` was opened before; `same` if for this snapshot."""
        if self._settings is None or not state.snapshot:
            return None, ""
        if known is not None and same:
            return known, ""
        try:
            return LexicalIndex.load(lexicon_of(self._directory, state.snapshot), self._settings, reuse=known), ""
        except RetrievalError as error:
            return None, f"lexical leg: {error}"

    def build_soon(self, take: Callable[[str, LexicalIndex | None, str], None]) -> None:
        """Begin to make the leg of the newest generation, for a collection from before there was one.

        Returns at once; `take` gets the snapshot's name, the leg, and why there is none yet. One that another process
        is making is looked for again after a while.
        """
        with self._starting:
            running = self._builder is not None and self._builder.is_alive()
            if running or self._closing.is_set() or time.monotonic() < self._not_before_s:
                return
            self._not_before_s = time.monotonic() + AGAIN_S
            self._builder = threading.Thread(target=self._build, args=(take,), name="lexicon")
            self._builder.start()

    def _build(self, take: Callable[[str, LexicalIndex | None, str], None]) -> None:
        # What fails here shows in the detail of every search until an attempt succeeds.
        with suppress(RetrievalError):
            state = self._store.state()
            found, missing = self.open(state, None, same=False)
            if found is None and self._settings is not None and state.snapshot:
                build_lexicon(self._directory, self._settings, self._store, state, lambda: not self._closing.is_set())
                found, missing = self.open(state, None, same=False)
            take(state.snapshot, found, missing)

    def damage(self, state: StoreState, rows: npt.NDArray[np.int64]) -> list[str]:
        """What is wrong with the leg of a generation that should hold exactly `rows`."""
        if self._settings is None or not state.snapshot:
            return []
        return damage(lexicon_of(self._directory, state.snapshot), self._settings, rows)

    def close(self) -> None:
        """Stop making one."""
        self._closing.set()
        with self._starting:
            builder = self._builder
        if builder is not None:
            builder.join()


def publish_lexicon(
    directory: Path,
    settings: LexicalSettings,
    edit: StoreEdit,
    names: tuple[str, str],
    changes: tuple[Sequence[int], ...],
) -> None:
    """Make the words of a new snapshot, from those of the old one where that can be done.

    `names` are the old and the new snapshot, `changes` the added and the deleted rows. Raises `RetrievalError`.
    """
    old, new = names
    added, gone = changes
    target = lexicon_of(directory, new)
    shutil.rmtree(target, ignore_errors=True)
    if old and advance(lexicon_of(directory, old), target, settings, _entries(edit, added), gone):
        return
    build(target, settings, _entries(edit, edit.rows()))


def build_lexicon(
    directory: Path, settings: LexicalSettings, store: PassageStore, state: StoreState, going_on: Callable[[], bool]
) -> bool:
    """Make the words of a published generation that has none, beside whatever else happens to the collection.

    `False` when another process is at it, the generation changed or `going_on` said no. Raises `RetrievalError`.
    """
    lock = WriteLock(directory / BUILD_LOCK, wait_s=0.0)
    if not lock.acquire():
        return False
    try:
        building, target = directory / BUILDING, lexicon_of(directory, state.snapshot)
        shutil.rmtree(building, ignore_errors=True)
        try:
            build(building, settings, _stored(store, state.generation, going_on))
        except _Overtaken:
            return False
        shutil.rmtree(target, ignore_errors=True)
        building.rename(target)
        return True
    finally:
        lock.release()


def _entries(edit: StoreEdit, rows: Sequence[int]) -> Iterator[tuple[int, str]]:
    for part in batches(rows, READ_AT_ONCE):
        for stored in edit.passages(part):
            yield stored.row, embedding_text(stored.passage)


def _stored(store: PassageStore, generation: int, going_on: Callable[[], bool]) -> Iterator[tuple[int, str]]:
    for part in batches(store.rows().tolist(), READ_AT_ONCE):
        read, passages = store.passages(part)
        # Rows of two generations must not mix: the vectors beside these words would lack some.
        if read != generation or not going_on():
            raise _Overtaken
        for row, passage in passages.items():
            yield row, embedding_text(passage)
    if store.generation() != generation:
        raise _Overtaken
