"""The lines of an answer written in Markdown: which are code, headings, list items, and where an issue may be named.

Line by line and forward only, so that what was read of a beginning stays true whatever follows. Fences may be longer
than three marks and hold shorter ones. Knows no format.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from checks.review.findings import fields
from checks.review.findings.found import Slot, Span

MOST_LINES: Final = 20_000
_LONGEST: Final = 600
# How far into a line a file is looked for: past a mark of an earlier check.
_FARTHEST: Final = 1500
_FENCE: Final = re.compile(r"[ \t>]*+(?:[-*+][ \t]+|\d{1,3}[.)][ \t]+)?(`{3,}|~{3,})(.*)")
_CLOSE: Final = re.compile(r"[ \t>]*+(`{3,}|~{3,})[ \t]*\r?")
_HEADING: Final = re.compile(r" {0,3}(#{1,6})[ \t]+(.*)")
_ITEM: Final = re.compile(r"([ \t]*)(?:[-*+•]|(\d{1,3})[.)])[ \t]+(?=\S)")
_RULE: Final = re.compile(r" {0,3}(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,}|={4,}[ \t]*)\r?")
_LOCATION: Final = re.compile(
    r"(?:`@?(?P<ticked>[^`\n:#]{1,300}+)(?P<tick>`?)"
    r"|(?<![^\s*(\"'\[_@])@?(?P<bare>(?:[A-Za-z]:[\\/])?[^\s`*\"'<>|,;:()#~]{1,300}+))"
    r"(?P<gap>:(?:[Ll]ines?[ \t]+)?|\#L|[ \t,(:]{0,3}(?:at|around|on|near)?[ \t]*\b[Ll]ines?[ \t:#]{1,3}"
    r"|[ \t(:]{1,3}L)`?"
    r"(?P<range>(?P<first>\d{1,7})(?::\d{1,5})?"
    r"(?P<dash>[ \t]*(?:-|–|—|~|\.\.|to|and)[ \t]*L?)?(?(dash)(?P<last>\d{1,7})))"
    r"(?![\w])(?P<after>`?\)?)"
)


class Kind(Enum):
    """What a line is."""

    BLANK = auto()
    TEXT = auto()
    CODE = auto()
    TAKEN = auto()
    HEADING = auto()
    ITEM = auto()
    RULE = auto()


@dataclass(frozen=True, slots=True)
class Line:
    """A line without its end; `next` is where the next one begins. `content` is where its own words begin.

    `level` is a heading's; `indent` an item's; `ordinal` spans an item's number. `info` is what
    the first line of a fence says it is.
    """

    kind: Kind
    start: int
    end: int
    next: int
    content: int
    level: int = 0
    indent: int = 0
    ordinal: Span | None = None
    info: str | None = None

    @property
    def whole(self) -> bool:
        """Whether the line has its end, so that nothing can be added to it."""
        return self.next > self.end


@dataclass(frozen=True, slots=True)
class Location:
    """A file with a line, named in a line of text."""

    path: str
    where: fields.Lines
    slots: tuple[Slot, ...]
    start: int
    end: int


def outline(text: str, taken: Sequence[Span]) -> list[Line]:
    """Every line of the text. Lines that touch a span in `taken` belong to somebody else."""
    lines: list[Line] = []
    fence, position, index = "", 0, 0
    while position < len(text) and len(lines) < MOST_LINES:
        stop = text.find("\n", position)
        end, after = (len(text), len(text)) if stop < 0 else (stop, stop + 1)
        while index < len(taken) and taken[index][1] <= position:
            index += 1
        if index < len(taken) and taken[index][0] < after:
            lines.append(Line(Kind.TAKEN, position, end, after, position))
        elif fence:
            close = _CLOSE.fullmatch(text, position, end)
            if close is not None and close[1].startswith(fence):
                fence = ""
            lines.append(Line(Kind.CODE, position, end, after, position))
        else:
            line, fence = _line(text, position, end, after)
            lines.append(line)
        position = after
    return lines


def _line(text: str, start: int, end: int, after: int) -> tuple[Line, str]:
    first = text[start:end].lstrip()[:1] if end - start < _LONGEST else text[start : start + _LONGEST].lstrip()[:1]
    if not first:
        return Line(Kind.BLANK, start, end, after, start), ""
    match = _FENCE.match(text, start, end) if first in "`~>-*+0123456789" else None
    if match is not None and (match[1][0] == "~" or "`" not in match[2]):
        return Line(Kind.CODE, start, end, after, start, info=match[2].strip().lower()), match[1]
    if first == "#" and (match := _HEADING.match(text, start, end)) is not None:
        return Line(Kind.HEADING, start, end, after, match.start(2), level=len(match[1])), ""
    if first in "-*_=" and end - start < _LONGEST and _RULE.fullmatch(text, start, end):
        return Line(Kind.RULE, start, end, after, start), ""
    if first in "-*+•0123456789" and (match := _ITEM.match(text, start, end)) is not None:
        ordinal = match.span(2) if match[2] else None
        indent = len(match[1].expandtabs(4))
        return Line(Kind.ITEM, start, end, after, match.end(), indent=indent, ordinal=ordinal), ""
    return Line(Kind.TEXT, start, end, after, start), ""


def fenced(text: str) -> list[tuple[Span, str]]:
    """The contents of every fence, with what its first line says it is, in order."""
    spans: list[tuple[Span, str]] = []
    opened: Line | None = None
    for line in outline(text, ()):
        if opened is not None and (line.kind is not Kind.CODE or line.info is not None):
            spans.append(((opened.next, line.start), opened.info or ""))
            opened = None
        if line.info is not None:
            opened = line
    if opened is not None:
        spans.append(((opened.next, len(text)), opened.info or ""))
    return spans


def location(text: str, start: int, end: int) -> Location | None:
    """The first file with a line in a stretch of text, however it is written."""
    for match in _LOCATION.finditer(text, start, min(end, start + _FARTHEST)):
        path = match["ticked"] or match["bare"]
        if not fields.plausible_path(path) or (match["ticked"] and not match["tick"] and "`" not in match["after"]):
            continue
        where = fields.lines(match["first"], match["last"])
        if where.start is None:
            continue
        dash = match["dash"] or ("-L" if match["gap"] == "#L" else "-")
        slot = Slot(match.start("range"), match.end("range"), "{start}", "{start}" + dash + "{end}")
        return Location(path.strip(), where, (slot,), match.start(), match.end())
    return None
