import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.load.clean import clean, decode

RUSSIAN = "Привет мир, это обычный текст на русском языке, который сохранили в старой кодировке.\nВторая строка.\n"


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32", "utf-16-le", "utf-8", "latin-1", "cp1252"])
def test_a_western_file_in_an_old_encoding_is_read_without_garbled_letters(encoding: str) -> None:
    text = "Café société à déjà vu, naïve façade over the street\n"
    assert decode(text.encode(encoding)) == text


@pytest.mark.parametrize("encoding", ["cp1251", "koi8-r", "utf-16", "utf-8"])
def test_a_russian_file_in_an_old_encoding_is_read_without_garbled_letters(encoding: str) -> None:
    assert decode(RUSSIAN.encode(encoding)) == RUSSIAN


def test_one_damaged_byte_does_not_garble_the_rest_of_a_utf8_file() -> None:
    data = (RUSSIAN * 30).encode()
    text = decode(data[:500] + b"\xff" + data[500:])
    assert text is not None
    assert text.count("\ufffd") <= 3
    assert "обычный текст" in text


@pytest.mark.parametrize("data", [b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0>\0" * 20, b"\0\0\0\0abc"])
def test_a_binary_file_is_refused_and_not_indexed_as_noise(data: bytes) -> None:
    assert decode(data) is None


def test_the_encoding_a_page_declares_wins_over_a_guess() -> None:
    assert decode("цена".encode("koi8-r"), "koi8-r") == "цена"


@pytest.mark.parametrize(
    ("raw", "stored"),
    [
        ("a\r\nb\rc\u2028d", "a\nb\nc\nd"),
        ("pay\u200bload \u202eevil\u2069", "payload evil"),
        ("hi\U000e0041\U000e0042\U000e007f", "hi"),
        ("in\u00advisible\ufeff", "invisible"),
        ("pay\u200dload\u200c", "payload"),
        ("a\ufe0f\ufe01\ufe02b", "ab"),
        ("x\x00\x1b[31my", "x[31my"),
        ("e\u0301", "\u00e9"),
        ("10\u00b2", "10\u00b2"),
        ("a\u00a0b", "a b"),
        ("a\ud800b", "a\ufffdb"),
    ],
)
def test_marks_that_readers_cannot_see_never_reach_a_model(raw: str, stored: str) -> None:
    assert clean(raw) == stored


@pytest.mark.parametrize("word", ["می\u200cخواهم", "क्\u200dष", "\U0001f468\u200d\U0001f469", "\u2764\ufe0f"])
def test_joiners_that_a_script_needs_stay(word: str) -> None:
    assert clean(word) == unicodedata.normalize("NFC", word)


@given(st.text(st.characters(exclude_categories=[]), max_size=60))
def test_a_stored_text_is_the_same_when_it_is_stored_again(text: str) -> None:
    stored = clean(text)
    assert clean(stored) == stored
    stored.encode("utf-8")


@given(st.binary(max_size=300))
def test_decoding_never_fails_on_any_bytes(data: bytes) -> None:
    text = decode(data)
    assert text is None or isinstance(text, str)
