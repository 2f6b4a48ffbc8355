"""Searching a collection: what is found, who may see it, what is refused."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from retrieval.collection import Collection
from retrieval.errors import IndexCorruptError, IndexMismatchError, RetrievalError, SearchError
from retrieval.split import SplitSettings
from retrieval.types import Scope
from retrieval.writer import STORE, CollectionSettings, IngestOptions
from tests.retrieval.library import SETTINGS, TOPICS, CountingEncoder, ask, write_library
from tests.retrieval.sources import JsonLoader, write_json

JSON = IngestOptions(loaders=(JsonLoader(),))


@pytest.fixture
def collection(tmp_path: Path) -> Iterator[Collection]:
    with Collection.open(tmp_path / "collection", SETTINGS, CountingEncoder()) as opened:
        yield opened


def test_a_question_finds_the_passage_that_answers_it(collection: Collection, tmp_path: Path) -> None:
    collection.ingest([write_library(tmp_path / "docs")])
    for topic in TOPICS:
        assert topic in ask(collection, topic)[0].passage.text
    first = ask(collection, TOPICS[0])[0].passage
    assert first.source
    assert first.title
    assert len(first.text) == first.end - first.start


def test_a_passage_can_be_opened_by_the_id_in_its_citation(collection: Collection, tmp_path: Path) -> None:
    collection.ingest([write_library(tmp_path / "docs")])
    for hit in ask(collection, TOPICS[2]):
        assert collection.passage(hit.passage.id) == hit.passage
    assert collection.passage("unknown") is None


def test_asking_for_more_than_exist_returns_what_exists(collection: Collection, tmp_path: Path) -> None:
    collection.ingest([write_library(tmp_path / "docs")])
    assert len(ask(collection, TOPICS[0], k=500)) == len(TOPICS)


def test_an_empty_collection_answers_with_nothing_instead_of_failing(collection: Collection) -> None:
    assert ask(collection, "anything") == []
    assert collection.stats().counts.passages == 0
    assert collection.verify() == ()


def test_the_same_text_in_several_files_does_not_eat_the_context_budget(collection: Collection, tmp_path: Path) -> None:
    docs = write_library(tmp_path / "docs", [TOPICS[0]] * 40 + list(TOPICS[1:4]))
    collection.ingest([docs])
    hits = ask(collection, TOPICS[0], k=4)
    assert len({hit.passage.sha256 for hit in hits}) == 4
    assert TOPICS[0] in hits[0].passage.text


# --- permissions and filters ---


@pytest.mark.parametrize(
    ("value", "groups", "seen"),
    [
        (None, set(), True),
        ("", set(), True),
        ("  ", {"board"}, True),
        ("board", set(), False),
        ("board", {"staff"}, False),
        ("board", {"board"}, True),
        ("staff, board", {"board"}, True),
        ("board", {"boar"}, False),
        ("board", {"Board"}, False),
        (",", {"board", ""}, False),
    ],
)
def test_document_of_a_group_is_seen_by_that_group_and_nobody_else(
    collection: Collection, tmp_path: Path, value: str | None, groups: set[str], seen: bool
) -> None:
    metadata = {} if value is None else {"groups": value}
    rows = [{"id": "secret", "text": "the merger closes in march", "metadata": metadata}]
    collection.ingest([write_json(tmp_path / "a.json", rows)], JSON)
    assert bool(ask(collection, "merger march", scope=Scope(groups=frozenset(groups)))) is seen


def test_a_citation_link_opens_for_those_who_may_see_the_document_only(collection: Collection, tmp_path: Path) -> None:
    rows = [{"id": "secret", "text": "the merger closes in march", "metadata": {"groups": "board"}}]
    collection.ingest([write_json(tmp_path / "a.json", rows)], JSON)
    board = frozenset({"board"})
    found = ask(collection, "merger", scope=Scope(groups=board))[0].passage
    assert collection.passage(found.id, board) == found
    assert collection.passage(found.id, frozenset({"staff"})) is None
    assert collection.passage(found.id) is None


def test_taking_a_group_away_from_a_document_takes_it_from_the_next_answer(
    collection: Collection, tmp_path: Path
) -> None:
    path = tmp_path / "a.json"
    board = Scope(groups=frozenset({"board"}))
    write_json(path, [{"id": "secret", "text": "the merger closes in march", "metadata": {"groups": "board"}}])
    collection.ingest([path], JSON)
    assert ask(collection, "merger", scope=board)
    write_json(path, [{"id": "secret", "text": "the merger closes in march", "metadata": {"groups": "owners"}}])
    report = collection.ingest([path], JSON)
    assert report.encoded == 0
    assert ask(collection, "merger", scope=board) == []
    assert ask(collection, "merger", scope=Scope(groups=frozenset({"owners"})))


def test_a_restricted_twin_does_not_hide_the_public_text_nor_lend_it_out(
    collection: Collection, tmp_path: Path
) -> None:
    rows = [
        {"id": "closed", "text": "opening hours are nine to five", "metadata": {"groups": "staff"}},
        {"id": "open", "text": "opening hours are nine to five", "metadata": {}},
    ]
    collection.ingest([write_json(tmp_path / "a.json", rows)], JSON)
    assert [hit.passage.document_id for hit in ask(collection, "opening hours")] == ["open"]


def test_filtered_out_documents_are_never_returned_even_when_nothing_else_is_left(
    collection: Collection, tmp_path: Path
) -> None:
    rows = [
        {
            "id": f"{language}{number}",
            "text": f"{topic} {language}",
            "metadata": {"language": language, "year": str(number % 2)},
        }
        for number, topic in enumerate(TOPICS)
        for language in ("en", "de")
    ]
    collection.ingest([write_json(tmp_path / "a.json", rows)], JSON)
    german = ask(collection, TOPICS[0], k=50, scope=Scope(filters={"language": "de"}))
    assert {hit.passage.metadata["language"] for hit in german} == {"de"}
    assert len(german) == len(TOPICS)
    both = ask(collection, TOPICS[0], k=50, scope=Scope(filters={"language": "de", "year": "1"}))
    assert {(hit.passage.metadata["language"], hit.passage.metadata["year"]) for hit in both} == {("de", "1")}
    assert ask(collection, TOPICS[0], scope=Scope(filters={"language": "fr"})) == []
    assert ask(collection, TOPICS[0], scope=Scope(filters={"unknown": "de"})) == []
    assert ask(collection, TOPICS[0], scope=Scope(filters={"language": "de' OR '1'='1"})) == []


def test_filters_and_groups_hold_together(collection: Collection, tmp_path: Path) -> None:
    rows = [
        {"id": "a", "text": TOPICS[0], "metadata": {"language": "en", "groups": "staff"}},
        {"id": "b", "text": TOPICS[1], "metadata": {"language": "en"}},
        {"id": "c", "text": TOPICS[2], "metadata": {"language": "de", "groups": "staff"}},
    ]
    collection.ingest([write_json(tmp_path / "a.json", rows)], JSON)
    english = {"language": "en"}
    seen = {
        groups: {
            hit.passage.document_id for hit in ask(collection, TOPICS[0], scope=Scope(filters=english, groups=groups))
        }
        for groups in (frozenset(), frozenset({"staff"}))
    }
    assert seen == {frozenset(): {"b"}, frozenset({"staff"}): {"a", "b"}}


# --- what is refused ---


def test_another_encoder_is_refused_and_both_sides_named(collection: Collection, tmp_path: Path) -> None:
    collection.ingest([write_library(tmp_path / "docs")])
    with pytest.raises(IndexMismatchError) as caught:
        Collection.open(tmp_path / "collection", SETTINGS, Renamed())
    assert "'renamed'" in str(caught.value)
    assert repr(CountingEncoder().signature().model) in str(caught.value)
    assert "rebuild" in caught.value.hint


def test_another_splitter_is_refused_before_its_passages_can_mix(collection: Collection, tmp_path: Path) -> None:
    collection.ingest([write_library(tmp_path / "docs")])
    other = replace(SETTINGS, split=SplitSettings(target_tokens=33))
    with pytest.raises(IndexMismatchError, match="splitter"):
        Collection.open(tmp_path / "collection", other, CountingEncoder())
    with (
        Collection.open(tmp_path / "collection", other, CountingEncoder(), for_rebuild=True) as opened,
        pytest.raises(IndexMismatchError),
    ):
        opened.ingest([tmp_path / "docs"])
    assert ask(collection, TOPICS[0])


def test_a_rebuild_under_another_encoder_loses_no_document_and_stops_the_old_reader(
    collection: Collection, tmp_path: Path
) -> None:
    docs = write_library(tmp_path / "docs")
    collection.ingest([docs])
    with Collection.open(tmp_path / "collection", SETTINGS, Renamed(), for_rebuild=True) as other:
        with pytest.raises(IndexMismatchError):
            ask(other, TOPICS[0])
        report = other.ingest([docs], IngestOptions(rebuild=True))
        assert report.encoded == len(TOPICS)
        assert TOPICS[3] in ask(other, TOPICS[3])[0].passage.text
        assert other.verify() == ()
    with pytest.raises(IndexMismatchError):
        ask(collection, TOPICS[0])


def test_a_rebuild_keeps_files_that_lie_elsewhere_or_are_gone(collection: Collection, tmp_path: Path) -> None:
    here, there = write_library(tmp_path / "here", TOPICS[:2]), write_library(tmp_path / "there", TOPICS[2:4], first=7)
    collection.ingest([here, there])
    (there / "7.txt").unlink()
    with Collection.open(tmp_path / "collection", SETTINGS, Renamed(), for_rebuild=True) as other:
        report = other.ingest([here], IngestOptions(rebuild=True))
        assert [problem.path for problem in report.problems] == [str(there / "7.txt")]
        for topic in TOPICS[:4]:
            assert topic in ask(other, topic)[0].passage.text
        assert other.verify() == ()


class Renamed(CountingEncoder):
    def signature(self):  # type: ignore[no-untyped-def]
        return replace(super().signature(), model="renamed")


def _snapshot_files(directory: Path) -> list[Path]:
    return [path for path in directory.glob("index-*/*") if path.stat().st_size]


@pytest.mark.parametrize("damage", ["flip", "truncate", "empty"])
def test_a_corrupt_snapshot_is_said_clearly_and_rebuilt_from_the_stored_passages(
    collection: Collection, tmp_path: Path, damage: str
) -> None:
    docs = write_library(tmp_path / "docs")
    collection.ingest([docs])
    directory = tmp_path / "collection"
    for path in _snapshot_files(directory):
        data = bytearray(path.read_bytes())
        if damage == "flip":
            data[0] ^= 1
        path.write_bytes({"flip": bytes(data), "truncate": bytes(data[:-1]), "empty": b""}[damage])
    with pytest.raises(IndexCorruptError) as caught:
        Collection.open(directory, SETTINGS, CountingEncoder())
    assert "rebuild" in caught.value.hint
    with Collection.open(directory, SETTINGS, CountingEncoder(), for_rebuild=True) as opened:
        assert opened.verify() != ()
        report = opened.ingest([docs], IngestOptions(rebuild=True))
        assert (report.unchanged, report.encoded) == (len(TOPICS), len(TOPICS))
        assert TOPICS[1] in ask(opened, TOPICS[1])[0].passage.text
        assert opened.verify() == ()


def test_a_damaged_store_is_an_error_that_says_what_to_do(collection: Collection, tmp_path: Path) -> None:
    collection.ingest([write_library(tmp_path / "docs")])
    collection.close()
    (tmp_path / "collection" / STORE).write_bytes(b"this is no database at all" * 400)
    with pytest.raises(IndexCorruptError, match="damaged") as caught:
        Collection.open(tmp_path / "collection", SETTINGS, CountingEncoder())
    assert "ingest" in caught.value.hint


def test_a_directory_that_cannot_be_made_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(RetrievalError, match="cannot be made") as caught:
        Collection.open(tmp_path / "file" / "collection", SETTINGS, CountingEncoder())
    assert caught.value.hint


def test_a_query_of_another_dimension_is_refused(collection: Collection, tmp_path: Path) -> None:
    collection.ingest([write_library(tmp_path / "docs")])
    with pytest.raises(SearchError):
        collection.search(np.ones((1, 3), dtype=np.float32), 3)


def test_a_closed_collection_says_so(collection: Collection) -> None:
    collection.close()
    with pytest.raises(RetrievalError, match="closed"):
        ask(collection, "anything")


# --- many readers ---


def test_searches_during_ingests_see_whole_generations_only(collection: Collection, tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    write_library(docs, [f"{topic} edition zero" for topic in TOPICS])
    collection.ingest([docs])
    stop, failures = threading.Event(), []

    def search() -> None:
        try:
            while not stop.is_set():
                editions = {hit.passage.text.split()[-1] for hit in ask(collection, "edition", k=20)}
                if len(editions) != 1:
                    failures.append(editions)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=search) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(8):
        write_library(docs, [f"{topic} edition number{number}" for topic in TOPICS])
        collection.ingest([docs])
    stop.set()
    for thread in threads:
        thread.join()
    assert failures == []


def test_stats_count_what_is_there(collection: Collection, tmp_path: Path) -> None:
    collection.ingest([write_library(tmp_path / "docs")])
    stats = collection.stats()
    assert (stats.counts.files, stats.counts.documents, stats.counts.passages) == (6, 6, 6)
    assert (stats.index.live, stats.index.kind, stats.generation) == (6, "flat", 1)
    assert stats.bytes_on_disk > 0
    assert [document.passages for document in collection.documents()] == [1] * 6


def test_verify_notices_passages_the_index_does_not_know(collection: Collection, tmp_path: Path) -> None:
    docs = write_library(tmp_path / "docs")
    collection.ingest([docs])
    before = next((tmp_path / "collection").glob("index-*"))
    kept = {path.name: path.read_bytes() for path in before.iterdir()}
    (docs / "9.txt").write_text("something new altogether\n")
    collection.ingest([docs])
    after = next((tmp_path / "collection").glob("index-*"))
    for path in after.iterdir():
        path.unlink()
    for name, data in kept.items():
        (after / name).write_bytes(data)
    assert collection.verify() == ("1 passages are not in the index",)


def test_settings_have_working_defaults() -> None:
    assert CollectionSettings().index.flat_until == 50_000
