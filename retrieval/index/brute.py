"""An exact index in plain numpy: the oracle of the tests, and enough for a few thousand vectors.

Knows nothing of approximate search, and keeps everything in memory.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
import numpy.typing as npt

from retrieval.index.base import checked_upsert, checked_vectors, require_same
from retrieval.index.snapshot import Snapshot, SnapshotWriter
from retrieval.types import IndexStats, Signature

if TYPE_CHECKING:
    from retrieval.types import Vectors

KIND = "brute"


@dataclass(frozen=True, slots=True)
class _State:
    rows: Mapping[int, npt.NDArray[np.float32]]
    generation: int


class BruteForceIndex:
    """Every search compares the query with every live vector. Writes copy, so a search never sees half of one."""

    def __init__(self, signature: Signature) -> None:
        self._signature = signature
        self._state = _State(rows={}, generation=0)
        self._writing = threading.Lock()

    @classmethod
    def load(cls, directory: Path, *, signature: Signature) -> Self:
        """Read a snapshot back; raises `IndexMismatchError` and `IndexCorruptError`."""
        snapshot = Snapshot.read(directory, kind=KIND)
        require_same(snapshot.signature, signature, where=f"index snapshot {directory}")
        ids = snapshot.array("ids", np.int64, ())
        vectors = snapshot.array("vectors", np.float32, (signature.dimension,))
        index = cls(signature)
        rows = dict(zip(ids.tolist(), np.array(vectors), strict=True))
        index._state = _State(rows=rows, generation=snapshot.generation)
        return index

    def signature(self) -> Signature:
        return self._signature

    def upsert(self, ids: Sequence[int], vectors: Vectors) -> None:
        keys, array = checked_upsert(ids, vectors, self._signature.dimension)
        with self._writing:
            rows = {**self._state.rows, **dict(zip(keys.tolist(), array.copy(), strict=True))}
            self._state = _State(rows=rows, generation=self._state.generation + 1)

    def delete(self, ids: Iterable[int]) -> None:
        gone = set(ids)
        with self._writing:
            rows = {key: row for key, row in self._state.rows.items() if key not in gone}
            self._state = _State(rows=rows, generation=self._state.generation + 1)

    def search(
        self, queries: Vectors, k: int, allowed: npt.NDArray[np.int64] | None = None
    ) -> list[list[tuple[int, float]]]:
        queries = checked_vectors(queries, self._signature.dimension)
        rows = self._state.rows
        if allowed is not None:
            rows = {key: rows[key] for key in set(allowed.tolist()) if key in rows}
        if k <= 0 or not rows:
            return [[] for _ in queries]
        ids = np.fromiter(rows, dtype=np.int64, count=len(rows))
        scores = queries @ np.stack(list(rows.values())).T
        best = [np.lexsort((ids, -row))[:k] for row in scores]
        return [[(int(ids[i]), float(row[i])) for i in order] for row, order in zip(scores, best, strict=True)]

    def vectors(self, ids: Sequence[int]) -> Vectors:
        """The stored vectors of live `ids`, in their order; raises `KeyError` for an id that is not live."""
        rows = self._state.rows
        found = [rows[key] for key in ids]
        return np.stack(found) if found else np.empty((0, self._signature.dimension), dtype=np.float32)

    def snapshot(self, directory: Path) -> None:
        state = self._state
        writer = SnapshotWriter(directory, kind=KIND, signature=self._signature, generation=state.generation)
        writer.add_array("ids", np.fromiter(state.rows, dtype=np.int64, count=len(state.rows)))
        writer.add_array("vectors", self.vectors(list(state.rows)))
        writer.commit()

    def stats(self) -> IndexStats:
        state = self._state
        held = len(state.rows) * (self._signature.dimension * 4 + 8)
        return IndexStats(live=len(state.rows), deleted=0, kind=KIND, bytes=held, generation=state.generation)
