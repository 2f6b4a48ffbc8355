"""What every index shares: settings, checks of its inputs, and the comparison of signatures. Pure.

Knows nothing of any engine, file or text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from retrieval.errors import IndexMismatchError, SearchError
from retrieval.types import Signature

if TYPE_CHECKING:
    from retrieval.types import Vectors

Ids = npt.NDArray[np.int64]

REBUILD_HINT = (
    "run `grounding-gateway ingest --rebuild` to make the index anew from the same files, "
    "or set the encoder and splitter back to what the index was made with"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexSettings:
    """How an index trades memory and build time for speed.

    `flat_until`: live vectors up to which search is an exact scan; above, a navigable graph (Malkov and Yashunin,
    2016).
    `neighbours`, `ef_construction`, `ef_search`: the graph's M, build beam and least search beam.
    `dead_share`: share of tombstones above which the index is rebuilt without them.
    `tail_until`, `tail_share`: new vectors are scanned exactly beside the graph until they are more than this count
    and this share of it; then the graph takes them in.
    `exact_until`: a search restricted to at most this many vectors is always exact.
    """

    flat_until: int = 50_000
    neighbours: int = 32
    ef_construction: int = 128
    ef_search: int = 64
    dead_share: float = 0.3
    tail_until: int = 5_000
    tail_share: float = 0.1
    exact_until: int = 5_000

    def __post_init__(self) -> None:
        if min(self.flat_until, self.tail_until, self.exact_until) < 0:
            raise ValueError("flat_until, tail_until and exact_until are counts and cannot be negative")
        if min(self.neighbours, self.ef_construction, self.ef_search) < 2:
            raise ValueError("neighbours, ef_construction and ef_search must be at least 2")
        if not 0.0 < self.dead_share <= 1.0 or not 0.0 <= self.tail_share <= 1.0:
            raise ValueError("dead_share lies in (0, 1] and tail_share in [0, 1]")


def differences(one: Signature, other: Signature) -> tuple[tuple[str, object, object], ...]:
    """The fields in which two signatures differ, with both values."""
    pairs = ((f.name, getattr(one, f.name), getattr(other, f.name)) for f in fields(Signature))
    return tuple((name, left, right) for name, left, right in pairs if left != right)


def require_same(stored: Signature, wanted: Signature, *, where: str) -> None:
    """Raises `IndexMismatchError` naming both sides of every difference, and the remedy."""
    if found := differences(stored, wanted):
        named = "; ".join(f"{name}: stored {old!r}, configured {new!r}" for name, old, new in found)
        raise IndexMismatchError(f"{where} was made with other settings than configured ({named})", hint=REBUILD_HINT)


def checked_vectors(vectors: Vectors, dimension: int) -> Vectors:
    """`vectors` as contiguous float32 of shape `(n, dimension)`.

    Raises `SearchError` for another shape and for NaN or infinity, which would otherwise sort anywhere.
    """
    array = np.ascontiguousarray(vectors, dtype=np.float32)
    if array.ndim != 2 or array.shape[1] != dimension:
        raise SearchError(
            f"expected vectors of shape (n, {dimension}), got {array.shape}",
            hint="the encoder and the index differ: check that both come from the same configuration",
        )
    if not np.isfinite(array).all():
        raise SearchError("a vector holds NaN or infinity", hint="the encoder is broken: check its model files")
    return array


def checked_upsert(ids: Sequence[int], vectors: Vectors, dimension: int) -> tuple[Ids, Vectors]:
    """Ids and vectors ready to store; of an id given twice the last vector wins."""
    array = checked_vectors(vectors, dimension)
    keys = np.asarray(ids, dtype=np.int64).reshape(-1)
    if len(keys) != len(array):
        raise ValueError(f"{len(keys)} ids for {len(array)} vectors")
    if len(keys) and int(keys.min()) < 0:
        raise ValueError("ids are not negative")
    unique, last = np.unique(keys[::-1], return_index=True)
    if len(unique) == len(keys):
        return keys, array
    kept = np.sort(len(keys) - 1 - last)
    return keys[kept], array[kept]
