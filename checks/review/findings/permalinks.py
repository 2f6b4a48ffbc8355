"""Numbered lists whose items end with a permalink to the code, as Claude Code's reviews do. A mark leads the item.

Knows GitHub's and GitLab's addresses: the path, the lines and the commit stand only in the link.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from checks.review.findings import fields
from checks.review.findings.found import Found, Handle, Mark, Quoting, Slot
from checks.review.findings.outline import Line
from checks.review.types import Issue

FORMAT: Final = "permalinks"
_LINK: Final = re.compile(
    r"https?://[^\s/()<>]{1,200}+/[^\s()<>]{1,200}?/(?:-/)?blob/(?P<sha>[0-9a-f]{7,64})/(?P<path>[^\s#?()<>]{1,300}+)(?:\?[^\s#()<>]{0,99}+)?"
    r"#L(?P<range>(?P<first>\d{1,7})(?:C\d{1,5})?(?P<dash>-L?)?(?(dash)(?P<last>\d{1,7})))(?:C\d{1,5})?"
)
# What a link in Markdown is called stands before its address.
_LABEL: Final = re.compile(r"\[[^\[\]\n]{0,200}\]\(\Z")
_TRAIL: Final = " \t\r\n[(<:—–-"


@dataclass(frozen=True, slots=True)
class Link:
    """A permalink in a line."""

    path: str
    revision: str
    where: fields.Lines
    slot: Slot
    start: int
    end: int


def link(text: str, line: Line) -> Link | None:
    """The first permalink with a line in this line of text."""
    if text.find("/blob/", line.start, line.end) < 0:
        return None
    match = _LINK.search(text, line.start, min(line.end, line.start + 2000))
    if match is None:
        return None
    where = fields.lines(match["first"], match["last"])
    if where.start is None:
        return None
    slot = Slot(*match.span("range"), "{start}", "{start}-L{end}")
    return Link(unquote(match["path"]), match["sha"], where, slot, match.start(), match.end())


def read(text: str, item: Line, last: Line, found: Link) -> Found | None:
    """The issue from a list item to the line of its link; None when the item says nothing."""
    words = _LABEL.sub("", text[item.content : found.start]).rstrip(_TRAIL).strip()
    opening = fields.split_opening(words)
    title = opening.title or words
    if not any(character.isalpha() for character in title):
        return None
    issue = Issue(
        number=0,
        format=FORMAT,
        path=found.path,
        start_line=found.where.start,
        end_line=found.where.end,
        title=title,
        body=opening.body or title,
        severity=opening.severity,
        revision=found.revision,
        start=item.start,
        end=last.end,
    )
    handle = Handle(
        span=(item.start, last.next),
        marks=(Mark(item.content, item.content, Quoting.MARKDOWN),),
        lines=(found.slot,),
        ordinal=item.ordinal,
    )
    return Found(issue, handle, (found.where.note,) if found.where.note else ())
