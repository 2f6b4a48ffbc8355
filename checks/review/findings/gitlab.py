"""GitLab: merge-request notes with a `position`, and Code Quality reports. A mark leads the note or the description.

Knows that a note on a removed line has no `new_line` and speaks of the base file under its old path, and that the paths
of both sides differ for a rename. Formats: GitLab's Discussions API and its Code Quality report.
"""

from __future__ import annotations

from typing import Any, Final

from checks.review.findings import fields
from checks.review.findings.found import Found, Handle, Series
from checks.review.findings.jsontext import Node, line_slot, text_mark
from checks.review.types import Issue, Side

FORMAT: Final = "gitlab"
QUALITY: Final = "codequality"


def read_item(text: str, item: Node, series: Series | None) -> Found | None:
    """One note or one Code Quality entry, or None for any other object."""
    del text
    if item.open:
        return None
    position = item.get("position")
    if position is not None and position.kind == "object" and position.text("new_path", "old_path"):
        return _note(item, position, series)
    location = item.get("location")
    if location is not None and location.text("path") and (location.get("lines") or location.get("positions")):
        return _quality(item, location, series)
    return None


def _note(item: Node, position: Node, series: Series | None) -> Found | None:
    body = item.get("body", "note")
    if body is None or body.kind != "string" or not str(body.value).strip():
        return None
    new, old = position.get("new_line"), position.get("old_line")
    left = new is None and old is not None
    line = old if left else new
    span = position.get("line_range")
    side = "old_line" if left else "new_line"
    first = span.at("start", side) if span is not None else None
    where = fields.lines(first.value if first else line.value if line else None, line.value if line else None)
    rest, suggestion = fields.split_suggestion(str(body.value))
    opening = fields.split_opening(rest)
    extra: dict[str, Any] = {
        key: value for key in ("base_sha", "start_sha", "head_sha", "old_path") if (value := position.text(key))
    }
    issue = Issue(
        number=0,
        format=FORMAT,
        path=position.text("old_path", "new_path") if left else position.text("new_path", "old_path"),
        start_line=where.start,
        end_line=where.end,
        side=Side.LEFT if left else Side.RIGHT,
        title=opening.title,
        body=opening.body,
        severity=opening.severity or fields.severity(item.text("severity")),
        category=opening.category,
        suggestion=suggestion,
        start=item.start,
        end=item.end,
        extra=extra,
    )
    # A line that both sides have is named on both, and the other side's number is not known: such a note stays put.
    slots = line_slot(line, "{end}") + line_slot(first, "{start}") if new is None or old is None else ()
    handle = Handle(span=(item.start, item.end), series=series, marks=text_mark(body, after=r"\n\n"), lines=slots)
    return Found(issue, handle, (where.note,) if where.note else ())


def _quality(item: Node, location: Node, series: Series | None) -> Found | None:
    words = item.get("description")
    if words is None or words.kind != "string":
        return None
    begin = location.at("lines", "begin") or location.at("positions", "begin", "line")
    end = location.at("lines", "end") or location.at("positions", "end", "line")
    where = fields.lines(begin.value if begin else None, end.value if end else None)
    rule = item.text("check_name")
    issue = Issue(
        number=0,
        format=QUALITY,
        path=location.text("path"),
        start_line=where.start,
        end_line=where.end,
        title=rule,
        body=str(words.value).strip(),
        severity=fields.severity(item.text("severity")),
        category=rule or None,
        start=item.start,
        end=item.end,
        extra={"fingerprint": item.text("fingerprint")} if item.text("fingerprint") else {},
    )
    handle = Handle(
        span=(item.start, item.end),
        series=series,
        marks=text_mark(words),
        lines=line_slot(begin, "{start}") + line_slot(end, "{end}"),
    )
    return Found(issue, handle, (where.note,) if where.note else ())
