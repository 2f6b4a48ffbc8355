"""Which files of a commit hold a word: a sorted table of word hashes, exact after a look at the file. Pure.

A word is a run of ASCII letters, digits, underscores and bytes of non-ASCII UTF-8. Hashing is vectorised, so that a
large tree is read at the speed of decompression and other threads get their turn. A hash may collide, hence callers
verify a hit in the file's text; an absent hash is a proof of absence.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint32]

_LONGEST = 256
_IS_WORD = np.zeros(256, dtype=bool)
_IS_WORD[[*b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"]] = True
_IS_WORD[128:] = True
# Powers of an odd number modulo 2**32 weigh the bytes of a word by their place; bytes past the table share the last.
_WEIGHTS = np.cumprod(np.full(_LONGEST, 0x9E3779B1, dtype=np.uint32), dtype=np.uint32)
_MIX = np.uint32(0x85EBCA6B)


def word_hashes(data: bytes) -> Hashes:
    """The hashes of all words in UTF-8 bytes, sorted, without doubles."""
    raw = np.frombuffer(data, dtype=np.uint8)
    mask = _IS_WORD[raw]
    if not mask.any():
        return np.empty(0, dtype=np.uint32)
    edges = np.flatnonzero(np.diff(mask, prepend=False, append=False))
    starts, ends = edges[::2], edges[1::2]
    lengths = ends - starts
    first = (np.cumsum(lengths) - lengths).astype(np.uint32)
    total = int(lengths.sum())
    place = np.arange(total, dtype=np.uint32) - np.repeat(first, lengths)
    weighted = (raw[mask] + np.uint32(1)) * _WEIGHTS[np.minimum(place, np.uint32(_LONGEST - 1))]
    sums = np.add.reduceat(weighted, first, dtype=np.uint32)
    return np.unique((sums ^ (sums >> np.uint32(15))) * _MIX)


class WordTable:
    """Hash -> numbers of the files that may hold it. Eight bytes for each word of each file."""

    __slots__ = ("_files", "_hashes")

    def __init__(self, per_file: Sequence[Hashes]) -> None:
        hashes = np.concatenate(per_file) if per_file else np.empty(0, dtype=np.uint32)
        files = np.repeat(np.arange(len(per_file), dtype=np.uint32), [len(one) for one in per_file])
        order = np.argsort(hashes, kind="stable")
        self._hashes, self._files = hashes[order], files[order]

    def files_with(self, text: str) -> list[int]:
        """Numbers of the files that may hold every word of a text, ascending; all words must be whole."""
        found: set[int] | None = None
        for value in word_hashes(text.encode("utf-8", "replace")):
            low, high = np.searchsorted(self._hashes, [value, value + 1 if value < 0xFFFFFFFF else value])
            if value == 0xFFFFFFFF:
                high = len(self._hashes)
            files = {int(number) for number in self._files[low:high]}
            found = files if found is None else found & files
            if not found:
                return []
        return sorted(found or ())
