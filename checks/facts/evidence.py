"""Hits to evidence: one pool for a fact's questions, long passages in windows, verdicts back onto passages. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from checks.facts.aggregate import most_likely
from checks.types import FACT_LABELS, Classified, Evidence, FactLabel, Reason
from retrieval.types import Hit

_OVERLAP = 0.2


def windows(text: str, longest: int) -> list[tuple[int, str]]:
    """A passage as (offset, piece) of at most `longest` characters each, overlapping, cut at spaces if possible."""
    found: list[tuple[int, str]] = []
    start = 0
    while len(text) - start > longest:
        end = text.rfind(" ", start + longest // 2, start + longest)
        end = end if end > 0 else start + longest
        found.append((start, text[start:end]))
        back = text.find(" ", end - max(1, int(longest * _OVERLAP)), end)
        start = max(start + 1, back + 1 if back > 0 else end)
    found.append((start, text[start:] if start else text))
    return found


def pooled(lists: Sequence[Sequence[Hit]], most: int) -> list[Hit]:
    """Hits of several questions in one list: best ranks first, a passage once, with its best score."""
    best: dict[str, Hit] = {}
    for rank in range(max(map(len, lists), default=0)):
        for hits in lists:
            if rank < len(hits):
                hit = hits[rank]
                known = best.get(hit.passage.id)
                if known is None or hit.score > known.score:
                    best[hit.passage.id] = hit
    return list(best.values())[:most]


def gathered(
    pieces: Sequence[tuple[Hit, int, str]], found: Sequence[Classified]
) -> tuple[tuple[Evidence, ...], list[Reason]]:
    """Per passage the verdict of its most telling window, and a reason for each passage without one."""
    judged: dict[str, Evidence] = {}
    unjudged: dict[str, Reason] = {}
    for (hit, offset, _), verdict in zip(pieces, found, strict=True):
        passage = hit.passage
        vector = verdict.probabilities
        if vector is None or not _is_distribution(vector):
            unjudged[passage.id] = verdict.reason or Reason.JUDGE_REPLY_INVALID
            continue
        start, end = verdict.quote[0] + offset, verdict.quote[1] + offset
        if verdict.quote[1] <= verdict.quote[0]:
            start = end = 0
        label = most_likely(vector)
        item = Evidence(
            passage=passage,
            score=hit.score,
            label=label,
            probability=vector[FACT_LABELS.index(label)],
            probabilities=vector,
            quote=passage.text[start:end],
            quote_start=start,
            quote_end=end,
        )
        known = judged.get(passage.id)
        if known is None or _telling(item) > _telling(known):
            judged[passage.id] = item
    evidence = tuple(item for item in judged.values() if item.passage.id not in unjudged or _refutes(item))
    kept = {item.passage.id for item in evidence}
    return evidence, [reason for key, reason in unjudged.items() if key not in kept]


def _telling(item: Evidence) -> float:
    """How much a window says: what is neither `not_supported` nor `needs_no_verification`."""
    return 1 - item.probabilities[4] - item.probabilities[3]


def _refutes(item: Evidence) -> bool:
    return item.label in (FactLabel.FALSE, FactLabel.ABSURD)


def _is_distribution(vector: Sequence[float]) -> bool:
    return (
        len(vector) == len(FACT_LABELS)
        and all(math.isfinite(value) and value >= 0 for value in vector)
        and abs(sum(vector) - 1) < 1e-3
    )
