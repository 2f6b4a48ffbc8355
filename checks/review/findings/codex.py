"""The findings object of Codex reviews. A mark goes before the body; the title keeps its priority tag.

Knows that paths are absolute in the reviewer's sandbox (cut at the root of the repository where that is known), and
that P0 to P3 stand in the title, in `priority`, or in both. Format: OpenAI's code-review output schema.
"""

from __future__ import annotations

import re
from typing import Any, Final

from checks.review.findings import fields
from checks.review.findings.found import Found, Handle, Series
from checks.review.findings.jsontext import Node, line_slot, text_mark
from checks.review.types import Issue, Severity

FORMAT: Final = "codex"
_TAG: Final = re.compile(r"\s*\[P([0-4])\]\s*", re.IGNORECASE)
_PRIORITIES: Final = (Severity.CRITICAL, Severity.HIGH, Severity.MEDIUM, Severity.LOW, Severity.INFO)


def read_item(text: str, item: Node, series: Series | None) -> Found | None:
    """One finding, or None for any other object."""
    del text
    location = item.get("code_location")
    title = item.text("title")
    if item.open or location is None or not (title or item.text("body")):
        return None
    path = location.text("absolute_file_path", "file_path", "path")
    span = location.get("line_range")
    start = span.get("start") if span is not None else location.get("line")
    end = span.get("end") if span is not None else None
    where = fields.lines(start.value if start else None, end.value if end else None)
    tag = _TAG.match(title)
    priority = item.get("priority")
    level = int(tag[1]) if tag else priority.value if priority is not None else None
    known = isinstance(level, int) and not isinstance(level, bool) and 0 <= level < len(_PRIORITIES)
    confidence = item.get("confidence_score")
    extra: dict[str, Any] = {"confidence": confidence.value} if confidence is not None else {}
    body, suggestion = fields.split_suggestion(item.text("body"))
    issue = Issue(
        number=0,
        format=FORMAT,
        path=path or None,
        start_line=where.start,
        end_line=where.end,
        title=title[tag.end() :] if tag else title,
        body=body,
        severity=_PRIORITIES[level] if known and level is not None else None,
        suggestion=suggestion,
        start=item.start,
        end=item.end,
        extra=extra,
    )
    handle = Handle(
        span=(item.start, item.end),
        series=series,
        marks=text_mark(item.get("body")) or text_mark(item.get("title")),
        lines=line_slot(start, "{start}") + line_slot(end, "{end}"),
    )
    return Found(issue, handle, (where.note,) if where.note else ())
