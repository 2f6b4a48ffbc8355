"""Key files: 32 random bytes that only their owner may read.

The key for hashed bodies is kept for good, so that equal texts have equal hashes across restarts and workers. Losing it
loses nothing else.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

FILE_NAME: Final = "body-hash.key"
_LENGTH: Final = 32


def load_hash_key(directory: Path) -> bytes:
    """The key for hashed bodies of a data directory. Raises `OSError`."""
    return load_key(directory / FILE_NAME)


def load_key(path: Path) -> bytes:
    """A key file, made on first use; several processes at once agree on one. Raises `OSError`."""
    for _ in range(2):
        try:
            key = path.read_bytes()
        except FileNotFoundError:
            _create(path)
            continue
        if len(key) == _LENGTH:
            return key
        break
    raise OSError(f"{path} is damaged (not {_LENGTH} bytes): restore it, or delete it to start with a new key")


def _create(path: Path) -> None:
    draft = path.with_name(f"{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(os.urandom(_LENGTH))
        os.link(draft, path)  # fails if another process was first; its key is whole already
    except FileExistsError:
        pass
    finally:
        draft.unlink()
