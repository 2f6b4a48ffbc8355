"""What an ingest does to a collection, and what it costs."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from retrieval.collection import Collection
from retrieval.errors import CollectionBusyError, EncodeError, IndexMismatchError, LoadError, RetrievalError
from retrieval.index.base import IndexSettings
from retrieval.ingest import Progress, Stage
from retrieval.lock import WriteLock
from retrieval.writer import LOCK, IngestOptions
from tests.retrieval.library import (
    SETTINGS,
    TOPICS,
    CountingEncoder,
    ask,
    settings_with,
    texts,
    write_library,
    write_long,
)
from tests.retrieval.sources import JsonLoader, write_json

JSON = IngestOptions(loaders=(JsonLoader(),))


@pytest.fixture
def encoder() -> CountingEncoder:
    return CountingEncoder()


@pytest.fixture
def collection(tmp_path: Path, encoder: CountingEncoder) -> Iterator[Collection]:
    with Collection.open(tmp_path / "collection", SETTINGS, encoder) as opened:
        yield opened


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    return write_library(tmp_path / "docs")


def age(path: Path, seconds: int = 3600) -> None:
    """Make a file look written long ago, so that its time can be trusted."""
    stamp = path.stat().st_mtime_ns - seconds * 1_000_000_000
    os.utime(path, ns=(stamp, stamp))


# --- unchanged, changed, vanished ---


def test_unchanged_files_are_neither_encoded_nor_read_again(
    collection: Collection, docs: Path, encoder: CountingEncoder
) -> None:
    for path in docs.iterdir():
        age(path)
    first = collection.ingest([docs])
    assert (first.added, first.encoded, first.generation) == (6, 6, 1)
    encoder.seen.clear()
    stamps = {path: path.stat().st_mtime_ns for path in docs.iterdir()}
    for path, stamp in stamps.items():
        # Other bytes of the same size under the same old time: noticed only by somebody who reads them.
        path.write_bytes(b"x" * path.stat().st_size)
        os.utime(path, ns=(stamp, stamp))
    again = collection.ingest([docs])
    assert (again.unchanged, again.changed, again.generation) == (6, 0, 1)
    assert encoder.seen == []


def test_a_file_changed_right_after_it_was_read_is_noticed_although_size_and_time_agree(
    collection: Collection, docs: Path
) -> None:
    path = docs / "0.txt"
    path.write_text("alpha turbine\n")
    collection.ingest([docs])
    stamp = path.stat().st_mtime_ns
    path.write_text("gamma turbine\n")
    os.utime(path, ns=(stamp, stamp))
    assert collection.ingest([docs]).changed == 1
    assert "gamma" in texts(ask(collection, "gamma turbine"))


def test_a_touched_file_with_the_same_bytes_is_not_encoded_again(
    collection: Collection, docs: Path, encoder: CountingEncoder
) -> None:
    collection.ingest([docs])
    encoder.seen.clear()
    age(docs / "0.txt")
    assert collection.ingest([docs]).unchanged == 6
    assert encoder.seen == []


def test_changed_file_answers_with_its_new_text_and_never_the_old(collection: Collection, docs: Path) -> None:
    collection.ingest([docs])
    (docs / "0.txt").write_text("submarine cables carry most of the traffic between continents.\n")
    report = collection.ingest([docs])
    assert (report.changed, report.unchanged, report.encoded) == (1, 5, 1)
    assert "submarine" in texts(ask(collection, "submarine cables"))
    assert TOPICS[0] not in texts(ask(collection, TOPICS[0], k=50))


def test_deleted_document_never_comes_back_in_an_answer(collection: Collection, docs: Path, tmp_path: Path) -> None:
    collection.ingest([docs])
    gone = ask(collection, TOPICS[0])[0].passage
    (docs / "0.txt").unlink()
    report = collection.ingest([docs])
    assert (report.removed, report.unchanged) == (1, 5)
    assert gone.id not in {hit.passage.id for hit in ask(collection, TOPICS[0], k=50)}
    assert collection.passage(gone.id) is None
    assert TOPICS[0] not in {document.title for document in collection.documents()}
    with Collection.open(tmp_path / "collection", SETTINGS, CountingEncoder()) as other:
        assert gone.id not in {hit.passage.id for hit in ask(other, TOPICS[0], k=50)}


def test_deleted_text_does_not_stay_readable_in_the_files(collection: Collection, docs: Path, tmp_path: Path) -> None:
    (docs / "0.txt").write_text("zyzzyva passport number 4711\n")
    collection.ingest([docs])
    (docs / "0.txt").unlink()
    collection.ingest([docs])
    collection.close()
    for path in (tmp_path / "collection").rglob("*"):
        assert not path.is_file() or b"zyzzyva" not in path.read_bytes()


def test_only_the_changed_part_of_a_long_file_is_encoded(
    collection: Collection, docs: Path, encoder: CountingEncoder
) -> None:
    path = docs / "long.txt"
    paragraphs = [f"{topic} in year {year}" for year in range(12) for topic in TOPICS]
    write_long(path, paragraphs)
    collection.ingest([docs])
    total = len(encoder.seen)
    assert total > 12
    encoder.seen.clear()
    write_long(path, [*paragraphs, "an epilogue about lighthouses"])
    report = collection.ingest([docs])
    assert 1 <= report.encoded <= 2
    assert "epilogue" in texts(ask(collection, "an epilogue about lighthouses"))
    assert collection.verify() == ()


def test_a_renamed_file_is_not_encoded_again(collection: Collection, docs: Path, encoder: CountingEncoder) -> None:
    rows = [{"id": "x", "title": "t", "text": TOPICS[0]}, {"id": "y", "title": "t", "text": TOPICS[1]}]
    old = write_json(docs / "a.json", rows)
    collection.ingest([docs], JSON)
    encoder.seen.clear()
    old.rename(docs / "b.json")
    report = collection.ingest([docs], JSON)
    assert (report.added, report.removed, report.encoded) == (1, 1, 0)
    assert encoder.seen == []
    assert {hit.passage.document_id for hit in ask(collection, TOPICS[0])} == {"x", "y"}
    assert collection.verify() == ()


def test_a_folder_that_is_not_there_is_an_error_and_not_a_deletion(collection: Collection, docs: Path) -> None:
    collection.ingest([docs])
    docs.rename(docs.with_name("unmounted"))
    with pytest.raises(LoadError, match="6 stored files"):
        collection.ingest([docs])
    assert len(ask(collection, TOPICS[0], k=50)) == 6


def test_a_mistyped_path_is_an_error(collection: Collection, tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="does not exist"):
        collection.ingest([tmp_path / "dosc"])


def test_a_deleted_file_named_itself_is_gone(collection: Collection, docs: Path) -> None:
    collection.ingest([docs])
    (docs / "2.txt").unlink()
    assert collection.ingest([docs / "2.txt"]).removed == 1
    assert len(ask(collection, TOPICS[0], k=50)) == 5


def test_ingesting_one_folder_leaves_the_other_alone(collection: Collection, docs: Path, tmp_path: Path) -> None:
    more = write_library(tmp_path / "more", ["cartographers redraw the delta after each flood"], first=7)
    collection.ingest([docs])
    assert collection.ingest([more]).removed == 0
    assert len(ask(collection, "anything at all", k=50)) == 7
    assert "delta" in texts(ask(collection, "cartographers redraw the delta", k=1))


def test_pruning_drops_what_the_configuration_no_longer_names(
    collection: Collection, docs: Path, tmp_path: Path
) -> None:
    more = tmp_path / "more"
    more.mkdir()
    (more / "delta.txt").write_text("cartographers redraw the delta after each flood\n")
    collection.ingest([docs, more])
    assert collection.ingest([more], IngestOptions(prune=True)).removed == 6
    assert [hit.passage.title for hit in ask(collection, TOPICS[0], k=50)] == [
        hit.passage.title for hit in ask(collection, "delta", k=50)
    ]
    assert collection.stats().counts.files == 1
    assert collection.ingest([], IngestOptions(prune=True)).removed == 0


def test_forgetting_a_path_removes_it_from_answers_and_keeps_the_files(collection: Collection, docs: Path) -> None:
    collection.ingest([docs])
    assert collection.forget([docs / "0.txt"]).removed == 1
    assert TOPICS[0] not in texts(ask(collection, TOPICS[0], k=50))
    assert (docs / "0.txt").exists()
    assert collection.forget([docs]).removed == 5
    assert ask(collection, TOPICS[0]) == []
    assert collection.ingest([docs]).added == 6


# --- problems ---


def test_a_broken_file_is_reported_and_the_others_are_taken_in(collection: Collection, docs: Path) -> None:
    good = write_json(docs / "good.json", [{"id": "good", "text": TOPICS[0]}])
    (docs / "broken.json").write_text("{")
    report = collection.ingest([docs], JSON)
    assert report.added == 1
    assert [(problem.path, problem.hint) for problem in report.problems] == [
        (str(docs / "broken.json"), "repair the file")
    ]
    assert ask(collection, TOPICS[0])[0].passage.source == str(good)


@pytest.mark.parametrize("error", ["load", "bug"])
def test_a_file_that_broke_halfway_keeps_what_was_stored_of_it_whole(
    collection: Collection, docs: Path, error: str
) -> None:
    path = write_json(docs / "a.json", [{"id": "one", "text": TOPICS[0]}, {"id": "two", "text": TOPICS[1]}])
    collection.ingest([path], JSON)
    write_json(path, [{"id": "one", "text": "replaced before the error"}, {"error": error}])
    report = collection.ingest([path], JSON)
    assert [problem.path for problem in report.problems] == [str(path)]
    assert report.encoded == 0
    assert {hit.passage.text for hit in ask(collection, TOPICS[0])} == {TOPICS[0], TOPICS[1]}
    assert collection.verify() == ()
    write_json(path, [{"id": "one", "text": "repaired at last"}])
    assert collection.ingest([path], JSON).changed == 1
    assert {hit.passage.text for hit in ask(collection, TOPICS[0])} == {"repaired at last"}


def test_two_documents_of_one_id_are_reported_and_neither_overwrites_the_other(
    collection: Collection, docs: Path
) -> None:
    write_json(docs / "a.json", [{"id": "same", "text": TOPICS[0]}])
    write_json(docs / "b.json", [{"id": "same", "text": TOPICS[1]}, {"id": "own", "text": TOPICS[2]}])
    report = collection.ingest([docs], JSON)
    assert [problem.path for problem in report.problems] == [str(docs / "b.json")]
    assert str(docs / "a.json") in report.problems[0].reason
    assert {hit.passage.text for hit in ask(collection, TOPICS[0])} == {TOPICS[0], TOPICS[2]}


@pytest.mark.parametrize(("giver", "taker"), [("a", "b"), ("b", "a")])
def test_a_document_that_moves_from_one_file_to_another_is_neither_lost_nor_doubled(
    collection: Collection, docs: Path, giver: str, taker: str
) -> None:
    write_json(docs / f"{giver}.json", [{"id": "moves", "text": TOPICS[0]}, {"id": "stays", "text": TOPICS[1]}])
    write_json(docs / f"{taker}.json", [{"id": "there", "text": TOPICS[2]}])
    collection.ingest([docs], JSON)
    write_json(docs / f"{giver}.json", [{"id": "stays", "text": TOPICS[1]}])
    write_json(docs / f"{taker}.json", [{"id": "there", "text": TOPICS[2]}, {"id": "moves", "text": TOPICS[0]}])
    report = collection.ingest([docs], JSON)
    assert report.problems == ()
    assert report.encoded == 0
    found = sorted(hit.passage.document_id for hit in ask(collection, TOPICS[0]))
    assert found == ["moves", "stays", "there"]
    assert collection.verify() == ()


def test_a_broken_record_neither_removes_its_stored_version_nor_stops_its_neighbours(
    collection: Collection, docs: Path
) -> None:
    path = docs / "dump.jsonl"
    rows = [f'{{"id": "{name}", "text": "{text}"}}' for name, text in zip("abc", TOPICS, strict=False)]
    path.write_text("\n".join(rows))
    collection.ingest([path])
    path.write_text("\n".join([rows[0].replace("dawn", "noon"), rows[1][:-5], rows[2]]))
    report = collection.ingest([path])
    assert [(problem.path, "line 2" in problem.reason) for problem in report.problems] == [(str(path), True)]
    found = texts(ask(collection, TOPICS[0]))
    assert all(text in found for text in ("at noon", TOPICS[1], TOPICS[2]))
    assert "at dawn" not in found
    assert len(collection.ingest([path]).problems) == 1
    path.write_text(rows[0])
    assert collection.ingest([path]).problems == ()
    assert len(ask(collection, TOPICS[0])) == 1
    path.unlink()
    collection.ingest([docs])
    assert TOPICS[0] not in {hit.passage.text for hit in ask(collection, TOPICS[0]) if "dump" in hit.passage.source}


def test_files_of_one_name_in_two_folders_are_both_found_and_keep_their_ids(
    collection: Collection, tmp_path: Path, encoder: CountingEncoder
) -> None:
    here, there = write_library(tmp_path / "here", TOPICS[:1]), write_library(tmp_path / "there", TOPICS[1:2])
    assert collection.ingest([here, there]).problems == ()
    found = {hit.passage.document_id: hit.passage.source for hit in ask(collection, TOPICS[0])}
    assert sorted(found.values()) == [str(here / "0.txt"), str(there / "0.txt")]
    for folder in (here, there):
        (folder / "0.txt").write_text("cartographers redraw the delta after each flood of " + folder.name)
    assert collection.ingest([there, here]).problems == ()
    assert {hit.passage.document_id: hit.passage.source for hit in ask(collection, "delta")} == found
    (here / "0.txt").unlink()
    collection.ingest([here, there])
    assert [hit.passage.source for hit in ask(collection, "delta")] == [str(there / "0.txt")]
    assert collection.verify() == ()


def test_an_empty_file_is_no_problem_and_not_read_forever(collection: Collection, docs: Path) -> None:
    path = write_json(docs / "empty.json", [])
    assert collection.ingest([path], JSON).problems == ()
    assert collection.ingest([path], JSON).unchanged == 1


def test_a_failing_encoder_leaves_the_collection_as_it_was(
    collection: Collection, docs: Path, encoder: CountingEncoder
) -> None:
    collection.ingest([docs])
    (docs / "new.txt").write_text("a sentence the model chokes on\n")
    (docs / "0.txt").unlink()

    class Failing(CountingEncoder):
        def encode_passages(self, texts):  # type: ignore[no-untyped-def]
            raise EncodeError("out of memory")

    with (
        Collection.open(collection.directory, SETTINGS, Failing()) as other,
        pytest.raises(EncodeError, match="out of memory"),
    ):
        other.ingest([docs])
    assert TOPICS[0] in texts(ask(collection, TOPICS[0]))
    assert collection.verify() == ()
    report = collection.ingest([docs])
    assert (report.added, report.removed) == (1, 1)


def test_a_snapshot_that_cannot_be_written_leaves_the_collection_as_it_was(collection: Collection, docs: Path) -> None:
    collection.ingest([docs])
    (docs / "0.txt").unlink()
    obstacle = collection.directory / "index-0000000002"
    obstacle.write_text("in the way")
    with pytest.raises(RetrievalError, match="cannot be written") as caught:
        collection.ingest([docs])
    assert "as it was" in caught.value.hint
    assert TOPICS[0] in texts(ask(collection, TOPICS[0]))
    assert collection.verify() == ()
    obstacle.unlink()
    assert collection.ingest([docs]).removed == 1


def test_a_directory_that_cannot_be_locked_is_an_error_that_says_what_to_do(collection: Collection, docs: Path) -> None:
    (collection.directory / LOCK).mkdir()
    with pytest.raises(RetrievalError, match="lock file") as caught:
        collection.ingest([docs])
    assert caught.value.hint


@pytest.mark.parametrize("fault", ["nan", "fewer"])
def test_useless_vectors_are_refused_before_they_are_stored(tmp_path: Path, docs: Path, fault: str) -> None:
    class Useless(CountingEncoder):
        def encode_passages(self, texts):  # type: ignore[no-untyped-def]
            vectors = super().encode_passages(texts)
            return vectors * float("nan") if fault == "nan" else vectors[1:]

    with Collection.open(tmp_path / "c", SETTINGS, Useless()) as collection:
        with pytest.raises(EncodeError):
            collection.ingest([docs])
        assert collection.stats().counts.passages == 0


# --- one writer, progress, large ---


def test_a_second_writer_is_turned_away_and_told_who_writes(collection: Collection, docs: Path) -> None:
    with WriteLock(collection.directory / LOCK, wait_s=0.0), pytest.raises(CollectionBusyError) as caught:
        collection.ingest([docs])
    assert str(os.getpid()) in str(caught.value)
    assert caught.value.hint
    assert collection.ingest([docs]).added == 6


def test_a_lock_is_given_back_after_a_failure(collection: Collection, docs: Path, tmp_path: Path) -> None:
    with pytest.raises(LoadError):
        collection.ingest([tmp_path / "nowhere"])
    assert collection.ingest([docs]).added == 6


def test_progress_counts_up_to_its_total(collection: Collection, docs: Path) -> None:
    seen: list[Progress] = []
    collection.ingest([docs], IngestOptions(progress=seen.append))
    assert [stage for stage in Stage if any(item.stage is stage for item in seen)] == list(Stage)
    encoded = [item.done for item in seen if item.stage is Stage.ENCODE]
    assert encoded == sorted(encoded)
    assert encoded[-1] == 6
    assert all(0 <= item.done <= item.total for item in seen)


def test_an_interrupted_ingest_does_not_encode_twice(tmp_path: Path, docs: Path) -> None:
    class Stop(Exception):
        pass

    def stop(progress: Progress) -> None:
        if progress.stage is Stage.SNAPSHOT:
            raise Stop

    encoder = CountingEncoder()
    with Collection.open(tmp_path / "c", SETTINGS, encoder) as collection:
        with pytest.raises(Stop):
            collection.ingest([docs], IngestOptions(progress=stop))
        assert len(encoder.seen) == 6
        assert ask(collection, TOPICS[0]) == []
        report = collection.ingest([docs])
        assert (report.added, report.encoded) == (6, 0)
        assert len(encoder.seen) == 6
        assert TOPICS[4] in ask(collection, TOPICS[4])[0].passage.text
        assert collection.verify() == ()


def test_a_changed_mind_about_the_encoder_never_uses_staged_vectors_of_the_other(tmp_path: Path, docs: Path) -> None:
    def stop(progress: Progress) -> None:
        if progress.stage is Stage.SNAPSHOT:
            raise KeyboardInterrupt

    with (
        Collection.open(tmp_path / "c", SETTINGS, CountingEncoder()) as collection,
        pytest.raises(KeyboardInterrupt),
    ):
        collection.ingest([docs], IngestOptions(progress=stop))

    class Other(CountingEncoder):
        def signature(self):  # type: ignore[no-untyped-def]
            return replace(super().signature(), revision="2")

    with Collection.open(tmp_path / "c", SETTINGS, Other()) as collection:
        assert collection.ingest([docs]).encoded == 6


def test_a_mismatch_is_refused_before_anything_is_changed(collection: Collection, docs: Path) -> None:
    collection.ingest([docs])
    (docs / "0.txt").unlink()

    class Other(CountingEncoder):
        def signature(self):  # type: ignore[no-untyped-def]
            return replace(super().signature(), revision="2")

    with (
        Collection.open(collection.directory, SETTINGS, Other(), for_rebuild=True) as other,
        pytest.raises(IndexMismatchError),
    ):
        other.ingest([docs])
    assert TOPICS[0] in texts(ask(collection, TOPICS[0]))


def test_a_collection_past_the_flat_threshold_keeps_answering_through_changes(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    rows = [{"id": f"d{n}", "text": f"{TOPICS[n % 6]} number{n} number{n} number{n}"} for n in range(300)]
    path = write_json(_made(docs) / "a.json", rows)
    settings = settings_with(IndexSettings(flat_until=100, exact_until=10, tail_until=20))
    with Collection.open(tmp_path / "c", settings, CountingEncoder()) as collection:
        collection.ingest([path], JSON)
        assert collection.stats().index.kind == "hnsw"
        kept = rows[::2]
        write_json(path, kept)
        report = collection.ingest([path], JSON)
        assert (report.passages_removed, report.encoded) == (150, 0)
        gone = {row["id"] for row in rows[1::2]}
        for row in rows[:40]:
            found = [hit.passage.document_id for hit in ask(collection, str(row["text"]), k=20)]
            assert len(found) == 20
            assert not gone & set(found)
        assert collection.verify() == ()


def _made(directory: Path) -> Path:
    directory.mkdir()
    return directory
