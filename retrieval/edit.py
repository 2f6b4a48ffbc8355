"""One write transaction over a passage store: everything an ingest changes becomes visible at `publish`, or never.

Knows nothing of vectors or files. The caller holds the collection's write lock.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Self

from retrieval.store import (
    PASSAGE_COLUMNS,
    FileState,
    StoreState,
    connect,
    passage_columns,
    passage_from,
    prepare,
    state_from,
    store_error,
)
from retrieval.types import Document, Passage
from retrieval.visibility import readers

_PASSAGE_VALUES = ", ".join("?" * 12)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPassage:
    """A passage with its row and the digest of the text that was embedded for it."""

    row: int
    passage: Passage
    embedded: bytes


class StoreEdit:
    """An open write transaction. Readers keep seeing the last published state until `publish` returns."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        self.changed = False

    @classmethod
    @contextmanager
    def begin(cls, path: Path) -> Iterator[Self]:
        """Rolls back on leaving unless `publish` or `keep` was called. SQLite's failures become ours."""
        connection = connect(path)
        try:
            prepare(connection, path)
            # A published generation outlives a power cut, and deleted texts are overwritten, not only unlinked.
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA secure_delete = ON")
            connection.execute("BEGIN IMMEDIATE")
            yield cls(connection, path)
        except sqlite3.DatabaseError as error:
            raise store_error(path, error) from error
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            connection.close()

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Undoes what was written inside when it raises; the rest of the transaction stands."""
        changed = self.changed
        self._connection.execute("SAVEPOINT attempt")
        try:
            yield
        except BaseException:
            self._connection.execute("ROLLBACK TO attempt")
            self._connection.execute("RELEASE attempt")
            self.changed = changed
            raise
        self._connection.execute("RELEASE attempt")

    # --- state ---

    def state(self) -> StoreState:
        row = self._connection.execute("SELECT generation, snapshot, signature FROM state").fetchone()
        return state_from(row)

    def publish(self, state: StoreState) -> None:
        """Commit everything together with the new generation."""
        signature = json.dumps(asdict(state.signature)) if state.signature is not None else ""
        self._connection.execute(
            "UPDATE state SET generation = ?, snapshot = ?, signature = ?",
            (state.generation, state.snapshot, signature),
        )
        self._connection.execute("COMMIT")

    def keep(self) -> None:
        """Commit without a new generation: file times were brought up to date, no passage changed."""
        self._connection.execute("COMMIT")

    def checkpoint(self) -> None:
        """Fold the write-ahead log back, as far as readers allow it; call after `publish`."""
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    # --- files ---

    def files(self) -> dict[str, FileState]:
        rows = self._connection.execute("SELECT path, root, size, mtime_ns, read_ns, sha256 FROM file")
        return {
            row[0]: FileState(path=row[0], root=row[1], size=row[2], mtime_ns=row[3], read_ns=row[4], sha256=row[5])
            for row in rows
        }

    def put_file(self, file: FileState) -> None:
        self._connection.execute("INSERT OR REPLACE INTO file VALUES (?, ?, ?, ?, ?, ?)", astuple(file))

    def drop_file(self, path: str) -> None:
        self._connection.execute("DELETE FROM file WHERE path = ?", (path,))

    # --- documents ---

    def documents_of(self, file: str) -> set[str]:
        return {row[0] for row in self._connection.execute("SELECT id FROM document WHERE file = ?", (file,))}

    def owner_of(self, document_id: str) -> str | None:
        """The path of the file a stored document came from."""
        row = self._connection.execute("SELECT file FROM document WHERE id = ?", (document_id,)).fetchone()
        return str(row[0]) if row else None

    def put_document(self, document: Document, file: str) -> None:
        values = (
            document.id,
            file,
            document.title,
            document.source,
            document.url,
            document.sha256,
            len(document.text),
            json.dumps(dict(document.metadata), ensure_ascii=False, sort_keys=True),
        )
        stored = self._connection.execute("SELECT * FROM document WHERE id = ?", (document.id,)).fetchone()
        if stored != values:
            self._connection.execute("INSERT OR REPLACE INTO document VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)
            self.changed = True

    def drop_document(self, document_id: str) -> None:
        """Forget a document; its passages are dropped by the caller."""
        self._connection.execute("DELETE FROM document WHERE id = ?", (document_id,))
        self.changed = True

    # --- passages ---

    def passages_of(self, document_id: str) -> dict[str, StoredPassage]:
        """The stored passages of a document by passage id."""
        rows = self._connection.execute(
            f"SELECT row, embedded, {PASSAGE_COLUMNS} FROM passage WHERE document_id = ?",  # noqa: S608 - a constant
            (document_id,),
        )
        found = (StoredPassage(row=row[0], embedded=row[1], passage=passage_from(row[2:])) for row in rows)
        return {stored.passage.id: stored for stored in found}

    def passages(self, rows: Sequence[int]) -> list[StoredPassage]:
        """The passages of `rows` that exist, by row."""
        found = self._connection.execute(
            f"SELECT row, embedded, {PASSAGE_COLUMNS} FROM passage "  # noqa: S608 - a constant
            "WHERE row IN (SELECT value FROM json_each(?)) ORDER BY row",
            (json.dumps(list(rows)),),
        )
        return [StoredPassage(row=row[0], embedded=row[1], passage=passage_from(row[2:])) for row in found]

    def rows(self, *, above: int = 0) -> list[int]:
        """Every passage row above a row, ascending."""
        return [
            row for (row,) in self._connection.execute("SELECT row FROM passage WHERE row > ? ORDER BY row", (above,))
        ]

    def last_row(self) -> int:
        """The highest row ever given."""
        row = self._connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'passage'").fetchone()
        return int(row[0]) if row else 0

    def row_embedding(self, embedded: bytes, *, up_to: int) -> int | None:
        """A passage row not above `up_to` whose embedded text has this digest."""
        row = self._connection.execute(
            "SELECT row FROM passage WHERE embedded = ? AND row <= ? LIMIT 1", (embedded, up_to)
        ).fetchone()
        return int(row[0]) if row else None

    def add_passage(self, passage: Passage, embedded: bytes) -> int:
        cursor = self._connection.execute(
            f"INSERT INTO passage ({PASSAGE_COLUMNS}, embedded, restricted) "  # noqa: S608 - a constant
            f"VALUES ({_PASSAGE_VALUES}, ?, ?)",
            (*passage_columns(passage), embedded, readers(passage.metadata) is not None),
        )
        row = cursor.lastrowid
        assert row is not None
        self._describe(row, passage)
        self.changed = True
        return row

    def change_passage(self, row: int, passage: Passage) -> None:
        """Replace what is known about a passage whose embedded text stayed the same."""
        self._connection.execute(
            f"UPDATE passage SET ({PASSAGE_COLUMNS}) = ({_PASSAGE_VALUES}), restricted = ? WHERE row = ?",  # noqa: S608
            (*passage_columns(passage), readers(passage.metadata) is not None, row),
        )
        self._undescribe([row])
        self._describe(row, passage)
        self.changed = True

    def drop_passages(self, rows: Iterable[int]) -> None:
        gone = list(rows)
        if gone:
            self._undescribe(gone)
            self._connection.executemany("DELETE FROM passage WHERE row = ?", ((row,) for row in gone))
            self.changed = True

    def _describe(self, row: int, passage: Passage) -> None:
        self._connection.executemany(
            "INSERT INTO attribute VALUES (?, ?, ?)", ((key, value, row) for key, value in passage.metadata.items())
        )
        names = readers(passage.metadata) or ()
        self._connection.executemany("INSERT INTO reader VALUES (?, ?)", ((name, row) for name in sorted(names)))

    def _undescribe(self, rows: Iterable[int]) -> None:
        for row in rows:
            self._connection.execute("DELETE FROM attribute WHERE row = ?", (row,))
            self._connection.execute("DELETE FROM reader WHERE row = ?", (row,))
