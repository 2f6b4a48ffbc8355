"""Bytes to text, and text to the form that is stored. Pure.

Stored text is Unicode in NFC with `\\n` line ends. Not NFKC: it would turn "10²" into "102". Control characters, text
direction overrides, tag characters and other marks that a reader does not see are gone, since they hide instructions
from people while a model reads them. Zero-width joiners stay between letters that need them (Persian, Hindi, emoji).

Offsets of documents count code points of this form.
"""

from __future__ import annotations

import codecs
import re
import unicodedata

from charset_normalizer import from_bytes

SAMPLE = 256 * 1024
BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# At most this share of bad bytes is damage to a UTF-8 file; more of them are another encoding.
DAMAGE = 0.001

_LINE_ENDS = re.compile("\r\n|[\r\x0b\x0c\x85\u2028\u2029]")
_SPACES = re.compile("[\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]")
_UNSEEN = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f"
    "\u202a-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
# A joiner stays between two characters above Latin; a variation selector stays once after such a character.
_JOINERS = re.compile(
    "(?<![\u0530-\u1fff\u2190-\u2bff\ua000-\ufdff\ufe0f\U0001f000-\U0001faff])[\u200c\u200d]+|[\u200c\u200d]{2,}"
)
_JOINERS_BEFORE = re.compile("[\u200c\u200d](?![\u0530-\u1fff\u2190-\u2bff\ua000-\ufdff\U0001f000-\U0001faff])")
_SELECTORS = re.compile(
    "(?<![\u0023\u002a\u0030-\u0039\u00a9\u00ae\u2000-\U0001faff])[\ufe00-\ufe0f]+|(?<=[\ufe00-\ufe0f])[\ufe00-\ufe0f]+"
)
_SURROGATES = re.compile("[\ud800-\udfff]")
_WESTERN = frozenset("àâäáãåæçèéêëìíîïñòóôöõøœùúûüßÀÂÄÁÃÅÆÇÈÉÊËÍÎÏÑÓÔÖÕØŒÙÚÛÜ«»“”„‘’–—•°·€£§…¿¡ºª©®™\u00a0")
_RUN = re.compile(r"\s+")


def clean(text: str) -> str:
    """Text in the stored form. Idempotent."""
    text = _LINE_ENDS.sub("\n", text)
    if text.isascii():
        return _UNSEEN.sub("", text)
    text = _UNSEEN.sub("", _SPACES.sub(" ", _SURROGATES.sub("\ufffd", text)))
    text = _SELECTORS.sub("", _JOINERS_BEFORE.sub("", _JOINERS.sub("", text)))
    return text if unicodedata.is_normalized("NFC", text) else unicodedata.normalize("NFC", text)


def clean_line(text: str) -> str:
    """The stored form on one line."""
    return _RUN.sub(" ", clean(text)).strip()


def decode(data: bytes, declared: str = "") -> str | None:
    """The text of a file's bytes, or `None` when they are no text.

    In this order: byte order mark, the encoding the file itself declares, UTF-8, UTF-16 without a mark, UTF-8 with a
    little damage, then a guess from the byte statistics.
    """
    for mark, encoding in BOMS:
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, "replace")
    for encoding in (declared, "utf-8"):
        text = _strictly(data, encoding) if encoding else None
        if text is not None and "\0" not in text[:SAMPLE]:
            return text
    if wide := _wide(data):
        return data.decode(wide, "replace")
    if b"\0" in data[:SAMPLE]:
        return None
    repaired = data.decode("utf-8", "replace")
    damaged = repaired.count("\ufffd")
    if damaged <= DAMAGE * len(repaired) and any(ord(letter) > 127 and letter != "\ufffd" for letter in repaired):
        return repaired
    return _western(data) or _guessed(data)


def _strictly(data: bytes, encoding: str) -> str | None:
    try:
        return data.decode(encoding)
    except (UnicodeError, LookupError):
        return None


def _wide(data: bytes) -> str:
    """UTF-16 without a mark: nearly every other byte is zero, as Latin text makes it."""
    sample = data[: min(len(data), SAMPLE) // 2 * 2]
    if len(sample) < 4:
        return ""
    half = len(sample) // 2
    even, odd = sample[0::2].count(0), sample[1::2].count(0)
    if odd > 0.7 * half and even < 0.1 * half:
        return "utf-16-le"
    if even > 0.7 * half and odd < 0.1 * half:
        return "utf-16-be"
    return ""


def _western(data: bytes) -> str | None:
    """The text as Windows-1252, if it uses nothing of it but what Western European languages write.

    The statistical guess takes short texts of this kind for Central European ones.
    """
    text = _strictly(data, "cp1252")
    if text is None:
        return None
    high = re.findall(r"[^\x00-\x7f]", text[:SAMPLE])
    return text if len(high) <= 0.3 * len(text[:SAMPLE]) and _WESTERN.issuperset(high) else None


def _guessed(data: bytes) -> str | None:
    best = from_bytes(data[:SAMPLE]).best()
    if best is None:
        return None
    text = data.decode(best.encoding, "replace")
    sample = text[:SAMPLE]
    strange = sum(unicodedata.category(letter) in ("Cc", "Cn", "Co") for letter in sample if letter not in "\n\r\t\f")
    return None if strange > 0.02 * len(sample) else text
