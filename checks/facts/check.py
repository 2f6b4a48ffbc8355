"""The fact-check of an answer: segments -> questions -> search -> pair verdicts -> fact verdicts -> answer verdict.

Composes the parts of this package over any retriever, any classifier and any source of questions; knows none of their
implementations and nothing of HTTP, routes or storage. Nothing but cancellation leaves it as an exception: a search,
judge or deadline that fails becomes `not_checked` with a reason, and `rule` says what happened.

Reasons given here: `no_evidence` when a search found nothing or could not be made (then `rule` begins with
`search_failed`), `timeout` when a stage or the whole ran out of time, `too_long` for facts beyond `max_facts`,
`judge_unavailable` when the classifier broke, `unsupported_content` for an answer that is, or also holds, media.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from checks.facts.aggregate import Aggregation, answer_outcome, fact_outcome
from checks.facts.evidence import gathered, pooled, windows
from checks.facts.plain import statement
from checks.facts.questions import Asked, FactInAnswer, Questions, before, refers_back
from checks.facts.segment import VERSION as SEGMENT_VERSION
from checks.facts.segment import iterate, segments, settled
from checks.types import (
    Case,
    CheckedFact,
    Evidence,
    FactClassifier,
    FactLabel,
    JudgeCall,
    Pair,
    Reason,
    Segment,
    Status,
    Verdict,
)
from retrieval.types import Hit, Retriever

_LONGEST_RULE = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlines:
    """Seconds for the stages of one fact, and for a whole answer."""

    questions_s: float = 20.0
    search_s: float = 5.0
    classify_s: float = 60.0
    total_s: float = 90.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FactCheckSettings:
    """Budgets of a fact-check.

    `k` passages per question, at most `max_passages` per fact (default 2k); `window` is the longest piece of a passage,
    in characters, that is classified at once; `collections` replaces the case's own scope when given.
    `whole_answer` lets the questions for a fact see the answer beyond it; switch it off where answers are checked while
    they are written, so that a streamed answer and a plain one get the same questions.
    """

    k: int = 9
    max_passages: int | None = None
    max_facts: int = 60
    concurrency: int = 4
    window: int = 4000
    collections: tuple[str, ...] = ()
    whole_answer: bool = True
    aggregation: Aggregation = field(default_factory=Aggregation)
    deadlines: Deadlines = field(default_factory=Deadlines)


@dataclass(slots=True)
class _Trace:
    """What the judging of one fact has gathered so far, kept when it is cut short."""

    segment: Segment
    questions: tuple[str, ...] = ()
    calls: tuple[JudgeCall, ...] = ()
    seconds: dict[str, float] = field(default_factory=dict)

    def unchecked(self, reason: Reason, rule: str) -> CheckedFact:
        return CheckedFact(
            segment=self.segment,
            status=Status.NOT_CHECKED,
            label=None,
            reason=reason,
            questions=self.questions,
            rule=rule[:_LONGEST_RULE],
            calls=self.calls,
        )


class _StageError(Exception):
    """A stage that cannot give a result; carries the reason and the rule of the fact."""

    def __init__(self, reason: Reason, rule: str) -> None:
        super().__init__(rule)
        self.reason = reason
        self.rule = rule


class FactCheck:
    """A `SegmentCheck` over documents. `clock` gives seconds and is used for durations only."""

    def __init__(
        self,
        retriever: Retriever,
        classifier: FactClassifier,
        questions: Questions,
        settings: FactCheckSettings | None = None,
        *,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._retriever = retriever
        self._classifier = classifier
        self._questions = questions
        self._settings = settings or FactCheckSettings()
        self._clock = clock

    @property
    def kind(self) -> str:
        return "fact_check"

    def segments(self, text: str) -> Sequence[Segment]:
        return segments(text)

    def settled(self, text: str) -> int:
        return settled(text)

    async def check(self, case: Case) -> Verdict:
        """Judge every segment, some at a time, within the total deadline."""
        started = self._clock()
        pieces = segments(case.answer)
        limit = self._limit(pieces)
        traces = [_Trace(piece) for piece in pieces]
        facts = await self._all(case, traces, limit)
        seconds: dict[str, float] = {}
        for trace in traces:
            for stage, spent in trace.seconds.items():
                seconds[stage] = seconds.get(stage, 0.0) + spent
        return replace(self.conclude(case, facts), seconds=seconds | {"total": self._clock() - started})

    async def check_segment(self, case: Case, segment: Segment) -> CheckedFact:
        """Judge one segment of `case.answer`, which may still be growing behind it."""
        limit = self._limit(iterate(case.answer[: segment.end])) if segment.checkable else math.inf
        return await self._judge(case, _Trace(segment), limit)

    def conclude(self, case: Case, facts: Sequence[CheckedFact]) -> Verdict:
        """The answer's verdict over its segments' verdicts, in order. Pure."""
        outcome = answer_outcome(facts, self._settings.aggregation)
        status, reason, rule = outcome.status, outcome.reason, outcome.rule
        if case.has_media and status is not Status.FAILED and (status is Status.PASSED or reason is Reason.NO_FACTS):
            status, reason, rule = Status.NOT_CHECKED, Reason.UNSUPPORTED_CONTENT, "media_not_checked"
        return Verdict(
            kind=self.kind,
            status=status,
            reason=reason,
            choice=case.choice,
            facts=tuple(facts),
            rule=rule,
            score=outcome.score,
            detail=_detail(case, reason),
            versions=self._versions(),
        )

    def _versions(self) -> dict[str, str]:
        return {
            "segment": SEGMENT_VERSION,
            "questions": self._questions.version,
            "classifier": self._classifier.version,
            "aggregation": self._settings.aggregation.version,
        }

    def _limit(self, pieces: Iterable[Segment]) -> float:
        """Offset from which on facts are too many: where the one after `max_facts` begins."""
        left = self._settings.max_facts
        for piece in pieces:
            if piece.checkable:
                if not left:
                    return float(piece.start)
                left -= 1
        return math.inf

    async def _all(self, case: Case, traces: Sequence[_Trace], limit: float) -> list[CheckedFact]:
        slots = asyncio.Semaphore(self._settings.concurrency)

        async def one(trace: _Trace) -> CheckedFact:
            async with slots:
                return await self._judge(case, trace, limit)

        tasks = [asyncio.ensure_future(one(trace)) for trace in traces]
        try:
            if tasks:
                await asyncio.wait(tasks, timeout=self._settings.deadlines.total_s)
        finally:
            late = [task for task in tasks if not task.done()]
            for task in late:
                task.cancel()
            if late:
                await asyncio.gather(*late, return_exceptions=True)
        return [
            trace.unchecked(Reason.TIMEOUT, "total deadline") if task.cancelled() else task.result()
            for trace, task in zip(traces, tasks, strict=True)
        ]

    async def _judge(self, case: Case, trace: _Trace, limit: float) -> CheckedFact:
        segment = trace.segment
        if not segment.checkable:
            label = FactLabel.NEEDS_NO_VERIFICATION
            return CheckedFact(segment, Status.PASSED, label, rule="states_nothing")
        if segment.start >= limit:
            return trace.unchecked(Reason.TOO_LONG, f"more than {self._settings.max_facts} facts")
        try:
            fact = self._fact(case, segment)
            asked = await self._ask(fact, trace)
            trace.questions, trace.calls = asked.questions, asked.calls
            hits, missed = await self._search(case, asked.questions, trace)
            evidence, unjudged = await self._classify(fact, hits, trace)
        except _StageError as error:
            return trace.unchecked(error.reason, error.rule)
        outcome = fact_outcome(evidence, unjudged, self._settings.aggregation)
        if missed and outcome.label is FactLabel.NOT_SUPPORTED:
            # Part of the search failed: what was not found may well exist.
            return replace(trace.unchecked(Reason.NO_EVIDENCE, f"search_failed: {missed}"), evidence=evidence)
        return CheckedFact(
            segment=segment,
            status=outcome.status,
            label=outcome.label,
            reason=outcome.reason,
            probabilities=outcome.probabilities,
            score=outcome.score,
            questions=trace.questions,
            evidence=evidence,
            rule=outcome.rule,
            calls=trace.calls,
        )

    def _fact(self, case: Case, segment: Segment) -> FactInAnswer:
        words = statement(segment.text, segment.context)
        named = words != segment.text and segment.context.count(" | ") > 0 and segment.text.startswith("|")
        return FactInAnswer(
            query=case.query,
            fact=words,
            context="" if named else segment.context,
            before=before(case.answer, segment.start) if refers_back(words) else "",
            answer=case.answer if self._settings.whole_answer else case.answer[: segment.end],
        )

    async def _ask(self, fact: FactInAnswer, trace: _Trace) -> Asked:
        started = self._clock()
        try:
            async with asyncio.timeout(self._settings.deadlines.questions_s):
                return await self._questions.ask(fact)
        except TimeoutError as error:
            raise _StageError(Reason.TIMEOUT, "questions deadline") from error
        except Exception as error:
            raise _StageError(Reason.JUDGE_UNAVAILABLE, f"questions_failed: {_said(error)}") from error
        finally:
            trace.seconds["questions"] = self._clock() - started

    async def _search(self, case: Case, questions: Sequence[str], trace: _Trace) -> tuple[list[Hit], str]:
        """One pool of passages for all questions, best ranks first, and what failed if some of them failed."""
        settings, started = self._settings, self._clock()
        scope = replace(case.scope, k=settings.k, collections=settings.collections or case.scope.collections)
        failed: list[str] = []

        async def one(question: str) -> Sequence[Hit]:
            try:
                return (await self._retriever.retrieve(question, scope)).hits[: settings.k]
            except Exception as error:
                failed.append(_said(error))
                return ()

        try:
            async with asyncio.timeout(settings.deadlines.search_s), asyncio.TaskGroup() as group:
                tasks = [group.create_task(one(question)) for question in questions]
        except TimeoutError as error:
            raise _StageError(Reason.TIMEOUT, "search deadline") from error
        finally:
            trace.seconds["search"] = self._clock() - started
        pool = pooled([task.result() for task in tasks], settings.max_passages or 2 * settings.k)
        missed = "; ".join(sorted(set(failed)))
        if not pool:
            raise _StageError(Reason.NO_EVIDENCE, f"search_failed: {missed}" if missed else "no_evidence")
        return pool, missed

    async def _classify(
        self, fact: FactInAnswer, hits: Sequence[Hit], trace: _Trace
    ) -> tuple[tuple[Evidence, ...], list[Reason]]:
        started = self._clock()
        context = " ".join(part for part in (fact.context, fact.before) if part)
        pieces = [
            (hit, start, text) for hit in hits for start, text in windows(hit.passage.text, self._settings.window)
        ]
        pairs = [Pair(fact.query, fact.fact, text, context, hit.passage.title) for hit, _, text in pieces]
        try:
            async with asyncio.timeout(self._settings.deadlines.classify_s):
                found, calls = await self._classifier.classify(pairs)
        except TimeoutError as error:
            raise _StageError(Reason.TIMEOUT, "classify deadline") from error
        except Exception as error:
            raise _StageError(Reason.JUDGE_UNAVAILABLE, f"classifier_failed: {_said(error)}") from error
        finally:
            trace.seconds["classify"] = self._clock() - started
        trace.calls += tuple(calls)
        if len(found) != len(pairs):
            raise _StageError(Reason.JUDGE_REPLY_INVALID, f"{len(found)} verdicts for {len(pairs)} passages")
        return gathered(pieces, found)


def _detail(case: Case, reason: Reason | None) -> str:
    """Why an answer without facts has none."""
    if reason is not Reason.NO_FACTS:
        return ""
    if not case.answer.strip():
        return "tool calls only" if case.has_tool_calls else "refusal" if case.refusal else "empty answer"
    return "no segment states anything that documents could confirm or refute"


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
