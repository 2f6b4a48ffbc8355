"""Both legs of a collection and their fusions on a labelled set: quality, latency, and the weight that suits it best.

Each question is searched once per leg; every fusion is computed from the same candidates. Weights are fitted on
`FOLDS - 1` parts of the questions and measured on the part that was left out, so a fitted figure holds for questions
that the fit has not seen; what is kept with a collection is fitted on all of them.

Knows nothing of where a collection comes from.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from retrieval.collection import Collection
from retrieval.errors import SearchError
from retrieval.evaluate.data import LabelledSet
from retrieval.evaluate.measures import MEASURES, Figure, Scores, difference, figure, score
from retrieval.hybrid import Candidates, Question, fused, words_of
from retrieval.index.fusion import Fusion, FusionMethod
from retrieval.types import Encoder

FETCH = 200
FOLDS = 5
WEIGHTS = tuple(round(step * 0.05, 2) for step in range(21))
TIE = 0.001
SURE = 1.96
Grid: TypeAlias = npt.NDArray[np.float64]
DENSE, LEXICAL, DEFAULT, RRF, FITTED = "dense", "lexical", "hybrid", "hybrid, rrf", "hybrid, fitted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One leg or fusion on one set: figures by measure."""

    name: str
    figures: Mapping[str, Figure]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All rows of one set; `weight` is fitted on all questions. `gain` is fitted hybrid minus better leg in nDCG@10.

    Milliseconds are median and 99th percentile: of encoding one question, of the search of each leg with it.
    """

    name: str
    questions: int
    unanswerable: int
    passages: int
    rows: tuple[Row, ...]
    weight: float
    gain: Figure
    encode_ms: tuple[float, float]
    search_ms: Mapping[str, tuple[float, float]]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class _Asked:
    key: str
    found: Candidates
    documents: Mapping[int, str]
    default_weight: float


def evaluate(
    collection: Collection, encoder: Encoder, labelled: LabelledSet, progress: Callable[[int, int], None]
) -> Report:
    """Measure one set. Raises `SearchError` when a leg is missing or a label names a document that is not there."""
    _require_known(collection, labelled)
    times: dict[str, list[float]] = {"encode": [], DENSE: [], DEFAULT: []}
    asked = []
    for done, (key, text) in enumerate(labelled.queries.items()):
        progress(done, len(labelled.queries))
        asked.append(_ask(collection, encoder, key, text, times))
    progress(len(labelled.queries), len(labelled.queries))
    relevant = labelled.relevant
    scores = {
        DENSE: _scores(asked, relevant, lambda each: (FusionMethod.CALIBRATED, 0.0)),
        LEXICAL: [score(_documents(each, list(each.found.lexical or ())), relevant[each.key]) for each in asked],
        DEFAULT: _scores(asked, relevant, lambda each: (FusionMethod.CALIBRATED, each.default_weight)),
        RRF: _scores(asked, relevant, lambda each: (FusionMethod.RRF, 0.5)),
    }
    by_weight = np.array(
        [[one.ndcg_10 for one in _scores(asked, relevant, _fixed(weight))] for weight in WEIGHTS[:-1]]
        + [[one.ndcg_10 for one in scores[LEXICAL]]]
    )
    held_out = _held_out([each.key for each in asked], by_weight)
    scores[FITTED] = [
        scores[LEXICAL][at] if weight == 1.0 else _scores([each], relevant, _fixed(weight))[0]
        for at, (each, weight) in enumerate(zip(asked, held_out, strict=True))
    ]
    best = max((DENSE, LEXICAL), key=lambda name: float(np.mean([one.ndcg_10 for one in scores[name]])))
    stats = collection.stats()
    return Report(
        name=labelled.name,
        questions=len(asked),
        unanswerable=labelled.unanswerable,
        passages=stats.index.live,
        rows=tuple(Row(name=name, figures=_figures(values)) for name, values in scores.items()),
        weight=fit(by_weight),
        gain=difference([one.ndcg_10 for one in scores[FITTED]], [one.ndcg_10 for one in scores[best]]),
        encode_ms=_percentiles(times["encode"]),
        search_ms={name: _percentiles(times[name]) for name in (DENSE, DEFAULT)},
    )


def fit(by_weight: Grid) -> float:
    """The weight with the best mean over questions, the middle one of those as good; a leg alone unless that is worse.

    `by_weight` has shape (weights, questions). A mixture has to beat both legs by `SURE` standard errors of the paired
    difference, or it would be chosen by chance half of the time.
    """
    means = by_weight.mean(axis=1)
    alone = max((0, len(WEIGHTS) - 1), key=lambda at: float(means[at]))
    good = np.flatnonzero(means >= float(means.max()) - TIE)
    chosen = int(good[len(good) // 2])
    gain = by_weight[chosen] - by_weight[alone]
    error = float(gain.std(ddof=1)) / math.sqrt(len(gain)) if len(gain) > 1 else math.inf
    return WEIGHTS[chosen] if float(gain.mean()) > SURE * error else WEIGHTS[alone]


def _held_out(keys: Sequence[str], by_weight: Grid) -> list[float]:
    """For each question the weight that was fitted without its fold. Folds come from the ids, not from chance."""
    folds = np.array([int(hashlib.sha256(key.encode()).hexdigest(), 16) % FOLDS for key in keys])
    weights = {}
    for fold in range(FOLDS):
        seen = by_weight[:, folds != fold]
        weights[fold] = fit(seen if seen.shape[1] else by_weight)
    return [weights[int(fold)] for fold in folds]


def _fixed(weight: float) -> Callable[[_Asked], tuple[FusionMethod, float]]:
    return lambda _: (FusionMethod.CALIBRATED, weight)


def _ask(collection: Collection, encoder: Encoder, key: str, text: str, times: dict[str, list[float]]) -> _Asked:
    start = time.perf_counter()
    vector = encoder.encode_queries([text])[0]
    encoded = time.perf_counter()
    question = Question(text=text, vector=vector)
    collection.search(vector.reshape(1, -1), 9)
    dense = time.perf_counter()
    collection.find(question, 9)
    both = time.perf_counter()
    for name, seconds in (("encode", encoded - start), (DENSE, dense - encoded), (DEFAULT, both - dense)):
        times[name].append(seconds)
    found, passages = collection.candidates(question, FETCH)
    if found.lexical is None or found.dense is None:
        raise SearchError(f"a leg is missing: {found.detail}", hint="run `grounding-gateway ingest` and try again")
    return _Asked(
        key=key,
        found=found,
        documents={row: passage.document_id for row, passage in passages.items()},
        default_weight=Fusion().weight(len(encoder.token_offsets(text)), words_of(text)),
    )


def _require_known(collection: Collection, labelled: LabelledSet) -> None:
    known = {document.id for document in collection.documents()}
    unknown = sorted({document for each in labelled.relevant.values() for document in each} - known)
    if unknown:
        raise SearchError(
            f"{len(unknown)} documents of {labelled.name}'s qrels are not in the collection, e.g. {unknown[0]!r}",
            hint="qrels name document ids: `grounding-gateway verdicts show` and citations have them as document_id",
        )


def _scores(
    asked: Sequence[_Asked],
    relevant: Mapping[str, Mapping[str, int]],
    how: Callable[[_Asked], tuple[FusionMethod, float]],
) -> list[Scores]:
    return [score(_documents(each, fused(each.found, *how(each))), relevant[each.key]) for each in asked]


def _documents(asked: _Asked, ranked: Sequence[tuple[int, float]]) -> list[str]:
    """A document stands where its best passage stands."""
    return list(dict.fromkeys(asked.documents[row] for row, _ in ranked if row in asked.documents))


def _figures(scores: Sequence[Scores]) -> dict[str, Figure]:
    return {name: figure([getattr(one, name) for one in scores]) for name in MEASURES}


def _percentiles(seconds: Sequence[float]) -> tuple[float, float]:
    median, tail = np.percentile(np.asarray(seconds) * 1e3, [50, 99])
    return float(median), float(tail)
