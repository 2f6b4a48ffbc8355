"""Workflow commands of GitHub Actions (`::error file=,line=::message`), one issue a line. A mark leads the message.

Knows the escapes of commands: `%25 %0D %0A` everywhere, `%3A %2C` in properties.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import Final

from checks.review.findings import fields
from checks.review.findings.found import MOST_ISSUES, Block, Found, Handle, Mark, Quoting, Slot
from checks.review.types import Issue

FORMAT: Final = "workflow"
_COMMAND: Final = re.compile(
    r"^[ \t]*::(?P<level>error|warning|notice)[ \t]+(?P<properties>[^:\n]*(?::(?!:)[^:\n]*)*)::(?P<message>[^\n]*)$",
    re.MULTILINE,
)
_PROPERTY: Final = re.compile(r"(\w+)=([^,]*)")
_ESCAPE: Final = re.compile(r"%(25|0D|0A|3A|2C)", re.IGNORECASE)


def read(text: str) -> Block | None:
    """Every command that names a file, as one block; None without any."""
    every = (item for match in _COMMAND.finditer(text) if (item := _read(text, match)) is not None)
    found = list(islice(every, MOST_ISSUES))
    if not found:
        return None
    last = found[-1].handle.span[1]
    settled = last if text[last - 1 : last] == "\n" else (found[-2].handle.span[1] if len(found) > 1 else 0)
    start = found[0].issue.start
    return Block(format=FORMAT, start=start, end=found[-1].issue.end, found=tuple(found), settled=settled)


def _read(text: str, match: re.Match[str]) -> Found | None:
    at = match.start("properties")
    spans = {m[1]: (m.start(2) + at, m.end(2) + at) for m in _PROPERTY.finditer(match["properties"])}
    values = {key: _plain(text[start:end]).strip() for key, (start, end) in spans.items()}
    message = _plain(match["message"]).strip()
    if not values.get("file") or not message:
        return None
    where = fields.lines(values.get("line"), values.get("endLine"))
    start = match.start() + len(match[0]) - len(match[0].lstrip())
    issue = Issue(
        number=0,
        format=FORMAT,
        path=values["file"],
        start_line=where.start,
        end_line=where.end,
        title=values.get("title", ""),
        body=message,
        severity=fields.severity(match["level"]),
        start=start,
        end=match.start("message") + len(match["message"].rstrip()),
    )
    lines = tuple(
        Slot(*spans[key], template, template)
        for key, template in (("line", "{start}"), ("endLine", "{end}"))
        if values.get(key, "").isdigit()
    )
    line_end = text.find("\n", match.end())
    span = (text.rfind("\n", 0, start) + 1, line_end + 1 if line_end >= 0 else len(text))
    mark = Mark(match.start("message"), match.start("message"), Quoting.WORKFLOW)
    return Found(issue, Handle(span=span, marks=(mark,), lines=lines), (where.note,) if where.note else ())


def _plain(escaped: str) -> str:
    return _ESCAPE.sub(lambda m: chr(int(m[1], 16)), escaped)
