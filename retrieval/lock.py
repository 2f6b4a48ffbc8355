"""The write lock of a collection: one process at a time, released by the kernel when that process dies.

Knows nothing of what is written.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from retrieval.errors import CollectionBusyError, RetrievalError

_RETRY_S = 0.02


class WriteLock:
    """An advisory lock (flock) on a file that names its holder's process id."""

    def __init__(self, path: Path, *, wait_s: float) -> None:
        self._path = path
        self._wait_s = wait_s
        self._handle: int | None = None

    def __enter__(self) -> Self:
        """Raises `CollectionBusyError` when another holder keeps it longer than `wait_s` seconds."""
        deadline = time.monotonic() + self._wait_s
        while not self.acquire():
            if time.monotonic() >= deadline:
                raise CollectionBusyError(
                    f"{self._path.parent} is being written by {self._holder()}",
                    hint="wait until that ingest has ended, or stop that process, then try again",
                )
            time.sleep(_RETRY_S)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def acquire(self) -> bool:
        """Take the lock if it is free."""
        try:
            handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise RetrievalError(
                f"the lock file {self._path} cannot be opened: {error.strerror}",
                hint="make the collection's directory writable for this user",
            ) from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.truncate(handle, 0)
            os.pwrite(handle, str(os.getpid()).encode(), 0)
        except BlockingIOError:
            os.close(handle)
            return False
        except BaseException:
            os.close(handle)
            raise
        self._handle = handle
        return True

    def release(self) -> None:
        """Give the lock back. The file stays: removing it would let two holders lock two files of one name."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _holder(self) -> str:
        try:
            text = self._path.read_text().strip()
        except OSError:
            text = ""
        return f"process {text}" if text.isdigit() else "another process"
