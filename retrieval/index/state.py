"""What one search of a graph-and-tail index sees: ids, tombstones, the graph and the tail. Immutable.

Knows nothing of how a graph is built, walked or stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from retrieval.index.base import Ids

if TYPE_CHECKING:
    from retrieval.types import Vectors

Mask = npt.NDArray[np.bool_]
Bits = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Graph:
    """A built graph, its vectors as a view, and the file it was read from or written to, if any."""

    index: Any
    vectors: Vectors
    file: Path | None = None
    sha256: str = ""

    @property
    def size(self) -> int:
        return len(self.vectors)


@dataclass(frozen=True)
class State:
    """What a search sees. Positions below the graph's size lie in the graph, the others in the tail."""

    ids: Ids
    live: Mask
    tail: Vectors
    graph: Graph | None
    generation: int

    @property
    def base(self) -> int:
        return self.graph.size if self.graph else 0

    @cached_property
    def live_count(self) -> int:
        return int(np.count_nonzero(self.live))

    @cached_property
    def newest(self) -> int:
        """The highest id ever stored, -1 when empty: an id above it cannot be a replacement."""
        return int(self.ids.max()) if len(self.ids) else -1

    @cached_property
    def _by_id(self) -> tuple[Ids, Ids]:
        positions = np.flatnonzero(self.live)
        ids = self.ids[positions]
        order = np.argsort(ids, kind="stable")
        return ids[order], positions[order]

    def positions(self, ids: Ids) -> Ids:
        """Live positions of `ids`, -1 for an id that is not live."""
        sorted_ids, positions = self._by_id
        if not len(sorted_ids):
            return np.full(len(ids), -1, dtype=np.int64)
        at = np.minimum(np.searchsorted(sorted_ids, ids), len(sorted_ids) - 1)
        return np.where(sorted_ids[at] == ids, positions[at], -1)

    def rows(self, positions: Ids) -> Vectors:
        """A copy of the vectors at `positions`."""
        if self.graph is None:
            return self.tail[positions]
        found = np.empty((len(positions), self.tail.shape[1]), dtype=np.float32)
        inside = positions < self.base
        found[inside] = self.graph.vectors[positions[inside]]
        found[~inside] = self.tail[positions[~inside] - self.base]
        return found

    @cached_property
    def everything(self) -> Selection:
        return Selection(self.live, self.live_count, self.base)

    def selection(self, allowed: Ids | None) -> Selection:
        """What a search may return: every live vector, or those among `allowed`."""
        if allowed is None:
            return self.everything
        positions = self.positions(np.unique(np.asarray(allowed, dtype=np.int64)))
        positions = positions[positions >= 0]
        mask = np.zeros(len(self.ids), dtype=np.bool_)
        mask[positions] = True
        return Selection(mask, len(positions), self.base)


class Selection:
    """A mask over positions and its halves as bits, packed when first used."""

    def __init__(self, mask: Mask, count: int, base: int) -> None:
        self.mask = mask
        self.count = count
        self._base = base

    @cached_property
    def in_graph(self) -> int:
        return int(np.count_nonzero(self.mask[: self._base]))

    @cached_property
    def graph_bits(self) -> Bits:
        return np.packbits(self.mask[: self._base], bitorder="little")

    @cached_property
    def tail_bits(self) -> Bits:
        return np.packbits(self.mask[self._base :], bitorder="little")
