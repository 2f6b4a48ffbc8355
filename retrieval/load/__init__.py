"""Files to documents: one module a format, and the walk that finds the files.

`discover` finds files and their loaders; `problems_of` tells what of a file could not be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from retrieval.errors import LoadError
from retrieval.load.base import Reading
from retrieval.load.dump import JsonlLoader
from retrieval.load.html import HtmlLoader
from retrieval.load.markdown import MarkdownLoader
from retrieval.load.pdf import PdfLoader
from retrieval.load.registry import (
    SourceFile,
    default_loaders,
    discover,
    installed_loaders,
    loader_for,
    merge_loaders,
)
from retrieval.load.tables import CsvLoader, XlsxLoader
from retrieval.load.text import SourceLoader, TextLoader
from retrieval.types import Document

__all__ = [
    "CsvLoader",
    "HtmlLoader",
    "JsonlLoader",
    "MarkdownLoader",
    "PdfLoader",
    "Reading",
    "SourceFile",
    "SourceLoader",
    "TextLoader",
    "XlsxLoader",
    "default_loaders",
    "discover",
    "installed_loaders",
    "loader_for",
    "merge_loaders",
    "problems_of",
]


def problems_of(documents: Iterable[Document]) -> Sequence[LoadError]:
    """What a loader could not read of a file whose documents it gave, once these have been taken."""
    return tuple(documents.problems) if isinstance(documents, Reading) else ()
