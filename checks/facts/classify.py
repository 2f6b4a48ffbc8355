"""The local fact classifier: a feature model and a small cross-encoder on the processor; no network.

The features decide, the cross-encoder orders what they decide alike. A passage is read by the sentences that decide, so
length and padding do not move a verdict, and it is data: words in it that speak to a reader or a model are words like
any other. It knows no other passages of the same fact and no aggregation. English and Russian; other languages get
number and name agreement only.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from threading import Lock

import numpy as np

from checks.facts.analysis import Analysed, analyse
from checks.facts.entailment import Entailment
from checks.facts.features import FEATURES, Fact, measure, prepare
from checks.facts.grounded import RULES, FeatureModel
from checks.facts.lexicon import Lexicon
from checks.facts.reading import reading
from checks.facts.style import STYLE, style
from checks.types import Classified, JudgeCall, Pair, Probabilities

SHIPPED = Path(__file__).resolve().parent.parent / "models" / "facts-features"
# Up to this many pairs cost less than the hop to a worker thread is worth.
_INLINE_PAIRS = 20
_PASSAGES_KEPT = 2048
# The cross-encoder does not read what hardly speaks of the fact, which then counts as this much against it; nor facts
# that it is no help with: Russian ones, whose letters it takes apart, and answers put together with their question.
_COVER, _LEAST_COVER, _UNREAD = FEATURES.index("cover_two"), 0.3, -2.0
_NOT_FOR_IT = [FEATURES.index("asked"), FEATURES.index("russian")]


class LocalClassifier:
    """`FactClassifier` by features. Build it with `LocalClassifier.read()`; one instance serves all requests.

    Analysed passages are kept (the last 2,048), because the facts of an answer meet the same passages.
    """

    def __init__(self, model: FeatureModel, lexicon: Lexicon, entailment: Entailment | None = None) -> None:
        self._model = model
        self._lexicon = lexicon
        self._entailment = entailment
        self._passages: OrderedDict[tuple[str, str], Analysed] = OrderedDict()
        self._lock = Lock()

    @classmethod
    def read(cls, directory: Path = SHIPPED, *, entailment: bool = True) -> LocalClassifier:
        """The classifier in `directory` (about 0.5 s), without the cross-encoder if asked; raises `ModelFileError`."""
        second = Entailment.read() if entailment else None
        return cls(FeatureModel.read(directory), Lexicon.read(directory / "lexicon.json.gz"), second)

    @property
    def lexicon(self) -> Lexicon:
        """The word knowledge it was built with."""
        return self._lexicon

    @property
    def version(self) -> str:
        """Names and content hashes of the models with the number of their rules, as they stand in records."""
        second = "" if self._entailment is None else f"+{self._entailment.version}"
        return f"{self._model.version}/{RULES}{second}"

    async def classify(self, pairs: Sequence[Pair]) -> tuple[Sequence[Classified], Sequence[JudgeCall]]:
        """Seven probabilities and the deciding span for each pair, in order. Makes no calls."""
        if self._entailment is None and len(pairs) <= _INLINE_PAIRS:
            return self.judge(pairs), ()
        return await asyncio.to_thread(self.judge, pairs), ()

    def judge(self, pairs: Sequence[Pair]) -> list[Classified]:
        """The same without an event loop; safe to call from several threads."""
        if not pairs:
            return []
        facts: dict[tuple[str, str, str], tuple[Fact, np.ndarray[tuple[int], np.dtype[np.float32]]]] = {}
        rows = np.empty((len(pairs), len(FEATURES)), dtype=np.float32)
        styles = np.empty((len(pairs), len(STYLE)), dtype=np.float32)
        entailed = np.zeros(len(pairs), dtype=np.float32)
        quotes = []
        read: list[tuple[int, tuple[str, str]]] = []
        for at, pair in enumerate(pairs):
            key = (pair.fact, pair.query, pair.context)
            if key not in facts:
                fact = prepare(pair.fact, self._lexicon, query=pair.query, context=pair.context)
                facts[key] = (fact, style(pair.fact, fact))
            fact, styles[at] = facts[key]
            passage = self._analysed(pair.passage, pair.title)
            rows[at], quote = measure(fact, passage, self._lexicon)
            quotes.append(quote)
            if self._entailment is not None and not rows[at, _NOT_FOR_IT].any():
                if rows[at, _COVER] >= _LEAST_COVER:
                    read.append((at, reading(fact, pair.fact, passage, pair.title)))
                else:
                    entailed[at] = _UNREAD
        if self._entailment is not None and read:
            entailed[[at for at, _ in read]] = self._entailment.log_odds([texts for _, texts in read])
        table = self._model.probabilities(rows, styles, entailed)
        return [Classified(_seven(row), quote) for row, quote in zip(table.tolist(), quotes, strict=True)]

    def _analysed(self, passage: str, title: str) -> Analysed:
        key = (title, passage)
        with self._lock:
            known = self._passages.get(key)
            if known is not None:
                self._passages.move_to_end(key)
                return known
        analysed = analyse(passage, self._lexicon, title=title)
        with self._lock:
            self._passages[key] = analysed
            while len(self._passages) > _PASSAGES_KEPT:
                self._passages.popitem(last=False)
        return analysed


def _seven(row: Sequence[float]) -> Probabilities:
    a, b, c, d, e, f, g = row
    return (a, b, c, d, e, f, g)
