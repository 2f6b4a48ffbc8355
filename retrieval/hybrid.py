"""One question to ranked rows over the dense and the lexical leg of one generation.

A leg that fails is named and the other one serves. Knows nothing of texts of passages, permissions or stores: what a
search may see comes in as rows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from retrieval.errors import RetrievalError, SearchError
from retrieval.index.fusion import Fusion, FusionMethod, calibrated, reciprocal_ranks, stretched
from retrieval.index.snapshot import write_atomically

if TYPE_CHECKING:
    from retrieval.types import Vectors

FITTED = "fusion.json"
Rows: TypeAlias = npt.NDArray[np.int64]
Found: TypeAlias = list[tuple[int, float]]
_WORD = re.compile(r"\w+")


class DenseLeg(Protocol):
    """What a hybrid search asks of an index of vectors."""

    def search(self, queries: Vectors, k: int, allowed: Rows | None = None) -> list[Found]: ...

    def vectors(self, ids: list[int]) -> Vectors: ...


class LexicalLeg(Protocol):
    """What it asks of an index of words."""

    def search(self, query: str, k: int, allowed: Rows | None = None) -> Found: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A query as text and as a vector of shape `(dimension,)`; no vector where the encoder failed."""

    text: str
    vector: npt.NDArray[np.float32] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Legs:
    """The legs of one generation. `lexical` may be missing, `missing` then says why; both empty: it is not wanted."""

    dense: DenseLeg
    lexical: LexicalLeg | None
    missing: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """What the legs found, each list best first; `None` for a leg that was not asked or failed.

    `cosines` holds every candidate where both legs were heard. `more`: a larger `fetch` may find further rows. `detail`
    names a failed leg.
    """

    dense: Found | None
    lexical: Found | None
    cosines: Mapping[int, float]
    more: bool
    detail: str = ""


def candidates(legs: Legs, question: Question, fetch: int, allowed: Rows | None, weight: float) -> Candidates:
    """`fetch` candidates of each leg that `weight` asks for. Raises `SearchError` when no leg could search."""
    problems = [legs.missing] if legs.missing else []

    def by_vector() -> Found:
        if question.vector is None:
            raise SearchError("the query has no vector")
        return legs.dense.search(question.vector.reshape(1, -1), fetch, allowed)[0]

    def by_words() -> Found | None:
        return legs.lexical.search(question.text, fetch, allowed) if legs.lexical else None

    dense = _tried("dense", problems, by_vector) if weight < 1.0 or legs.lexical is None else None
    lexical = _tried("lexical", problems, by_words) if weight > 0.0 or dense is None else None
    if dense is None and lexical is None and weight >= 1.0:
        dense = _tried("dense", problems, by_vector)
    if dense is None and lexical is None:
        raise SearchError("; ".join(problems))
    cosines = dict(dense or ())
    # A passage that only the words found has a cosine all the same: no candidate is judged by one leg alone.
    unseen = [row for row, _ in lexical or () if row not in cosines] if dense is not None else []
    if unseen and question.vector is not None:
        cosines.update(zip(unseen, (legs.dense.vectors(unseen) @ question.vector).tolist(), strict=True))
    more = any(leg is not None and len(leg) >= fetch for leg in (dense, lexical))
    return Candidates(dense=dense, lexical=lexical, cosines=cosines, more=more, detail="; ".join(problems))


def fused(found: Candidates, method: FusionMethod, weight: float) -> Found:
    """One list, best first; of a leg alone its own order, its scores on the scale of cosines."""
    if found.lexical is None:
        return found.dense or []
    if found.dense is None:
        return [(row, stretched(share)) for row, share in found.lexical]
    if method is FusionMethod.RRF:
        return reciprocal_ranks(found.dense, found.lexical, weight)
    return calibrated(found.cosines, dict(found.lexical), weight)


def _tried(name: str, problems: list[str], search: Callable[[], Found | None]) -> Found | None:
    try:
        return search()
    except RetrievalError as error:
        problems.append(f"{name} leg: {error}")
        return None


def words_of(text: str) -> int:
    """How many words a question has."""
    return len(_WORD.findall(text))


def read_fitted(directory: Path) -> Fusion | None:
    """The fusion that was fitted to a collection, if any. Raises `RetrievalError` for a file that cannot be read."""
    path = directory / FITTED
    try:
        body = json.loads(path.read_text())
        return Fusion(method=FusionMethod(body["method"]), lexical_weight=float(body["lexical_weight"]))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise RetrievalError(
            f"the fitted weights {path} cannot be read: {error}",
            hint="remove the file, or fit again with `grounding-gateway evaluate retrieval --fit`",
        ) from error


def write_fitted(directory: Path, fusion: Fusion) -> None:
    """Keep a fitted fusion with its collection."""
    write_atomically(directory / FITTED, json.dumps(asdict(fusion)).encode())
