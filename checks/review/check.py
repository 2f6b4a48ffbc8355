"""The check of a code review: issues -> commit -> evidence and judges per issue -> labels -> what to do with each.

Composes the readers of reviews, a source of repositories and a panel of judges; knows none of their implementations and
nothing of HTTP, routes or storage. Nothing but cancellation leaves it as an exception.

Reasons given here: `no_facts` when the answer holds no issue (it is no review), `no_evidence` when the commit or the
code an issue points at is not known, `judge_unavailable`, `judge_reply_invalid` and `timeout` as the judges gave them,
`too_long` for an answer over its reader's limits and for issues beyond `max_issues` or the cost cap. A review fails
when an issue was labelled hallucination, passes when every issue was judged and none was, and is not checked otherwise.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from checks.errors import ChecksError
from checks.review import prompts
from checks.review.cache import Replies
from checks.review.decide import Outcome, Variant
from checks.review.ensemble import Ensemble, Judged, Trace
from checks.review.findings import read_review, treat
from checks.review.panel import Limits, Panel, call_slots
from checks.review.policy import Handling, Policies, handle
from checks.review.site import Site, Unseen
from checks.review.types import Completeness, Issue, Pin, Repositories, Review, Snapshot
from checks.types import Case, CheckedIssue, IssueLabel, Judge, Reason, Status, Verdict

KIND = "code_review"
_LONGEST_DETAIL = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewDeadlines:
    """Seconds: to find the commit, for one call of a judge, for one issue with all its hops, for a whole review."""

    repository_s: float = 60.0
    call_s: float = 60.0
    issue_s: float = 120.0
    total_s: float = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewSettings:
    """How reviews are checked. `file_chars` is the most of one file a judge is shown; `concurrency` issues are judged
    at once, with `calls_at_once` calls of one judge over all reviews; `seed` keys the markers in prompts; `versions`
    names what model stands behind a judge's name; `rules` are further files of the repository that hold its rules."""

    variant: Variant = Variant.MULTI_HOP
    hops: int = 1
    policies: Policies = field(default_factory=Policies)
    deadlines: ReviewDeadlines = field(default_factory=ReviewDeadlines)
    max_issues: int = 200
    max_cost_usd: float | None = None
    file_chars: int = 24_000
    concurrency: int = 8
    calls_at_once: int = 8
    give_up_after: int = 3
    rules: tuple[str, ...] = ()
    seed: str = field(default="", repr=False)
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def limits(self) -> Limits:
        """What bounds the panel of one review."""
        return Limits(
            call_s=self.deadlines.call_s,
            calls_at_once=self.calls_at_once,
            give_up_after=self.give_up_after,
            max_cost_usd=self.max_cost_usd,
        )


@dataclass(slots=True)
class _Work:
    """One issue under judgement. What was gathered stays when its time runs out."""

    issue: Issue
    trace: Trace = field(default_factory=Trace)
    judged: Judged | None = None
    evidence: tuple[Mapping[str, Any], ...] = ()
    lines: tuple[int, int] | None = None
    detail: str = ""

    def unseen(self, reason: Reason, rule: str) -> None:
        self.judged = Judged(outcome=Outcome.ABSTAIN, rule=rule, reason=reason)


class ReviewCheck:
    """A `Check` of code reviews. `clock` gives seconds and is used for durations only.

    Raises `ReviewSetupError` when the variant cannot work with so many judges.
    """

    def __init__(
        self,
        judges: Sequence[Judge],
        repositories: Repositories,
        settings: ReviewSettings | None = None,
        *,
        replies: Replies | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._settings = settings or ReviewSettings()
        self._judges = tuple(judges)
        self._ensemble = Ensemble(self._settings.variant, len(self._judges), self._settings.hops)
        # Shared by all reviews: one review's queue must not look like a dead judge to another.
        self._slots = call_slots(len(self._judges), self._settings.calls_at_once)
        self._repositories = repositories
        self._replies = replies
        self._clock = clock

    @property
    def kind(self) -> str:
        return KIND

    async def check(self, case: Case) -> Verdict:
        """Judge every issue of the answer, some at a time, within the total deadline."""
        started = self._clock()
        review = await asyncio.to_thread(_read, case)
        if review.too_long:
            return self._unchecked(case, Reason.TOO_LONG, "; ".join(review.notes), review)
        if not review.issues:
            return self._unchecked(case, Reason.NO_FACTS, _no_issue(case), review)
        works = [_Work(issue) for issue in review.issues]
        found = await self._snapshot(case, review)
        if isinstance(found, _NoSnapshot):
            for work in works:
                work.unseen(found.reason, "no_repository")
            return self._verdict(case, review, works, None, {"total": self._clock() - started}, found.why)
        site = Site(found, file_chars=self._settings.file_chars, rules=self._settings.rules, seed=self._settings.seed)
        panel = Panel(self._judges, self._settings.limits, self._replies, self._settings.versions, self._slots)
        ready = self._clock()
        await self._all(works, site, panel)
        seconds = {"repository": ready - started, "judging": self._clock() - ready, "total": self._clock() - started}
        return self._verdict(case, review, works, found, seconds, "")

    async def _snapshot(self, case: Case, review: Review) -> Snapshot | _NoSnapshot:
        pin, messages = _pin(case, review), _messages(case)
        try:
            async with asyncio.timeout(self._settings.deadlines.repository_s):
                found = await self._repositories.snapshot(pin, messages)
        except TimeoutError:
            return _NoSnapshot(Reason.TIMEOUT, f"no commit within {self._settings.deadlines.repository_s:g} s")
        except Exception as error:
            return _NoSnapshot(Reason.NO_EVIDENCE, f"{type(error).__name__}: {error}"[:_LONGEST_DETAIL])
        return _NoSnapshot(Reason.NO_EVIDENCE, found) if isinstance(found, str) else found

    async def _all(self, works: Sequence[_Work], site: Site, panel: Panel) -> None:
        slots = asyncio.Semaphore(self._settings.concurrency)

        async def one(work: _Work) -> None:
            async with slots:
                await self._one(work, site, panel)

        for work in works[self._settings.max_issues :]:
            work.unseen(Reason.TOO_LONG, f"more than {self._settings.max_issues} issues")
        tasks = [asyncio.ensure_future(one(work)) for work in works[: self._settings.max_issues]]
        try:
            await asyncio.wait(tasks, timeout=self._settings.deadlines.total_s)
        finally:
            late = [task for task in tasks if not task.done()]
            for task in late:
                task.cancel()
            if late:
                await asyncio.gather(*late, return_exceptions=True)
        for work in works:
            if work.judged is None:
                work.unseen(Reason.TIMEOUT, "total deadline")

    async def _one(self, work: _Work, site: Site, panel: Panel) -> None:
        try:
            async with asyncio.timeout(self._settings.deadlines.issue_s):
                await self._judge(work, site, panel)
        except TimeoutError:
            work.unseen(Reason.TIMEOUT, "issue deadline")
        except ChecksError as error:
            work.unseen(Reason.NO_EVIDENCE, f"repository: {error}"[:_LONGEST_DETAIL])

    async def _judge(self, work: _Work, site: Site, panel: Panel) -> None:
        seen = await asyncio.to_thread(site.look, work.issue)
        work.evidence, work.lines = seen.evidence, seen.lines
        if seen.proof:
            work.detail = seen.proof
            work.judged = Judged(outcome=Outcome.HALLUCINATION, rule=f"evidence.{seen.rule}")
        elif isinstance(seen.scene, Unseen):
            work.detail = seen.scene.why
            work.unseen(Reason.NO_EVIDENCE, "no_code")
        else:
            work.judged = await self._ensemble.judge(seen.scene, panel, work.trace)

    def _verdict(
        self,
        case: Case,
        review: Review,
        works: Sequence[_Work],
        snapshot: Snapshot | None,
        seconds: Mapping[str, float],
        detail: str,
    ) -> Verdict:
        handled = [self._handle(work) for work in works]
        issues = tuple(_checked(work, handling) for work, handling in zip(works, handled, strict=True))
        status, reason = outcome(issues)
        treated = {
            work.issue.number: handling.treated(_label(work)) for work, handling in zip(works, handled, strict=True)
        }
        marked = {
            work.issue.number: handling.treated(_label(work), drop=False)
            for work, handling in zip(works, handled, strict=True)
        }
        schema = case.options.get("schema")
        return Verdict(
            kind=KIND,
            status=status,
            reason=reason,
            choice=case.choice,
            issues=issues,
            rule=self._ensemble.version,
            detail=detail or next((work.detail for work in works if reason and work.detail), ""),
            versions=self._versions(),
            seconds=seconds,
            filtered=treat(review, treated, schema=schema),
            marked=treat(review, marked, schema=schema),
            details=_details(review, issues, snapshot),
        )

    def _handle(self, work: _Work) -> Handling:
        judged = work.judged
        assert judged is not None
        return handle(
            work.issue,
            judged.label,
            self._settings.policies,
            condemning=judged.condemning,
            why=_why(work, judged),
            lines=work.lines,
        )

    def _unchecked(self, case: Case, reason: Reason, detail: str, review: Review) -> Verdict:
        return Verdict(
            kind=KIND,
            status=Status.NOT_CHECKED,
            reason=reason,
            choice=case.choice,
            detail=detail,
            versions=self._versions(),
            details=_details(review, (), None),
        )

    def _versions(self) -> dict[str, str]:
        judges = ",".join(judge.name for judge in self._judges)
        return {
            "prompt": prompts.VERSION,
            "ensemble": self._ensemble.version,
            "judges": judges,
            "policies": self._settings.policies.version,
        }


@dataclass(frozen=True, slots=True)
class _NoSnapshot:
    reason: Reason
    why: str


def outcome(issues: Sequence[CheckedIssue]) -> tuple[Status, Reason | None]:
    """The review's own outcome over its issues: the commonest reason when some could not be judged."""
    if any(issue.label is IssueLabel.HALLUCINATION for issue in issues):
        return Status.FAILED, None
    reasons = Counter(issue.reason for issue in issues if issue.reason is not None)
    return (Status.NOT_CHECKED, reasons.most_common(1)[0][0]) if reasons else (Status.PASSED, None)


def _read(case: Case) -> Review:
    root = case.options.get("repo_root")
    return read_review(case.answer, repo_root=root if isinstance(root, str) else None, truncated=case.truncated)


def _no_issue(case: Case) -> str:
    if not case.answer.strip():
        return "tool calls only" if case.has_tool_calls else "refusal" if case.refusal else "empty answer"
    return "no issue of a code review was found in the answer"


def _pin(case: Case, review: Review) -> Pin:
    """What the request says; the commit that all permalinks of the review name stands in for a missing revision."""

    def said(name: str) -> str | None:
        value = case.options.get(name)
        return value if isinstance(value, str) and value else None

    revision = said("revision")
    linked = {issue.revision for issue in review.issues if issue.revision is not None}
    if revision is None and len(linked) == 1:
        revision = linked.pop()
    return Pin(repository=said("repository"), revision=revision, base_revision=said("base_revision"))


def _messages(case: Case) -> Sequence[tuple[str, str]]:
    given = case.options.get("messages")
    if given is not None:
        return [(str(role), str(text)) for role, text in given]
    return [*case.history, ("user", case.query)]


def _label(work: _Work) -> IssueLabel | None:
    return work.judged.label if work.judged is not None else None


def _why(work: _Work, judged: Judged) -> str:
    """The reason behind a label in the words of the first judge that gave it."""
    for ballot in judged.ballots:
        if judged.label is not None and ballot.vote.value == judged.label.value:
            return ballot.why
    return work.detail or (judged.reason.value.replace("_", " ") if judged.reason is not None else "")


def _checked(work: _Work, handling: Handling) -> CheckedIssue:
    issue, judged, trace = work.issue, work.judged, work.trace
    assert judged is not None
    label = judged.label
    hops = tuple(hop.told() for hop in trace.hops)
    status = Status.FAILED if label is IssueLabel.HALLUCINATION else Status.PASSED
    return CheckedIssue(
        path=issue.path,
        start_line=issue.start_line,
        end_line=issue.end_line,
        title=issue.title or issue.body.strip().partition("\n")[0],
        status=status if label is not None else Status.NOT_CHECKED,
        label=label,
        reason=judged.reason,
        votes=tuple(ballot.told() for ballot in trace.ballots),
        hop=hops[-1] if hops else None,
        calls=tuple(trace.calls),
        start=issue.start,
        end=issue.end,
        severity=issue.severity.value if issue.severity is not None else None,
        action=handling.action,
        rule=f"{judged.rule}+{handling.guard}" if handling.guard else judged.rule,
        hops=hops,
        files=tuple(exhibit.told() for exhibit in trace.exhibits),
        evidence=work.evidence,
    )


def _details(review: Review, issues: Sequence[CheckedIssue], snapshot: Snapshot | None) -> dict[str, Any]:
    labels = Counter(issue.label.value if issue.label is not None else "not_checked" for issue in issues)
    costs = [call.cost_usd for issue in issues for call in issue.calls if call.cost_usd is not None]
    found: dict[str, Any] = {
        "formats": list(review.formats),
        "complete": review.completeness is Completeness.COMPLETE,
        "notes": list(review.notes),
        "labels": dict(labels),
        "actions": dict(Counter(issue.action for issue in issues)),
        "all_dropped": bool(issues) and all(issue.action == "drop" for issue in issues),
        "cost_usd": sum(costs) if costs else None,
        "judge_calls": sum(len(issue.calls) for issue in issues),
    }
    if snapshot is not None:
        found |= {
            "repository": snapshot.name,
            "revision": snapshot.revision,
            "base_revision": snapshot.base_revision,
            "partial": snapshot.partial,
        }
        found["notes"] += snapshot.notes
    return found
