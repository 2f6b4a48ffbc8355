"""Every variant of the review check over labelled issues, with each judge asked once, whatever the variants share.

Knows labelled scenes, judges and a store of replies; nothing of repositories, files or terminals.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from checks.evaluate.measures import Interval, Measures, Share, phi, phi_interval
from checks.review import prompts
from checks.review.cache import Replies
from checks.review.decide import Variant
from checks.review.ensemble import Ensemble, Trace
from checks.review.panel import Limits, Panel
from checks.review.scene import Scene
from checks.review.votes import Vote
from checks.types import IssueLabel, Judge, JudgeReply

Evidence = Mapping[str, bool]
"""What a look without a model says of an issue, by name: whether it speaks against the issue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelled:
    """A scene with the label people gave its issue. `evidence` is what was found without a model."""

    id: str
    scene: Scene
    label: IssueLabel
    evidence: Evidence = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One variant over all issues. `calls` and `cost_usd` are what it takes alone, whoever paid before."""

    name: str
    measures: Measures
    calls: int = 0
    cost_usd: float | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """phi between two judges: over all issues, and over the hallucinations alone."""

    judges: tuple[str, str]
    overall: float | None
    interval: Interval | None
    hallucinations: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The whole evaluation."""

    results: tuple[Result, ...]
    agreements: tuple[Agreement, ...]
    issues: int
    abstained: Mapping[str, int]
    """Issues each judge could not be counted for at the first step."""

    def told(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "prompt": prompts.VERSION,
            "issues": self.issues,
            "variants": [_told(result) for result in self.results],
            "agreement": [
                {
                    "judges": list(one.judges),
                    "phi": one.overall,
                    "phi_interval": one.interval,
                    "phi_hallucinations": one.hallucinations,
                }
                for one in self.agreements
            ],
            "abstained": dict(self.abstained),
        }


@dataclass(frozen=True, slots=True)
class _Configuration:
    name: str
    ensemble: Ensemble
    judges: tuple[int, ...]


class _Everything:
    """Replies of this evaluation, failures too: what one variant asked, no other asks again."""

    def __init__(self, behind: Replies | None) -> None:
        self._behind = behind
        self._kept: dict[str, JudgeReply] = {}

    async def get(self, key: str) -> JudgeReply | None:
        if key not in self._kept and self._behind is not None:
            return await self._behind.get(key)
        return self._kept.get(key)

    async def put(self, key: str, reply: JudgeReply) -> None:
        self._kept[key] = reply
        if self._behind is not None:
            await self._behind.put(key, reply)


async def evaluate(
    issues: Sequence[Labelled],
    judges: Sequence[Judge],
    *,
    hops: int = 1,
    replies: Replies | None = None,
    limits: Limits | None = None,
    concurrency: int = 4,
    progress: Callable[[str], None] | None = None,
) -> Report:
    """Run every variant that so many judges allow, `multi_hop` with 1 to `hops` further files.

    Issues labelled undetermined are left out: no verdict on them is wrong.
    """
    decided = [issue for issue in issues if issue.label is not IssueLabel.UNDETERMINED]
    configurations = _configurations(judges, hops)
    store, slots = _Everything(replies), asyncio.Semaphore(concurrency)
    limits = limits or Limits(give_up_after=1_000_000_000)
    panels = [Panel([judges[place] for place in one.judges], limits, store) for one in configurations]

    async def one(issue: Labelled) -> list[tuple[IssueLabel | None, Trace]]:
        async with slots:
            outcomes = []
            for configuration, panel in zip(configurations, panels, strict=True):
                trace = Trace()
                judged = await configuration.ensemble.judge(issue.scene, panel, trace)
                outcomes.append((judged.label, trace))
            if progress is not None:
                progress(issue.id)
            return outcomes

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(issue)) for issue in decided]
    outcomes = [task.result() for task in tasks]
    wrong = tuple(issue.label is IssueLabel.HALLUCINATION for issue in decided)
    results = [
        _result(configuration.name, wrong, [row[place] for row in outcomes])
        for place, configuration in enumerate(configurations)
    ]
    return Report(
        results=(*results, *_evidence(decided, wrong)),
        agreements=tuple(_agreements(judges, wrong, outcomes)),
        issues=len(decided),
        abstained={
            judge.name: sum(row[place][1].ballots[0].vote is Vote.ABSTAIN for row in outcomes)
            for place, judge in enumerate(judges)
        },
    )


def _configurations(judges: Sequence[Judge], hops: int) -> list[_Configuration]:
    """Each judge alone comes first, in the order of the judges."""
    everyone = tuple(range(len(judges)))
    found = [
        _Configuration(f"single {judge.name}", Ensemble(Variant.SINGLE, 1), (place,))
        for place, judge in enumerate(judges)
    ]
    if len(judges) > 1:
        found += [
            _Configuration(variant.value, Ensemble(variant, len(judges)), everyone)
            for variant in (Variant.OR, Variant.AND)
        ]
    if len(judges) > 2:
        found.append(_Configuration("majority", Ensemble(Variant.MAJORITY, len(judges)), everyone))
    if judges:
        found += [
            _Configuration(f"multi_hop {count}", Ensemble(Variant.MULTI_HOP, len(judges), count), everyone)
            for count in range(1, hops + 1)
        ]
    return found


def _result(name: str, wrong: tuple[bool, ...], outcomes: Sequence[tuple[IssueLabel | None, Trace]]) -> Result:
    flagged = tuple(label is IssueLabel.HALLUCINATION for label, _ in outcomes)
    calls = [call for _, trace in outcomes for call in (*trace.calls, *trace.known)]
    costs = [call.cost_usd for call in calls if call.cost_usd is not None]
    return Result(
        name=name,
        measures=Measures(wrong, flagged, unjudged=sum(label is None for label, _ in outcomes)),
        calls=len(calls),
        cost_usd=sum(costs) if costs else None,
        seconds=sum(call.seconds for call in calls),
    )


def _evidence(issues: Sequence[Labelled], wrong: tuple[bool, ...]) -> list[Result]:
    """What the looks without a model would find if each were a verdict."""
    names = dict.fromkeys(name for issue in issues for name in issue.evidence)
    return [
        Result(
            name=f"evidence {name}",
            measures=Measures(wrong, tuple(issue.evidence.get(name, False) for issue in issues)),
        )
        for name in names
    ]


def _agreements(
    judges: Sequence[Judge], wrong: Sequence[bool], outcomes: Sequence[Sequence[tuple[IssueLabel | None, Trace]]]
) -> list[Agreement]:
    """phi between each two judges at the first step, over the issues that both judged."""
    found = []
    for one, two in combinations(range(len(judges)), 2):
        pairs = [
            (label, row[one][0] is IssueLabel.HALLUCINATION, row[two][0] is IssueLabel.HALLUCINATION)
            for label, row in zip(wrong, outcomes, strict=True)
            if row[one][0] is not None and row[two][0] is not None
        ]
        first, second = [pair[1] for pair in pairs], [pair[2] for pair in pairs]
        found.append(
            Agreement(
                judges=(judges[one].name, judges[two].name),
                overall=phi(first, second),
                interval=phi_interval(first, second),
                hallucinations=phi([pair[1] for pair in pairs if pair[0]], [pair[2] for pair in pairs if pair[0]]),
            )
        )
    return found


def _told(result: Result) -> dict[str, Any]:
    measures = result.measures

    def share(one: Share) -> dict[str, Any]:
        return {"value": one.value, "interval": one.interval, "hits": one.hits, "of": one.total}

    return {
        "name": result.name,
        "recall": share(measures.recall),
        "precision": share(measures.precision),
        "false_positive_rate": share(measures.false_positives),
        "f1": {"value": measures.f1, "interval": measures.f1_interval},
        "kept": share(measures.kept),
        "base_rate": share(measures.base_rate),
        "unjudged": measures.unjudged,
        "calls": result.calls,
        "cost_usd": result.cost_usd,
        "seconds": result.seconds,
    }
