"""Fact classifiers of others: models that read a passage and a fact and name a label, behind HTTP or in process.

Entailment models and hallucination detectors know two or three labels, or one number, and not seven: their words are
mapped to ours (`LabelMap`). What a model does not say gets no probability. Knows no aggregation.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import httpx

from checks.errors import ModelFileError
from checks.types import FACT_LABELS, Classified, FactLabel, JudgeCall, Pair, Probabilities, Reason

INSTALL: Final = "pip install 'grounding-gateway[models]'"
USUAL_LABELS: Final[Mapping[str, FactLabel]] = {
    "entailment": FactLabel.TRUE, "entailed": FactLabel.TRUE, "supported": FactLabel.TRUE,
    "supports": FactLabel.TRUE, "consistent": FactLabel.TRUE, "factual": FactLabel.TRUE,
    "contradiction": FactLabel.FALSE, "contradicted": FactLabel.FALSE, "refutes": FactLabel.FALSE,
    "refuted": FactLabel.FALSE,
    "neutral": FactLabel.NOT_SUPPORTED, "not_entailment": FactLabel.NOT_SUPPORTED,
    "not enough info": FactLabel.NOT_SUPPORTED, "unsupported": FactLabel.NOT_SUPPORTED,
    "hallucinated": FactLabel.NOT_SUPPORTED, "inconsistent": FactLabel.NOT_SUPPORTED,
}  # fmt: skip
"""Labels as published models write them, in lower case."""


@dataclass(frozen=True, slots=True)
class LabelMap:
    """A model's labels as ours; `own` comes before the usual ones. Case does not count."""

    own: Mapping[str, FactLabel] = field(default_factory=dict)

    def seven(self, scores: Mapping[str, float]) -> Probabilities:
        """Probabilities from a score a label, made to sum to 1. Raises `ValueError` for a label that is not known, a
        score that is no probability, and scores that are all zero."""
        known = {**USUAL_LABELS, **{name.lower(): label for name, label in self.own.items()}}
        found = dict.fromkeys(FACT_LABELS, 0.0)
        for name, score in scores.items():
            label = known.get(name.lower())
            if label is None:
                raise ValueError(f"the model's label {name!r} is not known; say in labels what it means")
            if not 0 <= score <= 1:
                raise ValueError(f"{score!r} is no probability")
            found[label] += score
        total = math.fsum(found.values())
        if not total:
            raise ValueError("all scores are zero")
        one, two, three, four, five, six, seven = (found[label] / total for label in FACT_LABELS)
        return one, two, three, four, five, six, seven


def of_support(score: float) -> Probabilities:
    """Probabilities from one number, the probability that the passage bears the fact out."""
    return LabelMap().seven({"supported": score, "unsupported": 1 - score})


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointSettings:
    """`url` is the whole address; `batch` the pairs of one request, `concurrency` the requests at once."""

    url: str
    labels: LabelMap = field(default_factory=LabelMap)
    batch: int = 32
    concurrency: int = 4


class EndpointClassifier:
    """A classifier behind `POST url` with `{"inputs": [[passage, fact], ...]}`.

    That is what `/predict` of Text Embeddings Inference takes
    (https://huggingface.github.io/text-embeddings-inference/). The answer is a list with one entry a pair, in order:
    a list of `{label, score}`, or one number.
    """

    def __init__(self, settings: EndpointSettings, client: httpx.AsyncClient) -> None:
        self._settings = settings
        self._client = client
        self._slots = asyncio.Semaphore(settings.concurrency)

    @property
    def version(self) -> str:
        return f"endpoint:{httpx.URL(self._settings.url).copy_with(query=None)}"

    async def classify(self, pairs: Sequence[Pair]) -> tuple[Sequence[Classified], Sequence[JudgeCall]]:
        """One result a pair, in order. Pairs of a request that failed have no probabilities, and the reason."""
        step = self._settings.batch
        parts = [pairs[at : at + step] for at in range(0, len(pairs), step)]
        found = await asyncio.gather(*(self._part(part) for part in parts))
        return [classified for part in found for classified in part], ()

    async def _part(self, pairs: Sequence[Pair]) -> list[Classified]:
        body = {"inputs": [[pair.passage, pair.fact] for pair in pairs], "truncate": True}
        try:
            async with self._slots:
                answer = await self._client.post(self._settings.url, json=body)
            answer.raise_for_status()
            entries = answer.json()
        except httpx.TimeoutException:
            return [Classified(None, reason=Reason.TIMEOUT)] * len(pairs)
        except httpx.HTTPError:
            return [Classified(None, reason=Reason.JUDGE_UNAVAILABLE)] * len(pairs)
        except ValueError:
            return [Classified(None, reason=Reason.JUDGE_REPLY_INVALID)] * len(pairs)
        if not isinstance(entries, list) or len(entries) != len(pairs):
            return [Classified(None, reason=Reason.JUDGE_REPLY_INVALID)] * len(pairs)
        return [self._entry(entry) for entry in entries]

    def _entry(self, entry: Any) -> Classified:
        try:
            if isinstance(entry, (int, float)) and not isinstance(entry, bool):
                return Classified(of_support(float(entry)))
            return Classified(self._settings.labels.seven({str(e["label"]): float(e["score"]) for e in entry}))
        except (ValueError, TypeError, KeyError):
            return Classified(None, reason=Reason.JUDGE_REPLY_INVALID)


class CrossEncoderClassifier:
    """A cross-encoder by name or directory through sentence-transformers. Needs the extra `models`."""

    def __init__(self, model: Any, name: str, labels: LabelMap) -> None:
        self._model = model
        self._name = name
        self._labels = labels
        self._names = [str(label) for _, label in sorted(model.config.id2label.items())]
        # A wrong map is found out before the first answer, not by it.
        if len(self._names) > 1:
            labels.seven(dict.fromkeys(self._names, 1.0))

    @classmethod
    def open(cls, name: str, labels: LabelMap, device: str = "cpu") -> CrossEncoderClassifier:
        """Loads the model. Raises `ModelFileError` when the extra is missing, the model cannot be had, or a label of it
        is not known."""
        try:
            from sentence_transformers import CrossEncoder
        except ImportError as error:
            raise ModelFileError("a classifier of kind cross_encoder needs the extra `models`", hint=INSTALL) from error
        try:
            return cls(CrossEncoder(name, device=device), name, labels)
        except Exception as error:  # hub, file, version and memory errors share no class
            raise ModelFileError(
                f"the cross-encoder {name!r} cannot be used: {error}",
                hint="check the name, or give a directory that holds the model; labels maps what it says to ours",
            ) from error

    @property
    def version(self) -> str:
        return f"cross_encoder:{self._name}"

    async def classify(self, pairs: Sequence[Pair]) -> tuple[Sequence[Classified], Sequence[JudgeCall]]:
        """One result a pair, in order, from a worker thread."""
        if not pairs:
            return [], ()
        return await asyncio.to_thread(self._judge, pairs), ()

    def _judge(self, pairs: Sequence[Pair]) -> list[Classified]:
        several = len(self._names) > 1
        scores = self._model.predict(
            [(pair.passage, pair.fact) for pair in pairs], apply_softmax=several, show_progress_bar=False
        )
        if not several:
            return [Classified(of_support(float(score))) for score in scores]
        return [Classified(self._labels.seven(dict(zip(self._names, map(float, row), strict=True)))) for row in scores]
