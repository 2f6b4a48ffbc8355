"""What encoders share: a signature, batches by token count, spans for tokens out of reach, cut counting.

Knows no model and no network.
"""

from __future__ import annotations

import logging
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from retrieval.types import Signature, Vectors

SMALLEST_NORM = 1e-12

_log = logging.getLogger("retrieval.encode")
_PIECES = re.compile(r"[A-Za-z]{1,4}|[0-9]{1,3}|\w|[^\w\s]")


def token_batches(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Positions grouped so that a batch, padded to its longest item, has at most `budget` tokens.

    Items of like length lie together: a long text among short ones would pad them all to its length. Longest first,
    since the first batch then sizes the runtime's buffers once. An item above the budget is a batch of its own.
    """
    batches: list[list[int]] = []
    width = 0
    for position in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
        if not batches or (len(batches[-1]) + 1) * width > budget:
            batches.append([])
            width = max(1, lengths[position])
        batches[-1].append(position)
    return batches


def approximate_offsets(text: str) -> list[tuple[int, int]]:
    """Code point spans that stand in for tokens when the model's tokenizer is not at hand.

    Latin letters in fours, digits in threes, any other letter or sign alone. On English prose this counts about a
    third more than a byte-pair vocabulary does, so that lengths counted with it stay below the real limit.
    """
    return [match.span() for match in _PIECES.finditer(text)]


def unit_rows(vectors: Vectors) -> Vectors:
    """The rows at length one, float32, contiguous. A zero row becomes the first axis: every row has a length."""
    rows = np.ascontiguousarray(vectors, dtype=np.float32)
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    empty = norms[:, 0] < SMALLEST_NORM
    if empty.any():
        rows = rows.copy()
        rows[empty, 0] = 1.0
        norms[empty] = 1.0
    result: Vectors = (rows / norms).astype(np.float32, copy=False)
    return result


class CutCounter:
    """Counts texts longer than the model sees. Cutting is never silent: a line is logged whenever the count doubled."""

    def __init__(self, model: str, max_tokens: int) -> None:
        self._model = model
        self._max_tokens = max_tokens
        self._lock = threading.Lock()
        self._total = 0

    @property
    def total(self) -> int:
        """Texts cut since the start."""
        return self._total

    def record(self, cut: int) -> None:
        """Notes that `cut` texts of one call were longer than the model's limit."""
        if cut == 0:
            return
        with self._lock:
            before, self._total = self._total, self._total + cut
            total = self._total
        if total.bit_length() != before.bit_length():
            _log.warning(
                "texts longer than the %d tokens that %s sees, so far: %d; the rest of them is not encoded",
                self._max_tokens,
                self._model,
                total,
            )


class SignedEncoder(ABC):
    """The part of an `Encoder` that follows from its signature; a model adds how it encodes and what its tokens are."""

    def __init__(self, signature: Signature) -> None:
        self._signature = signature
        self._cut = CutCounter(signature.model, signature.max_tokens)

    @property
    def dimension(self) -> int:
        return self._signature.dimension

    @property
    def max_tokens(self) -> int:
        return self._signature.max_tokens

    @property
    def cut(self) -> int:
        """Texts that were longer than `max_tokens` since the start; the rest of them was not encoded."""
        return self._cut.total

    def signature(self) -> Signature:
        return self._signature

    def encode_passages(self, texts: Sequence[str]) -> Vectors:
        return self._encode(self._signature.passage_prefix, texts)

    def encode_queries(self, texts: Sequence[str]) -> Vectors:
        return self._encode(self._signature.query_prefix, texts)

    @abstractmethod
    def token_offsets(self, text: str) -> Sequence[tuple[int, int]]:
        """Spans of the tokens of a text, code points."""

    @abstractmethod
    def _encode(self, prefix: str, texts: Sequence[str]) -> Vectors:
        """Unit vectors, one row per text with its prefix."""
