"""Review comments of GitHub's REST interface, alone, in a list, or as `comments` of a review. A mark leads the body.

Knows that `line` is the last line and `start_line` the first, that `LEFT` speaks of the base file, and that GitHub
refuses a `start_line` equal to `line`: an issue moved to a single line loses it. The review's own body is no issue.
"""

from __future__ import annotations

from typing import Any, Final

from checks.review.findings import fields
from checks.review.findings.found import Found, Handle, Series, Slot
from checks.review.findings.jsontext import Node, line_slot, text_mark, without_members
from checks.review.types import Issue, Side

FORMAT: Final = "github"
_SIGNS: Final = ("side", "start_side", "position", "subject_type", "subjectType", "startLine", "startSide", "commit_id")
_FOREIGN: Final = ("title", "issue", "problem", "description", "position_type", "file", "new_path")


def read_item(text: str, item: Node, series: Series | None) -> Found | None:
    """One review comment, or None for any other object."""
    path, body = item.text("path"), item.get("body")
    position = item.get("position")
    if item.open or not path or body is None or body.kind != "string" or any(item.get(key) for key in _FOREIGN):
        return None
    if position is not None and position.kind == "object":
        return None
    line = item.get("line", "original_line")
    if line is None and not any(item.get(key) for key in _SIGNS):
        return None
    first = item.get("start_line", "startLine", "original_start_line")
    where = fields.lines(first.value if first else line.value if line else None, line.value if line else None)
    rest, suggestion = fields.split_suggestion(str(body.value))
    opening = fields.split_opening(rest)
    if not (opening.title or opening.body or suggestion):
        return None
    extra: dict[str, Any] = {}
    if commit := item.text("commit_id", "original_commit_id"):
        extra["commit_id"] = commit
    issue = Issue(
        number=0,
        format=FORMAT,
        path=path,
        start_line=where.start,
        end_line=where.end,
        side=Side.LEFT if item.text("side").upper() == "LEFT" else Side.RIGHT,
        title=opening.title,
        body=opening.body,
        severity=opening.severity or fields.severity(item.text("severity", "priority", "level")),
        category=opening.category,
        suggestion=suggestion,
        start=item.start,
        end=item.end,
        extra=extra,
    )
    handle = Handle(
        span=(item.start, item.end),
        series=series,
        marks=text_mark(body, after=r"\n\n"),
        lines=_line_slots(text, item, line, first),
    )
    return Found(issue, handle, (where.note,) if where.note else ())


def _line_slots(text: str, item: Node, line: Node | None, first: Node | None) -> tuple[Slot, ...]:
    slots = line_slot(line, "{end}")
    if not slots:
        return ()
    if first is not None:
        several = tuple(Slot(slot.start, slot.end, None, slot.several) for slot in line_slot(first, "{start}"))
        keys = ("start_line", "start_side", "startLine", "startSide")
        return slots + several + without_members(text, item, keys, always=False)
    key = next((member for member in item.members if member.node is line), None)
    if key is not None and key.key == "line":
        slots += (Slot(key.start, key.start, None, '"start_line": {start}, '),)
    return slots
