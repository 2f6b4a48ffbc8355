"""One SQLite file of the spool: groups of stored records, openings, and dead letters. Blocking calls.

A group is what one commit brought: the records in it are one comma-joined row, so a commit costs two or three steps
whatever its size. Files belong to one process at a time by a lock on a file beside them, which the kernel drops when
the process dies. Three connections, so that three threads may work at once: one appends, one reads, one checkpoints.
Knows nothing of Postgres or asyncio.

The writer never checkpoints the write-ahead log by itself: that would put an fsync into somebody's request.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

Fsync = Literal["off", "normal", "full"]

_PREFIX: Final = "spool-"
_SUFFIX: Final = ".sqlite"
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS record (seq INTEGER PRIMARY KEY, at REAL NOT NULL, n INTEGER NOT NULL, data BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS opening (seq INTEGER PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS dead (seq INTEGER PRIMARY KEY, at REAL NOT NULL, error TEXT NOT NULL, data BLOB NOT NULL);
"""


@dataclass(frozen=True, slots=True)
class Group:
    """A stored group: its row, when it was written (epoch seconds), how many records, and they, comma-joined."""

    seq: int
    at: float
    count: int
    data: bytes


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record that Postgres refuses, with the error."""

    seq: int
    at: float
    error: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Depth:
    """What is in a file: records, their bytes, dead letters, time of the oldest group (epoch seconds, 0 if none)."""

    records: int
    bytes: int
    dead: int
    oldest_at: float


def new_path(directory: Path) -> Path:
    """A name for this process's file. The random part keeps containers apart, where every gateway is process 1."""
    return directory / f"{_PREFIX}{os.getpid()}-{os.urandom(4).hex()}{_SUFFIX}"


def spool_paths(directory: Path) -> list[Path]:
    """All spool files of a directory, oldest name first."""
    return sorted(directory.glob(f"{_PREFIX}*{_SUFFIX}"))


class SpoolFile:
    """One file, opened for this process alone. All methods may raise `sqlite3.Error` or `OSError`."""

    def __init__(self, path: Path, fsync: Fsync = "normal") -> None:
        self.path = path
        self._fsync = fsync
        self._writer: sqlite3.Connection | None = None
        self._reader: sqlite3.Connection | None = None
        self._checkpointer: sqlite3.Connection | None = None
        self._lock: int | None = None
        # Numbers of rows are ours: SQLite's own start again at 1 when a table has been emptied.
        self._seq = 0

    @property
    def _lock_path(self) -> Path:
        return self.path.with_suffix(".lock")

    def open(self) -> bool:
        """Lock and open it; False when another living process holds it, or removed it meanwhile."""
        existed = self.path.exists()
        descriptor = os.open(self._lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Whoever removes a spool file does so under this lock: a file that is gone now was replayed by another.
            if existed and not self.path.exists():
                self._lock_path.unlink(missing_ok=True)
                raise BlockingIOError
        except BlockingIOError:
            os.close(descriptor)
            return False
        self._lock = descriptor
        try:
            self._connect()
        except (sqlite3.Error, OSError):
            self.close()
            raise
        return True

    def _connect(self) -> None:
        # The file holds prompts: nobody else may read it.
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        self._writer = writer = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=5)
        writer.execute("PRAGMA journal_mode=WAL")
        writer.execute(f"PRAGMA synchronous={self._fsync}")
        writer.execute("PRAGMA wal_autocheckpoint=0")
        writer.executescript(_SCHEMA)
        (self._seq,) = writer.execute(
            "SELECT max(coalesce((SELECT max(seq) FROM record), 0), coalesce((SELECT max(seq) FROM opening), 0))"
        ).fetchone()
        self._reader = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=5)
        self._checkpointer = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=5)
        self._checkpointer.execute(f"PRAGMA synchronous={self._fsync}")

    def close(self) -> None:
        """Close; the file stays for whoever comes next."""
        self._disconnect()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _disconnect(self) -> None:
        for connection in (self._reader, self._checkpointer, self._writer):
            if connection is not None:
                connection.close()
        self._reader = self._checkpointer = self._writer = None

    def remove(self) -> None:
        """Delete it, lock last."""
        self._disconnect()
        for suffix in ("-wal", "-shm", ""):
            Path(f"{self.path}{suffix}").unlink(missing_ok=True)
        self._lock_path.unlink(missing_ok=True)
        self.close()

    def append(self, records: Sequence[bytes], openings: bytes) -> tuple[int, int]:
        """Commit a group of records and one of openings (lines); either may be empty. Returns their rows, 0 if none.

        All or nothing. On disk in the sense of the fsync level when it returns.
        """
        connection = self._connection()
        if not records:
            return 0, self._insert_openings(connection, openings)
        if not openings:
            return self._insert_records(connection, records), 0
        connection.execute("BEGIN")
        try:
            rows = self._insert_records(connection, records), self._insert_openings(connection, openings)
            connection.execute("COMMIT")
        except sqlite3.Error:
            self._rollback(connection)
            raise
        return rows

    def _insert_records(self, connection: sqlite3.Connection, records: Sequence[bytes]) -> int:
        self._seq = seq = self._seq + 1
        connection.execute(
            "INSERT INTO record (seq, at, n, data) VALUES (?, ?, ?, ?)",
            (seq, time.time(), len(records), b",".join(records)),
        )
        return seq

    def _insert_openings(self, connection: sqlite3.Connection, openings: bytes) -> int:
        self._seq = seq = self._seq + 1
        connection.execute("INSERT INTO opening (seq, data) VALUES (?, ?)", (seq, openings))
        return seq

    def release(self, upto: int, openings: Sequence[tuple[int, int]]) -> None:
        """Delete record groups up to a row, and openings in ranges of rows (both ends included)."""
        connection = self._connection()
        connection.execute("BEGIN")
        try:
            connection.execute("DELETE FROM record WHERE seq <= ?", (upto,))
            connection.executemany("DELETE FROM opening WHERE seq BETWEEN ? AND ?", openings)
            connection.execute("COMMIT")
        except sqlite3.Error:
            self._rollback(connection)
            raise

    def bury(self, letters: Sequence[tuple[str, bytes]]) -> None:
        """Keep records that Postgres refuses: (error, stored record) each."""
        connection = self._connection()
        at = time.time()
        connection.execute("BEGIN")
        try:
            connection.executemany(
                "INSERT INTO dead (at, error, data) VALUES (?, ?, ?)", [(at, error, data) for error, data in letters]
            )
            connection.execute("COMMIT")
        except sqlite3.Error:
            self._rollback(connection)
            raise

    def exhume(self) -> int:
        """Make dead letters records again, to be tried once more; how many there were."""
        letters = self.dead_letters()
        connection = self._connection()
        connection.execute("BEGIN")
        try:
            for letter in letters:
                self._insert_records(connection, [letter.data])
            connection.execute("DELETE FROM dead")
            connection.execute("COMMIT")
        except sqlite3.Error:
            self._rollback(connection)
            raise
        return len(letters)

    def probe(self) -> None:
        """Write and delete as much as a small exchange needs: raises while the disk refuses it."""
        connection = self._connection()
        seq = self._insert_openings(connection, b" " * 65_536)
        connection.execute("DELETE FROM opening WHERE seq = ?", (seq,))

    def read(self, after: int, max_records: int, max_bytes: int) -> list[Group]:
        """The next groups after a row, at least one if there is any. Uses the reader: safe beside `append`."""
        assert self._reader is not None
        groups: list[Group] = []
        records = size = 0
        cursor = self._reader.execute("SELECT seq, at, n, data FROM record WHERE seq > ? ORDER BY seq", (after,))
        try:
            for row in cursor:
                if groups and (records + row[2] > max_records or size + len(row[3]) > max_bytes):
                    break
                groups.append(Group(*row))
                records += row[2]
                size += len(row[3])
                if records >= max_records or size >= max_bytes:
                    break
        finally:
            cursor.close()  # an open read would keep the log from being reset
        return groups

    def openings(self) -> Iterator[tuple[int, bytes]]:
        """Every stored group of openings: (row, lines)."""
        assert self._reader is not None
        yield from self._reader.execute("SELECT seq, data FROM opening ORDER BY seq").fetchall()

    def dead_letters(self) -> list[DeadLetter]:
        assert self._reader is not None
        rows = self._reader.execute("SELECT seq, at, error, data FROM dead ORDER BY seq").fetchall()
        return [DeadLetter(*row) for row in rows]

    def depth(self) -> Depth:
        """Counted by a scan: for files taken over from another process."""
        assert self._reader is not None
        n, size, oldest = self._reader.execute(
            "SELECT coalesce(sum(n), 0), coalesce(sum(length(data)), 0), coalesce(min(at), 0) FROM record"
        ).fetchone()
        (dead,) = self._reader.execute("SELECT count(*) FROM dead").fetchone()
        return Depth(n, size, dead, oldest)

    def wal_bytes(self) -> int:
        """Length of the write-ahead log."""
        try:
            return Path(f"{self.path}-wal").stat().st_size
        except FileNotFoundError:
            return 0

    def checkpoint(self) -> None:
        """Move what is committed from the log into the file, beside a running writer."""
        assert self._checkpointer is not None
        self._checkpointer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def truncate_log(self) -> None:
        """Checkpoint and empty the log. Nobody may `append` meanwhile."""
        self._connection().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def _connection(self) -> sqlite3.Connection:
        if self._writer is None:
            raise sqlite3.OperationalError("the spool file is closed")
        return self._writer

    @staticmethod
    def _rollback(connection: sqlite3.Connection) -> None:
        if connection.in_transaction:  # SQLite rolls back by itself on some disk errors
            connection.execute("ROLLBACK")
