"""JSONL dumps: one document a line.

Fields: `text` (also `contents`, `content`, `body`), and, if present, `id` (also `_id`), `title`, `url`, `groups`; every
other field becomes metadata. A bad line costs itself only: it is named in the reading's problems and the rest is kept.

Reads line by line: a dump may be larger than memory. Knows nothing of other formats.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from retrieval.errors import LoadError
from retrieval.load.base import MAX_METADATA, Reading, digest, document_id, groups_of, public_url, title_of
from retrieval.load.clean import clean, clean_line
from retrieval.types import Document

TEXT_FIELDS = ("text", "contents", "content", "body")
ID_FIELDS = ("id", "_id")
OWN_FIELDS = frozenset({*TEXT_FIELDS, *ID_FIELDS, "title", "url", "groups"})
MAX_LINE = 32 * 1024 * 1024
MAX_PROBLEMS = 100
_MARK = b"\xef\xbb\xbf"


class JsonlLoader:
    """JSONL files in UTF-8. Ids are `path#id`, or `path#line-7` for a record without one."""

    suffixes: tuple[str, ...] = (".jsonl", ".ndjson")

    def load(self, path: Path, *, root: Path) -> Iterable[Document]:
        """The documents of the dump; raises `LoadError` when the file cannot be read or holds no record at all."""
        return Reading(lambda problems: _documents(path, root, problems))


def _documents(path: Path, root: Path, problems: list[LoadError]) -> Iterator[Document]:
    seen: set[str] = set()
    bad = 0
    for number, line in _lines(path):
        try:
            document = _document(path, root, number, line)
            if document.id in seen:
                raise LoadError(f"{path} line {number}: the id {document.id!r} was used before", hint="make ids unique")
        except LoadError as error:
            bad += 1
            if bad <= MAX_PROBLEMS:
                problems.append(error)
            continue
        seen.add(document.id)
        yield document
    if bad > MAX_PROBLEMS:
        problems.append(LoadError(f"{path}: {bad - MAX_PROBLEMS} further lines cannot be read", hint="see those above"))
    if bad and not seen:
        raise LoadError(f"{path} holds no readable record: {problems[0]}", hint=problems[0].hint)


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """(line number from 1, its bytes) without blank lines; a line beyond the bound comes cut, so it will not parse."""
    try:
        with path.open("rb") as file:
            number = 0
            while line := file.readline(MAX_LINE):
                number += 1
                whole = line
                while not whole.endswith(b"\n") and len(whole) >= MAX_LINE:
                    whole = file.readline(MAX_LINE)
                    if not whole:
                        break
                if number == 1:
                    line = line.removeprefix(_MARK)
                if line.strip():
                    yield number, line
    except OSError as error:
        raise LoadError(
            f"{path} cannot be read: {error.strerror or error}", hint="check that it exists and who may read it"
        ) from error


def _document(path: Path, root: Path, number: int, line: bytes) -> Document:
    where = f"{path} line {number}"
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise LoadError(f"{where} is not JSON: {error}"[:300], hint="each line is one JSON object in UTF-8") from error
    if not isinstance(record, dict):
        raise LoadError(f"{where} holds no object", hint='each line is one object, as {"id": "1", "text": "..."}')
    name = next((field for field in TEXT_FIELDS if isinstance(record.get(field), str)), None)
    if name is None:
        fields = ", ".join(map(str, list(record)[:10]))
        raise LoadError(f"{where} has no text; its fields are: {fields}", hint='put the text into the field "text"')
    text = clean(record[name])
    own = next((record[field] for field in ID_FIELDS if record.get(field) not in (None, "")), None)
    mark = clean_line(str(own)) if isinstance(own, (str, int)) else ""
    base = document_id(path, root)
    return Document(
        id=f"{base}#{mark or f'line-{number}'}",
        source=f"{path}#{mark or f'line-{number}'}".encode("utf-8", "backslashreplace").decode(),
        title=title_of(str(record.get("title") or ""), path),
        text=text,
        sha256=digest(text),
        url=public_url(record["url"]) if isinstance(record.get("url"), str) else None,
        metadata=_metadata(record, where),
    )


def _metadata(record: Mapping[str, Any], where: str) -> dict[str, str]:
    values = {clean_line(name): _flat(value) for name, value in record.items() if name not in OWN_FIELDS}
    values = {name: value for name, value in values.items() if value}
    groups = record.get("groups")
    if groups is not None:
        try:
            values["groups"] = groups_of(groups)
        except ValueError as error:
            raise LoadError(f"{where}: {error}", hint='as in "groups": ["support", "sales"]') from error
    return {**values, "format": "record"}


def _flat(value: Any) -> str:
    """A value as metadata: lists of plain values joined with commas, anything deeper as JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return clean_line(value)[:MAX_METADATA]
    if isinstance(value, list) and all(isinstance(item, (str, int)) for item in value):
        return clean_line(",".join(map(str, value)))[:MAX_METADATA]
    return clean(json.dumps(value, ensure_ascii=False))[:MAX_METADATA]
