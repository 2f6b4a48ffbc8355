"""Query to hits over collections: scope, merging, and what happens when one fails."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from retrieval.collection import Collection
from retrieval.errors import IndexMismatchError, SearchError
from retrieval.retriever import CollectionRetriever, RetrieverSettings, StaticRetriever
from retrieval.types import Hit, Passage, Retriever, Scope
from retrieval.writer import IngestOptions
from tests.retrieval.library import SETTINGS, TOPICS, CountingEncoder, write_library
from tests.retrieval.sources import JsonLoader, write_json

JSON = IngestOptions(loaders=(JsonLoader(),))


class Direct:
    """A query encoder without a queue."""

    def __init__(self) -> None:
        self.queries: list[str] = []

    async def encode_query(self, text: str) -> np.ndarray:
        self.queries.append(text)
        return np.asarray(CountingEncoder().encode_queries([text])[0])


@pytest.fixture
def shelves(tmp_path: Path) -> Iterator[dict[str, Collection]]:
    """`sea` and `craft` share one text; each has three of its own."""
    parts = {"sea": [TOPICS[0], TOPICS[3], TOPICS[5]], "craft": [TOPICS[1], TOPICS[2], TOPICS[4], TOPICS[0]]}
    with ExitStack() as stack:
        opened = {}
        for name, topics in parts.items():
            collection = stack.enter_context(Collection.open(tmp_path / name, SETTINGS, CountingEncoder()))
            rows = [{"id": f"{name}{n}", "text": topic} for n, topic in enumerate(topics)]
            collection.ingest([write_json(tmp_path / f"{name}.json", rows)], JSON)
            opened[name] = collection
        yield opened


def corrupt(collection: Collection) -> None:
    """A newer generation whose snapshot cannot be read."""
    path = collection.directory.parent / f"{collection.directory.name}.json"
    write_json(path, [{"id": "new", "text": "another generation"}])
    with Collection.open(collection.directory, SETTINGS, CountingEncoder()) as writer:
        writer.ingest([path], JSON)
    for file in collection.directory.glob("index-*/*"):
        file.write_bytes(b"")


def of(hits: tuple[Hit, ...]) -> list[str]:
    return [hit.passage.text for hit in hits]


async def test_both_doubles_and_product_stand_behind_the_seam(shelves: dict[str, Collection]) -> None:
    assert isinstance(CollectionRetriever(shelves, Direct()), Retriever)
    assert isinstance(StaticRetriever([]), Retriever)


async def test_hits_of_all_collections_are_merged_by_score_and_not_only_the_last_one_kept(
    shelves: dict[str, Collection],
) -> None:
    retriever = CollectionRetriever(shelves, Direct())
    for topic in TOPICS:
        found = await retriever.retrieve(topic, Scope())
        assert of(found.hits)[0] == topic
        assert found.detail == ""
    assert len((await retriever.retrieve(TOPICS[0], Scope())).hits) == len(TOPICS)


async def test_the_same_text_from_two_collections_takes_one_place(shelves: dict[str, Collection]) -> None:
    found = await CollectionRetriever(shelves, Direct()).retrieve(TOPICS[0], Scope(k=2))
    assert len(found.hits) == 2
    assert of(found.hits).count(TOPICS[0]) == 1


async def test_one_query_is_encoded_once_for_all_collections(shelves: dict[str, Collection]) -> None:
    encoder = Direct()
    await CollectionRetriever(shelves, encoder).retrieve(TOPICS[0], Scope())
    assert encoder.queries == [TOPICS[0]]


async def test_a_route_sees_only_its_own_collections(shelves: dict[str, Collection]) -> None:
    retriever = CollectionRetriever(shelves, Direct(), RetrieverSettings(collections=("sea",)))
    assert TOPICS[1] not in of((await retriever.retrieve(TOPICS[1], Scope(k=50))).hits)
    other = await retriever.retrieve(TOPICS[1], Scope(collections=("craft",), k=50))
    assert of(other.hits)[0] == TOPICS[1]
    assert TOPICS[3] not in of(other.hits)


async def test_a_failing_collection_is_named_and_the_others_still_answer(shelves: dict[str, Collection]) -> None:
    corrupt(shelves["craft"])
    found = await CollectionRetriever(shelves, Direct()).retrieve(TOPICS[3], Scope())
    assert of(found.hits)[0] == TOPICS[3]
    assert "'craft'" in found.detail
    assert "'sea'" not in found.detail


async def test_an_unknown_collection_is_named_and_does_not_widen_the_search(shelves: dict[str, Collection]) -> None:
    retriever = CollectionRetriever(shelves, Direct())
    found = await retriever.retrieve(TOPICS[0], Scope(collections=("sea", "other"), k=50))
    assert set(of(found.hits)) == {TOPICS[0], TOPICS[3], TOPICS[5]}
    assert "'other'" in found.detail


async def test_when_every_collection_fails_it_is_a_failure_and_not_an_empty_result(
    shelves: dict[str, Collection],
) -> None:
    for collection in shelves.values():
        corrupt(collection)
    with pytest.raises(SearchError, match=r"'sea'.*'craft'") as caught:
        await CollectionRetriever(shelves, Direct()).retrieve(TOPICS[0], Scope())
    assert caught.value.hint


@pytest.mark.parametrize("query", ["", "  \n"])
async def test_a_blank_query_finds_nothing_instead_of_something_random(
    shelves: dict[str, Collection], query: str
) -> None:
    assert (await CollectionRetriever(shelves, Direct()).retrieve(query, Scope())).hits == ()


@pytest.mark.parametrize(("k", "count"), [(0, 0), (1, 1), (None, 3), (1_000, 4)])
async def test_k_is_kept_between_nothing_and_the_limit(
    shelves: dict[str, Collection], k: int | None, count: int
) -> None:
    retriever = CollectionRetriever(shelves, Direct(), RetrieverSettings(k=3, max_k=4))
    assert len((await retriever.retrieve(TOPICS[0], Scope(k=k))).hits) == count


async def test_groups_and_filters_of_the_scope_reach_every_collection(tmp_path: Path) -> None:
    with ExitStack() as stack:
        shelves = {}
        for name in ("one", "two"):
            shelves[name] = stack.enter_context(Collection.open(tmp_path / name, SETTINGS, CountingEncoder()))
            rows = [
                {
                    "id": f"{name}-{groups}-{team}",
                    "text": f"salary table {name} {groups} {team}",
                    "metadata": {"groups": groups, "team": team},
                }
                for groups in ("", "staff", "board")
                for team in ("red", "blue")
            ]
            shelves[name].ingest([write_json(tmp_path / f"{name}.json", rows)], JSON)
        retriever = CollectionRetriever(shelves, Direct())
        public = await retriever.retrieve("salary table", Scope(k=50))
        assert {hit.passage.metadata["groups"] for hit in public.hits} == {""}
        staff = await retriever.retrieve(
            "salary table", Scope(k=50, groups=frozenset({"staff"}), filters={"team": "red"})
        )
        assert sorted(hit.passage.document_id for hit in staff.hits) == [
            "one--red",
            "one-staff-red",
            "two--red",
            "two-staff-red",
        ]


async def test_a_large_collection_is_searched_off_the_event_loop_and_a_small_one_on_it(tmp_path: Path) -> None:
    threads: list[int] = []

    class Watched(Collection):
        def find(self, *arguments, **options):  # type: ignore[no-untyped-def]
            threads.append(threading.get_ident())
            return super().find(*arguments, **options)

    with Watched.open(tmp_path / "c", SETTINGS, CountingEncoder()) as collection:
        collection.ingest([write_library(tmp_path / "docs")])
        await CollectionRetriever({"c": collection}, Direct()).retrieve(TOPICS[0], Scope())
        await CollectionRetriever({"c": collection}, Direct()).retrieve(TOPICS[0], Scope())
        small = RetrieverSettings(inline_until=3)
        await CollectionRetriever({"c": collection}, Direct(), small).retrieve(TOPICS[0], Scope())
    here = threading.get_ident()
    # The first search loads the generation the ingest published, which may take long: off the loop as well.
    assert [ident == here for ident in threads] == [False, True, False]


async def test_many_questions_at_once_each_get_their_own_answer(shelves: dict[str, Collection]) -> None:
    retriever = CollectionRetriever(shelves, Direct(), RetrieverSettings(inline_until=0))
    found = await asyncio.gather(*(retriever.retrieve(topic, Scope()) for topic in TOPICS * 10))
    assert [of(result.hits)[0] for result in found] == list(TOPICS * 10)


def test_collections_of_different_encoders_are_refused_together(tmp_path: Path) -> None:
    class Other(CountingEncoder):
        def signature(self):  # type: ignore[no-untyped-def]
            return replace(super().signature(), model="other")

    with (
        Collection.open(tmp_path / "a", SETTINGS, CountingEncoder()) as one,
        Collection.open(tmp_path / "b", SETTINGS, Other()) as two,
        pytest.raises(IndexMismatchError, match="'one' and 'two'"),
    ):
        CollectionRetriever({"one": one, "two": two}, Direct())


@pytest.mark.parametrize("bad", [{"k": 0}, {"k": 300}])
def test_settings_that_cannot_work_are_refused(bad: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="k lies"):
        RetrieverSettings(**bad)


def _hit(number: int, score: float, **metadata: str) -> Hit:
    text = f"text {number}"
    return Hit(
        passage=Passage(
            id=f"p{number}",
            document_id="d",
            title="",
            text=text,
            start=0,
            end=len(text),
            sha256=text,
            metadata=metadata,
        ),
        score=score,
    )


async def test_the_static_double_keeps_the_same_promises() -> None:
    hits = [_hit(1, 0.2), _hit(2, 0.9, groups="staff"), _hit(3, 0.5, team="red"), _hit(1, 0.2)]
    static = StaticRetriever(hits)
    assert [hit.passage.id for hit in (await static.retrieve("x", Scope())).hits] == ["p3", "p1"]
    staff = Scope(groups=frozenset({"staff"}), k=1)
    assert [hit.passage.id for hit in (await static.retrieve("x", staff)).hits] == ["p2"]
    assert [hit.passage.id for hit in (await static.retrieve("x", Scope(filters={"team": "red"}))).hits] == ["p3"]
