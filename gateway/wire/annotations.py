"""Verdicts and sources as they stand in an answer: `annotations` and the top-level `grounding` object.

Offsets count code points of a choice's final content. Knows values of checks and retrieval only, and no transport.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from checks.types import FACT_LABELS, CheckedFact, CheckedIssue, Evidence, FactLabel, Status, Verdict
from gateway.wire.spans import OffsetMap, Span, drop_spans
from retrieval.types import Hit

VERSION: Final = 1
MAX_EVIDENCE: Final = 3
MAX_CITATIONS: Final = 2
_MARK: Final = re.compile(r"\[(\d{1,3}(?:, ?\d{1,3})*)\](?![(:])")
_CODE: Final = re.compile(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1|\Z)|`[^`\n]+`", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Source:
    """A passage under the number by which prompt, answer and verdict speak of it.

    `url` is the document's own address, or the gateway's for the passage. `in_prompt` is False for passages that a
    check found by itself.
    """

    number: int
    hit: Hit
    url: str
    in_prompt: bool = True

    @property
    def title(self) -> str:
        """What to show for it; never empty."""
        passage = self.hit.passage
        return passage.title or passage.source or passage.document_id


class Exchanged(Protocol):
    """What the `grounding` object says of an exchange beside its verdicts. `sources` hold all evidence."""

    @property
    def exchange_id(self) -> str: ...

    @property
    def route(self) -> str: ...

    @property
    def retrieval_status(self) -> str: ...

    @property
    def sources(self) -> Sequence[Source]: ...

    @property
    def action(self) -> str:
        """What the route does about a bad verdict."""
        ...

    @property
    def answered_by(self) -> tuple[str, bool] | None:
        """Who of several upstreams answered, and whether as a stand-in; None where there is one."""
        ...


def citations(verdict: Verdict, sources: Sequence[Source]) -> list[dict[str, Any]]:
    """A `url_citation` for each fact that passed as true and each source (two at most) that supports it."""
    by_passage = {source.hit.passage.id: source for source in sources}
    out: list[dict[str, Any]] = []
    for fact in verdict.facts:
        span = (fact.segment.start, fact.segment.end)
        if fact.status is not Status.PASSED or fact.label is not FactLabel.TRUE or span[0] >= span[1]:
            continue
        supporting = [item for item in fact.evidence if item.label is FactLabel.TRUE and item.passage.id in by_passage]
        supporting.sort(key=lambda item: -item.probability)
        cited = [_citation(span, by_passage[item.passage.id]) for item in supporting]
        out.extend(merge_annotations([], cited)[:MAX_CITATIONS])
    return merge_annotations([], out)


def mark_citations(text: str, sources: Sequence[Source]) -> list[dict[str, Any]]:
    """A `url_citation` for each mark `[n]` or `[n, m]` in `text` that names a source; code and links are left alone."""
    by_number = {source.number: source for source in sources}
    code = [match.span() for match in _CODE.finditer(text)]
    starts = [start for start, _ in code]
    out: list[dict[str, Any]] = []
    for match in _MARK.finditer(text):
        before = bisect_right(starts, match.start()) - 1
        if before >= 0 and code[before][1] > match.start():
            continue
        for number in match[1].split(","):
            source = by_number.get(int(number))
            if source is not None:
                out.append(_citation(match.span(), source))
    return merge_annotations([], out)


def merge_annotations(own: Sequence[Any], added: Iterable[Mapping[str, Any]]) -> list[Any]:
    """The upstream's annotations as they are, then those of ours that say something new."""
    out = list(own)
    seen = {_key(annotation) for annotation in own}
    for annotation in added:
        key = _key(annotation)
        if key not in seen:
            seen.add(key)
            out.append(annotation)
    return out


def without_facts(verdict: Verdict, text: str, unwanted: Callable[[CheckedFact], bool]) -> tuple[Verdict, str]:
    """`text` without the unwanted facts, and the verdict with offsets in what is left."""
    left, offsets = drop_spans(text, [(f.segment.start, f.segment.end) for f in verdict.facts if unwanted(f)])
    return moved(verdict, offsets), left


def moved(verdict: Verdict, offsets: OffsetMap) -> Verdict:
    """The verdict of an answer that left in part, with offsets in what left.

    A fact that did not leave stays in the verdict, without its text, at the place where it would stand.
    """
    return replace(verdict, facts=tuple(_moved(fact, offsets) for fact in verdict.facts))


def complaints(verdicts: Iterable[Verdict]) -> dict[int, list[str]]:
    """Per choice the statements that failed, as the answer made them, for a request to correct them."""
    out: dict[int, list[str]] = {}
    for verdict in verdicts:
        failed = [fact.segment.text.strip() for fact in verdict.facts if fact.status is Status.FAILED]
        failed += [issue.title for issue in verdict.issues if issue.status is Status.FAILED]
        if failed:
            out[verdict.choice] = failed
    return out


def shown_evidence(fact: CheckedFact) -> list[Evidence]:
    """Evidence that says what the fact's label says first, surest first."""
    ordered = sorted(fact.evidence, key=lambda item: (item.label is not fact.label, -item.probability))
    return ordered[:MAX_EVIDENCE]


def grounding_object(exchange: Exchanged, verdicts: Sequence[Verdict], *, withheld: bool = False) -> dict[str, Any]:
    """The top-level `grounding` object, ready for JSON.

    `withheld` leaves the judged text out, for an answer that was blocked. Per fact the evidence that decided is shown,
    three pieces at most; the ledger keeps all of it.
    """
    numbers = {source.hit.passage.id: source.number for source in exchange.sources}
    by = exchange.answered_by
    return {
        "version": VERSION,
        "exchange_id": exchange.exchange_id,
        "route": exchange.route,
        **({"upstream": {"name": by[0], "fallback": by[1]}} if by else {}),
        "retrieval": {
            "status": str(exchange.retrieval_status),
            "sources": [_source_object(source) for source in exchange.sources],
        },
        "checks": [_check_object(verdict, exchange.action, numbers, withheld=withheld) for verdict in verdicts],
    }


def _source_object(source: Source) -> dict[str, Any]:
    passage = source.hit.passage
    return {
        "number": source.number,
        "document_id": passage.document_id,
        "passage_id": passage.id,
        "title": source.title,
        "url": source.url,
        "score": round(float(source.hit.score), 4),
        "start": passage.start,
        "end": passage.end,
        "sha256": passage.sha256,
    }


def _check_object(verdict: Verdict, action: str, numbers: Mapping[str, int], *, withheld: bool) -> dict[str, Any]:
    check: dict[str, Any] = {
        "choice": verdict.choice,
        "kind": verdict.kind,
        "status": verdict.status.value,
        "reason": verdict.reason.value if verdict.reason is not None else None,
        "action": action,
    }
    if verdict.kind == "code_review":
        if verdict.detail and not withheld:
            check["detail"] = verdict.detail
        check["issues"] = [_issue_object(issue, withheld=withheld) for issue in verdict.issues]
    else:
        check["facts"] = [_fact_object(fact, numbers, withheld=withheld) for fact in verdict.facts]
    return check


def _fact_object(fact: CheckedFact, numbers: Mapping[str, int], *, withheld: bool) -> dict[str, Any]:
    probabilities = fact.probabilities or ()
    out: dict[str, Any] = {
        "text": "" if withheld else fact.segment.text,
        "start": fact.segment.start,
        "end": fact.segment.end,
        "label": fact.label.value if fact.label is not None else None,
        "probabilities": {
            label.value: round(float(p), 4) for label, p in zip(FACT_LABELS, probabilities, strict=False)
        },
        "evidence": [
            {
                "source": numbers[evidence.passage.id],
                "label": evidence.label.value,
                "probability": round(float(evidence.probability), 4),
                "quote": evidence.quote,
            }
            for evidence in shown_evidence(fact)
            if evidence.passage.id in numbers
        ],
    }
    if fact.label is None and fact.reason is not None:
        out["reason"] = fact.reason.value
    return out


def _issue_object(issue: CheckedIssue, *, withheld: bool) -> dict[str, Any]:
    vote_keys = ("judge", "hop", "label") if withheld else ("judge", "hop", "label", "reason")
    evidence_keys = ("kind",) if withheld else ("kind", "detail")
    out: dict[str, Any] = {
        "path": issue.path,
        "start_line": issue.start_line,
        "end_line": issue.end_line,
        "title": "" if withheld else issue.title,
        "severity": issue.severity,
        "start": issue.start,
        "end": issue.end,
        "label": issue.label.value if issue.label is not None else None,
        "action": issue.action,
        "votes": [{key: vote.get(key) for key in vote_keys} for vote in issue.votes],
        "hop": None if issue.hop is None else {key: issue.hop.get(key) for key in ("asked", "matched", "how")},
        "evidence": [{key: item.get(key) for key in evidence_keys} for item in issue.evidence],
    }
    if issue.part:
        out["part"] = issue.part
    if issue.label is None and issue.reason is not None:
        out["reason"] = issue.reason.value
    return out


def _moved(fact: CheckedFact, offsets: OffsetMap) -> CheckedFact:
    segment = fact.segment
    span = offsets.span(segment.start, segment.end)
    if span is None:
        place = offsets.point(segment.start)
        return replace(fact, segment=replace(segment, text="", context="", start=place, end=place))
    text = offsets.cut(segment.start, segment.text)
    return replace(fact, segment=replace(segment, text=text, start=span[0], end=span[1]))


def _citation(span: Span, source: Source) -> dict[str, Any]:
    citation = {"start_index": span[0], "end_index": span[1], "title": source.title, "url": source.url}
    return {"type": "url_citation", "url_citation": citation}


def _key(annotation: Any) -> tuple[Any, ...]:
    if isinstance(annotation, Mapping):
        inner = annotation.get("url_citation")
        if isinstance(inner, Mapping):
            return ("url", inner.get("start_index"), inner.get("end_index"), inner.get("url"))
    return ("other", repr(annotation))
