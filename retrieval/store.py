"""The passage store of a collection: files, documents and passages in one SQLite file, read side.

One row of `state` names the generation and the index snapshot that belongs to it; the transaction that changes it is
the commit point of an ingest. Passage rows get ids that are never given twice, and those ids are the index's ids: an
index that is behind can name a row that is gone, but never another passage.

Knows nothing of vectors, encoders or how files are read.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from retrieval.errors import IndexCorruptError, RetrievalError
from retrieval.types import NO_METADATA, Passage, Scope, Signature

VERSION = 1
_SCHEMA = """
CREATE TABLE state (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    generation INTEGER NOT NULL,
    snapshot TEXT NOT NULL,
    signature TEXT NOT NULL
);
INSERT INTO state VALUES (1, 0, '', '');
CREATE TABLE file (
    path TEXT PRIMARY KEY, root TEXT NOT NULL, size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL, read_ns INTEGER NOT NULL, sha256 TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE document (
    id TEXT PRIMARY KEY, file TEXT NOT NULL, title TEXT NOT NULL, source TEXT NOT NULL, url TEXT,
    sha256 TEXT NOT NULL, characters INTEGER NOT NULL, metadata TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX document_file ON document (file);
CREATE TABLE passage (
    row INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, document_id TEXT NOT NULL, title TEXT NOT NULL,
    text TEXT NOT NULL, start INTEGER NOT NULL, "end" INTEGER NOT NULL, sha256 TEXT NOT NULL, url TEXT,
    source TEXT NOT NULL, heading TEXT NOT NULL, page INTEGER, metadata TEXT NOT NULL,
    embedded BLOB NOT NULL, restricted INTEGER NOT NULL
);
CREATE INDEX passage_document ON passage (document_id);
CREATE INDEX passage_embedded ON passage (embedded);
CREATE INDEX passage_restricted ON passage (row) WHERE restricted = 1;
CREATE TABLE attribute (
    key TEXT NOT NULL, value TEXT NOT NULL, row INTEGER NOT NULL, PRIMARY KEY (key, value, row)
) WITHOUT ROWID;
CREATE INDEX attribute_row ON attribute (row);
CREATE TABLE reader (name TEXT NOT NULL, row INTEGER NOT NULL, PRIMARY KEY (name, row)) WITHOUT ROWID;
CREATE INDEX reader_row ON reader (row);
"""
PASSAGE_COLUMNS = 'id, document_id, title, text, start, "end", sha256, url, source, heading, page, metadata'
STORE_HINT = "restore the collection's directory from a backup, or delete it and ingest the files again"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreState:
    """What the store says of its newest generation; `signature` is `None` before the first ingest."""

    generation: int
    snapshot: str
    signature: Signature | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileState:
    """A source file as it was when it was last read. `read_ns` is when, by the wall clock."""

    path: str
    root: str
    size: int
    mtime_ns: int
    read_ns: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredDocument:
    """A document of the collection without its text: `characters` and `passages` are counts."""

    id: str
    title: str
    source: str
    url: str | None
    sha256: str
    characters: int
    passages: int
    metadata: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How much a store holds."""

    files: int
    documents: int
    passages: int


class PassageStore:
    """Reads of one store, from any thread; each read sees one committed generation.

    A read borrows a connection nobody uses, or opens one: a long read never holds up a search.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._idle: list[sqlite3.Connection] = []
        self._open = threading.Event()

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open the store, made empty if it is not there. Raises `IndexCorruptError` and `RetrievalError`."""
        store = cls(path)
        connection = connect(path)
        try:
            prepare(connection, path)
            connection.execute("PRAGMA query_only = ON")
        except BaseException:
            connection.close()
            raise
        store._idle.append(connection)
        store._open.set()
        return store

    def close(self) -> None:
        """Close what is idle; a connection still at work closes itself when it is given back."""
        self._open.clear()
        with suppress(IndexError):
            while True:
                self._idle.pop().close()

    def _all(self, sql: str, *parameters: Any) -> list[Any]:
        if not self._open.is_set():
            raise RetrievalError(f"the collection {self._path.parent} is closed")
        # list.pop and list.append are atomic, so two threads never get the same connection.
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = connect(self._path)
        try:
            return connection.execute(sql, parameters).fetchall()
        except sqlite3.DatabaseError as error:
            raise store_error(self._path, error) from error
        finally:
            self._idle.append(connection)
            if not self._open.is_set():
                self.close()

    def generation(self) -> int:
        """The newest committed generation: a few microseconds, asked before every search."""
        return int(self._all("SELECT generation FROM state")[0][0])

    def state(self) -> StoreState:
        return state_from(self._all("SELECT generation, snapshot, signature FROM state")[0])

    def passages(self, rows: Iterable[int]) -> tuple[int, dict[int, Passage]]:
        """The generation read, and of `rows` those that exist in it."""
        found = self._all(
            f"SELECT generation, row, {PASSAGE_COLUMNS} FROM state "  # noqa: S608 - a constant
            "LEFT JOIN passage ON row IN (SELECT value FROM json_each(?))",
            json.dumps(list(rows)),
        )
        return int(found[0][0]), {item[1]: passage_from(item[2:]) for item in found if item[1] is not None}

    def allowed(self, scope: Scope) -> tuple[int, npt.NDArray[np.int64] | None]:
        """The generation read, and the rows a scope may see in ascending order; `None` when it may see every row."""
        clauses, parameters = [], []
        for key, value in sorted(scope.filters.items()):
            clauses.append("row IN (SELECT row FROM attribute WHERE key = ? AND value = ?)")
            parameters += [key, value]
        if self._all("SELECT 1 FROM passage WHERE restricted = 1 LIMIT 1"):
            clauses.append(
                "(restricted = 0 OR row IN (SELECT row FROM reader WHERE name IN (SELECT value FROM json_each(?))))"
            )
            parameters.append(json.dumps(sorted(scope.groups)))
        if not clauses:
            return self.generation(), None
        found = self._all(
            "SELECT generation, row FROM state LEFT JOIN passage ON " + " AND ".join(clauses),  # noqa: S608
            *parameters,
        )
        rows = np.fromiter((item[1] for item in found if item[1] is not None), dtype=np.int64)
        return int(found[0][0]), np.sort(rows)

    def passage(self, passage_id: str) -> Passage | None:
        found = self._all(f"SELECT {PASSAGE_COLUMNS} FROM passage WHERE id = ?", passage_id)  # noqa: S608
        return passage_from(found[0]) if found else None

    def beside(self, passage: Passage, count: int) -> list[Passage]:
        """Up to `count` passages just before and just after one in its document, in reading order."""
        found = []
        for where, order in (("start < ?", "DESC"), ("start > ?", "ASC")):
            found += self._all(
                f"SELECT {PASSAGE_COLUMNS} FROM passage WHERE document_id = ? AND {where} "  # noqa: S608 - constants
                f"ORDER BY start {order} LIMIT ?",
                passage.document_id,
                passage.start,
                count,
            )
        return sorted((passage_from(row) for row in found), key=lambda each: each.start)

    def documents(self) -> list[StoredDocument]:
        """Every document, by id."""
        found = self._all(
            "SELECT id, title, source, url, sha256, characters, "
            "(SELECT count(*) FROM passage WHERE document_id = document.id), metadata FROM document ORDER BY id"
        )
        return [
            StoredDocument(
                id=row[0],
                title=row[1],
                source=row[2],
                url=row[3],
                sha256=row[4],
                characters=row[5],
                passages=row[6],
                metadata=json.loads(row[7]),
            )
            for row in found
        ]

    def rows(self) -> npt.NDArray[np.int64]:
        """Every passage row, ascending."""
        return np.fromiter((row for (row,) in self._all("SELECT row FROM passage ORDER BY row")), dtype=np.int64)

    def counts(self) -> Counts:
        files, documents, passages = self._all(
            "SELECT (SELECT count(*) FROM file), (SELECT count(*) FROM document), (SELECT count(*) FROM passage)"
        )[0]
        return Counts(files=files, documents=documents, passages=passages)

    def damage(self) -> list[str]:
        """What SQLite's own check finds wrong; empty when nothing."""
        return [line for (line,) in self._all("PRAGMA quick_check") if line != "ok"]


def connect(path: Path) -> sqlite3.Connection:
    """A connection without implicit transactions; a writer elsewhere is waited for up to ten seconds."""
    try:
        connection = sqlite3.connect(path, timeout=10.0, isolation_level=None, check_same_thread=False)
    except sqlite3.Error as error:
        raise store_error(path, error) from error
    return connection


def prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Make the tables of a new store, or check that a store is one of ours."""
    try:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version == 0:
            # Readers see the last committed state while one writer works: write-ahead logging.
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("BEGIN IMMEDIATE")
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if version == 0:
                _create(connection)
                version = VERSION
            connection.execute("COMMIT")
    except sqlite3.DatabaseError as error:
        raise store_error(path, error) from error
    if version != VERSION:
        raise RetrievalError(
            f"the passage store {path} has format {version}, this program writes format {VERSION}",
            hint="use the program version that made it, or delete the collection's directory and ingest again",
        )


def _create(connection: sqlite3.Connection) -> None:
    for statement in _SCHEMA.split(";\n"):
        if statement.strip():
            connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {VERSION}")


def store_error(path: Path, error: sqlite3.Error) -> RetrievalError:
    """An SQLite failure as an error of this package."""
    if isinstance(error, sqlite3.OperationalError):
        return RetrievalError(
            f"the passage store {path} cannot be used: {error}",
            hint="check that the directory exists, is writable and that its disk is not full",
        )
    return IndexCorruptError(f"the passage store {path} is damaged: {error}", hint=STORE_HINT)


def state_from(row: Sequence[Any]) -> StoreState:
    signature = Signature(**json.loads(row[2])) if row[2] else None
    return StoreState(generation=row[0], snapshot=row[1], signature=signature)


def passage_from(row: Sequence[Any]) -> Passage:
    """A passage from its columns in the order of `PASSAGE_COLUMNS`."""
    return Passage(
        id=row[0],
        document_id=row[1],
        title=row[2],
        text=row[3],
        start=row[4],
        end=row[5],
        sha256=row[6],
        url=row[7],
        source=row[8],
        heading=tuple(json.loads(row[9])) if row[9] != "[]" else (),
        page=row[10],
        metadata=json.loads(row[11]) if row[11] != "{}" else NO_METADATA,
    )


def passage_columns(passage: Passage) -> tuple[Any, ...]:
    """The columns of a passage in the order of `PASSAGE_COLUMNS`."""
    return (
        passage.id,
        passage.document_id,
        passage.title,
        passage.text,
        passage.start,
        passage.end,
        passage.sha256,
        passage.url,
        passage.source,
        json.dumps(passage.heading, ensure_ascii=False),
        passage.page,
        json.dumps(dict(passage.metadata), ensure_ascii=False, sort_keys=True),
    )


def batches(rows: Sequence[int], size: int) -> Iterator[list[int]]:
    """`rows` in lists of at most `size`."""
    for first in range(0, len(rows), size):
        yield list(rows[first : first + size])
