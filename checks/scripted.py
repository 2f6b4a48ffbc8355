"""A check that judges by a script, for tests of what surrounds a check. It segments like the real one."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence

from checks.facts.aggregate import Aggregation, answer_outcome
from checks.facts.segment import segments, settled
from checks.types import FACT_LABELS, Case, CheckedFact, FactLabel, Probabilities, Reason, Segment, Status, Verdict

Rule = tuple[str, FactLabel | Reason]
"""A regular expression searched in a segment's text, and the label it gets, or the reason it is not checked."""


class ScriptedCheck:
    """A `SegmentCheck` whose labels come from the first rule that fits a segment; `default` for the rest.

    `before` is awaited before each segment is judged: a test's place to wait for an event. `seen` lists the segments
    judged, in order.
    """

    def __init__(
        self,
        rules: Sequence[Rule] = (),
        *,
        default: FactLabel | Reason = FactLabel.TRUE,
        aggregation: Aggregation | None = None,
        before: Callable[[Segment], Awaitable[None]] | None = None,
    ) -> None:
        self._rules = [(re.compile(pattern), said) for pattern, said in rules]
        self._default = default
        self._aggregation = aggregation or Aggregation()
        self._before = before
        self.seen: list[str] = []

    @property
    def kind(self) -> str:
        return "fact_check"

    def segments(self, text: str) -> Sequence[Segment]:
        return segments(text)

    def settled(self, text: str) -> int:
        return settled(text)

    async def check(self, case: Case) -> Verdict:
        return self.conclude(case, [await self.check_segment(case, segment) for segment in segments(case.answer)])

    async def check_segment(self, case: Case, segment: Segment) -> CheckedFact:
        if self._before is not None:
            await self._before(segment)
        self.seen.append(segment.text)
        if not segment.checkable:
            return CheckedFact(segment, Status.PASSED, FactLabel.NEEDS_NO_VERIFICATION, rule="states_nothing")
        said = next((said for pattern, said in self._rules if pattern.search(segment.text)), self._default)
        if isinstance(said, Reason):
            return CheckedFact(segment, Status.NOT_CHECKED, None, said, rule="scripted")
        status = self._aggregation.status(said)
        reason = Reason.NO_EVIDENCE if status is Status.NOT_CHECKED else None
        score = {Status.PASSED: 0.0, Status.FAILED: 1.0, Status.NOT_CHECKED: 0.5}[status]
        return CheckedFact(segment, status, said, reason, _certain(said), score, rule="scripted")

    def conclude(self, case: Case, facts: Sequence[CheckedFact]) -> Verdict:
        outcome = answer_outcome(facts, self._aggregation)
        return Verdict(
            kind=self.kind,
            status=outcome.status,
            reason=outcome.reason,
            choice=case.choice,
            facts=tuple(facts),
            rule=outcome.rule,
            score=outcome.score,
            versions={"check": "scripted"},
        )


def _certain(label: FactLabel) -> Probabilities:
    one, two, three, four, five, six, seven = (1.0 if label is other else 0.0 for other in FACT_LABELS)
    return one, two, three, four, five, six, seven
