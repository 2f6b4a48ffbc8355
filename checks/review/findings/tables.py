"""Markdown tables with an issue per row. A mark leads the cell that says what is wrong.

A table is one of issues when it has a column for the file and one that finds fault (issue, severity, line); the table
of a description, with files and summaries, is none. Knows escaped bars.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from checks.review.findings import fields
from checks.review.findings.found import Found, Handle, Mark, Quoting, Slot, Span
from checks.review.findings.heads import clean
from checks.review.findings.outline import Line, location
from checks.review.types import Issue

FORMAT: Final = "markdown"
_DELIMITER: Final = re.compile(r"[ \t>]*\|?[ \t]*:?-{2,}:?[ \t]*(?:\|[ \t]*:?-{2,}:?[ \t]*)*\|?[ \t]*\r?")
_COLUMNS: Final = {
    name: meaning
    for meaning, names in {
        "file": "file|path|filename|location|where|file path|file:line|file/line",
        "line": "line|lines|line number|line(s)|line no|loc",
        "severity": "severity|priority|level|sev",
        "issue": "issue|problem|finding|bug|concern|title|comment|issue description|violation|remark",
        "text": "description|details|explanation|summary|message|impact|evidence",
        "fix": "fix|suggestion|recommendation|suggested fix|proposed fix",
        "category": "type|category|kind|rule",
    }.items()
    for name in names.split("|")
}
_LINK: Final = re.compile(r"\[([^\]\n]{1,300}+)\]\([^)\n]{0,600}+\)")


@dataclass(slots=True)
class Table:
    """A table of issues: the meaning of each column, where it begins, and the issues of its rows (their numbers)."""

    start: int
    columns: list[str]
    issues: list[int] = field(default_factory=list)
    rows: int = 0
    end: int = 0


def begins(text: str, header: Line, delimiter: Line) -> Table | None:
    """The table whose header and delimiter these lines are; None for any other lines or table."""
    if text.find("|", header.start, header.end) < 0 or text.find("-", delimiter.start, delimiter.end) < 0:
        return None
    if delimiter.end - delimiter.start > 1000 or not _DELIMITER.fullmatch(text, delimiter.start, delimiter.end):
        return None
    names = [text[start:end].strip().strip("*_` ").lower() for start, end in _cells(text, header)]
    columns = [_COLUMNS.get(name, "") for name in names]
    told = {"issue", "text", "fix"} & set(columns)
    faulty = "issue" in columns or {"severity", "line"} & set(columns)
    return Table(header.start, columns, end=delimiter.next) if "file" in columns and told and faulty else None


def row(text: str, line: Line, table: Table) -> Found | None:
    """The issue of a row; None for a row that names no file or says nothing."""
    cells: dict[str, Span] = {}
    for name, cell in zip(table.columns, _cells(text, line), strict=False):
        if name and text[cell[0] : cell[1]].strip():
            cells.setdefault(name, cell)
    if "file" not in cells:
        return None
    said = {name: _plain(text[start:end]) for name, (start, end) in cells.items()}
    place = location(text, *cells["file"])
    path = place.path if place is not None else clean(said["file"])
    spoken = cells.get("issue") or cells.get("text") or cells.get("fix")
    if spoken is None or not fields.plausible_path(path):
        return None
    where, slots = (place.where, place.slots) if place is not None else _lines(text, cells.get("line"))
    title = said.get("issue") or said.get("text") or said["fix"]
    issue = Issue(
        number=0,
        format=FORMAT,
        path=path,
        start_line=where.start,
        end_line=where.end,
        title=title,
        body=said.get("text") or title,
        severity=fields.severity(said.get("severity")),
        category=said.get("category") or None,
        suggestion=said.get("fix") if title != said.get("fix") else None,
        start=line.start,
        end=line.end,
    )
    at = spoken[0] + len(text[spoken[0] : spoken[1]]) - len(text[spoken[0] : spoken[1]].lstrip())
    handle = Handle(span=(line.start, line.next), marks=(Mark(at, at, Quoting.CELL),), lines=slots)
    return Found(issue, handle, (where.note,) if where.note else ())


def _lines(text: str, cell: Span | None) -> tuple[fields.Lines, tuple[Slot, ...]]:
    if cell is None:
        return fields.WHOLE_FILE, ()
    words = text[cell[0] : cell[1]]
    where = fields.lines(words.strip().strip("`* "))
    digits = re.search(r"\d(?:[^|\n]*\d)?", words)
    if where.start is None or digits is None:
        return fields.WHOLE_FILE, ()
    return where, (Slot(cell[0] + digits.start(), cell[0] + digits.end(), "{start}", "{start}-{end}"),)


def _plain(cell: str) -> str:
    return _LINK.sub(r"\1", cell.replace("\\|", "|")).strip()


def _cells(text: str, line: Line) -> list[Span]:
    """The spans between the bars of a row, escaped ones left out."""
    spans: list[Span] = []
    begin = line.start
    for match in re.finditer(r"\\.|\|", text[line.start : line.end]):
        if match[0] == "|":
            at = line.start + match.start()
            if spans or text[begin:at].strip(" \t>"):
                spans.append((begin, at))
            elif not spans:
                spans = []
            begin = at + 1
    if text[begin : line.end].strip():
        spans.append((begin, line.end))
    return spans
