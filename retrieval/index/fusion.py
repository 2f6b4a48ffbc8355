"""Two ranked lists into one. Pure; rows and scores only.

`calibrated`, the default: the weighted mean of both scores on one scale. A passage that answers a question reaches
about 0.64 of cosine and 0.39 of the lexical share (medians over XQuAD), so the share is stretched by the ratio of the
two; then a score means the same whichever leg found the passage, and thresholds hold for all. `rrf`: reciprocal ranks
(Cormack et al., 2009), for encoders whose cosines are on no known scale; its scores order hits and say nothing else.

Knows nothing of how the lists were found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

Scored: TypeAlias = Sequence[tuple[int, float]]
RANK_CONSTANT = 60
# What a lexical share is worth in cosine: see the module's docstring.
SHARE_SCALE = 0.6
DEFAULT_LEXICAL_WEIGHT = 0.4
# For words that the encoder has to spell out: it does not know the language, its cosines say little.
SPELLED_LEXICAL_WEIGHT = 0.95
SPELLED_TOKENS = 3.0
"""Tokens a word from which a question counts as spelled out; English and MiniLM: 1.3, Russian and MiniLM: 4.9."""


class FusionMethod(StrEnum):
    """How two lists become one."""

    CALIBRATED = "calibrated"
    RRF = "rrf"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fusion:
    """`lexical_weight` in [0, 1]: 0 leaves the lexical leg out, 1 the dense one; `None` chooses for each question."""

    method: FusionMethod = FusionMethod.CALIBRATED
    lexical_weight: float | None = None

    def __post_init__(self) -> None:
        if self.lexical_weight is not None and not 0.0 <= self.lexical_weight <= 1.0:
            raise ValueError("lexical_weight lies in [0, 1]")

    def weight(self, tokens: int, words: int) -> float:
        """The lexical weight for a question of `words` words that the encoder reads as `tokens` tokens."""
        if self.lexical_weight is not None:
            return self.lexical_weight
        return SPELLED_LEXICAL_WEIGHT if tokens >= SPELLED_TOKENS * max(1, words) else DEFAULT_LEXICAL_WEIGHT


def stretched(share: float) -> float:
    """A lexical share on the scale of cosines, at most 1."""
    return min(1.0, share / SHARE_SCALE)


def calibrated(cosines: Mapping[int, float], shares: Mapping[int, float], weight: float) -> list[tuple[int, float]]:
    """Every row of `cosines` by its mean score, best first, equal scores by row. No share: no word of the query."""
    fused = (
        (row, (1.0 - weight) * cosine + weight * stretched(shares.get(row, 0.0))) for row, cosine in cosines.items()
    )
    return sorted(fused, key=_best_first)


def reciprocal_ranks(dense: Scored, lexical: Scored, weight: float) -> list[tuple[int, float]]:
    """Rows by weighted reciprocal ranks, best first; 1 is first in both lists."""
    sums: dict[int, float] = {}
    for ranked, share in ((dense, 1.0 - weight), (lexical, weight)):
        for rank, (row, _) in enumerate(ranked):
            sums[row] = sums.get(row, 0.0) + share * (RANK_CONSTANT + 1) / (RANK_CONSTANT + 1 + rank)
    return sorted(((row, total) for row, total in sums.items() if total > 0.0), key=_best_first)


def _best_first(pair: tuple[int, float]) -> tuple[float, int]:
    return -pair[1], pair[0]
