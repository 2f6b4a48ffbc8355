"""Facts classified by a judge. Knows prompts and probabilities; knows no vendor and no aggregation.

One call per (fact, passage), so that a pair's verdict cannot depend on other passages. `batch` above 1 puts several
passages of one fact into one prompt: cheaper, at the price of that independence, and of losing them together when a
reply is invalid.

Probabilities from a label with confidence c (0-100): the label gets p = 1/7 + c/100 * (0.98 - 1/7); of the rest, half
goes to `not_supported` (an unsure judge knows nothing, it does not know the opposite) and the other half is shared
equally. When `not_supported` is the label itself, the whole rest is shared equally.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Any

from checks.judge.prompts import (
    CLASSIFY_VERSION,
    classify_many_prompt,
    classify_many_schema,
    classify_prompt,
    classify_schema,
    clean,
)
from checks.types import FACT_LABELS, Classified, FactLabel, Judge, JudgeCall, JudgePrompt, Pair, Probabilities, Reason

_CERTAIN = 0.98
_SHORTEST_QUOTE = 3
_INVALID = Classified(None, reason=Reason.JUDGE_REPLY_INVALID)
_TRIM = " \t\n\"'“”«»…"

_Task = tuple[list[int], JudgePrompt, dict[str, Any]]


class JudgedClassifier:
    """A `FactClassifier` over any `Judge`. `batch`: passages of one fact per prompt; `concurrency`: calls at once."""

    def __init__(self, judge: Judge, *, batch: int = 1, concurrency: int = 8) -> None:
        self._judge = judge
        self._batch = max(1, batch)
        self._slots = asyncio.Semaphore(concurrency)

    @property
    def version(self) -> str:
        return f"judged:{self._judge.name}/{CLASSIFY_VERSION}/batch={self._batch}"

    async def classify(self, pairs: Sequence[Pair]) -> tuple[Sequence[Classified], Sequence[JudgeCall]]:
        """One result per pair, in order. A failed call leaves its pairs without probabilities, with the reason."""
        found: list[Classified] = [_INVALID] * len(pairs)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._one(pairs, task, found)) for task in self._tasks(pairs)]
        return found, [task.result() for task in tasks]

    def _tasks(self, pairs: Sequence[Pair]) -> list[_Task]:
        if self._batch == 1:
            return [([index], classify_prompt(pair), classify_schema()) for index, pair in enumerate(pairs)]
        by_fact: dict[tuple[str, str, str], list[int]] = {}
        for index, pair in enumerate(pairs):
            by_fact.setdefault((pair.query, pair.fact, pair.context), []).append(index)
        tasks: list[_Task] = []
        for indexes in by_fact.values():
            for start in range(0, len(indexes), self._batch):
                part = indexes[start : start + self._batch]
                prompt = classify_many_prompt([pairs[index] for index in part])
                tasks.append((part, prompt, classify_many_schema(len(part))))
        return tasks

    async def _one(self, pairs: Sequence[Pair], task: _Task, found: list[Classified]) -> JudgeCall:
        indexes, prompt, schema = task
        async with self._slots:
            reply = await self._judge.judge(prompt, schema)
        if reply.value is None:
            verdicts = [Classified(None, reason=reply.reason or Reason.JUDGE_REPLY_INVALID)] * len(indexes)
        elif self._batch == 1:
            verdicts = [_classified(reply.value, pairs[indexes[0]])]
        else:
            verdicts = _many(reply.value["verdicts"], [pairs[index] for index in indexes])
        for index, verdict in zip(indexes, verdicts, strict=True):
            found[index] = verdict
        return reply.call


def probabilities(label: FactLabel, confidence: int) -> Probabilities:
    """Seven probabilities for a label given with a confidence of 0 to 100; see the module for the mapping."""
    even = 1 / len(FACT_LABELS)
    sure = even + confidence / 100 * (_CERTAIN - even)
    ignorance = 0.0 if label is FactLabel.NOT_SUPPORTED else (1 - sure) / 2
    others = [other for other in FACT_LABELS if other not in (label, FactLabel.NOT_SUPPORTED)]
    share = (1 - sure - ignorance) / len(others)
    spread = dict.fromkeys(others, share) | {FactLabel.NOT_SUPPORTED: ignorance, label: sure}
    one, two, three, four, five, six, seven = (spread[name] for name in FACT_LABELS)
    return one, two, three, four, five, six, seven


def locate(passage: str, quote: str) -> tuple[int, int]:
    """Span of `quote` in `passage`, white space and invisible characters aside; (0, 0) when it does not occur."""
    quote = quote.strip(_TRIM)
    if len(quote) < _SHORTEST_QUOTE:
        return 0, 0
    start = passage.find(quote)
    if start >= 0:
        return start, start + len(quote)
    words = clean(quote).split()
    kept = [(index, char) for index, char in enumerate(passage) if char.isspace() or clean(char)]
    found = re.search(r"\s+".join(map(re.escape, words)), "".join(char for _, char in kept)) if words else None
    return (kept[found.start()][0], kept[found.end() - 1][0] + 1) if found else (0, 0)


def _classified(verdict: Mapping[str, Any], pair: Pair) -> Classified:
    label = FactLabel(verdict["label"])
    return Classified(probabilities(label, verdict["confidence"]), locate(pair.passage, verdict["quote"]))


def _many(verdicts: Sequence[Mapping[str, Any]], pairs: Sequence[Pair]) -> list[Classified]:
    """Verdicts by passage number. Two for one passage that differ, or none, leave that passage unjudged."""
    by_number: dict[int, Mapping[str, Any] | None] = {}
    for verdict in verdicts:
        number = verdict["passage"]
        by_number[number] = verdict if by_number.get(number, verdict) == verdict else None
    found = [by_number.get(number) for number in range(1, len(pairs) + 1)]
    return [_classified(verdict, pair) if verdict else _INVALID for verdict, pair in zip(found, pairs, strict=True)]
