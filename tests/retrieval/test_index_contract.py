"""What every index promises, over every implementation."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from retrieval.errors import IndexCorruptError, IndexMismatchError, SearchError
from retrieval.index.brute import BruteForceIndex
from retrieval.index.faiss import FaissIndex
from retrieval.index.snapshot import MANIFEST
from retrieval.types import Index
from tests.retrieval.vectors import DIMENSION, MAKERS, SIGNATURE, clustered, other_signature

COUNT = 120


@pytest.fixture(params=list(MAKERS))
def index(request: pytest.FixtureRequest) -> BruteForceIndex | FaissIndex:
    return MAKERS[request.param](SIGNATURE)


@pytest.fixture
def filled(index: BruteForceIndex | FaissIndex) -> BruteForceIndex | FaissIndex:
    index.upsert(range(100, 100 + COUNT), clustered(COUNT, seed=1))
    return index


def reload(index: BruteForceIndex | FaissIndex, directory: Path) -> BruteForceIndex | FaissIndex:
    return type(index).load(directory, signature=SIGNATURE)


def test_every_implementation_can_stand_behind_the_seam(index: BruteForceIndex | FaissIndex) -> None:
    assert isinstance(index, Index)
    assert index.signature() == SIGNATURE


def test_a_passage_is_found_by_its_own_vector_first(filled: BruteForceIndex | FaissIndex) -> None:
    vectors = clustered(COUNT, seed=1)
    found = filled.search(vectors, 3)
    assert [line[0][0] for line in found] == list(range(100, 100 + COUNT))
    assert all(line[0][1] == pytest.approx(1.0, abs=1e-5) for line in found)
    assert all(scores == sorted(scores, reverse=True) for line in found if (scores := [score for _, score in line]))


def test_scores_are_the_cosine_a_reader_can_compute(filled: BruteForceIndex | FaissIndex) -> None:
    vectors, query = clustered(COUNT, seed=1), clustered(1, seed=2)
    for key, score in filled.search(query, 10)[0]:
        assert score == pytest.approx(float(vectors[key - 100] @ query[0]), abs=1e-5)


@pytest.mark.parametrize("k", [COUNT + 1, 10 * COUNT])
def test_asking_for_more_than_exist_returns_fewer_and_never_minus_one(
    filled: BruteForceIndex | FaissIndex, k: int
) -> None:
    filled.delete(range(100, 110))
    found = [key for key, _ in filled.search(clustered(1, seed=3), k)[0]]
    assert sorted(found) == list(range(110, 100 + COUNT))


@pytest.mark.parametrize("k", [0, -1])
def test_asking_for_none_returns_none(filled: BruteForceIndex | FaissIndex, k: int) -> None:
    assert filled.search(clustered(2, seed=3), k) == [[], []]


def test_an_empty_index_answers_with_nothing(index: BruteForceIndex | FaissIndex) -> None:
    assert index.search(clustered(2, seed=3), 5) == [[], []]
    index.delete([1, 2])
    assert index.stats().live == 0


def test_deleted_passage_never_comes_back_from_any_search(filled: BruteForceIndex | FaissIndex) -> None:
    vectors = clustered(COUNT, seed=1)
    gone = set(range(100, 100 + COUNT, 2))
    filled.delete(gone)
    found = filled.search(vectors, COUNT) + filled.search(vectors, COUNT, np.arange(100, 100 + COUNT))
    assert not gone & {key for line in found for key, _ in line}
    assert filled.stats().live == COUNT // 2


def test_everything_deleted_leaves_nothing_to_find(filled: BruteForceIndex | FaissIndex) -> None:
    filled.delete(range(100, 100 + COUNT))
    assert filled.search(clustered(1, seed=3), 5) == [[]]


def test_replaced_passage_is_found_by_its_new_vector_and_only_once(filled: BruteForceIndex | FaissIndex) -> None:
    new = clustered(1, seed=77)
    filled.upsert([105], new)
    found = filled.search(new, COUNT)[0]
    assert found[0] == (105, pytest.approx(1.0, abs=1e-5))
    assert [key for key, _ in found].count(105) == 1
    assert filled.stats().live == COUNT


def test_an_id_given_twice_in_one_call_keeps_the_last_vector(index: BruteForceIndex | FaissIndex) -> None:
    first, last = clustered(2, seed=5)
    index.upsert([7, 7], np.stack([first, last]))
    assert index.search(last[None], 5)[0] == [(7, pytest.approx(1.0, abs=1e-5))]


def test_a_deleted_id_can_be_stored_again(filled: BruteForceIndex | FaissIndex) -> None:
    vector = clustered(1, seed=78)
    filled.delete([110])
    filled.upsert([110], vector)
    assert filled.search(vector, 1)[0] == [(110, pytest.approx(1.0, abs=1e-5))]


@pytest.mark.parametrize("allowed", [[100], [101, 150, 219], list(range(100, 220, 3)), list(range(100, 215))])
def test_permission_filter_never_lets_another_passage_through(
    filled: BruteForceIndex | FaissIndex, allowed: list[int]
) -> None:
    found = filled.search(clustered(5, seed=4), 10, np.array(allowed, dtype=np.int64))
    assert all({key for key, _ in line} <= set(allowed) for line in found)
    assert all(len(line) == min(10, len(allowed)) for line in found)


def test_filter_on_unknown_ids_returns_nothing_instead_of_something_else(filled: BruteForceIndex | FaissIndex) -> None:
    assert filled.search(clustered(1, seed=4), 5, np.array([1, 999_999], dtype=np.int64)) == [[]]
    assert filled.search(clustered(1, seed=4), 5, np.array([], dtype=np.int64)) == [[]]


def test_filter_with_repeated_ids_returns_each_once(filled: BruteForceIndex | FaissIndex) -> None:
    found = filled.search(clustered(1, seed=4), 5, np.array([101, 101, 102], dtype=np.int64))[0]
    assert sorted(key for key, _ in found) == [101, 102]


@pytest.mark.parametrize(
    "vectors",
    [
        np.full((1, DIMENSION), np.nan, dtype=np.float32),
        np.full((1, DIMENSION), np.inf, dtype=np.float32),
        np.ones((1, DIMENSION + 1), dtype=np.float32),
        np.ones(DIMENSION, dtype=np.float32),
    ],
    ids=["nan", "infinity", "dimension", "shape"],
)
def test_a_broken_vector_is_refused_before_it_can_disorder_results(
    filled: BruteForceIndex | FaissIndex, vectors: np.ndarray
) -> None:
    with pytest.raises(SearchError):
        filled.search(vectors, 3)
    with pytest.raises(SearchError):
        filled.upsert([1], vectors)
    assert filled.stats().live == COUNT


def test_ids_and_vectors_of_different_number_are_refused(index: BruteForceIndex | FaissIndex) -> None:
    with pytest.raises(ValueError, match="2 ids for 3 vectors"):
        index.upsert([1, 2], clustered(3, seed=1))


def test_a_restart_finds_what_was_found_before(filled: BruteForceIndex | FaissIndex, tmp_path: Path) -> None:
    filled.delete(range(100, 130))
    filled.upsert([500], clustered(1, seed=9))
    filled.snapshot(tmp_path / "snapshot")
    again = reload(filled, tmp_path / "snapshot")
    queries = clustered(10, seed=6)
    assert again.search(queries, 7) == filled.search(queries, 7)
    assert again.stats().live == filled.stats().live
    np.testing.assert_array_equal(again.vectors([500, 140]), filled.vectors([500, 140]))


def test_a_loaded_index_can_go_on_being_written(filled: BruteForceIndex | FaissIndex, tmp_path: Path) -> None:
    filled.snapshot(tmp_path / "one")
    again = reload(filled, tmp_path / "one")
    vectors = clustered(60, seed=10)
    again.upsert(range(1000, 1060), vectors)
    again.delete([100])
    again.snapshot(tmp_path / "two")
    third = reload(again, tmp_path / "two")
    assert [line[0][0] for line in third.search(vectors, 1)] == list(range(1000, 1060))
    assert third.stats().live == COUNT + 59


def test_an_empty_index_survives_a_restart(index: BruteForceIndex | FaissIndex, tmp_path: Path) -> None:
    index.snapshot(tmp_path / "snapshot")
    assert reload(index, tmp_path / "snapshot").search(clustered(1, seed=1), 3) == [[]]


def test_a_second_snapshot_replaces_the_first_and_leaves_no_litter(
    filled: BruteForceIndex | FaissIndex, tmp_path: Path
) -> None:
    filled.snapshot(tmp_path / "snapshot")
    filled.delete(range(100, 101))
    filled.snapshot(tmp_path / "snapshot")
    (tmp_path / "other").mkdir()
    filled.snapshot(tmp_path / "other")
    names = {path.name for path in (tmp_path / "snapshot").iterdir()}
    assert names == {path.name for path in (tmp_path / "other").iterdir()}
    assert reload(filled, tmp_path / "snapshot").stats().live == COUNT - 1


def test_files_of_a_snapshot_cut_off_before_its_manifest_change_nothing(
    filled: BruteForceIndex | FaissIndex, tmp_path: Path
) -> None:
    filled.snapshot(tmp_path / "snapshot")
    (tmp_path / "snapshot" / ".writing-abc").write_bytes(b"half a file")
    (tmp_path / "snapshot" / "ids-0000000000000000.bin").write_bytes(b"of a state that never was")
    assert reload(filled, tmp_path / "snapshot").stats().live == COUNT


def test_index_of_another_model_is_refused_and_both_sides_named(
    filled: BruteForceIndex | FaissIndex, tmp_path: Path
) -> None:
    filled.snapshot(tmp_path / "snapshot")
    with pytest.raises(IndexMismatchError) as caught:
        type(filled).load(tmp_path / "snapshot", signature=other_signature())
    message = str(caught.value)
    assert all(part in message for part in ("'tiny'", "'another'", "64", "512"))
    assert "rebuild" in caught.value.hint


def test_same_model_cut_at_another_length_is_another_index(
    filled: BruteForceIndex | FaissIndex, tmp_path: Path
) -> None:
    filled.snapshot(tmp_path / "snapshot")
    longer = type(SIGNATURE)(model="tiny", revision="1", dimension=DIMENSION, max_tokens=256, splitter="tokens=20")
    with pytest.raises(IndexMismatchError, match="max_tokens: stored 64, configured 256"):
        type(filled).load(tmp_path / "snapshot", signature=longer)


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x10
    path.write_bytes(data)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])


DAMAGE: dict[str, Callable[[Path], object]] = {
    "flipped": flip,
    "truncated": truncate,
    "emptied": lambda path: path.write_bytes(b""),
    "removed": Path.unlink,
}


@pytest.mark.parametrize("damage", list(DAMAGE))
def test_every_kind_of_damage_to_every_file_is_named_and_not_served(
    filled: BruteForceIndex | FaissIndex, tmp_path: Path, damage: str
) -> None:
    filled.snapshot(tmp_path / "snapshot")
    names = sorted(path.name for path in (tmp_path / "snapshot").iterdir() if path.stat().st_size)
    assert MANIFEST in names
    for name in names:
        path = tmp_path / "snapshot" / name
        whole = path.read_bytes()
        DAMAGE[damage](path)
        with pytest.raises(IndexCorruptError) as caught:
            reload(filled, tmp_path / "snapshot")
        assert name in str(caught.value)
        assert "rebuild" in caught.value.hint
        path.write_bytes(whole)
    assert reload(filled, tmp_path / "snapshot").stats().live == COUNT


@pytest.mark.parametrize("body", [b"[]", b'"text"', b"{}", b"\xff\xfe", b'{"sha256": "0"}'])
def test_a_manifest_of_anything_else_is_damage_and_not_a_crash(
    filled: BruteForceIndex | FaissIndex, tmp_path: Path, body: bytes
) -> None:
    filled.snapshot(tmp_path / "snapshot")
    (tmp_path / "snapshot" / MANIFEST).write_bytes(body)
    with pytest.raises(IndexCorruptError):
        reload(filled, tmp_path / "snapshot")
