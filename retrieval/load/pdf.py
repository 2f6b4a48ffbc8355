"""PDF files: the text layer, one section for each page.

Scanned pages have no text layer: such a file is an error that says so. Knows nothing of other formats.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from retrieval.errors import LoadError
from retrieval.load.base import MAX_BYTES, Content, Reading, build_document, read_bytes
from retrieval.load.clean import clean
from retrieval.types import Document, Section

if TYPE_CHECKING:
    from pypdf import PdfReader

# Titles that a program put there, not a person.
_NO_TITLE = re.compile(
    r"(?i)^\W*(untitled|unspecified|microsoft \w+|.*\.(docx?|pptx?|xlsx?|tex|dvi|indd|qxd|pdf|rtf|odt))\W*.*$"
)
_HYPHEN = re.compile(r"(\w+)[-\u2010]\n(\w+)")
_BLANKS = re.compile(r"\n{3,}")
_TRAILING = re.compile(r"[ \t]+$", re.MULTILINE)


class PdfLoader:
    """PDF files, one document each. Pages that cannot be read are named in the reading's problems."""

    suffixes: tuple[str, ...] = (".pdf",)

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes

    def load(self, path: Path, *, root: Path) -> Iterable[Document]:
        """The file as one document; raises `LoadError` when it is broken, encrypted or without text."""
        return Reading(lambda problems: self._documents(path, root, problems))

    def _documents(self, path: Path, root: Path, problems: list[LoadError]) -> Iterator[Document]:
        reader = _open(path, read_bytes(path, self._max_bytes))
        parts: list[str] = []
        sections: list[Section] = []
        size = 0
        for number, text in _pages(path, reader, problems):
            body = _joined(text)
            if not body:
                continue
            if parts:
                parts.append("\n\n")
                size += 2
            sections.append(Section(offset=size, page=number))
            parts.append(body)
            size += len(body)
        if not parts:
            if problems:
                raise problems[0]
            raise LoadError(
                f"{path} has no text layer, only pictures of pages", hint="run it through OCR, as ocrmypdf does"
            )
        content = Content(text="".join(parts), format="pdf", title=_title(reader), sections=tuple(sections))
        yield build_document(path, root, content)


def _open(path: Path, data: bytes) -> PdfReader:
    from pypdf import PasswordType, PdfReader  # a gateway without PDF files does not wait for it

    broken = "open it in a viewer and save it anew, or run `qpdf --decrypt in.pdf out.pdf`"
    try:
        reader = PdfReader(io.BytesIO(data), strict=False)
        locked = reader.is_encrypted and reader.decrypt("") == PasswordType.NOT_DECRYPTED
        if not locked:
            len(reader.pages)
    except Exception as error:  # broken files raise whatever the parser was doing
        raise LoadError(f"{path} is not a readable PDF: {_reason(error)}", hint=broken) from error
    if locked:
        raise LoadError(
            f"{path} is encrypted with a password", hint="remove it: `qpdf --password=... --decrypt in.pdf out.pdf`"
        )
    return reader


def _pages(path: Path, reader: PdfReader, problems: list[LoadError]) -> Iterator[tuple[int, str]]:
    """(page number from 1, its text)."""
    for number in range(1, len(reader.pages) + 1):
        try:
            text = reader.pages[number - 1].extract_text()
        except Exception as error:  # as above; the other pages may be sound
            problems.append(
                LoadError(
                    f"{path}: page {number} cannot be read: {_reason(error)}", hint="save the file anew in a viewer"
                )
            )
            continue
        yield number, text


def _joined(text: str) -> str:
    """A page's text with words joined that were hyphenated at a line's end.

    The hyphen stays when the same page has the word with it, or when the second half does not start small.
    """
    text = _TRAILING.sub("", clean(text))
    compounds = set(re.findall(r"\w+-\w+", text))

    def join(match: re.Match[str]) -> str:
        first, second = match.groups()
        if not second[0].islower() or f"{first}-{second}" in compounds or first[-1].isdigit():
            return match[0]
        return first + second

    return _BLANKS.sub("\n\n", _HYPHEN.sub(join, text)).strip("\n ")


def _title(reader: PdfReader) -> str:
    try:
        title = reader.metadata.title if reader.metadata else None
    except Exception:  # a broken information dictionary costs the title only
        return ""
    title = str(title or "").strip()
    return "" if _NO_TITLE.match(title) else title


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:200]
