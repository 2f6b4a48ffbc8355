"""What loaders share: reading with a bound, ids, digests, and a reading that goes on past a bad record.

Knows no format.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from retrieval.errors import LoadError
from retrieval.load.clean import clean_line
from retrieval.types import Document, Section

MAX_BYTES = 128 * 1024 * 1024
MAX_TITLE = 300
MAX_METADATA = 2000


class Reading(Iterator[Document]):
    """The documents of one file, and in `problems` what of it could not be read.

    `problems` is complete once the iteration has ended. A file that cannot be read at all raises `LoadError` instead.
    """

    def __init__(self, documents: Callable[[list[LoadError]], Iterable[Document]]) -> None:
        self.problems: list[LoadError] = []
        self._documents = iter(documents(self.problems))

    def __next__(self) -> Document:
        return next(self._documents)


def read_bytes(path: Path, max_bytes: int = MAX_BYTES) -> bytes:
    """A file's bytes. Raises `LoadError` when it cannot be read or has more than `max_bytes`."""
    try:
        with path.open("rb") as file:
            data = file.read(max_bytes + 1)
    except OSError as error:
        raise LoadError(
            f"{path} cannot be read: {error.strerror or error}", hint="check that it exists and who may read it"
        ) from error
    if len(data) > max_bytes:
        raise LoadError(
            f"{path} is larger than {max_bytes // (1024 * 1024)} MB", hint="split it, or turn it into a JSONL dump"
        )
    return data


def document_id(path: Path, root: Path) -> str:
    """The path relative to the root with forward slashes; a root that is the file itself gives its name.

    Bytes of a file name that are not UTF-8 appear as escapes, so that two such names stay apart.
    """
    relative = path.relative_to(root) if path != root and path.is_relative_to(root) else Path(path.name)
    return os.fsencode(relative.as_posix()).decode("utf-8", "backslashreplace")


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What a loader read from a whole file; `format` goes into the metadata, where splitter and filters find it."""

    text: str
    format: str
    title: str = ""
    url: str | None = None
    sections: tuple[Section, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)


def build_document(path: Path, root: Path, content: Content) -> Document:
    """The document of a whole file."""
    return Document(
        id=document_id(path, root),
        source=os.fsencode(path).decode("utf-8", "backslashreplace"),
        title=title_of(content.title, path),
        text=content.text,
        sha256=digest(content.text),
        url=public_url(content.url),
        sections=content.sections,
        metadata={**content.metadata, "format": content.format},
    )


def title_of(title: str, path: Path) -> str:
    """The title on one line and bounded, or the file's name without suffix when there is none."""
    name = os.fsencode(path.stem).decode("utf-8", "backslashreplace")
    return clean_line(title)[:MAX_TITLE].strip() or clean_line(name)


def groups_of(value: object) -> str:
    """The metadata value of a document's `groups`, from a list of names or names separated by commas.

    An empty list means nobody, so it must not become blank, which means everybody. Raises `ValueError`
    for anything else.
    """
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError("groups must be a list of names, or names separated by commas")
    if any("," in name for name in names):
        raise ValueError("a group's name cannot hold a comma")
    return ",".join(name for part in names if (name := clean_line(part))) or ","


def digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def public_url(url: str | None) -> str | None:
    """The address if it is absolute and http or https, else `None`: it ends up as a link in answers."""
    if url is None:
        return None
    url = url.strip()
    if re.search(r"[\s\x00-\x1f\x7f<>\"]", url):
        return None
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        return None
    return url if good else None
