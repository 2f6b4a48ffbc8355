"""Hits that a reader would not call the same: each text once, whatever its case, spacing and punctuation. Pure.

Two texts are near-duplicates when they are the same words in the same order, or when one is a run of words inside the
other. Anything looser would drop the row of a table that differs in its number, or the sentence that says "not".

Knows nothing of scores: the order that comes in is kept.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from retrieval.types import Hit, Passage, Scope
from retrieval.visibility import visible

# Shorter texts stand in longer ones by chance, and their headings say what they are about.
LEAST_WORDS = 8
_WORD = re.compile(r"\w+")


def distinct_hits(
    line: Sequence[tuple[int, float]], passages: Mapping[int, Passage], k: int, scope: Scope
) -> list[Hit]:
    """The first k rows as hits: those that still exist and may be seen, near-duplicates of earlier ones left out."""
    hits: list[Hit] = []
    seen = Seen()
    for row, score in line:
        passage = passages.get(row)
        # The index was asked for allowed rows only; what leaves is checked once more against the stored metadata.
        if passage is None or not visible(passage.metadata, scope) or not seen.add(passage):
            continue
        hits.append(Hit(passage=passage, score=score))
        if len(hits) == k:
            break
    return hits


class Seen:
    """The texts that were taken so far."""

    def __init__(self) -> None:
        self._digests: set[str] = set()
        self._words: list[str] = []

    def add(self, passage: Passage) -> bool:
        """Whether this text is new; if so it is one of those seen from now on."""
        if passage.sha256 in self._digests:
            return False
        found = _WORD.findall(passage.text.casefold())
        words = f" {' '.join(found)} "
        if len(found) >= LEAST_WORDS:
            if any(words in other for other in self._words):
                return False
            self._words.append(words)
        self._digests.add(passage.sha256)
        return True
