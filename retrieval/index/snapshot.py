"""An index on disk: data files named after their content, and one manifest that says which of them count.

The manifest is the commit point. Data files are written and flushed first, then the manifest replaces its predecessor
in one rename, then files no manifest names are removed. So a reader finds the old state or the new one after a crash at
any point. Every byte is covered by a SHA-256. Files are never changed in place, so a mapped one stays whole.

Knows nothing of what the arrays mean.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from retrieval.errors import IndexCorruptError
from retrieval.types import Signature

MANIFEST = "manifest.json"
FORMAT = 1
CORRUPT_HINT = (
    "the passages themselves are kept in the collection's store: run `grounding-gateway ingest --rebuild` "
    "to make the index anew from them, or restore the directory from a backup"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """One data file of a snapshot: its name inside the directory, size and checksum."""

    name: str
    bytes: int
    sha256: str


def sha256_of(path: Path) -> str:
    """Hex SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sync_directory(path: Path) -> None:
    """Flush a directory's entries, so that a rename in it survives a power cut."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_atomically(path: Path, data: bytes) -> None:
    """Replace `path` by `data`; after a crash it holds the old bytes or the new ones."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".writing-")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


class SnapshotWriter:
    """Collects data files, then commits them in one rename."""

    def __init__(self, directory: Path, *, kind: str, signature: Signature, generation: int) -> None:
        self._directory = directory
        self._head = {"format": FORMAT, "kind": kind, "generation": generation, "signature": asdict(signature)}
        self._files: dict[str, DataFile] = {}

    def add_array(self, role: str, array: npt.NDArray[Any]) -> None:
        """Store an array as raw bytes; its type and row shape are the reader's to know."""
        self.add_file(role, np.ascontiguousarray(array).tofile)

    def add_file(self, role: str, write: Callable[[Path], None]) -> DataFile:
        """Store what `write` puts at the path it is given."""
        self._directory.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=self._directory, prefix=".writing-")
        os.close(handle)
        temporary = Path(name)
        write(temporary)
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        return self._place(role, temporary, sha256_of(temporary))

    def link_file(self, role: str, path: Path, sha256: str) -> DataFile | None:
        """Share an unchanged file of an earlier snapshot instead of writing it again.

        `None` when it is gone or the file system has no hard links; the caller then writes it.
        """
        self._directory.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=self._directory, prefix=".writing-")
        os.close(handle)
        temporary = Path(name)
        temporary.unlink()
        try:
            os.link(path, temporary)
        except OSError:
            return None
        return self._place(role, temporary, sha256)

    def _place(self, role: str, temporary: Path, sha256: str) -> DataFile:
        file = DataFile(name=f"{role}-{sha256[:16]}.bin", bytes=temporary.stat().st_size, sha256=sha256)
        temporary.replace(self._directory / file.name)
        # rename(2) does nothing when both names are already one file, and leaves the temporary one.
        temporary.unlink(missing_ok=True)
        self._files[role] = file
        return file

    def commit(self) -> None:
        """Make the snapshot the directory's current one and remove what no longer counts."""
        self._directory.mkdir(parents=True, exist_ok=True)
        sync_directory(self._directory)
        body = {**self._head, "files": {role: asdict(file) for role, file in self._files.items()}}
        write_atomically(self._directory / MANIFEST, json.dumps({**body, "sha256": _checksum(body)}).encode())
        sync_directory(self._directory.parent)
        current = {MANIFEST, *(file.name for file in self._files.values())}
        for path in self._directory.iterdir():
            if path.name not in current:
                path.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A manifest read back and checked. Its data files are checked when they are asked for."""

    directory: Path
    signature: Signature
    generation: int
    files: dict[str, DataFile]

    @classmethod
    def read(cls, directory: Path, *, kind: str) -> Self:
        """Raises `IndexCorruptError` when the manifest is missing, damaged or of another kind."""
        path = directory / MANIFEST
        try:
            body = json.loads(path.read_bytes())
            checksum = body.pop("sha256")
            if checksum != _checksum(body):
                raise corrupt(path, "its checksum does not match")
            if body["format"] != FORMAT or body["kind"] != kind:
                raise corrupt(path, f"it is a {body['kind']!r} snapshot of format {body['format']}, not {kind!r}")
            known = {f.name for f in fields(Signature)}
            signature = Signature(**{key: value for key, value in body["signature"].items() if key in known})
            files = {role: DataFile(**file) for role, file in body["files"].items()}
            return cls(directory=directory, signature=signature, generation=body["generation"], files=files)
        except FileNotFoundError as error:
            raise corrupt(path, "it is missing") from error
        except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
            raise corrupt(path, f"it cannot be read ({type(error).__name__})") from error

    def checked(self, role: str) -> Path:
        """The path of a data file whose size and checksum are as the manifest says."""
        if role not in self.files:
            raise corrupt(self.directory / MANIFEST, f"it names no {role!r} file")
        file = self.files[role]
        path = self.directory / file.name
        try:
            size = path.stat().st_size
            if size != file.bytes:
                raise corrupt(path, f"it has {size} bytes instead of {file.bytes}")
            if sha256_of(path) != file.sha256:
                raise corrupt(path, "its checksum does not match")
        except OSError as error:
            raise corrupt(path, f"it cannot be read ({error.strerror})") from error
        return path

    def array(self, role: str, dtype: type[Any], row_shape: tuple[int, ...]) -> npt.NDArray[Any]:
        """A data file as a read-only mapped array of shape `(n, *row_shape)`; processes share its pages."""
        path = self.checked(role)
        item = np.dtype(dtype).itemsize * int(np.prod(row_shape, dtype=np.int64))
        rows, rest = divmod(self.files[role].bytes, item)
        if rest:
            raise corrupt(path, f"its size is no multiple of a row of {item} bytes")
        if not rows:
            return np.empty((0, *row_shape), dtype=dtype)
        try:
            return np.asarray(np.memmap(path, dtype=dtype, mode="r", shape=(rows, *row_shape)))
        except OSError as error:
            raise corrupt(path, f"it cannot be mapped ({error.strerror})") from error


def corrupt(path: Path, reason: str) -> IndexCorruptError:
    """The error for a damaged snapshot file, with what to do."""
    return IndexCorruptError(f"index snapshot file {path} is damaged: {reason}", hint=CORRUPT_HINT)


def _checksum(body: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
