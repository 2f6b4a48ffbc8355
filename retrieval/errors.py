"""Errors of retrieval.

RetrievalError
├── LoadError            a document cannot be read
├── EncodeError          the encoder failed or its model is missing
├── IndexMismatchError   an index made with another model, prefix, length or splitter
├── IndexCorruptError    a snapshot that cannot be read back
├── CollectionBusyError  another process is writing the collection
└── SearchError          a search failed or ran out of time
"""

from __future__ import annotations


class RetrievalError(Exception):
    """Base of all errors of this package; `hint` says what to do."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class LoadError(RetrievalError):
    """A document cannot be read."""


class EncodeError(RetrievalError):
    """The encoder failed, or its model files are missing."""


class IndexMismatchError(RetrievalError):
    """The index on disk was made with another signature than the configuration asks for."""


class IndexCorruptError(RetrievalError):
    """A snapshot cannot be read back."""


class CollectionBusyError(RetrievalError):
    """Another process holds the collection's write lock."""


class SearchError(RetrievalError):
    """A search failed or ran out of time."""
