from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from checks.review.words import WordTable, word_hashes

TEXT = st.text("ab_1 .\né日", max_size=30)
WORD = re.compile(rb"[A-Za-z0-9_\x80-\xff]+")


@given(st.lists(TEXT, max_size=6), TEXT)
def test_a_word_that_stands_in_a_file_is_never_called_absent(texts: list[str], wanted: str) -> None:
    table = WordTable([word_hashes(text.encode()) for text in texts])
    needed = set(WORD.findall(wanted.encode()))
    holding = [n for n, text in enumerate(texts) if needed and needed <= set(WORD.findall(text.encode()))]
    assert set(holding) <= set(table.files_with(wanted))


@given(TEXT)
def test_each_different_word_has_a_hash_of_its_own(text: str) -> None:
    assert len(word_hashes(text.encode())) == len(set(WORD.findall(text.encode())))


def test_words_longer_than_the_table_of_weights_are_still_told_apart() -> None:
    long = b"x" * 300
    assert len(word_hashes(long + b" " + long + b"y " + b"z" * 301)) == 3
