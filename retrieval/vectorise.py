"""Vectors for new passage rows: from an interrupted ingest, from rows that held the same text, or from the encoder.

Knows nothing of files, and nothing of the index but a way to ask for vectors it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from retrieval.edit import StoredPassage, StoreEdit
from retrieval.errors import EncodeError, SearchError
from retrieval.index.base import checked_vectors
from retrieval.ingest import Progress, Stage
from retrieval.split import embedding_text
from retrieval.staging import Staging
from retrieval.store import batches
from retrieval.types import Encoder

if TYPE_CHECKING:
    from retrieval.types import Vectors

Vector = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reuse:
    """Where vectors of texts encoded before lie: rows up to `last_row`, and rows that are going."""

    vectors: Callable[[Sequence[int]], Vectors]
    last_row: int
    freed: Mapping[bytes, int]


@dataclass(slots=True, kw_only=True)
class Vectoriser:
    """Gives each row its vector. `encoded` counts the texts the encoder really saw."""

    edit: StoreEdit
    encoder: Encoder
    staging: Staging
    reuse: Reuse | None
    batch: int
    progress: Callable[[Progress], None]
    encoded: int = 0

    def run(self, rows: Sequence[int]) -> tuple[list[int], Vectors]:
        """The rows that exist, with their vectors in the same order."""
        kept: list[int] = []
        vectors = np.empty((len(rows), self.encoder.dimension), dtype=np.float32)
        for part in batches(rows, self.batch):
            self.progress(Progress(stage=Stage.ENCODE, done=len(kept), total=len(rows)))
            stored = self.edit.passages(part)
            known = self._known(stored)
            for item in stored:
                vectors[len(kept)] = known[item.embedded]
                kept.append(item.row)
        self.progress(Progress(stage=Stage.ENCODE, done=len(kept), total=len(rows)))
        return kept, vectors[: len(kept)]

    def _known(self, stored: Sequence[StoredPassage]) -> dict[bytes, Vector]:
        texts = {item.embedded: embedding_text(item.passage) for item in stored}
        found = self._reused(list(texts))
        found.update(self.staging.get([key for key in texts if key not in found]))
        missing = [key for key in texts if key not in found]
        if missing:
            fresh = dict(zip(missing, self._encode([texts[key] for key in missing]), strict=True))
            self.staging.put(fresh)
            found.update(fresh)
        return found

    def _reused(self, keys: Sequence[bytes]) -> dict[bytes, Vector]:
        if self.reuse is None:
            return {}
        rows = {}
        for key in keys:
            row = self.reuse.freed.get(key) or self.edit.row_embedding(key, up_to=self.reuse.last_row)
            if row is not None and row <= self.reuse.last_row:
                rows[key] = row
        return dict(zip(rows, self.reuse.vectors(list(rows.values())), strict=True)) if rows else {}

    def _encode(self, texts: Sequence[str]) -> Vectors:
        vectors = self.encoder.encode_passages(texts)
        self.encoded += len(texts)
        try:
            vectors = checked_vectors(vectors, self.encoder.dimension)
        except SearchError as error:
            raise EncodeError(f"the encoder gave no usable vectors: {error}", hint="check its model files") from error
        if len(vectors) != len(texts):
            raise EncodeError(f"the encoder gave {len(vectors)} vectors for {len(texts)} texts")
        return vectors
