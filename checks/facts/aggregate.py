"""Verdicts of (fact, passage) pairs to a fact's verdict, and facts' to an answer's. Pure.

Per passage, from its seven probabilities: support s = p(true); refutation r = p(false) + p(absurd); topic
t = 1 - p(not_supported) - p(needs_no_verification). A passage below `topic_threshold` is off topic: it neither supports
nor refutes, whatever else it says, so padding the evidence with irrelevant passages changes nothing.

`strict` (the conservative rule of the published method): a passage with r >= `refute_threshold` makes the fact false
(or absurd); otherwise a passage with s >= `support_threshold` makes it true; otherwise it is not supported, which
fails too. Before that last step, a passage confident of `half_true` or `opinions_differ` names the label instead, and
so does `needs_no_verification` when the passages say so on average. Score: max(best r, 1 - best s).

`graded`: support S is a noisy-or of the passages' s, best first, each next one counting half as much as the one
before (sources copy each other); refutation R is the best r; s and r below `floor` count nothing. With S and R bent
so that their thresholds come to lie at 0.5, the masses are: true S(1-R), refuted R(1-S), conflict SR (opinions
differ), and (1-S)(1-R) for what the documents leave undecided: half_true, opinions_differ, needs_no_verification or
not_supported by the same rule as under `strict`. The label is the largest mass.
Score: R(1 - 0.6 S) + 0.25 (1-R)(1-S): a refuted fact is wrong, a disputed one rather not, an unsupported one in one
case of four (about the share of false facts in labelled answers). A score above `fail_threshold` fails a fact whose
label the route has not set itself.
A fact not supported under `graded` is `not_checked(no_evidence)` otherwise: silence of the documents is no pass.

Answer: any failed fact fails it; otherwise any fact not checked leaves it not checked, with that fact's reason;
otherwise it passes if documents spoke for at least one fact. Its score is the largest fact score under `strict`, the
mean under `graded`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from checks.types import FACT_LABELS, CheckedFact, Evidence, FactLabel, Probabilities, Reason, Status

_TRUE, _HALF, _DIFFER, _TALK, _UNSUPPORTED, _FALSE, _ABSURD = range(7)

_PASSES: Mapping[FactLabel, Status] = {
    FactLabel.TRUE: Status.PASSED,
    FactLabel.NEEDS_NO_VERIFICATION: Status.PASSED,
    FactLabel.FALSE: Status.FAILED,
    FactLabel.ABSURD: Status.FAILED,
}
STRICT: Mapping[FactLabel, Status] = {
    **_PASSES,
    FactLabel.HALF_TRUE: Status.FAILED,
    FactLabel.OPINIONS_DIFFER: Status.FAILED,
    FactLabel.NOT_SUPPORTED: Status.FAILED,
}
"""What each label means under `strict`, unless the route says otherwise."""
GRADED: Mapping[FactLabel, Status] = {
    **_PASSES,
    FactLabel.HALF_TRUE: Status.PASSED,
    FactLabel.OPINIONS_DIFFER: Status.PASSED,
    FactLabel.NOT_SUPPORTED: Status.NOT_CHECKED,
}
"""What each label means under `graded`, unless the route says otherwise."""

# Of several reasons the first of these names the answer: what an operator has to act on comes first.
_REASONS = (
    Reason.JUDGE_UNAVAILABLE, Reason.JUDGE_REPLY_INVALID, Reason.TIMEOUT, Reason.LANGUAGE, Reason.UNSUPPORTED_CONTENT,
    Reason.TOO_LONG, Reason.NO_EVIDENCE, Reason.CLIENT_CLOSED, Reason.DISABLED, Reason.NO_FACTS,
)  # fmt: skip
_NOTHING: Probabilities = (0.0,) * 7
_RULES: Mapping[FactLabel, str] = {
    **{label: label.value for label in FACT_LABELS},
    FactLabel.TRUE: "supported",
    FactLabel.NOT_SUPPORTED: "unsupported",
    FactLabel.FALSE: "refuted",
    FactLabel.ABSURD: "refuted",
}
# Equal masses: the worse label wins, except that support which reaches its threshold confirms.
_ON_TIES = {
    FactLabel.FALSE: 6, FactLabel.ABSURD: 5, FactLabel.TRUE: 4, FactLabel.OPINIONS_DIFFER: 3, FactLabel.HALF_TRUE: 2,
    FactLabel.NEEDS_NO_VERIFICATION: 1, FactLabel.NOT_SUPPORTED: 0,
}  # fmt: skip
_DISPUTED = 0.6
_UNKNOWN = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregation:
    """How verdicts are put together. All thresholds are probabilities.

    `fails` overrides per label whether it fails; `fail_threshold` (graded) also fails a fact whose score is above it;
    `min_judged` is the share of a fact's passages that must have been judged for anything but a refutation to count.
    """

    kind: Literal["strict", "graded"] = "strict"
    support_threshold: float = 0.5
    refute_threshold: float = 0.5
    fail_threshold: float = 0.5
    topic_threshold: float = 0.5
    floor: float = 0.2
    min_judged: float = 1.0
    fails: Mapping[FactLabel, bool] = field(default_factory=dict)

    @property
    def version(self) -> str:
        """Kind and thresholds, for the record."""
        fails = ",".join(f"{label}={'fail' if failed else 'pass'}" for label, failed in sorted(self.fails.items()))
        thresholds = (
            f"support={self.support_threshold:g},refute={self.refute_threshold:g},topic={self.topic_threshold:g}"
        )
        graded = f",fail={self.fail_threshold:g},floor={self.floor:g}" if self.kind == "graded" else ""
        return f"{self.kind}/1({thresholds}{graded},judged={self.min_judged:g}{',' if fails else ''}{fails})"

    def status(self, label: FactLabel) -> Status:
        """What a label means for the fact."""
        if label in self.fails:
            return Status.FAILED if self.fails[label] else Status.PASSED
        return (STRICT if self.kind == "strict" else GRADED)[label]


@dataclass(frozen=True, slots=True)
class FactOutcome:
    """A fact's verdict; `label` is None only when nothing could be judged. `score`: probability that it is wrong."""

    status: Status
    label: FactLabel | None
    rule: str
    reason: Reason | None = None
    score: float | None = None
    probabilities: Probabilities | None = None


@dataclass(frozen=True, slots=True)
class AnswerOutcome:
    """An answer's verdict."""

    status: Status
    rule: str
    reason: Reason | None = None
    score: float | None = None


def fact_outcome(evidence: Sequence[Evidence], unjudged: Sequence[Reason], settings: Aggregation) -> FactOutcome:
    """The verdict of a fact over its judged passages; `unjudged` has one reason for each passage without a verdict."""
    if not evidence:
        reason = _first(unjudged) if unjudged else Reason.NO_EVIDENCE
        return FactOutcome(Status.NOT_CHECKED, None, reason.value, reason)
    vectors = [item.probabilities for item in evidence]
    outcome = _strict(vectors, settings) if settings.kind == "strict" else _graded(vectors, settings)
    refuted = outcome.label in (FactLabel.FALSE, FactLabel.ABSURD)
    judged = len(evidence) / (len(evidence) + len(unjudged))
    if not refuted and judged < settings.min_judged:
        reason = _first(unjudged)
        return FactOutcome(Status.NOT_CHECKED, None, f"{len(unjudged)} passages not judged", reason)
    return outcome


def answer_outcome(facts: Sequence[CheckedFact], settings: Aggregation) -> AnswerOutcome:
    """The verdict of an answer over its segments' verdicts."""
    stated = [fact for fact in facts if fact.label is not FactLabel.NEEDS_NO_VERIFICATION]
    scores = [fact.score for fact in stated if fact.score is not None]
    score = None
    if scores:
        score = max(scores) if settings.kind == "strict" else sum(scores) / len(scores)
    statuses = Counter(fact.status for fact in stated)
    if any(fact.status is Status.FAILED for fact in facts):
        return AnswerOutcome(Status.FAILED, "any_fact_failed", score=score)
    if not stated:
        return AnswerOutcome(Status.NOT_CHECKED, "no_facts", Reason.NO_FACTS)
    if statuses[Status.NOT_CHECKED]:
        reasons = [fact.reason or Reason.NO_EVIDENCE for fact in stated if fact.status is Status.NOT_CHECKED]
        return AnswerOutcome(Status.NOT_CHECKED, "any_fact_not_checked", _first(reasons), score)
    return AnswerOutcome(Status.PASSED, "all_facts_passed", score=score)


def most_likely(vector: Probabilities) -> FactLabel:
    """The label of a probability vector; of equals the worse one."""
    return max(FACT_LABELS, key=lambda label: (vector[FACT_LABELS.index(label)], _ON_TIES[label]))


def _first(reasons: Sequence[Reason]) -> Reason:
    return min(reasons, key=_REASONS.index)


def _refutation(vector: Probabilities) -> float:
    return vector[_FALSE] + vector[_ABSURD]


def _on_topic(vectors: Sequence[Probabilities], settings: Aggregation) -> list[Probabilities]:
    return [vector for vector in vectors if 1 - vector[_UNSUPPORTED] - vector[_TALK] >= settings.topic_threshold]


def _labelled(label: FactLabel, rule: str, score: float, vector: Probabilities, settings: Aggregation) -> FactOutcome:
    status = settings.status(label)
    if label is FactLabel.NEEDS_NO_VERIFICATION:
        return FactOutcome(status, label, rule, None, None, vector)
    if settings.kind == "graded" and label not in settings.fails and score > settings.fail_threshold:
        status, rule = Status.FAILED, rule if status is Status.FAILED else f"{rule}, score above fail_threshold"
    reason = Reason.NO_EVIDENCE if status is Status.NOT_CHECKED else None
    return FactOutcome(status, label, rule, reason, score, vector)


def _strict(vectors: Sequence[Probabilities], settings: Aggregation) -> FactOutcome:
    topical = _on_topic(vectors, settings)
    refuter = max(topical, key=_refutation, default=_NOTHING)
    supporter = max(topical, key=lambda vector: vector[_TRUE], default=_NOTHING)
    refutation, support = _refutation(refuter), supporter[_TRUE]
    score = max(refutation, 1 - support)
    if refutation >= settings.refute_threshold:
        return _labelled(_refuted(refuter), "refuted", score, refuter, settings)
    if support >= settings.support_threshold:
        return _labelled(FactLabel.TRUE, "supported", score, supporter, settings)
    label, decider = _undecided(vectors, topical, settings)
    return _labelled(label, _RULES[label], score, decider, settings)


def _graded(vectors: Sequence[Probabilities], settings: Aggregation) -> FactOutcome:
    topical = _on_topic(vectors, settings)
    supports = sorted((v[_TRUE] for v in topical if v[_TRUE] >= settings.floor), reverse=True)
    support = 1 - math.prod((1 - value) ** (0.5**rank) for rank, value in enumerate(supports))
    refuter = max(topical, key=_refutation, default=_NOTHING)
    refutation = _refutation(refuter) if _refutation(refuter) >= settings.floor else 0.0
    score = refutation * (1 - _DISPUTED * support) + _UNKNOWN * (1 - refutation) * (1 - support)
    s, r = _bent(support, settings.support_threshold), _bent(refutation, settings.refute_threshold)
    masses = {FactLabel.TRUE: s * (1 - r), _refuted(refuter): r * (1 - s), FactLabel.OPINIONS_DIFFER: s * r}
    undecided, _ = _undecided(vectors, topical, settings)
    silent = (1 - s) * (1 - r)
    vector = tuple(masses.get(label, 0.0) + (silent if label is undecided else 0.0) for label in FACT_LABELS)
    label = max((*masses, undecided), key=lambda name: (vector[FACT_LABELS.index(name)], _ON_TIES[name]))
    rule = "conflict" if label is FactLabel.OPINIONS_DIFFER and s * r >= silent else _RULES[label]
    return _labelled(label, rule, score, _seven(vector), settings)


def _refuted(refuter: Probabilities) -> FactLabel:
    return FactLabel.ABSURD if refuter[_ABSURD] > refuter[_FALSE] else FactLabel.FALSE


def _undecided(
    vectors: Sequence[Probabilities], topical: Sequence[Probabilities], settings: Aggregation
) -> tuple[FactLabel, Probabilities]:
    """The label of a fact that is neither supported nor refuted, and the probabilities behind it."""
    for index in (_HALF, _DIFFER):
        decider = max(topical, key=lambda vector: vector[index], default=_NOTHING)
        if decider[index] >= settings.support_threshold:
            return FACT_LABELS[index], decider
    mean = _seven([sum(column) / len(vectors) for column in zip(*vectors, strict=True)])
    if mean[_TALK] >= settings.support_threshold:
        return FactLabel.NEEDS_NO_VERIFICATION, mean
    # Support or refutation below its threshold counts as none.
    _, half, differ, talk, *_ = mean
    return FactLabel.NOT_SUPPORTED, (0.0, half, differ, talk, 1 - half - differ - talk, 0.0, 0.0)


def _bent(value: float, threshold: float) -> float:
    """`value` on a monotone curve through (0, 0), (threshold, 0.5), (1, 1)."""
    return float(value ** (math.log(0.5) / math.log(threshold)))


def _seven(values: Sequence[float]) -> Probabilities:
    one, two, three, four, five, six, seven = values
    return one, two, three, four, five, six, seven
