"""What a fact classifier is measured against: word overlap, and the model that checks its own answer without documents.

Overlap is a `FactClassifier` like any other: support is the share of the fact's words and numbers that one sentence of
the passage has; it knows no refutation. The self-check asks a judge about each fact with the question in sight and no
document, as the published baseline does; a failed or unusable reply leaves that fact unjudged.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from checks.evaluate.labelled import LabelledFact
from checks.facts.aggregate import STRICT
from checks.facts.analysis import analyse
from checks.facts.features import FEATURES, measure, prepare
from checks.facts.lexicon import Lexicon
from checks.judge.prompts import DATA_RULE, fenced_prompt
from checks.types import (
    CheckedFact,
    Classified,
    FactLabel,
    Judge,
    JudgeCall,
    JudgePrompt,
    Pair,
    Probabilities,
    Reason,
    Segment,
    Status,
)

_COVER = FEATURES.index("cover_two")
_NUMBERS_MISSING = FEATURES.index("numbers_missing")
_PER_NUMBER = 0.7
_CERTAIN = 0.98

SELF_CHECK = f"""You are shown one FACT that you stated when you answered a QUERY. Decide from what you know, without
any document, whether the fact is right.

Reply as JSON: "verdict", "right" or "wrong"; "confidence", a whole number from 0 (a guess) to 100
(certain).{DATA_RULE}"""
_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "verdict": {"type": "string", "enum": ["right", "wrong"]},
        "confidence": {"type": "integer", "minimum": 0, "maximum": 100},
    },
    "required": ["verdict", "confidence"],
    "additionalProperties": False,
}


class OverlapClassifier:
    """Word overlap with numbers weighed in: the floor that every classifier has to beat."""

    version = "overlap"

    def __init__(self, lexicon: Lexicon) -> None:
        self._lexicon = lexicon

    async def classify(self, pairs: Sequence[Pair]) -> tuple[Sequence[Classified], Sequence[JudgeCall]]:
        """Support and no support; all other labels get nothing."""
        return [Classified(self._probabilities(pair)) for pair in pairs], ()

    def _probabilities(self, pair: Pair) -> Probabilities:
        fact = prepare(pair.fact, self._lexicon, query=pair.query, context=pair.context)
        row, _ = measure(fact, analyse(pair.passage, self._lexicon, title=pair.title), self._lexicon)
        support = float(row[_COVER]) * _PER_NUMBER ** float(row[_NUMBERS_MISSING])
        return support, 0.0, 0.0, 0.0, 1 - support, 0.0, 0.0


async def self_check(judge: Judge, facts: Sequence[LabelledFact], *, concurrency: int = 8) -> list[CheckedFact]:
    """The judge's own word on each fact, in order. The fact's score is the probability that it is wrong."""
    slots = asyncio.Semaphore(concurrency)

    async def one(fact: LabelledFact) -> CheckedFact:
        async with slots:
            return await _asked(judge, fact)

    return list(await asyncio.gather(*(one(fact) for fact in facts)))


async def _asked(judge: Judge, fact: LabelledFact) -> CheckedFact:
    reply = await judge.judge(prompt(fact), _SCHEMA)
    segment = Segment(fact.fact, 0, len(fact.fact))
    if reply.value is None:
        reason = reply.reason or Reason.JUDGE_REPLY_INVALID
        return CheckedFact(segment, Status.NOT_CHECKED, None, reason, calls=(reply.call,))
    right = reply.value["verdict"] == "right"
    sure = 0.5 + reply.value["confidence"] / 100 * (_CERTAIN - 0.5)
    score = 1 - sure if right else sure
    label = FactLabel.TRUE if right else FactLabel.FALSE
    vector = (1 - score, 0.0, 0.0, 0.0, 0.0, score, 0.0)
    return CheckedFact(segment, STRICT[label], label, None, vector, score, rule="self_check", calls=(reply.call,))


def prompt(fact: LabelledFact) -> JudgePrompt:
    """The self-check's question about one fact."""
    return fenced_prompt("self_check", SELF_CHECK, [("QUERY", fact.query), ("FACT", fact.fact)], tokens=256)
