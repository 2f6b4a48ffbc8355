"""Vectors of an ingest that is not published yet, so that one that was interrupted does not encode twice.

Kept in a file of its own beside the store: the store's one write transaction stays open for the whole ingest, while
these are committed batch by batch. Losing the file costs time, never data.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np

from retrieval.types import Signature

if TYPE_CHECKING:
    import numpy.typing as npt

STAGING = "staging.sqlite"


class Staging:
    """Vectors by the digest of the text that was embedded, all of one signature."""

    def __init__(self, connection: sqlite3.Connection, path: Path, dimension: int) -> None:
        self._connection = connection
        self._path = path
        self._dimension = dimension

    @classmethod
    def open(cls, directory: Path, signature: Signature) -> Self:
        """Go on with what an interrupted ingest left, if its signature is the same; else begin empty."""
        path = directory / STAGING
        wanted = json.dumps(asdict(signature), sort_keys=True)
        try:
            connection = cls._connected(path, wanted)
        except sqlite3.DatabaseError:
            discard(directory)
            connection = cls._connected(path, wanted)
        return cls(connection, path, signature.dimension)

    @staticmethod
    def _connected(path: Path, wanted: str) -> sqlite3.Connection:
        connection = sqlite3.connect(path, isolation_level=None)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("CREATE TABLE IF NOT EXISTS made (signature TEXT NOT NULL)")
            connection.execute("CREATE TABLE IF NOT EXISTS vector (key BLOB PRIMARY KEY, vector BLOB) WITHOUT ROWID")
            if connection.execute("SELECT signature FROM made").fetchone() != (wanted,):
                connection.execute("BEGIN")
                connection.execute("DELETE FROM vector")
                connection.execute("DELETE FROM made")
                connection.execute("INSERT INTO made VALUES (?)", (wanted,))
                connection.execute("COMMIT")
        except BaseException:
            connection.close()
            raise
        return connection

    def get(self, keys: Sequence[bytes]) -> dict[bytes, npt.NDArray[np.float32]]:
        """The vectors known among `keys`."""
        found = {}
        for key in keys:
            row = self._connection.execute("SELECT vector FROM vector WHERE key = ?", (key,)).fetchone()
            if row is not None and len(row[0]) == 4 * self._dimension:
                found[key] = np.frombuffer(row[0], dtype=np.float32)
        return found

    def put(self, vectors: Mapping[bytes, npt.NDArray[np.float32]]) -> None:
        self._connection.execute("BEGIN")
        self._connection.executemany(
            "INSERT OR REPLACE INTO vector VALUES (?, ?)",
            ((key, np.asarray(vector, dtype=np.float32).tobytes()) for key, vector in vectors.items()),
        )
        self._connection.execute("COMMIT")

    def close(self) -> None:
        self._connection.close()


def discard(directory: Path) -> None:
    """Remove the staged vectors of a directory."""
    for suffix in ("", "-wal", "-shm", "-journal"):
        (directory / f"{STAGING}{suffix}").unlink(missing_ok=True)
