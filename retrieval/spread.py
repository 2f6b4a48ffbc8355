"""Hits spread over what they say: maximal marginal relevance (Carbonell and Goldstein, 1998). Pure.

Likeness of two passages is the Jaccard index of their words: passages that repeat each other share words, whatever
leg found them. Knows nothing of vectors.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from retrieval.types import Hit

_WORD = re.compile(r"\w+")


def spread(hits: Sequence[Hit], k: int, diversity: float) -> tuple[Hit, ...]:
    """k of `hits`, each chosen for its place and for being unlike those chosen before; 0 keeps the order as it is.

    A hit's worth is its place among `hits`, from 1 down to 0, so that the order a reranker made counts.
    """
    if diversity <= 0.0 or len(hits) <= 1:
        return tuple(hits[:k])
    worth = [1.0 - place / len(hits) for place in range(len(hits))]
    words = [frozenset(_WORD.findall(hit.passage.text.casefold())) for hit in hits]
    likeness = [0.0] * len(hits)
    left = list(range(len(hits)))
    chosen: list[int] = []
    while left and len(chosen) < k:
        best = max(left, key=lambda at: ((1.0 - diversity) * worth[at] - diversity * likeness[at], -at))
        left.remove(best)
        chosen.append(best)
        for at in left:
            likeness[at] = max(likeness[at], _jaccard(words[at], words[best]))
    return tuple(hits[at] for at in chosen)


def _jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    together = len(one | other)
    return len(one & other) / together if together else 1.0
