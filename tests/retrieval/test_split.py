import hashlib
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.encode.hash import HashEncoder
from retrieval.split import SplitSettings, embedding_text, split
from retrieval.types import Document, Passage, Section


def document(text: str, *sections: Section, title: str = "Guide", format: str = "markdown") -> Document:
    return Document(
        id="guide.md",
        source="/docs/guide.md",
        title=title,
        text=text,
        sha256=hashlib.sha256(text.encode()).hexdigest(),
        url="https://example.org/guide",
        sections=sections,
        metadata={"format": format, "lang": "en"},
    )


def small(tokens: int, overlap: int = 0) -> SplitSettings:
    return SplitSettings(target_tokens=tokens, overlap_sentences=overlap)


ENCODER = HashEncoder()


def texts(passages: Sequence[Passage]) -> list[str]:
    return [passage.text for passage in passages]


def words(count: int, name: str = "word") -> str:
    return " ".join(f"{name}{position}" for position in range(count))


def assert_sound(source: Document, passages: Sequence[Passage], limit: int) -> None:
    covered = bytearray(len(source.text))
    for passage in passages:
        assert source.text[passage.start : passage.end] == passage.text
        assert passage.text == passage.text.strip()
        assert passage.text
        assert len(ENCODER.token_offsets(passage.text)) <= limit
        covered[passage.start : passage.end] = b"\1" * (passage.end - passage.start)
    assert all(seen or letter.isspace() for seen, letter in zip(covered, source.text, strict=True))
    starts = [passage.start for passage in passages]
    assert starts == sorted(starts)
    assert len({passage.id for passage in passages}) == len(passages)


anything = st.text(max_size=400) | st.text(st.sampled_from("ab .!?\n\t\u3002\u00e9\U0001f600\"'),;-"), max_size=800)
anchors = st.lists(st.tuples(st.integers(0, 500), st.sampled_from([(), ("A",), ("A", "B")])), max_size=4)


@given(anything, anchors, st.integers(16, 40), st.integers(0, 2), st.sampled_from(["text", "table", "markdown"]))
def test_no_word_of_a_document_is_lost_and_every_offset_is_exact(
    text: str, places: list[tuple[int, tuple[str, ...]]], limit: int, overlap: int, format: str
) -> None:
    source = document(text, *(Section(offset=at, heading=path) for at, path in places), format=format)
    settings = small(limit, overlap)
    passages = split(source, ENCODER, settings)
    assert_sound(source, passages, limit)
    assert split(source, ENCODER, settings) == passages


@given(st.text(st.sampled_from("ab. \n"), max_size=300), st.text(st.sampled_from("cd. \n"), min_size=1, max_size=80))
def test_text_added_at_the_end_keeps_the_ids_of_earlier_sections(text: str, more: str) -> None:
    before = document(text + "\n\nEnd\n", Section(offset=len(text) + 2, heading=("End",)))
    after = document(text + "\n\nEnd\n" + more, Section(offset=len(text) + 2, heading=("End",)))
    kept = {p.id for p in split(before, ENCODER, small(20)) if p.heading == ()}
    assert kept <= {p.id for p in split(after, ENCODER, small(20))}


def test_repeated_sentences_are_cited_at_their_own_places_and_not_at_the_first() -> None:
    source = document("\n\n".join(["The same words again. " * 6] * 5))
    passages = split(source, ENCODER, small(20))
    assert len(passages) > 5
    assert len({passage.start for passage in passages}) == len(passages)
    assert_sound(source, passages, 20)


def test_a_paragraph_that_fits_is_never_cut() -> None:
    paragraphs = [words(15, name) for name in ("a", "b", "c", "d")]
    passages = split(document("\n\n".join(paragraphs)), ENCODER, small(20))
    assert texts(passages) == paragraphs


def test_a_long_paragraph_is_cut_between_sentences() -> None:
    sentences = [f"Sentence {name} has a few more words in it." for name in "abcdefgh"]
    passages = split(document(" ".join(sentences)), ENCODER, small(32))
    assert len(passages) > 1
    assert all(passage.text.startswith("Sentence") and passage.text.endswith(".") for passage in passages)


def test_an_abbreviation_does_not_end_a_sentence() -> None:
    text = "The doctors met Dr. Brown at the gate. " + "They talked about e.g. gardens and fig. trees there. " * 3
    passages = split(document(text), ENCODER, small(16))
    assert not any(passage.text.endswith(("Dr.", "e.g.")) for passage in passages)


def test_a_table_row_is_never_cut_while_it_fits() -> None:
    rows = [f"plan: P{row}; price: {row}.50; note: a. b. c. d" for row in range(40)]
    passages = split(document("\n".join(rows), format="table"), ENCODER, small(40))
    for passage in passages:
        assert set(passage.text.split("\n")) <= set(rows)


def test_a_row_longer_than_a_passage_is_cut_and_its_neighbours_are_not() -> None:
    rows = ["id: 1; note: short", "id: 2; note: " + words(100), "id: 3; note: short"]
    passages = split(document("\n".join(rows), format="table"), ENCODER, small(30))
    assert passages[0].text.startswith(rows[0])
    assert passages[-1].text.endswith(rows[2])
    assert_sound(document("\n".join(rows), format="table"), passages, 30)


def test_lines_broken_to_fit_a_page_are_no_borders() -> None:
    line = "the quick brown fox jumps over the lazy dog and"
    passages = split(document("\n".join([line] * 4) + " stops. Then more.", format="text"), ENCODER, small(42))
    assert passages[0].text.endswith("stops.")


def test_a_passage_never_spans_two_headings_and_names_its_own() -> None:
    text = "One\n\nalpha text.\n\nTwo\n\nbeta text."
    source = document(text, Section(offset=0, heading=("One",)), Section(offset=text.index("Two"), heading=("Two",)))
    assert [(p.heading, p.text) for p in split(source, ENCODER)] == [
        (("One",), "One\n\nalpha text."),
        (("Two",), "Two\n\nbeta text."),
    ]


def test_a_heading_without_text_of_its_own_is_no_passage() -> None:
    text = "One\n\nTwo\n\nbeta text."
    source = document(text, Section(offset=0, heading=("One",)), Section(offset=5, heading=("One", "Two")))
    assert [(p.heading, p.text) for p in split(source, ENCODER)] == [(("One", "Two"), text)]


def test_a_citation_never_names_the_wrong_page() -> None:
    text = "first page\n\nsecond page"
    passages = split(document(text, Section(offset=0, page=1), Section(offset=12, page=2), format="pdf"), ENCODER)
    assert [(passage.page, passage.text) for passage in passages] == [(1, "first page"), (2, "second page")]


def test_passages_of_a_section_are_balanced_and_leave_no_crumb() -> None:
    text = " ".join(f"Five words are here {n}." for n in range(21))
    counts = [len(ENCODER.token_offsets(t)) for t in texts(split(document(text), ENCODER, small(60)))]
    assert max(counts) <= 60
    assert min(counts) > 30


def test_overlap_repeats_the_last_sentence_only_where_a_paragraph_was_cut() -> None:
    text = "First block stands alone.\n\n" + " ".join(f"This is sentence number {n} here." for n in range(12))
    plain, doubled = (split(document(text), ENCODER, small(30, overlap)) for overlap in (0, 1))
    assert all(a.end <= b.start for a, b in pairwise(plain))
    assert any(a.end > b.start for a, b in pairwise(doubled))
    assert_sound(document(text), doubled, 30)


@pytest.mark.parametrize("text", ["", " \n\t\u00a0\n"])
def test_a_blank_document_has_no_passage(text: str) -> None:
    assert split(document(text), ENCODER) == []


@pytest.mark.parametrize("unit", ["x", "\u4f60", "=", "\u0301", "\U0001f600"])
def test_one_giant_word_neither_hangs_nor_becomes_one_giant_passage(unit: str) -> None:
    source = document(unit * 200_000)
    passages = split(source, ENCODER)
    assert "".join(texts(passages)) == source.text
    assert max(len(passage.text) for passage in passages) <= 60_000


def test_every_passage_with_its_heading_fits_what_the_model_sees() -> None:
    encoder = HashEncoder(max_tokens=64, passage_prefix="passage: ")
    source = document(words(500), Section(offset=0, heading=("Setup", words(10))), title=words(8))
    for passage in split(source, encoder):
        encoder.encode_passages([embedding_text(passage)])
    assert encoder.cut == 0


def test_a_title_longer_than_the_models_limit_still_leaves_room_for_text() -> None:
    encoder = HashEncoder(max_tokens=32)
    source = document(words(100), title="t " * 400)
    assert all(len(encoder.token_offsets(p.text)) >= 10 for p in split(source, encoder)[:-1])


def test_the_embedded_text_names_title_and_headings_and_the_cited_text_does_not() -> None:
    (passage,) = split(document("Two\n\nbeta.", Section(offset=0, heading=("Guide", "Two"))), ENCODER)
    assert embedding_text(passage) == "Guide > Two\nTwo\n\nbeta."
    assert passage.text == "Two\n\nbeta."


def test_a_passage_carries_what_a_citation_and_a_filter_need() -> None:
    (passage,) = split(document("beta."), ENCODER)
    assert (passage.document_id, passage.url, passage.source) == (
        "guide.md",
        "https://example.org/guide",
        "/docs/guide.md",
    )
    assert passage.metadata["lang"] == "en"
    assert passage.sha256 == hashlib.sha256(b"beta.").hexdigest()


def test_another_setting_is_another_signature() -> None:
    described = {settings.describe() for settings in (SplitSettings(), small(100), small(200, 1))}
    assert len(described) == 3
    assert SplitSettings().describe() == small(200).describe()


def test_the_work_grows_with_the_text_and_not_with_its_square() -> None:
    class CountingEncoder(HashEncoder):
        letters = 0

        def token_offsets(self, text: str) -> Sequence[tuple[int, int]]:
            self.letters += len(text)
            return super().token_offsets(text)

    encoder = CountingEncoder()
    source = document(words(100_000))
    assert_sound(source, split(source, encoder), 200)
    assert encoder.letters <= 1.01 * len(source.text)
