"""Small parts for the tests of checks: passages, a retriever over a list, a classifier by rules."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from checks.facts.judged import probabilities
from checks.types import Classified, FactLabel, JudgeCall, Pair, Reason
from retrieval.types import Hit, Passage, Retrieved, Scope

EVEN = (1 / 7,) * 7


def passage(text: str, name: str = "") -> Passage:
    """A passage of a document of its own."""
    digest = hashlib.sha256(text.encode()).hexdigest()
    key = name or digest[:8]
    return Passage(key, f"doc-{key}", f"Title {key}", text, 0, len(text), digest)


class ListRetriever:
    """Finds passages that share a word of five letters or more with the query; `gate` is waited for first."""

    def __init__(self, texts: Sequence[str], *, gate: asyncio.Event | None = None) -> None:
        self._passages = [passage(text) for text in texts]
        self._gate = gate
        self.asked: list[tuple[str, Scope]] = []

    async def retrieve(self, query: str, scope: Scope) -> Retrieved:
        self.asked.append((query, scope))
        if self._gate is not None:
            await self._gate.wait()
        words = {word.strip(".,?!").casefold() for word in query.split()}
        words = {word for word in words if len(word) > 4}
        scored = [(sum(word in item.text.casefold() for word in words), item) for item in self._passages]
        found = sorted((Hit(item, score / 10) for score, item in scored if score), key=lambda hit: -hit.score)
        return Retrieved(tuple(found[: scope.k]))


class FailingRetriever:
    """Raises for queries that hold `word` (all by default), else finds nothing or what `inner` finds."""

    def __init__(self, error: Exception, *, word: str = "", inner: ListRetriever | None = None) -> None:
        self._error = error
        self._word = word
        self._inner = inner

    async def retrieve(self, query: str, scope: Scope) -> Retrieved:
        if self._word in query:
            raise self._error
        return await self._inner.retrieve(query, scope) if self._inner else Retrieved(())


Says = FactLabel | Reason | tuple[FactLabel, int]


@dataclass
class RuleClassifier:
    """Labels a pair by a function of it; `pairs` keeps what it saw."""

    rule: Callable[[Pair], Says]
    pairs: list[Pair] = field(default_factory=list)
    version: str = "rules/1"

    async def classify(self, pairs: Sequence[Pair]) -> tuple[Sequence[Classified], Sequence[JudgeCall]]:
        self.pairs += pairs
        return [self._one(pair) for pair in pairs], []

    def _one(self, pair: Pair) -> Classified:
        said = self.rule(pair)
        if isinstance(said, Reason):
            return Classified(None, reason=said)
        label, confidence = said if isinstance(said, tuple) else (said, 95)
        return Classified(probabilities(label, confidence), (0, min(5, len(pair.passage))))


def by_passage(labels: Mapping[str, Says]) -> RuleClassifier:
    """A classifier that labels by the first word found in the passage; anything else is not supported."""

    def rule(pair: Pair) -> Says:
        return next((said for word, said in labels.items() if word in pair.passage), FactLabel.NOT_SUPPORTED)

    return RuleClassifier(rule)
