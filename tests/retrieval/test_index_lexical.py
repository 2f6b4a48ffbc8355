"""The lexical leg: what words find, what is gone, who may be found, and what a crash or a damaged file does."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.errors import IndexCorruptError, IndexMismatchError
from retrieval.index.lexical import ALLOWED_TERMS, LexicalIndex, LexicalSettings, advance, build, damage

SETTINGS = LexicalSettings()
TEXTS = {
    1: "Harbour pilots guide tankers through the narrow strait",
    2: "The pilot of error code ERR-4711 is not known",
    3: "Панельные дома строили с пятидесятых годов",
    4: "Beekeepers smoke the hive and lift the frames",
    5: "The hive",
}


@pytest.fixture
def index(tmp_path: Path) -> LexicalIndex:
    build(tmp_path / "1", SETTINGS, TEXTS.items())
    return LexicalIndex.load(tmp_path / "1", SETTINGS)


def rows(found: list[tuple[int, float]]) -> list[int]:
    return [row for row, _ in found]


@pytest.mark.parametrize(
    ("question", "row"),
    [
        ("Who guided the tanker?", 1),
        ("err 4711", 2),
        ("Когда построили панельный дом?", 3),
        ("панельных домов", 3),
        ("what do beekeepers lift?", 4),
    ],
)
def test_a_question_in_other_forms_of_the_words_finds_its_passage(index: LexicalIndex, question: str, row: int) -> None:
    assert rows(index.search(question, 5))[0] == row


def test_a_passage_without_any_word_of_the_question_is_never_returned(index: LexicalIndex) -> None:
    assert index.search("violin", 5) == []
    assert index.search("", 5) == []
    assert rows(index.search("hive", 500)) == [5, 4]


def test_a_question_of_function_words_alone_is_still_searched(index: LexicalIndex) -> None:
    assert rows(index.search("the", 5))


def test_words_that_every_question_has_do_not_outvote_the_one_that_matters(index: LexicalIndex) -> None:
    assert index.terms("What is the hive?") == ("hive",)


def test_a_word_that_most_passages_hold_counts_only_where_there_is_no_other(tmp_path: Path) -> None:
    build(tmp_path / "many", SETTINGS, ((row, f"hall {row}") for row in range(20)))
    index = LexicalIndex.load(tmp_path / "many", SETTINGS)
    assert rows(index.search("hall 7", 20)) == [7]
    assert rows(index.search("hall", 20)) == list(range(20))


def test_scores_are_shares_so_that_a_threshold_means_the_same_for_every_question(index: LexicalIndex) -> None:
    (_, whole), *_ = index.search("hive", 1)
    (_, part), *_ = index.search("hive violin unheard", 1)
    assert 0.0 < part < whole <= 1.0


@pytest.mark.parametrize("extra", [0, ALLOWED_TERMS + 1])
def test_a_restricted_search_finds_all_that_is_allowed_and_nothing_else(tmp_path: Path, extra: int) -> None:
    many = dict.fromkeys(range(100, 100 + 60), "hive frames")
    others = {row: f"violin {row}" for row in range(1_000, 1_000 + extra)}
    build(tmp_path / "1", SETTINGS, {**many, **others}.items())
    index = LexicalIndex.load(tmp_path / "1", SETTINGS)
    allowed = np.array([*range(120, 160, 2), *others, 7], dtype=np.int64)
    assert rows(index.search("hive", 50, allowed)) == list(range(120, 160, 2))
    assert index.search("hive", 5, np.array([], dtype=np.int64)) == []


def test_the_next_generation_has_what_was_added_and_nothing_that_was_deleted(
    tmp_path: Path, index: LexicalIndex
) -> None:
    assert advance(tmp_path / "1", tmp_path / "2", SETTINGS, [(6, "a violin maker")], [4])
    after = LexicalIndex.load(tmp_path / "2", SETTINGS, reuse=index)
    assert rows(after.search("violin", 5)) == [6]
    assert rows(after.search("hive", 5)) == [5]
    assert after.live == 5
    assert rows(index.search("hive", 5)) == [5, 4]
    assert damage(tmp_path / "2", SETTINGS, np.array([1, 2, 3, 5, 6])) == []


def test_readers_of_the_last_generation_go_on_after_its_files_are_removed(tmp_path: Path, index: LexicalIndex) -> None:
    assert advance(tmp_path / "1", tmp_path / "2", SETTINGS, [], [1])
    shutil.rmtree(tmp_path / "1")
    assert rows(index.search("pilots", 5)) == [2, 1] or rows(index.search("pilots", 5)) == [1, 2]
    assert rows(LexicalIndex.load(tmp_path / "2", SETTINGS).search("pilots", 5)) == [2]


def test_after_many_deletions_everything_is_built_anew(tmp_path: Path, index: LexicalIndex) -> None:
    assert not advance(tmp_path / "1", tmp_path / "2", SETTINGS, [], [1, 2])
    assert not (tmp_path / "2").exists()


def test_a_crash_before_the_manifest_leaves_no_half_index(tmp_path: Path, index: LexicalIndex) -> None:
    (tmp_path / "1" / "lexical.json").unlink()
    with pytest.raises(IndexCorruptError):
        LexicalIndex.load(tmp_path / "1", SETTINGS)
    assert not advance(tmp_path / "1", tmp_path / "2", SETTINGS, [], [1])


def test_an_entry_that_cannot_be_made_leaves_nothing_behind(tmp_path: Path) -> None:
    def entries():  # type: ignore[no-untyped-def]
        yield 1, "one"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build(tmp_path / "1", SETTINGS, entries())
    assert not (tmp_path / "1").exists()


def test_a_damaged_file_is_said_and_never_searched(tmp_path: Path, index: LexicalIndex) -> None:
    victim = next(path for path in (tmp_path / "1").iterdir() if path.suffix == ".idx")
    data = bytearray(victim.read_bytes())
    data[len(data) // 2] ^= 0xFF
    victim.write_bytes(data)
    with pytest.raises(IndexCorruptError, match="checksum"):
        LexicalIndex.load(tmp_path / "1", SETTINGS)


def test_words_stemmed_for_other_languages_are_not_used(tmp_path: Path, index: LexicalIndex) -> None:
    with pytest.raises(IndexMismatchError):
        LexicalIndex.load(tmp_path / "1", LexicalSettings(languages=("de",)))


def test_two_languages_of_one_script_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="one script"):
        LexicalSettings(languages=("en", "de"))
    with pytest.raises(ValueError, match="no stemmer"):
        LexicalSettings(languages=("xx",))


@given(st.text(max_size=80))
def test_no_question_whatever_its_characters_breaks_the_search(searchable: LexicalIndex, question: str) -> None:
    for row, score in searchable.search(question, 5):
        assert row in TEXTS
        assert 0.0 < score <= 1.0


@pytest.fixture(scope="module")
def searchable(tmp_path_factory: pytest.TempPathFactory) -> LexicalIndex:
    directory = tmp_path_factory.mktemp("lexical") / "1"
    build(directory, SETTINGS, TEXTS.items())
    return LexicalIndex.load(directory, SETTINGS)
