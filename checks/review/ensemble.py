"""One issue before the panel: votes, requests for further files, votes again, one decision.

The method is part III of Korbit's series on hallucination detection; the tables are in `checks.review.decide`. Knows
neither repositories nor policies: a `Scene` shows the code, and what a label means for the issue is decided elsewhere.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from checks.errors import ReviewSetupError
from checks.review.decide import Decision, Outcome, Request, Variant, after_requests, decide
from checks.review.panel import Answered, Panel
from checks.review.prompts import Exhibit, Matter, evaluation_prompt, evaluation_schema, request_prompt, request_schema
from checks.review.scene import Asked, Found, Hop, Scene
from checks.review.votes import Ballot, Vote, ballot
from checks.types import IssueLabel, JudgeCall, Reason

_FEWEST = {Variant.OR: 2, Variant.AND: 2, Variant.MAJORITY: 3, Variant.MULTI_HOP: 1}
_MOST_HOPS = 8


@dataclass(slots=True)
class Trace:
    """What has happened to an issue so far; kept when its judging is cut short."""

    exhibits: list[Exhibit] = field(default_factory=list)
    ballots: list[Ballot] = field(default_factory=list)
    hops: list[Hop] = field(default_factory=list)
    calls: list[JudgeCall] = field(default_factory=list)
    """Calls made for this issue, those that the cache spared left out."""
    known: list[JudgeCall] = field(default_factory=list)
    """Earlier calls whose replies were used again."""

    def take(self, answered: Answered) -> None:
        (self.known if answered.cached else self.calls).append(answered.reply.call)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The decision on one issue. `ballots` are those of the deciding step; `reason` says why there is no label."""

    outcome: Outcome
    rule: str
    ballots: tuple[Ballot, ...] = ()
    reason: Reason | None = None

    @property
    def label(self) -> IssueLabel | None:
        return self.outcome.label

    @property
    def condemning(self) -> int:
        """How many judges said Hallucination in the deciding step."""
        return sum(ballot.vote is Vote.HALLUCINATION for ballot in self.ballots)


@dataclass(frozen=True, slots=True)
class Ensemble:
    """A variant. `hops` is how many further files may be asked for, one after another (`multi_hop` only).

    Raises `ReviewSetupError` for a number of judges or hops the variant cannot work with.
    """

    variant: Variant
    judges: int
    hops: int = 1

    def __post_init__(self) -> None:
        if self.variant is Variant.SINGLE and self.judges != 1:
            raise ReviewSetupError(
                f"variant single has one judge, not {self.judges}", hint="name one judge, or choose or, and, multi_hop"
            )
        fewest = _FEWEST.get(self.variant, 1)
        if self.judges < fewest:
            raise ReviewSetupError(
                f"variant {self.variant.value} needs {fewest} judges or more, and has {self.judges}",
                hint="name more judges, or choose variant single",
            )
        if self.variant is Variant.MULTI_HOP and not 1 <= self.hops <= _MOST_HOPS:
            raise ReviewSetupError(
                f"hops is {self.hops}, outside 1 to {_MOST_HOPS}", hint="1 is what was published; or choose variant or"
            )

    @property
    def version(self) -> str:
        """As it stands in records: `multi_hop/hops=1`."""
        hops = f"/hops={self.hops}" if self.variant is Variant.MULTI_HOP else ""
        return f"{self.variant.value}/judges={self.judges}{hops}"

    async def judge(self, scene: Scene, panel: Panel, trace: Trace) -> Judged:
        """Decide on one issue; `trace` is filled on the way."""
        matter, hops = scene.matter, self.hops if self.variant is Variant.MULTI_HOP else 0
        trace.exhibits.extend(matter.exhibits)
        for hop in range(hops + 1):
            ballots = await self._vote(matter, panel, trace, hop)
            decision = decide(self.variant, [cast.vote for cast in ballots], hops_left=hops - hop)
            if decision.outcome is not Outcome.ASK:
                return _judged(decision, ballots, [])
            made = await self._request(scene, matter, panel, trace, ballots)
            decided = after_requests([one.found.request for one in made])
            if decided is not None:
                return _judged(decided, ballots, made)
            further = _united(made)
            trace.exhibits.extend(further)
            matter = matter.with_exhibits(further)
        raise AssertionError("the last step's table never asks for a file")

    async def _vote(self, matter: Matter, panel: Panel, trace: Trace, hop: int) -> list[Ballot]:
        prompt, schema = evaluation_prompt(matter), evaluation_schema()

        async def one(place: int) -> Ballot:
            answered = await panel.ask(place, prompt, schema)
            trace.take(answered)
            return ballot(panel.name(place), hop, answered.reply, matter.exhibits, cached=answered.cached)

        ballots = list(await asyncio.gather(*(one(place) for place in range(self.judges))))
        trace.ballots.extend(ballots)
        return ballots

    async def _request(
        self, scene: Scene, matter: Matter, panel: Panel, trace: Trace, ballots: Sequence[Ballot]
    ) -> list[Hop]:
        """One request of every judge that said Undetermined, and what became of each."""
        hop = ballots[0].hop + 1

        async def one(place: int, why: str) -> Hop:
            answered = await panel.ask(place, request_prompt(matter, why, scene.listing), request_schema())
            trace.take(answered)
            value = answered.reply.value
            if value is None:
                reason = answered.reply.reason or Reason.JUDGE_REPLY_INVALID
                found = Found(request=Request.ABSTAIN, how="not_asked", note=answered.reply.call.error, reason=reason)
                return Hop(hop=hop, judge=panel.name(place), asked=None, found=found)
            asked = Asked(
                class_name=str(value["class_name"]),
                file_name=str(value["file_name"]),
                file_path=str(value["file_path"]),
            )
            found = await scene.find(asked, matter.exhibits, hop)
            return Hop(hop=hop, judge=panel.name(place), asked=asked, found=found)

        unsure = [(place, cast.why) for place, cast in enumerate(ballots) if cast.vote is Vote.UNDETERMINED]
        made = list(await asyncio.gather(*(one(place, why) for place, why in unsure)))
        trace.hops.extend(made)
        return made


def _united(made: Sequence[Hop]) -> tuple[Exhibit, ...]:
    """The files of all requests of one hop, each once, in the order of the judges."""
    by_path = {exhibit.path: exhibit for one in reversed(made) for exhibit in reversed(one.found.exhibits)}
    return tuple(by_path[path] for path in dict.fromkeys(e.path for one in made for e in one.found.exhibits))


def _judged(decision: Decision, ballots: Sequence[Ballot], made: Sequence[Hop]) -> Judged:
    reason = None
    if decision.outcome is Outcome.ABSTAIN:
        reasons = [cast.reason for cast in ballots if cast.reason is not None]
        reasons += [one.found.reason for one in made if one.found.reason is not None]
        reason = Counter(reasons).most_common(1)[0][0]
    return Judged(outcome=decision.outcome, rule=decision.rule, ballots=tuple(ballots), reason=reason)
