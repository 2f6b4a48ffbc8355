"""Plain text files and source trees.

Text is stored as it stands, in the form that `retrieval.load.clean` gives it. A source file has its path as title and
is split by lines. Knows no markup.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from retrieval.errors import LoadError
from retrieval.load.base import MAX_BYTES, Content, build_document, document_id, read_bytes
from retrieval.load.clean import clean, decode
from retrieval.types import Document

_SOURCE = """.py .pyi .js .mjs .cjs .jsx .ts .tsx .vue .svelte .java .kt .kts .scala .groovy .gradle .c .h .cc .cpp .cxx
.hpp .hh .cs .fs .go .rs .rb .php .swift .m .mm .lua .pl .pm .r .jl .ex .exs .erl .hs .ml .clj .dart .zig .sh .bash .zsh
.fish .ps1 .sql .proto .graphql .tf .hcl .yaml .yml .toml .ini .cfg .conf .properties .json .xml .css .scss .less .cmake
.nix"""
SOURCE_SUFFIXES = tuple(_SOURCE.split())


def read_text(path: Path, max_bytes: int = MAX_BYTES, declared: str = "") -> str:
    """A file's text in the stored form. Raises `LoadError` when it cannot be read or is no text."""
    text = decode(read_bytes(path, max_bytes), declared)
    if text is None:
        raise LoadError(
            f"{path} is not a text file in any known encoding", hint="save it as UTF-8, or leave it out of the paths"
        )
    return clean(text)


class TextLoader:
    """Plain text, one document a file; the file's name is the title."""

    suffixes: tuple[str, ...] = (".txt", ".text", ".rst", ".adoc", ".asciidoc", ".org", ".log")

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes

    def load(self, path: Path, *, root: Path) -> Iterable[Document]:
        """The file as one document; raises `LoadError`."""
        return [build_document(path, root, Content(text=read_text(path, self._max_bytes), format="text"))]


class SourceLoader:
    """Source code and configuration files, one document a file; the relative path is the title."""

    suffixes: tuple[str, ...] = SOURCE_SUFFIXES

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes

    def load(self, path: Path, *, root: Path) -> Iterable[Document]:
        """The file as one document; raises `LoadError`."""
        text = read_text(path, self._max_bytes)
        return [build_document(path, root, Content(text=text, title=document_id(path, root), format="code"))]
