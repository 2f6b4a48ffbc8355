"""Several processes on one collection: crashes of the writer, and readers that must notice."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from retrieval.collection import Collection
from retrieval.errors import CollectionBusyError
from retrieval.ingest import Progress, Stage
from retrieval.writer import IngestOptions
from tests.retrieval.library import SETTINGS, TOPICS, CountingEncoder, ask, texts, write_library

ROOT = Path(__file__).parents[2]
Ask = Callable[[str], str]


def run(module: str, *arguments: object) -> list[str]:
    return [sys.executable, "-m", f"tests.retrieval.{module}", *map(str, arguments)]


@pytest.mark.parametrize(
    ("stage", "turn", "published"),
    [
        ("load", 0, False),
        ("load", 3, False),
        ("encode", 1, False),
        ("encode", 3, False),
        ("snapshot", 0, False),
        ("publish", 0, True),
    ],
)
@pytest.mark.parametrize("first", [True, False], ids=["first ingest", "later ingest"])
def test_a_writer_killed_at_any_point_leaves_the_old_state_or_the_new_one(
    tmp_path: Path, stage: str, turn: int, published: bool, first: bool
) -> None:
    directory, docs = tmp_path / "collection", tmp_path / "docs"
    old = set() if first else {f"{topic} old." for topic in TOPICS}
    if not first:
        write_library(docs, [f"{topic} old" for topic in TOPICS])
        with Collection.open(directory, SETTINGS, CountingEncoder()) as collection:
            collection.ingest([docs])
    new = {f"{topic} new." for topic in TOPICS}
    write_library(docs, [f"{topic} new" for topic in TOPICS])
    died = subprocess.run(run("dying_ingest", directory, docs, stage, turn), cwd=ROOT, check=False, timeout=60)
    assert died.returncode == -signal.SIGKILL
    with Collection.open(directory, SETTINGS, CountingEncoder()) as collection:
        assert {hit.passage.text.strip() for hit in ask(collection, "old new", k=50)} == (new if published else old)
        assert collection.verify() == ()
        assert len(list(directory.glob("index-*"))) <= 1
        report = collection.ingest([docs])
        assert report.problems == ()
        assert {hit.passage.text.strip() for hit in ask(collection, "old new", k=50)} == new
        assert collection.verify() == ()
        assert not list(directory.glob("staging*"))


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Ask]:
    with Collection.open(tmp_path / "collection", SETTINGS, CountingEncoder()) as collection:
        collection.ingest([write_library(tmp_path / "docs")])
    process = subprocess.Popen(
        run("asking_process", tmp_path / "collection"),
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin
    assert process.stdout

    def asked(query: str) -> str:
        assert process.stdin
        assert process.stdout
        process.stdin.write(query + "\n")
        process.stdin.flush()
        return "\n".join(json.loads(process.stdout.readline()))

    yield asked
    process.stdin.close()
    assert process.wait(timeout=60) == 0
    process.stdout.close()


def test_a_running_server_never_answers_from_a_document_that_was_deleted(tmp_path: Path, reader: Ask) -> None:
    docs = tmp_path / "docs"
    assert TOPICS[0] in reader(TOPICS[0])
    (docs / "0.txt").unlink()
    (docs / "new.txt").write_text("submarine cables carry most of the traffic\n")
    with Collection.open(tmp_path / "collection", SETTINGS, CountingEncoder()) as collection:
        collection.ingest([docs])
    answer = reader(TOPICS[0])
    assert TOPICS[0] not in answer
    assert "submarine" in answer
    assert TOPICS[1] in answer


def test_a_running_server_keeps_answering_from_the_old_state_until_an_ingest_is_whole(
    tmp_path: Path, reader: Ask
) -> None:
    docs = tmp_path / "docs"
    (docs / "0.txt").write_text("submarine cables carry most of the traffic\n")
    answers: dict[Stage, str] = {}

    def look(progress: Progress) -> None:
        answers[progress.stage] = reader(TOPICS[0])

    with Collection.open(tmp_path / "collection", SETTINGS, CountingEncoder()) as collection:
        collection.ingest([docs], IngestOptions(progress=look))
    for stage in (Stage.LOAD, Stage.ENCODE, Stage.SNAPSHOT):
        assert TOPICS[0] in answers[stage]
        assert "submarine" not in answers[stage]
    assert TOPICS[0] not in answers[Stage.PUBLISH]
    assert "submarine" in answers[Stage.PUBLISH]


def test_opening_during_an_ingest_neither_waits_nor_removes_its_work(tmp_path: Path) -> None:
    directory = tmp_path / "collection"
    docs = write_library(tmp_path / "docs")
    with Collection.open(directory, SETTINGS, CountingEncoder()) as writer:
        writer.ingest([docs])
        (docs / "0.txt").write_text("submarine cables carry most of the traffic\n")
        seen: list[str] = []

        def look(progress: Progress) -> None:
            with Collection.open(directory, SETTINGS, CountingEncoder()) as other:
                seen.append(texts(ask(other, TOPICS[0], k=1)))
                with pytest.raises(CollectionBusyError):
                    other.ingest([docs])

        writer.ingest([docs], IngestOptions(progress=look))
        assert "submarine" in texts(ask(writer, "submarine cables"))
        assert writer.verify() == ()
        assert TOPICS[0] in seen[0]
