"""Measuring retrieval: figures by hand, labels that do not fit, weights that are fitted."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.collection import Collection
from retrieval.errors import LoadError, SearchError
from retrieval.evaluate.data import CorpusLoader, find_sets
from retrieval.evaluate.legs import LEXICAL, WEIGHTS, evaluate, fit
from retrieval.evaluate.measures import difference, figure, score
from retrieval.writer import IngestOptions
from tests.retrieval.library import SETTINGS, TOPICS, CountingEncoder


def write_set(directory: Path, *, labels: str = "d") -> Path:
    directory.mkdir(parents=True)
    corpus = [{"_id": f"d{n}", "title": "", "text": text} for n, text in enumerate(TOPICS)]
    queries = [{"_id": f"q{n}", "text": " ".join(text.split()[:3])} for n, text in enumerate(TOPICS)]
    queries.append({"_id": "none", "text": "what nobody wrote down"})
    (directory / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in corpus))
    (directory / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in queries))
    lines = [f"q{n}\t{labels}{n}\t1\n" for n in range(len(TOPICS))]
    (directory / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(lines))
    return directory


def test_measures_are_those_of_the_literature() -> None:
    found = score(["a", "x", "b"], {"a": 1, "b": 2, "c": 1})
    ideal = 2 + 1 / np.log2(3) + 1 / 2
    assert found.ndcg_10 == pytest.approx((1 + 2 / 2) / ideal)
    assert (found.recall_10, found.hit_1, found.hit_9, found.mrr_10) == (pytest.approx(2 / 3), 1.0, 1.0, 1.0)
    assert score(["x", "a"], {"a": 1}).mrr_10 == 0.5
    assert score([], {"a": 1}).ndcg_10 == 0.0
    assert score([*"xyzuvwklmn", "a"], {"a": 1}).recall_100 == 1.0


@given(
    st.lists(st.sampled_from("abcdef"), unique=True), st.dictionaries(st.sampled_from("abc"), st.just(1), min_size=1)
)
def test_no_ranking_is_better_than_the_ideal_one(ranking: list[str], relevant: dict[str, int]) -> None:
    found = score(ranking, relevant)
    assert 0.0 <= found.ndcg_10 <= 1.0 + 1e-9
    assert found.recall_10 <= found.recall_100 <= 1.0


def test_the_same_data_gives_the_same_interval() -> None:
    values = [0.0, 1.0, 1.0, 0.5] * 10
    assert figure(values) == figure(values)
    assert figure(values).low < figure(values).mean < figure(values).high
    assert difference(values, values).high == 0.0


def test_a_fit_never_prefers_a_mixture_that_is_better_than_a_leg_by_chance_only() -> None:
    by_weight = np.full((len(WEIGHTS), 100), 0.5)
    by_weight[8, :50] += 0.4
    by_weight[8, 50:] -= 0.39
    assert fit(by_weight) == 0.0
    by_weight[8] += 0.2
    assert fit(by_weight) == WEIGHTS[8]
    by_weight[-1] += 0.3
    assert fit(by_weight) == 1.0


def test_every_leg_is_measured_and_questions_without_an_answer_are_counted_apart(tmp_path: Path) -> None:
    labelled = find_sets(write_set(tmp_path / "set").parent)[0]
    assert labelled.corpus is not None
    with Collection.open(tmp_path / "collection", SETTINGS, CountingEncoder()) as collection:
        collection.ingest([labelled.corpus], IngestOptions(loaders=(CorpusLoader(),)))
        report = evaluate(collection, CountingEncoder(), labelled, lambda done, total: None)
    assert (report.questions, report.unanswerable, report.passages) == (len(TOPICS), 1, len(TOPICS))
    lexical = next(row for row in report.rows if row.name == LEXICAL)
    assert lexical.figures["hit_1"].mean == 1.0
    assert report.gain.mean >= 0.0
    json.dumps(report.as_dict())


def test_labels_for_documents_that_are_not_in_the_collection_are_refused_and_not_counted_as_misses(
    tmp_path: Path,
) -> None:
    labelled = find_sets(write_set(tmp_path / "set", labels="other"))[0]
    assert labelled.corpus is not None
    with Collection.open(tmp_path / "collection", SETTINGS, CountingEncoder()) as collection:
        collection.ingest([labelled.corpus], IngestOptions(loaders=(CorpusLoader(),)))
        with pytest.raises(SearchError, match="'other0'"):
            evaluate(collection, CountingEncoder(), labelled, lambda done, total: None)


def test_an_empty_collection_is_said_to_lack_the_documents(tmp_path: Path) -> None:
    labelled = find_sets(write_set(tmp_path / "set"))[0]
    with (
        Collection.open(tmp_path / "collection", SETTINGS, CountingEncoder()) as collection,
        pytest.raises(SearchError, match="'d0'"),
    ):
        evaluate(collection, CountingEncoder(), labelled, lambda done, total: None)


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("qrels.tsv", "q0\n", "line 1"),
        ("qrels.tsv", "unknown\td0\t1\n", "unknown"),
        ("qrels.tsv", "q0\td0\t0\n", "no relevant"),
        ("queries.jsonl", "{", "line 1"),
        ("queries.jsonl", '{"_id": "q0"}\n', "line 1"),
    ],
)
def test_a_broken_set_is_named_with_its_file_and_line(tmp_path: Path, file: str, content: str, said: str) -> None:
    write_set(tmp_path / "set")
    (tmp_path / "set" / file).write_text(content)
    with pytest.raises(LoadError, match=said):
        find_sets(tmp_path / "set")


def test_a_folder_without_sets_is_said(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match="no labelled set"):
        find_sets(tmp_path)
