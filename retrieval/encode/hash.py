"""A double that ships: hashed words and letter groups. No model, no files, the same everywhere.

Texts that share words or word stems lie near each other, so that a retriever over it behaves sensibly in tests and
demonstrations. It knows no synonyms and no languages.
"""

from __future__ import annotations

import math
import re
import zlib
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from retrieval.encode.base import SignedEncoder, unit_rows
from retrieval.types import Signature

if TYPE_CHECKING:
    from retrieval.types import Vectors

_TOKENS = re.compile(r"\w+|[^\w\s]")
_WORDS = re.compile(r"\w+")
GRAM = 4
SHORT_WORD = 3
SHORT_WEIGHT = 0.2  # articles and prepositions carry little; a list of them would be a language
GRAM_WEIGHT = 0.3
LONGEST_WORD = 64


class HashEncoder(SignedEncoder):
    """`Encoder` by feature hashing (Weinberger et al. 2009): signed counts of words and of their 4-letter groups."""

    def __init__(
        self, dimension: int = 384, *, max_tokens: int = 256, query_prefix: str = "", passage_prefix: str = ""
    ) -> None:
        super().__init__(
            Signature(
                model="hash",
                revision="1",
                dimension=dimension,
                max_tokens=max_tokens,
                query_prefix=query_prefix,
                passage_prefix=passage_prefix,
            )
        )

    def token_offsets(self, text: str) -> Sequence[tuple[int, int]]:
        return [match.span() for match in _TOKENS.finditer(text)]

    def _encode(self, prefix: str, texts: Sequence[str]) -> Vectors:
        vectors = np.zeros((len(texts), self.dimension), dtype=np.float32)
        cut = 0
        for row, text in enumerate(texts):
            whole = prefix + text
            spans = self.token_offsets(whole)
            if len(spans) > self.max_tokens:
                cut += 1
                whole = whole[: spans[self.max_tokens - 1][1]]
            self._fill(vectors[row], whole)
        self._cut.record(cut)
        return unit_rows(vectors)

    def _fill(self, row: Vectors, text: str) -> None:
        for word, count in Counter(_WORDS.findall(text.lower())).items():
            word = word[:LONGEST_WORD]
            weight = (1 + math.log(count)) * (SHORT_WEIGHT if len(word) <= SHORT_WORD else 1.0)
            self._add(row, word, weight)
            padded = f"<{word}>"
            for start in range(len(padded) - GRAM + 1):
                self._add(row, f"#{padded[start : start + GRAM]}", weight * GRAM_WEIGHT)

    def _add(self, row: Vectors, feature: str, weight: float) -> None:
        code = zlib.crc32(feature.encode("utf-8", "surrogatepass"))
        row[(code >> 1) % self.dimension] += weight if code & 1 else -weight
