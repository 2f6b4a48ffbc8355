"""An index over faiss: an exact scan while small, a navigable graph (HNSW) beside a short exact tail when large.

Vectors lie at positions; our ids are a column beside them. A deleted or replaced vector becomes a tombstone that
searches skip, and a rebuild drops it: faiss's own `remove_ids` shifts positions in flat indexes and is not offered for
graphs. A writer makes a new state and swaps it in; a search works on the state it began with and never waits.

Knows nothing of texts, documents, permissions or encoders.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import faiss
import numpy as np
import numpy.typing as npt

from retrieval.index.base import Ids, IndexSettings, checked_upsert, checked_vectors, require_same
from retrieval.index.snapshot import Snapshot, SnapshotWriter, corrupt
from retrieval.index.state import Bits, Graph, Mask, Selection, State
from retrieval.types import IndexStats, Signature

if TYPE_CHECKING:
    from retrieval.types import Vectors

# The package's type stubs leave out part of what its wrapper classes offer.
_engine: Any = faiss

KIND = "faiss"
# Nearest vectors asked of the graph beyond k over the live share, since tombstones do not spread evenly.
OVERFETCH = 1.3
# A walk that would visit this share of the graph costs more than scanning it.
WALK_LIMIT = 0.25
# Below this share of selected vectors a walk mostly meets vectors it may not return.
SELECTIVE_SHARE = 0.02


class FaissIndex:
    """Vectors under our own ids; safe to search from any thread while another one writes."""

    def __init__(self, signature: Signature, settings: IndexSettings | None = None) -> None:
        self._signature = signature
        self._settings = settings or IndexSettings()
        self._state = State(
            ids=np.empty(0, dtype=np.int64),
            live=np.empty(0, dtype=np.bool_),
            tail=np.empty((0, signature.dimension), dtype=np.float32),
            graph=None,
            generation=0,
        )
        self._writing = threading.Lock()

    @classmethod
    def load(
        cls,
        directory: Path,
        *,
        signature: Signature,
        settings: IndexSettings | None = None,
        reuse: FaissIndex | None = None,
    ) -> Self:
        """Read a snapshot back, checking every byte; its arrays are mapped, so that processes share them.

        `reuse` is an index loaded before: a graph file that did not change is taken from it.
        Raises `IndexMismatchError` for another signature and `IndexCorruptError` for a damaged file.
        """
        snapshot = Snapshot.read(directory, kind=KIND)
        require_same(snapshot.signature, signature, where=f"index snapshot {directory}")
        index = cls(signature, settings)
        graph = _read_graph(snapshot, reuse._state.graph if reuse else None)
        ids = snapshot.array("ids", np.int64, ())
        tail = snapshot.array("tail", np.float32, (signature.dimension,))
        bits = snapshot.array("live", np.uint8, ())
        live = np.unpackbits(bits, count=len(ids), bitorder="little").astype(np.bool_)
        if len(ids) != len(tail) + (graph.size if graph else 0) or len(bits) != math.ceil(len(ids) / 8):
            raise corrupt(directory, "its files do not belong together")
        index._state = State(ids=ids, live=live, tail=tail, graph=graph, generation=snapshot.generation)
        return index

    def signature(self) -> Signature:
        return self._signature

    def stats(self) -> IndexStats:
        state = self._state
        held = state.tail.nbytes + state.ids.nbytes + state.live.nbytes
        if state.graph is not None:
            # Per vertex the lowest layer keeps 2M links of four bytes; upper layers add about a tenth.
            held += state.graph.vectors.nbytes + int(state.base * self._settings.neighbours * 2 * 4 * 1.1)
        return IndexStats(
            live=state.live_count,
            deleted=len(state.ids) - state.live_count,
            kind="flat" if state.graph is None else "hnsw",
            bytes=held,
            generation=state.generation,
        )

    # --- writing ---

    def upsert(self, ids: Sequence[int], vectors: Vectors) -> None:
        """Store vectors; those of known ids replace them. One large call is far cheaper than many small ones."""
        keys, array = checked_upsert(ids, vectors, self._signature.dimension)
        if not len(keys):
            return
        with self._writing:
            state = self._state
            live = _without(state, keys) if int(keys.min()) <= state.newest else state.live
            self._state = self._tidied(
                State(
                    ids=np.concatenate((state.ids, keys)),
                    live=np.concatenate((live, np.ones(len(keys), dtype=np.bool_))),
                    tail=_appended(state.tail, array),
                    graph=state.graph,
                    generation=state.generation + 1,
                )
            )

    def delete(self, ids: Iterable[int]) -> None:
        """Forget vectors; unknown ids are ignored."""
        keys = np.fromiter(ids, dtype=np.int64)
        if not len(keys):
            return
        with self._writing:
            state = self._state
            live = _without(state, keys)
            self._state = self._tidied(replace(state, live=live, generation=state.generation + 1))

    def _tidied(self, state: State) -> State:
        """Rebuilds when tombstones or the tail have grown past the settings; else `state` as it is."""
        settings = self._settings
        dead = len(state.ids) - state.live_count
        tail_limit = max(settings.tail_until, settings.tail_share * state.base)
        if dead > settings.dead_share * len(state.ids):
            return self._rebuilt(state)
        if state.graph is None:
            return self._rebuilt(state) if state.live_count > settings.flat_until else state
        return self._merged(state, state.graph) if len(state.tail) > tail_limit else state

    def _rebuilt(self, state: State) -> State:
        positions = np.flatnonzero(state.live)
        rows = state.rows(positions)
        graph = None
        if len(rows) > self._settings.flat_until:
            index = faiss.IndexHNSWFlat(
                self._signature.dimension, self._settings.neighbours, faiss.METRIC_INNER_PRODUCT
            )
            index.hnsw.efConstruction = self._settings.ef_construction
            index.add(rows)
            graph = Graph(index=index, vectors=_storage(index))
            rows = rows[:0]
        return State(
            ids=state.ids[positions],
            live=np.ones(len(positions), dtype=np.bool_),
            tail=rows,
            graph=graph,
            generation=state.generation,
        )

    def _merged(self, state: State, graph: Graph) -> State:
        # Searches still walk the old graph, and a mapped one cannot grow: the tail goes into a copy.
        index = faiss.deserialize_index(faiss.serialize_index(graph.index))
        alive = state.live[state.base :]
        index.add(state.tail[alive])
        keep = np.concatenate((np.ones(state.base, dtype=np.bool_), alive))
        return State(
            ids=state.ids[keep],
            live=state.live[keep],
            tail=state.tail[:0],
            graph=Graph(index=index, vectors=_storage(index)),
            generation=state.generation,
        )

    # --- reading ---

    def vectors(self, ids: Sequence[int]) -> Vectors:
        """The stored vectors of live `ids`, in their order; raises `KeyError` for an id that is not live."""
        state = self._state
        positions = state.positions(np.asarray(ids, dtype=np.int64).reshape(-1))
        if len(positions) and int(positions.min()) < 0:
            raise KeyError(int(np.asarray(ids, dtype=np.int64)[positions < 0][0]))
        return state.rows(positions)

    def live(self, ids: Ids) -> int:
        """How many of `ids` are live."""
        return int(np.count_nonzero(self._state.positions(ids) >= 0))

    def search(
        self, queries: Vectors, k: int, allowed: npt.NDArray[np.int64] | None = None
    ) -> list[list[tuple[int, float]]]:
        queries = checked_vectors(queries, self._signature.dimension)
        state = self._state
        selection = state.selection(allowed)
        k = min(k, selection.count)
        if k <= 0 or not len(queries):
            return [[] for _ in queries]
        blocks = []
        if state.graph is not None and selection.in_graph:
            blocks.append(self._search_graph(state.graph, queries, k, selection))
        if selection.count > selection.in_graph:
            scores, positions = _scan(queries, state.tail, k, selection.tail_bits)
            blocks.append((scores, np.where(positions < 0, -1, positions + state.base)))
        scores, positions = (np.concatenate(parts, axis=1) for parts in zip(*blocks, strict=True))
        return [_best(row, state.ids, at, k) for row, at in zip(scores, positions, strict=True)]

    def _search_graph(self, graph: Graph, queries: Vectors, k: int, selection: Selection) -> tuple[Vectors, Ids]:
        """Per query the k best selected vectors of the graph: by a walk, or by a scan where a walk may miss some."""
        k = min(k, selection.in_graph)
        settings = self._settings
        share = selection.in_graph / graph.size
        scores = np.full((len(queries), k), -np.inf, dtype=np.float32)
        positions = np.full((len(queries), k), -1, dtype=np.int64)
        pending = np.arange(len(queries))
        fetch = math.ceil(k / share * OVERFETCH) if share < 1.0 else k
        exact = selection.in_graph <= settings.exact_until or share < SELECTIVE_SHARE
        while len(pending) and not exact and fetch <= WALK_LIMIT * graph.size:
            parameters = _engine.SearchParametersHNSW(efSearch=max(settings.ef_search, 2 * fetch))
            found_scores, found = graph.index.search(queries[pending], fetch, params=parameters)
            kept = (found >= 0) & selection.mask[found]
            enough = np.count_nonzero(kept, axis=1) >= k
            for row in np.flatnonzero(enough):
                first = np.flatnonzero(kept[row])[:k]
                scores[pending[row]] = found_scores[row, first]
                positions[pending[row]] = found[row, first]
            # The neighbourhood of the others is mostly tombstones: look further, and in the end at everything.
            pending = pending[~enough]
            fetch *= 4
        if len(pending):
            scores[pending], positions[pending] = _scan(queries[pending], graph.vectors, k, selection.graph_bits)
        return scores, positions

    def snapshot(self, directory: Path) -> None:
        """Write the state atomically: a flat one without its tombstones, an unchanged graph file as a hard link."""
        state = self._state
        writer = SnapshotWriter(directory, kind=KIND, signature=self._signature, generation=state.generation)
        ids, live, tail = state.ids, state.live, state.tail
        if state.graph is not None:
            self._write_graph(writer, state.graph, directory)
        elif state.live_count < len(ids):
            ids, tail, live = ids[live], tail[live], live[live]
        writer.add_array("ids", ids)
        writer.add_array("live", np.packbits(live, bitorder="little"))
        writer.add_array("tail", tail)
        writer.commit()

    def _write_graph(self, writer: SnapshotWriter, graph: Graph, directory: Path) -> None:
        if graph.file is not None and writer.link_file("graph", graph.file, graph.sha256):
            return
        written = writer.add_file("graph", lambda path: faiss.write_index(graph.index, str(path)))
        with self._writing:
            if self._state.graph is graph:
                known = replace(graph, file=directory / written.name, sha256=written.sha256)
                self._state = replace(self._state, graph=known)


def _scan(queries: Vectors, vectors: Vectors, k: int, bits: Bits) -> tuple[Vectors, Ids]:
    """The exact k best among the selected rows of `vectors`; position -1 where there are fewer.

    The selector is always given: without one faiss takes a path that measured twice as slow for a single query.
    """
    scores = np.empty((len(queries), k), dtype=np.float32)
    positions = np.empty((len(queries), k), dtype=np.int64)
    faiss.knn_inner_product(
        faiss.swig_ptr(queries),
        faiss.swig_ptr(vectors),
        vectors.shape[1],
        len(queries),
        len(vectors),
        k,
        faiss.swig_ptr(scores),
        faiss.swig_ptr(positions),
        _engine.IDSelectorBitmap(bits),
    )
    return scores, positions


def _best(scores: Vectors, ids: Ids, positions: Ids, k: int) -> list[tuple[int, float]]:
    """The k best of one query, ties by id, without the places that stayed empty."""
    real = positions >= 0
    scores, keys = scores[real], ids[positions[real]]
    order = np.lexsort((keys, -scores))[:k]
    return list(zip(keys[order].tolist(), scores[order].tolist(), strict=True))


def _without(state: State, ids: Ids) -> Mask:
    """The live mask with `ids` taken out; the state's own mask stays as it is for running searches."""
    positions = state.positions(ids)
    live = state.live.copy()
    live[positions[positions >= 0]] = False
    return live


def _appended(tail: Vectors, rows: Vectors) -> Vectors:
    """`tail` with `rows` after it. Always a new array: running searches read the old one."""
    return np.concatenate((tail, rows))


def _storage(index: Any) -> Vectors:
    """The vectors inside a graph as a view; valid as long as the index lives."""
    flat = _engine.downcast_index(index.storage)
    view: Vectors = faiss.rev_swig_ptr(flat.get_xb(), index.ntotal * index.d).reshape(index.ntotal, index.d)
    return view


def _read_graph(snapshot: Snapshot, known: Graph | None) -> Graph | None:
    file = snapshot.files.get("graph")
    if file is None:
        return None
    path = snapshot.directory / file.name
    if known is not None and known.sha256 == file.sha256:
        return replace(known, file=path)
    path = snapshot.checked("graph")
    try:
        index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
    except RuntimeError as error:
        raise corrupt(path, "faiss cannot read it") from error
    if not isinstance(index, faiss.IndexHNSWFlat) or index.d != snapshot.signature.dimension:
        raise corrupt(path, "it is no graph of this dimension")
    return Graph(index=index, vectors=_storage(index), file=path, sha256=file.sha256)
