"""Classifiers and aggregations on labelled facts: pairs, facts and answers, judged and counted.

Three levels. *Pairs*: what one passage says about a fact, against its labelled stance. *Facts*: the aggregation's
verdict over a fact's passages, against its label; false and absurd are what is to be caught, true is what must not be,
other labels are in the table by class. *Answers*: the verdict over an answer's facts, against a person's word on the
whole.

What could not be judged is counted and left out of the figures; it never gets a score. A fact of the label
needs_no_verification is left out of support against the rest. It knows no files and prints nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from checks.evaluate.labelled import LabelledFact, LabelledSet
from checks.evaluate.metrics import Judged
from checks.facts.aggregate import Aggregation, answer_outcome, fact_outcome
from checks.facts.evidence import gathered, windows
from checks.types import (
    FACT_LABELS,
    CheckedFact,
    Classified,
    FactClassifier,
    FactLabel,
    Pair,
    Probabilities,
    Segment,
    Status,
)
from retrieval.types import Hit, Passage

WINDOW = 4000
_TRUE, _FALSE, _ABSURD = (FACT_LABELS.index(label) for label in (FactLabel.TRUE, FactLabel.FALSE, FactLabel.ABSURD))
WRONG = "false against true"
_WRONG = (FactLabel.FALSE, FactLabel.ABSURD)


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One judged question of one set: `what` is asked (which also says what counts as positive), by `judge`."""

    dataset: str
    level: str
    what: str
    classifier: str
    aggregation: str
    judged: Judged
    unjudged: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ByClass:
    """Every judged fact's label (`truth`), the label it was `given`, seven probabilities and group, in order."""

    dataset: str
    classifier: str
    aggregation: str
    truth: tuple[FactLabel, ...]
    given: tuple[FactLabel, ...]
    probabilities: tuple[Probabilities, ...]
    group: tuple[str, ...]


@dataclass(slots=True)
class Findings:
    """All tasks and class tables of a run. `by_label` are the facts under `graded` with no threshold on the score: what
    is flagged there fails by its label, and a threshold comes on top (`checks.evaluate.budget`).
    """

    tasks: list[Task] = field(default_factory=list)
    by_label: list[Task] = field(default_factory=list)
    by_class: list[ByClass] = field(default_factory=list)


async def judge_sets(
    sets: Sequence[LabelledSet], classifier: FactClassifier, name: str, aggregations: Sequence[Aggregation]
) -> Findings:
    """Every level of every set under one classifier and each aggregation."""
    findings = Findings()
    for labelled in sets:
        verdicts = await _classified(labelled.facts, classifier)
        findings.tasks += _pair_tasks(labelled, verdicts, name)
        for aggregation in aggregations:
            checked = [_checked(fact, verdicts[at], aggregation) for at, fact in enumerate(labelled.facts)]
            findings.tasks += fact_tasks(labelled, checked, name, aggregation.kind)
            findings.tasks += answer_tasks(labelled, checked, name, aggregation)
            findings.by_class.append(_by_class(labelled, checked, name, aggregation.kind))
            if aggregation.kind == "graded":
                unbounded = replace(aggregation, fail_threshold=1.0)
                checked = [_checked(fact, verdicts[at], unbounded) for at, fact in enumerate(labelled.facts)]
                findings.by_label += [
                    task for task in fact_tasks(labelled, checked, name, "graded") if task.what == WRONG
                ]
    return findings


Verdicts = list[tuple[list[tuple[Hit, int, str]], list[Classified]]]


async def _classified(facts: Sequence[LabelledFact], classifier: FactClassifier) -> Verdicts:
    """The windows of each fact's texts with their verdicts, all asked for at once."""
    pieces = [_pieces(fact) for fact in facts]
    pairs = [
        Pair(fact.query, fact.fact, text, fact.context, hit.passage.title)
        for fact, own in zip(facts, pieces, strict=True)
        for hit, _, text in own
    ]
    found, _ = await classifier.classify(pairs)
    ends = np.cumsum([0, *(len(own) for own in pieces)]).tolist()
    return [(own, list(found[start:end])) for own, (start, end) in zip(pieces, pairwise(ends), strict=True)]


def _pieces(fact: LabelledFact) -> list[tuple[Hit, int, str]]:
    hits = [
        Hit(Passage(f"{at}:{text.id}", text.id, text.title, text.text, 0, len(text.text), sha256=""), 0.0)
        for at, text in enumerate(fact.evidence)
    ]
    return [(hit, start, piece) for hit in hits for start, piece in windows(hit.passage.text, WINDOW)]


def _checked(
    fact: LabelledFact, verdicts: tuple[list[tuple[Hit, int, str]], list[Classified]], aggregation: Aggregation
) -> CheckedFact:
    evidence, unjudged = gathered(*verdicts)
    outcome = fact_outcome(evidence, unjudged, aggregation)
    return CheckedFact(
        segment=Segment(fact.fact, 0, len(fact.fact)),
        status=outcome.status,
        label=outcome.label,
        reason=outcome.reason,
        probabilities=outcome.probabilities,
        score=outcome.score,
        evidence=evidence,
        rule=outcome.rule,
    )


def _task(
    rows: Sequence[tuple[bool, float | None, bool, str]], names: Mapping[str, str], *, probability: bool = False
) -> list[Task]:
    """The task over (positive, score, flagged, group); none when nothing could be judged."""
    kept = [(positive, score, flagged, group) for positive, score, flagged, group in rows if score is not None]
    if not kept:
        return []
    positive, scores, flagged, group = zip(*kept, strict=True)
    score = np.array(scores, dtype=np.float64)
    judged = Judged(np.array(positive), score, np.array(flagged), group, score if probability else None)
    return [Task(**names, judged=judged, unjudged=len(rows) - len(kept))]


def _pair_tasks(labelled: LabelledSet, verdicts: Verdicts, classifier: str) -> list[Task]:
    """Support against every other stance (positive: supports), and support against refutation."""
    support, against = [], []
    for fact, (pieces, found) in zip(labelled.facts, verdicts, strict=True):
        evidence, _ = gathered(pieces, found)
        vectors = {item.passage.id: item.probabilities for item in evidence}
        for at, text in enumerate(fact.evidence):
            if text.stance is None:
                continue
            vector, holds = vectors.get(f"{at}:{text.id}"), text.stance == "supports"
            true = vector[_TRUE] if vector else None
            support.append((holds, true, true is not None and true >= 0.5, fact.group))
            if text.stance in ("supports", "refutes"):
                lean = vector[_TRUE] - vector[_FALSE] - vector[_ABSURD] if vector else None
                against.append((holds, lean, lean is not None and lean >= 0, fact.group))
    names = {"dataset": labelled.name, "level": "pairs", "classifier": classifier, "aggregation": "-"}
    tasks = _task(support, {**names, "what": "support against rest"}, probability=True)
    return tasks + _task(against, {**names, "what": "support against refutation"})


def fact_tasks(labelled: LabelledSet, checked: Sequence[CheckedFact], classifier: str, aggregation: str) -> list[Task]:
    """Wrong facts against true ones, and all that is not true against what is (positive: what is to be caught)."""
    wrong, rest = [], []
    for fact, verdict in zip(labelled.facts, checked, strict=True):
        if fact.label is FactLabel.NEEDS_NO_VERIFICATION:
            continue
        row = (fact.label is not FactLabel.TRUE, verdict.score, verdict.status is Status.FAILED, fact.group)
        rest.append(row)
        if fact.label is FactLabel.TRUE or fact.label in _WRONG:
            wrong.append(row)
    names = {"dataset": labelled.name, "level": "facts", "classifier": classifier, "aggregation": aggregation}
    tasks = _task(wrong, {**names, "what": WRONG}, probability=True)
    return tasks + _task(rest, {**names, "what": "anything but true"})


def answer_tasks(
    labelled: LabelledSet, checked: Sequence[CheckedFact], classifier: str, aggregation: Aggregation
) -> list[Task]:
    """Wrong answers against right ones (positive: wrong)."""
    own: dict[str, list[CheckedFact]] = {}
    for fact, verdict in zip(labelled.facts, checked, strict=True):
        own.setdefault(fact.answer_id, []).append(verdict)
    rows = []
    for answer in labelled.answers:
        outcome = answer_outcome(own[answer.id], aggregation)
        rows.append((not answer.right, outcome.score, outcome.status is Status.FAILED, answer.id))
    names = {"dataset": labelled.name, "level": "answers", "classifier": classifier, "aggregation": aggregation.kind}
    return _task(rows, {**names, "what": "wrong against right"})


def _by_class(labelled: LabelledSet, checked: Sequence[CheckedFact], classifier: str, aggregation: str) -> ByClass:
    rows = [
        (fact.label, verdict.label, verdict.probabilities, fact.group)
        for fact, verdict in zip(labelled.facts, checked, strict=True)
        if verdict.label is not None and verdict.probabilities is not None
    ]
    truth, given, probabilities, group = zip(*rows, strict=True) if rows else ((), (), (), ())
    return ByClass(
        dataset=labelled.name, classifier=classifier, aggregation=aggregation,
        truth=truth, given=given, probabilities=probabilities, group=group,
    )  # fmt: skip
