"""Verdicts as the ledger keeps them: facts or issues, evidence, calls of judges. Pure.

What a conversation said (an issue's title, the reasons of votes, quotes) goes where it may be erased; what makes the
verdict (labels, votes, files seen, actions) goes with the verdict.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from checks.types import CheckedFact, CheckedIssue, Evidence, JudgeCall, Verdict
from gateway.ledger.record import CheckRecord, EvidenceRecord, FactRecord, JudgeCallRecord

_VOTE: Final = ("judge", "hop", "label", "abstained", "cached")


def check_record(verdict: Verdict, attempt: int, action: str, numbers: Mapping[str, int]) -> CheckRecord:
    """The record of a verdict and of what was done about it; `numbers` are those of sources, by passage."""
    calls = [_call_record(call, None) for call in verdict.calls]
    for position, fact in enumerate(verdict.facts):
        calls.extend(_call_record(call, position) for call in fact.calls)
    for position, issue in enumerate(verdict.issues):
        calls.extend(_call_record(call, position) for call in issue.calls)
    return CheckRecord(
        choice=verdict.choice,
        kind=verdict.kind,
        status=verdict.status.value,
        action=action,
        reason=verdict.reason.value if verdict.reason else None,
        rule=verdict.rule,
        score=verdict.score,
        detail=verdict.detail,
        attempt=attempt,
        facts=[
            *(_fact_record(position, fact, numbers) for position, fact in enumerate(verdict.facts)),
            *(_issue_record(position, issue) for position, issue in enumerate(verdict.issues)),
        ],
        calls=calls,
        versions=dict(verdict.versions),
        seconds=dict(verdict.seconds),
        details=dict(verdict.details),
    )


def _fact_record(position: int, fact: CheckedFact, numbers: Mapping[str, int]) -> FactRecord:
    return FactRecord(
        position=position,
        text=fact.segment.text,
        start=fact.segment.start,
        end=fact.segment.end,
        status=fact.status.value,
        label=fact.label.value if fact.label else None,
        reason=fact.reason.value if fact.reason else None,
        probabilities=list(fact.probabilities) if fact.probabilities else None,
        score=fact.score,
        questions=list(fact.questions),
        evidence=[_evidence_record(evidence, numbers) for evidence in fact.evidence],
        rule=fact.rule,
    )


def _issue_record(position: int, issue: CheckedIssue) -> FactRecord:
    costs = [call.cost_usd for call in issue.calls if call.cost_usd is not None]
    return FactRecord(
        position=position,
        text=issue.title,
        start=issue.start,
        end=issue.end,
        status=issue.status.value,
        label=issue.label.value if issue.label else None,
        reason=issue.reason.value if issue.reason else None,
        rule=issue.rule,
        detail={"votes": [dict(vote) for vote in issue.votes], "evidence": [dict(item) for item in issue.evidence]},
        issue={
            "path": issue.path,
            "start_line": issue.start_line,
            "end_line": issue.end_line,
            "severity": issue.severity,
            "action": issue.action,
            "part": issue.part,
            "votes": [{key: vote.get(key) for key in _VOTE} for vote in issue.votes],
            "hops": [dict(hop) for hop in issue.hops or ([issue.hop] if issue.hop else [])],
            "files": [dict(file) for file in issue.files],
            "evidence": [str(item.get("kind")) for item in issue.evidence],
            "cost_usd": sum(costs) if costs else None,
        },
    )


def _evidence_record(evidence: Evidence, numbers: Mapping[str, int]) -> EvidenceRecord:
    return EvidenceRecord(
        source=numbers[evidence.passage.id],
        label=evidence.label.value,
        probability=evidence.probability,
        probabilities=list(evidence.probabilities),
        score=evidence.score,
        quote=evidence.quote,
        quote_start=evidence.quote_start,
        quote_end=evidence.quote_end,
    )


def _call_record(call: JudgeCall, fact_position: int | None) -> JudgeCallRecord:
    return JudgeCallRecord(
        judge=call.judge,
        model=call.model,
        purpose=call.purpose,
        request=call.request,
        reply=call.reply,
        prompt_tokens=call.prompt_tokens,
        completion_tokens=call.completion_tokens,
        cost_usd=call.cost_usd,
        seconds=call.seconds,
        error=call.error,
        fact_position=fact_position,
    )
