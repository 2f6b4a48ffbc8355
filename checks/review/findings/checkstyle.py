"""Checkstyle's XML: `<file name>` with `<error line severity message source>`. A mark goes before the message.

expat reads it, so it is XML or it is nothing; a document type is refused, so no entity is ever expanded. Knows that
`error` elements without a line speak of the whole file.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, field
from html import unescape
from typing import Final
from xml.parsers import expat

from checks.review.findings import fields
from checks.review.findings.found import MOST_ISSUES, Block, Found, Handle, Mark, Quoting, Section, Slot, Span
from checks.review.types import Issue

FORMAT: Final = "checkstyle"
_ROOT: Final = re.compile(r"<checkstyle(?=[\s>])")
_FOREIGN: Final = re.compile(r"[^\x09\x0a\x0d\x20-\x7e]")
_ATTRIBUTE: Final = re.compile(r"\s([\w:.-]+)\s*=\s*(?:\"([^\"]*)\"|'([^']*)')")
_TAG: Final = re.compile(r"<[\w:.-]+(?:\s+[\w:.-]+\s*=\s*(?:\"[^\"]*\"|'[^']*'))*\s*/?>")
_DEEPEST: Final = 16
# Reports in one answer: each is read from its start to the end of the text.
_MOST: Final = 8


class _Stop(Exception):
    """The document has ended, or is none that is read."""


@dataclass(slots=True)
class _Reader:
    text: str
    offset: int
    parser: expat.XMLParserType
    found: list[Found] = field(default_factory=list)
    sections: list[Section] = field(default_factory=list)
    path: str = ""
    file_start: int = 0
    first: int = 0
    depth: int = 0
    end: int = -1
    error: tuple[int, dict[str, Span]] | None = None

    def opened(self, name: str, attributes: dict[str, str]) -> None:
        del attributes
        at = self.parser.CurrentByteIndex + self.offset
        self.depth += 1
        if self.depth > _DEEPEST or len(self.found) >= MOST_ISSUES:
            raise _Stop
        if name == "file":
            self.path = self.value(self.spans(at).get("name"))
            self.file_start, self.first = at, len(self.found)
        elif name == "error":
            self.error = (at, self.spans(at))

    def closed(self, name: str) -> None:
        at = self.parser.CurrentByteIndex + self.offset
        until = self.text.find(">", at) + 1 if self.text.startswith("</", at) else self.tag_end(at)
        self.depth -= 1
        if name == "error" and self.error is not None:
            self.add(self.error[0], until, self.error[1])
            self.error = None
        elif name == "file" and len(self.found) > self.first:
            members = frozenset(range(self.first, len(self.found)))
            self.sections.append(Section(*whole_lines(self.text, (self.file_start, until)), members))
        if not self.depth:
            self.end = until
            raise _Stop

    def refuse(self, *declaration: object) -> None:
        del declaration
        raise _Stop

    def tag_end(self, at: int) -> int:
        match = _TAG.match(self.text, at)
        return match.end() if match is not None else at

    def spans(self, at: int) -> dict[str, Span]:
        end = self.tag_end(at)
        return {m[1]: m.span(2 if m[2] is not None else 3) for m in _ATTRIBUTE.finditer(self.text, at, end)}

    def value(self, span: Span | None) -> str:
        return unescape(self.text[span[0] : span[1]]).strip() if span is not None else ""

    def add(self, start: int, end: int, spans: dict[str, Span]) -> None:
        message = self.value(spans.get("message"))
        if not message or not self.path:
            return
        where = fields.lines(self.value(spans.get("line")))
        rule = self.value(spans.get("source"))
        issue = Issue(
            number=0,
            format=FORMAT,
            path=self.path,
            start_line=where.start,
            end_line=where.end,
            title=rule,
            body=message,
            severity=fields.severity(self.value(spans.get("severity"))),
            category=rule or None,
            start=start,
            end=end,
        )
        at = spans["message"][0]
        lines = (Slot(*spans["line"]),) if "line" in spans and where.start is not None else ()
        handle = Handle(span=whole_lines(self.text, (start, end)), marks=(Mark(at, at, Quoting.XML),), lines=lines)
        self.found.append(Found(issue, handle))


def whole_lines(text: str, span: Span) -> Span:
    """The span with its line's indentation and line end when nothing else stands on its lines."""
    start, end = span
    first = text.rfind("\n", 0, start) + 1
    last = text.find("\n", end)
    last = len(text) if last < 0 else last + 1
    if text[first:start].strip() or text[end:last].strip():
        return span
    return first, last


def read(text: str) -> list[Block]:
    """Every Checkstyle report in the text."""
    blocks: list[Block] = []
    position = attempts = 0
    while attempts < _MOST and (match := _ROOT.search(text, position)) is not None:
        parser = expat.ParserCreate("US-ASCII")
        reader = _Reader(text, match.start(), parser)
        parser.StartElementHandler, parser.EndElementHandler = reader.opened, reader.closed
        parser.StartDoctypeDeclHandler = reader.refuse
        source = _FOREIGN.sub("x", text[match.start() :]).encode("ascii")
        final = True
        with suppress(expat.ExpatError, _Stop):
            parser.Parse(source, final)
        cut = reader.end < 0
        if reader.found:
            last = reader.found[-1].issue.end
            end = last if cut else reader.end
            blocks.append(
                Block(
                    format=FORMAT,
                    start=match.start(),
                    end=end,
                    found=tuple(reader.found),
                    dependents=tuple(reader.sections),
                    cut=cut,
                    settled=last if cut else end,
                )
            )
        if cut:
            break
        position = max(match.end(), reader.end)
        attempts += 1
    return blocks
