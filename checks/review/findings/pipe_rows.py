"""Rows of `SEVERITY | FILE | LINE | TITLE | EVIDENCE`, one issue a line. A mark leads the title.

Knows that evidence may hold the delimiter: only the first four are borders.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import Final

from checks.review.findings import fields
from checks.review.findings.found import MOST_ISSUES, Block, Found, Handle, Mark, Quoting, Slot
from checks.review.types import Issue

FORMAT: Final = "pipe-rows"
_ROW: Final = re.compile(
    r"^(?P<level>[ \t]*[A-Za-z]{2,13}\d?[ \t]*)\|(?P<path>[^|\n]{1,300})\|(?P<line>[ \tLln/a\d\-–,]{0,24})\|"
    r"(?P<title>[^|\n]+)(?:\|(?P<evidence>[^\n]*))?$",
    re.MULTILINE,
)


def read(text: str) -> Block | None:
    """Every such row as one block; None without any."""
    every = (item for match in _ROW.finditer(text) if (item := _read(text, match)) is not None)
    found = list(islice(every, MOST_ISSUES))
    if not found:
        return None
    last = found[-1].handle.span[1]
    settled = last if text[last - 1 : last] == "\n" else (found[-2].handle.span[1] if len(found) > 1 else 0)
    return Block(
        format=FORMAT, start=found[0].issue.start, end=found[-1].issue.end, found=tuple(found), settled=settled
    )


def _read(text: str, match: re.Match[str]) -> Found | None:
    severity, path = fields.severity(match["level"]), match["path"].strip().strip("`")
    title, evidence = match["title"].strip(), (match["evidence"] or "").strip()
    if severity is None or not title or not fields.plausible_path(path):
        return None
    where = fields.lines(match["line"].strip() or None)
    issue = Issue(
        number=0,
        format=FORMAT,
        path=path,
        start_line=where.start,
        end_line=where.end,
        title=title,
        body=evidence or title,
        severity=severity,
        start=match.start(),
        end=match.end(),
    )
    at = match.start("title") + len(match["title"]) - len(match["title"].lstrip())
    first = match.start("line") + len(match["line"]) - len(match["line"].lstrip())
    lines = (Slot(first, first + len(match["line"].strip()), "{start}", "{start}-{end}"),) if where.start else ()
    line_end = text.find("\n", match.end())
    span = (match.start(), line_end + 1 if line_end >= 0 else len(text))
    handle = Handle(span=span, marks=(Mark(at, at, Quoting.CELL),), lines=lines)
    return Found(issue, handle, (where.note,) if where.note else ())
