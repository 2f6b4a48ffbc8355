"""Turns an issue in Markdown that has ended into what is handed on. Knows one issue, and not where others are."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from checks.review.findings import coderabbit, fields, groups, heads
from checks.review.findings.found import Found, Handle, Span
from checks.review.findings.heads import Head
from checks.review.types import Issue

_DETAIL: Final = frozenset({"severity", "category", "confidence"})


def finish(text: str, head: Head, values: dict[str, Span], end: int, after: int) -> Found | None:
    """The issue whose last line ends at `end` and is left behind at `after`; None when it says nothing."""
    if head.fielded:
        finished = groups.finish(text, head, values, end) if "file" in values else None
        if finished is None:
            return None
        head, body = finished
    else:
        body = _details(head, text[head.body_at : end])
    body, suggestion = fields.split_suggestion(body)
    if head.format == coderabbit.FORMAT or not head.title:
        opening = fields.split_opening(body.lstrip(" \t:—–-"))
        head.title = head.title or opening.title
        body, head.severity = opening.body, head.severity or opening.severity
        head.category = head.category or opening.category
    body = heads.untagged(body)
    if head.item and not head.title:
        head.title = body.split("\n", 1)[0].strip()
    if not (head.title or body):
        return None
    tier = {"tier": head.tier} if head.tier else {}
    issue = Issue(
        number=0,
        format=head.format,
        path=head.path,
        start_line=head.where.start,
        end_line=head.where.end,
        title=head.title,
        body=body or head.title,
        severity=head.severity or coderabbit.default_severity(head.tier),
        category=head.category,
        suggestion=suggestion,
        revision=head.revision,
        start=head.start,
        end=end,
        extra=tier,
    )
    mark = head.mark if head.mark.start >= 0 else replace(head.mark, start=end, end=end)
    handle = Handle(span=(head.start, after), marks=(mark,), lines=head.slots, ordinal=head.ordinal)
    return Found(issue, handle, (head.where.note,) if head.where.note else ())


def _details(head: Head, body: str) -> str:
    """The body without the lines at its beginning that give severity, kind or confidence."""
    lines = body.split("\n")
    kept: list[str] = []
    for number, line in enumerate(lines):
        if line.lstrip().startswith("> ["):
            # A mark of an earlier check.
            kept.append(line)
            continue
        key = groups.key_of(line, 0, len(line))
        if key is None or key[0] not in _DETAIL:
            if line.strip():
                return "\n".join([*kept, *lines[number:]])
            kept.append(line)
            continue
        value = line[key[1] :].strip().strip("*_` ")
        if key[0] == "severity":
            head.severity = fields.severity(value) or head.severity
        elif key[0] == "category":
            head.category = value or head.category
    return "\n".join(kept)
