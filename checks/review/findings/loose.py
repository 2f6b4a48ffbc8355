"""Issues as models write them when no schema binds them: objects with any of the usual keys. A mark goes in the text.

An object is an issue when it says something about a file and how it is wrong; a list of files with summaries, a score,
a command's arguments are none. Knows that lines come as numbers, texts, ranges and lists, that a line of 0 or null
means the whole file, and that a line may be part of the path. Scores of somebody else's suggestions are no issues.
"""

from __future__ import annotations

import re
from typing import Any, Final

from checks.review.findings import fields
from checks.review.findings.found import Found, Handle, Series, Slot
from checks.review.findings.jsontext import Node, line_slot, text_mark
from checks.review.types import Issue, Side

FORMAT: Final = "json"


def _words(words: str) -> tuple[str, ...]:
    return tuple(words.split())


PATHS: Final = _words("file path filename relevant_file file_path filepath filePath fileName file_name")
_LINES: Final = _words(
    "line line_number lineNumber lines start_line startLine line_start line_range lineStart relevant_lines_start "
    "begin_line location encoded_location"
)
_ENDS: Final = _words("end_line endLine line_end lineEnd relevant_lines_end to_line")
_TITLES: Final = _words("title issue_header summary one_sentence_summary header name headline issue problem rule")
_BODIES: Final = _words(
    "body description short_description message issue_content suggestion_content details detail explanation comment "
    "content text reason "
    "rationale issue problem"
)
_SUGGESTIONS: Final = _words(
    "suggestion suggested_fix improved_code fix suggested_code recommendation replacement suggestions"
)
_SEVERITIES: Final = _words("severity priority level importance impact criticality")
_CATEGORIES: Final = _words("category type kind label rule rule_id ruleId check")
# Any of these says that the object finds fault with something, and does not merely describe a file.
_FAULTS: Final = frozenset(
    _SEVERITIES
    + _SUGGESTIONS
    + _words("issue problem issue_header issue_content comment category confidence rule rule_id ruleId finding")
)
# Lists by these names hold issues, so that each needs to say less.
STRONG_LISTS: Final = frozenset(
    _words(
        "findings issues problems bugs violations defects key_issues_to_review code_suggestions review_comments "
        "vulnerabilities"
    )
)
_WEAK_LISTS: Final = _words("comments suggestions results annotations feedback reviews remarks items")
LISTS: Final = STRONG_LISTS | frozenset(_WEAK_LISTS)
# What a scoring call says of suggestions made before.
_SCORES: Final = ("suggestion_score", "suggestion_summary", "score_why")
_BY_LINE: Final = re.compile(r"(?P<path>.+?)(?::|#L|:L)(?P<lines>\d{1,9}(?:(?:-|–|~)L?\d{1,9})?)(?::\d+)?\s*\Z")


def read_item(text: str, item: Node, series: Series | None, path: str = "") -> Found | None:
    """One loose issue, or None. `path` is what the list around it says; a list of issues needs less from each.

    An object on its own, outside any list, must name a line.
    """
    del text
    if item.open or item.kind != "object" or any(item.get(key) for key in _SCORES):
        return None
    raw, where, slots = _where(item, path)
    title, body = item.text(*_TITLES), _body(item)
    keys = frozenset(member.key for member in item.members)
    located = not keys.isdisjoint(_LINES) or where.start is not None
    faulty = not keys.isdisjoint(_FAULTS)
    strong = series is not None and (series.path[-1:] or ("",))[0] in STRONG_LISTS
    if not (title or body) or not _is_issue(raw, item, series, located=located, faulty=faulty, strong=strong):
        return None
    rest, fenced = fields.split_suggestion(body)
    suggestion = _suggestion(item)
    extra: dict[str, Any] = {}
    if (confidence := item.get("confidence", "confidence_score", "score")) is not None:
        extra["confidence"] = confidence.value
    if existing := item.text("existing_code", "code", "snippet", "code_snippet"):
        extra["existing_code"] = existing
    issue = Issue(
        number=0,
        format=FORMAT,
        path=raw or None,
        start_line=where.start,
        end_line=where.end,
        side=Side.LEFT if item.text("side").upper() == "LEFT" else Side.RIGHT,
        title=title,
        body=rest or title,
        severity=fields.severity(item.text(*_SEVERITIES)),
        category=item.text(*_CATEGORIES) or None,
        suggestion=suggestion if suggestion is not None else fenced,
        start=item.start,
        end=item.end,
        extra=extra,
    )
    handle = Handle(
        span=(item.start, item.end), series=series, marks=_marks(item), lines=slots, removable=series is not None
    )
    return Found(issue, handle, (where.note,) if where.note else ())


def _is_issue(raw: str, item: Node, series: Series | None, *, located: bool, faulty: bool, strong: bool) -> bool:
    if series is None:
        # Alone, as the arguments of a tool: it must name a place, and must not be an edit or a search.
        told = item.get("body", "description", "message", "comment", "issue", "problem", "title")
        return bool(raw) and located and told is not None and not item.get("command", "old_str", "new_str", "query")
    if strong:
        return bool(raw) or (faulty and bool(item.text(*_SEVERITIES)))
    return bool(raw) and (located or faulty)


def _body(item: Node) -> str:
    for key in _BODIES:
        node = item.get(key)
        if node is not None and node.kind == "string" and str(node.value).strip():
            return str(node.value).strip()
    return ""


def _where(item: Node, inherited: str) -> tuple[str, fields.Lines, tuple[Slot, ...]]:
    """The path as written, the lines, and where the lines are written."""
    path_node = item.get(*PATHS)
    location = item.get("location", "encoded_location")
    if path_node is None and location is not None:
        path_node = location.get(*PATHS) if location.kind == "object" else location
    raw = str(path_node.value).strip() if path_node is not None and path_node.kind == "string" else inherited
    owner = location if location is not None and location.kind == "object" else item
    start = owner.get(*_LINES[:-2]) or item.get(*_LINES[:-2])
    end = owner.get(*_ENDS) or item.get(*_ENDS)
    if start is not None and start.kind == "object":
        span = start
        start, end = span.get("start", "begin", "from"), span.get("end", "to")
    if start is not None and start.kind == "array":
        end = start.items[-1] if len(start.items) > 1 else None
        start = start.items[0] if start.items else None
    where = fields.lines(start.value if start else None, end.value if end else None)
    slots = _line_slots(start, end)
    match = _BY_LINE.match(raw) if len(raw) < 400 else None
    if match is not None and path_node is not None and where.start is None:
        where, raw = fields.lines(match["lines"]), match["path"]
        if path_node.end - path_node.start - 2 == len(match.string):
            # Written without escapes, so that offsets in the value are offsets in the text.
            at = path_node.start + 1
            slots = (Slot(at + match.start("lines"), at + match.end("lines"), "{start}", "{start}-{end}"),)
    return raw, where, slots


def _line_slots(start: Node | None, end: Node | None) -> tuple[Slot, ...]:
    if end is not None:
        return line_slot(start, "{start}") + line_slot(end, "{end}")
    if (slots := line_slot(start)) and start is not None and start.kind == "number":
        return slots
    if start is not None and start.kind == "string" and start.end - start.start >= 2:
        return (Slot(start.start + 1, start.end - 1, "{start}", "{start}-{end}"),)
    return ()


def _suggestion(item: Node) -> str | None:
    node = item.get(*_SUGGESTIONS)
    if node is not None and node.kind == "object":
        node = node.get("code", "text", "replacement", "content")
    if node is not None and node.kind == "array" and node.items:
        node = node.items[0]
    return str(node.value) if node is not None and node.kind == "string" and str(node.value).strip() else None


def _marks(item: Node) -> tuple[Any, ...]:
    for key in (*_BODIES, *_TITLES):
        node = item.get(key)
        if node is not None and node.kind == "string" and str(node.value).strip():
            return text_mark(node)
    return ()
