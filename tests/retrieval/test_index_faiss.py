"""What the faiss index promises beyond the contract: kinds, recall, tombstones, threads, shared files."""

import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from retrieval.index.base import IndexSettings
from retrieval.index.brute import BruteForceIndex
from retrieval.index.faiss import FaissIndex
from retrieval.types import Signature
from tests.retrieval.vectors import DIMENSION, GRAPH, SIGNATURE, clustered, recall

WIDE = Signature(model="wide", revision="1", dimension=64, max_tokens=64)
LARGE = IndexSettings(flat_until=1_000, exact_until=100, dead_share=1.0)


def test_a_growing_collection_changes_to_a_graph_and_back_without_losing_a_passage() -> None:
    index = FaissIndex(SIGNATURE, replace(GRAPH, dead_share=0.5))
    vectors = clustered(130, seed=1)
    index.upsert(range(50), vectors[:50])
    assert index.stats().kind == "flat"
    index.upsert(range(50, 130), vectors[50:])
    assert index.stats().kind == "hnsw"
    index.delete(range(90))
    assert index.stats().kind == "flat"
    assert [line[0][0] for line in index.search(vectors[90:], 1)] == list(range(90, 130))


def test_tombstones_are_dropped_once_there_are_too_many() -> None:
    index = FaissIndex(SIGNATURE, IndexSettings(dead_share=0.3))
    index.upsert(range(100), clustered(100, seed=1))
    index.delete(range(30))
    assert index.stats().deleted == 30
    index.delete([30])
    assert (index.stats().live, index.stats().deleted) == (69, 0)


def test_new_passages_beside_a_graph_are_found_before_and_after_it_takes_them_in() -> None:
    index = FaissIndex(SIGNATURE, GRAPH)
    vectors = clustered(200, seed=1)
    index.upsert(range(100), vectors[:100])
    for key in range(100, 200):
        index.upsert([key], vectors[key : key + 1])
        assert index.search(vectors[key : key + 1], 1)[0][0][0] == key
    assert [line[0][0] for line in index.search(vectors, 1)] == list(range(200))


@pytest.fixture(scope="module")
def large() -> tuple[np.ndarray, np.ndarray]:
    rows = clustered(5_200, seed=2, dimension=64, clusters=100)
    return rows[:5_000], rows[5_000:]


def _pair(rows: np.ndarray) -> tuple[FaissIndex, BruteForceIndex]:
    graph, oracle = FaissIndex(WIDE, LARGE), BruteForceIndex(WIDE)
    graph.upsert(range(len(rows)), rows)
    oracle.upsert(range(len(rows)), rows)
    assert graph.stats().kind == "hnsw"
    return graph, oracle


@pytest.mark.parametrize("k", [1, 9, 50])
@pytest.mark.parametrize("deleted", ["none", "half at random", "the half nearest to a query"])
def test_a_graph_misses_fewer_than_one_passage_in_a_hundred_even_with_half_deleted(
    large: tuple[np.ndarray, np.ndarray], deleted: str, k: int
) -> None:
    rows, queries = large
    graph, oracle = _pair(rows)
    order = {
        "none": np.array([], dtype=np.int64),
        "half at random": np.random.default_rng(3).permutation(len(rows))[: len(rows) // 2],
        "the half nearest to a query": np.argsort(-(rows @ queries[0]))[: len(rows) // 2],
    }[deleted]
    graph.delete(order.tolist())
    oracle.delete(order.tolist())
    found = graph.search(queries, k)
    assert graph.stats().deleted == len(order)
    assert all(len(line) == k for line in found)
    assert recall(found, oracle.search(queries, k)) >= 0.99


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5])
def test_a_permission_filter_costs_no_recall(large: tuple[np.ndarray, np.ndarray], share: float) -> None:
    rows, queries = large
    graph, oracle = _pair(rows)
    allowed = np.flatnonzero(np.random.default_rng(4).random(len(rows)) < share).astype(np.int64)
    assert recall(graph.search(queries, 9, allowed), oracle.search(queries, 9, allowed)) >= 0.99


def test_a_flat_index_equals_brute_force(large: tuple[np.ndarray, np.ndarray]) -> None:
    rows, queries = large
    flat, oracle = FaissIndex(WIDE, IndexSettings(dead_share=1.0)), BruteForceIndex(WIDE)
    for index in (flat, oracle):
        index.upsert(range(len(rows)), rows)
        index.delete(range(0, len(rows), 2))
    for mine, theirs in zip(flat.search(queries, 20), oracle.search(queries, 20), strict=True):
        assert [key for key, _ in mine] == [key for key, _ in theirs]
        np.testing.assert_allclose([score for _, score in mine], [score for _, score in theirs], atol=1e-5)


@pytest.mark.parametrize(
    "settings", [IndexSettings(dead_share=0.3), replace(GRAPH, dead_share=0.3)], ids=["flat", "hnsw"]
)
def test_search_while_another_thread_writes_neither_crashes_nor_shows_a_deleted_passage(
    settings: IndexSettings,
) -> None:
    index = FaissIndex(SIGNATURE, settings)
    stable = clustered(200, seed=5)
    index.upsert(range(200), stable)
    stop = threading.Event()
    failures: list[object] = []
    gone_below = [1_000]

    def write() -> None:
        try:
            for turn in range(60):
                first = 1_000 + turn * 20
                index.upsert(range(first, first + 20), clustered(20, seed=turn))
                index.delete(range(first, first + 20))
                gone_below[0] = first + 20
        except Exception as error:
            failures.append(error)
        finally:
            stop.set()

    def search() -> None:
        try:
            while not stop.is_set():
                gone = gone_below[0]
                for position, line in enumerate(index.search(stable[:20], 5)):
                    if line[0][0] != position or any(1_000 <= key < gone for key, _ in line) or len(line) != 5:
                        failures.append((position, gone, line))
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=write), *(threading.Thread(target=search) for _ in range(3))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert index.stats().live == 200


def test_an_unchanged_graph_is_shared_between_snapshots_and_not_written_or_read_again(tmp_path: Path) -> None:
    index = FaissIndex(SIGNATURE, GRAPH)
    index.upsert(range(100), clustered(100, seed=1))
    index.snapshot(tmp_path / "one")
    index.upsert([500], clustered(1, seed=2))
    index.snapshot(tmp_path / "two")
    graphs = [next((tmp_path / name).glob("graph-*")) for name in ("one", "two")]
    assert graphs[0].stat().st_ino == graphs[1].stat().st_ino
    first = FaissIndex.load(tmp_path / "one", signature=SIGNATURE, settings=GRAPH)
    second = FaissIndex.load(tmp_path / "two", signature=SIGNATURE, settings=GRAPH, reuse=first)
    assert second.search(clustered(1, seed=2), 1)[0][0][0] == 500
    assert first.search(clustered(1, seed=2), 1)[0][0][0] != 500


def test_a_graph_whose_earlier_file_is_gone_is_written_again(tmp_path: Path) -> None:
    index = FaissIndex(SIGNATURE, GRAPH)
    index.upsert(range(100), clustered(100, seed=1))
    index.snapshot(tmp_path / "one")
    next((tmp_path / "one").glob("graph-*")).unlink()
    index.snapshot(tmp_path / "two")
    assert FaissIndex.load(tmp_path / "two", signature=SIGNATURE).stats().live == 100


def test_a_reader_keeps_answering_from_files_a_writer_removed(tmp_path: Path) -> None:
    index = FaissIndex(SIGNATURE, GRAPH)
    vectors = clustered(110, seed=1)
    index.upsert(range(100), vectors[:100])
    index.upsert(range(100, 110), vectors[100:])
    index.snapshot(tmp_path / "one")
    reader = FaissIndex.load(tmp_path / "one", signature=SIGNATURE)
    for path in (tmp_path / "one").iterdir():
        path.unlink()
    assert [line[0][0] for line in reader.search(vectors, 1)] == list(range(110))


def test_a_flat_snapshot_does_not_keep_the_vectors_of_deleted_passages(tmp_path: Path) -> None:
    index = FaissIndex(SIGNATURE, IndexSettings(dead_share=1.0))
    index.upsert(range(10), clustered(10, seed=1))
    index.delete(range(9))
    index.snapshot(tmp_path / "one")
    assert next((tmp_path / "one").glob("tail-*")).stat().st_size == DIMENSION * 4


def test_a_vector_that_is_not_there_is_an_error_and_not_another_passages() -> None:
    index = FaissIndex(SIGNATURE)
    index.upsert([1, 2], clustered(2, seed=1))
    index.delete([2])
    with pytest.raises(KeyError, match="2"):
        index.vectors([1, 2])


@pytest.mark.parametrize(
    "bad",
    [{"flat_until": -1}, {"neighbours": 1}, {"dead_share": 0.0}, {"tail_share": 1.5}],
    ids=lambda bad: next(iter(bad)),
)
def test_settings_that_cannot_work_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))):
        IndexSettings(**bad)  # type: ignore[arg-type]
