"""Both legs of a collection together: what one leg misses, which leg failed, and what becomes of old collections."""

import shutil
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from retrieval.collection import Collection
from retrieval.errors import EncodeError, RetrievalError, SearchError
from retrieval.hybrid import Legs, Question, candidates, fused, read_fitted, write_fitted
from retrieval.index.fusion import Fusion, FusionMethod
from retrieval.retriever import CollectionRetriever
from retrieval.types import Hit, Scope
from retrieval.writer import IngestOptions
from tests.retrieval.library import SETTINGS, TOPICS, CountingEncoder, texts, write_library
from tests.retrieval.sources import JsonLoader, write_json

JSON = IngestOptions(loaders=(JsonLoader(),))
DENSE_ONLY = replace(SETTINGS, lexical=None)
RANKS = replace(SETTINGS, fusion=Fusion(method=FusionMethod.RRF))


def question(text: str, *, vector: bool = True) -> Question:
    return Question(text=text, vector=CountingEncoder().encode_queries([text])[0] if vector else None)


def astray(text: str, about: str) -> Question:
    """A question whose vector points somewhere else."""
    return Question(text=text, vector=CountingEncoder().encode_queries([about])[0])


@pytest.fixture
def collection(tmp_path: Path) -> Iterator[Collection]:
    with Collection.open(tmp_path / "collection", SETTINGS, CountingEncoder()) as opened:
        opened.ingest([write_library(tmp_path / "docs")])
        yield opened


class BrokenLeg:
    """A leg of either kind that cannot search."""

    def search(self, query: object, k: int, allowed: object = None) -> list[object]:
        raise SearchError("out of order")

    def vectors(self, ids: object) -> object:
        raise SearchError("out of order")


class OneHit(BrokenLeg):
    def __init__(self, *found: object) -> None:
        self.found = list(found)

    def search(self, query: object, k: int, allowed: object = None) -> list[object]:
        return self.found


def test_what_the_vectors_miss_the_words_find(collection: Collection) -> None:
    lost = astray("lampblack", about=TOPICS[0])
    assert TOPICS[4] not in texts(collection.search(np.asarray([lost.vector]), 1)[0])
    assert TOPICS[4] in texts(collection.find(lost, 2).hits)


def test_what_the_words_miss_the_vectors_find(collection: Collection) -> None:
    assert TOPICS[2] in texts(collection.find(astray("apiary", about=TOPICS[2]), 1).hits)


def test_when_the_encoder_is_down_the_words_still_answer(collection: Collection) -> None:
    found = collection.find(question("falconers", vector=False), 3)
    assert texts(found.hits).count("falconers") == 1
    assert "dense leg" in found.detail


async def test_a_retriever_says_that_the_encoder_failed_and_serves_what_the_words_find(collection: Collection) -> None:
    class Down:
        async def encode_query(self, text: str) -> np.ndarray:
            raise EncodeError("the embedding server is away")

    found = await CollectionRetriever({"lib": collection}, Down()).retrieve("falconers", Scope())
    assert "falconers" in texts(found.hits)
    assert "dense leg: the embedding server is away" in found.detail


async def test_without_words_a_failed_encoder_is_an_error_and_not_an_empty_answer(tmp_path: Path) -> None:
    class Down:
        async def encode_query(self, text: str) -> np.ndarray:
            raise EncodeError("the embedding server is away")

    with Collection.open(tmp_path / "collection", DENSE_ONLY, CountingEncoder()) as opened:
        opened.ingest([write_library(tmp_path / "docs")])
        with pytest.raises(EncodeError):
            await CollectionRetriever({"lib": opened}, Down()).retrieve("falconers", Scope())


@pytest.mark.parametrize("weight", [0.0, 0.4, 1.0])
def test_a_leg_that_fails_is_named_and_the_other_one_serves(weight: float) -> None:
    asked = question("hive")
    for legs, name in (
        (Legs(dense=BrokenLeg(), lexical=OneHit((7, 0.5))), "dense leg: out of order"),
        (Legs(dense=OneHit([(7, 0.5)]), lexical=BrokenLeg()), "lexical leg: out of order"),
    ):
        found = candidates(legs, asked, 10, None, weight)
        assert [row for row, _ in fused(found, FusionMethod.CALIBRATED, weight)] == [7]
        assert found.detail in ("", name)
    with pytest.raises(SearchError, match="dense leg: out of order"):
        candidates(Legs(dense=BrokenLeg(), lexical=BrokenLeg()), asked, 10, None, weight)


def test_a_collection_from_before_there_were_words_gets_them_without_encoding_again(tmp_path: Path) -> None:
    with Collection.open(tmp_path / "collection", DENSE_ONLY, CountingEncoder()) as old:
        old.ingest([write_library(tmp_path / "docs")])
    encoder = CountingEncoder()
    with Collection.open(tmp_path / "collection", SETTINGS, encoder) as opened:
        first = opened.find(question(TOPICS[0]), 3)
        assert TOPICS[0] in texts(first.hits)
        assert "lexical leg" in first.detail
        for thread in threading.enumerate():
            if thread.name == "lexicon":
                thread.join()
        assert opened.find(question(TOPICS[0]), 3).detail == ""
        assert opened.stats().lexical == len(TOPICS)
        assert opened.verify() == ()
    assert encoder.seen == []


def test_words_made_by_an_ingest_that_changed_nothing_are_searched_at_once(tmp_path: Path) -> None:
    docs = write_library(tmp_path / "docs")
    with Collection.open(tmp_path / "collection", DENSE_ONLY, CountingEncoder()) as old:
        old.ingest([docs])
    with Collection.open(tmp_path / "collection", SETTINGS, CountingEncoder()) as opened:
        opened.ingest([docs])
        assert opened.find(astray("lampblack", about=TOPICS[0]), 2).detail == ""


def test_an_ingest_that_changes_nothing_mends_a_missing_or_damaged_lexical_leg(
    collection: Collection, tmp_path: Path
) -> None:
    lexicon = next((tmp_path / "collection").glob("lexical-*"))
    for damage in (lambda: shutil.rmtree(lexicon), lambda: next(lexicon.glob("*.idx")).write_bytes(b"")):
        damage()
        assert collection.verify()
        collection.ingest([tmp_path / "docs"])
        assert collection.verify() == ()


def test_deleted_documents_are_gone_from_the_words_as_well(collection: Collection, tmp_path: Path) -> None:
    (tmp_path / "docs" / "4.txt").unlink()
    collection.ingest([tmp_path / "docs"])
    assert "lampblack" not in texts(collection.find(question("lampblack"), 10).hits)
    assert collection.find(question("lampblack", vector=False), 10).hits == ()
    assert collection.verify() == ()
    left = [path.name for path in (tmp_path / "collection").glob("lexical-*")]
    assert len(left) == 1


def test_words_never_show_a_document_to_those_who_may_not_see_it(tmp_path: Path) -> None:
    rows = [
        {"id": "secret", "text": "the merger closes in march", "metadata": {"groups": "board", "year": "2026"}},
        {"id": "open", "text": "the canteen opens in march", "metadata": {"year": "2025"}},
    ]
    with Collection.open(tmp_path / "collection", SETTINGS, CountingEncoder()) as opened:
        opened.ingest([write_json(tmp_path / "a.json", rows)], JSON)

        def seen(scope: Scope) -> list[str]:
            both = (*opened.find(question("merger march", vector=False), 9, scope).hits,)
            both += (*opened.find(question("merger march"), 9, scope).hits,)
            return sorted({hit.passage.document_id for hit in both})

        assert seen(Scope()) == ["open"]
        assert seen(Scope(groups=frozenset({"board"}))) == ["open", "secret"]
        assert seen(Scope(groups=frozenset({"board"}), filters={"year": "2026"})) == ["secret"]


def test_weights_fitted_to_a_collection_are_used_when_it_is_opened_again(tmp_path: Path) -> None:
    with Collection.open(tmp_path / "collection", SETTINGS, CountingEncoder()) as opened:
        opened.ingest([write_library(tmp_path / "docs")])
    lost = astray("lampblack", about=TOPICS[0])
    for weight, first in ((0.0, TOPICS[0]), (1.0, TOPICS[4])):
        write_fitted(tmp_path / "collection", Fusion(lexical_weight=weight))
        with Collection.open(tmp_path / "collection", SETTINGS, CountingEncoder()) as opened:
            assert first in texts(opened.find(lost, 1).hits)
    own = replace(SETTINGS, fusion=Fusion(lexical_weight=0.0))
    with Collection.open(tmp_path / "collection", own, CountingEncoder()) as opened:
        assert TOPICS[0] in texts(opened.find(lost, 1).hits)


def test_a_damaged_file_of_weights_is_said(tmp_path: Path) -> None:
    (tmp_path / "fusion.json").write_text("{")
    with pytest.raises(RetrievalError, match="fitted weights"):
        read_fitted(tmp_path)


async def test_hits_that_only_have_ranks_are_merged_by_rank(tmp_path: Path) -> None:
    class Direct:
        async def encode_query(self, text: str) -> np.ndarray:
            return np.asarray(CountingEncoder().encode_queries([text])[0])

    with (
        Collection.open(tmp_path / "a", RANKS, CountingEncoder()) as one,
        Collection.open(tmp_path / "b", RANKS, CountingEncoder()) as two,
    ):
        one.ingest([write_library(tmp_path / "docs1", TOPICS[:3])])
        two.ingest([write_library(tmp_path / "docs2", TOPICS[3:])])
        found = await CollectionRetriever({"a": one, "b": two}, Direct()).retrieve("hive printers", Scope(k=2))

    def first(topic: str, hits: tuple[Hit, ...]) -> bool:
        return any(topic in hit.passage.text for hit in hits)

    assert first(TOPICS[2], found.hits)
    assert first(TOPICS[4], found.hits)


def test_both_legs_show_whole_generations_only_while_an_ingest_runs(collection: Collection, tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    write_library(docs, [f"{topic} edition zero" for topic in TOPICS])
    collection.ingest([docs])
    stop, failures = threading.Event(), []

    def search(vector: bool) -> None:
        asked = question("edition", vector=vector)
        try:
            while not stop.is_set():
                found = collection.find(asked, 20)
                editions = {hit.passage.text.split()[-1] for hit in found.hits}
                if len(editions) != 1 or "lexical" in found.detail:
                    failures.append((editions, found.detail))
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=search, args=(vector,)) for vector in (True, False)]
    for thread in threads:
        thread.start()
    for number in range(6):
        write_library(docs, [f"{topic} edition number{number}" for topic in TOPICS])
        collection.ingest([docs])
    stop.set()
    for thread in threads:
        thread.join()
    assert failures == []
