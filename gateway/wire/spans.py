"""Removes spans of a text as an editor would, and says where what stays has moved. Knows no verdict.

Offsets count code points. Only deletions happen: the new text is what stays of the old one, in order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

# What may be left of a line whose words were removed: quote signs, bullets, numbers, headings, check boxes, table bars.
_BARE_LINE: Final = re.compile(
    r"[ \t>]*(?:(?:[-*+•‣–]|\(?(?:\d{1,3}|[^\W\d_])[.)]|#{1,6})[ \t]*)?(?:\[[ xX]?\][ \t]*)?[*_]*[ \t]*"
)
_BARE_ROW: Final = re.compile(r"[ \t>]*\|[ \t|*_]*")
_MARKS: Final = re.compile(r"(?:[ \t]?\[\d{1,3}(?:, ?\d{1,3})*\](?!\())+")
_EMPHASIS: Final = ("**", "__")

Span: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class OffsetMap:
    """Offsets of the old text to offsets of the new one. `kept` are spans of the old text, in order, not empty."""

    kept: tuple[Span, ...]

    def span(self, start: int, end: int) -> Span | None:
        """Where what stays of a span is now; None when nothing of it stays."""
        parts = [(max(s, start), min(e, end)) for s, e in self.kept if s < end and e > start]
        if not parts or start >= end:
            return None
        return self.point(parts[0][0]), self.point(parts[-1][1] - 1) + 1

    def point(self, offset: int) -> int:
        """Where an offset is now; inside something removed, where that was."""
        new = 0
        for start, end in self.kept:
            if offset <= start:
                break
            new += min(end, offset) - start
        return new

    def cut(self, start: int, text: str) -> str:
        """What stays of a piece of the old text that began at `start`."""
        end = start + len(text)
        return "".join(text[max(s, start) - start : min(e, end) - start] for s, e in self.kept if s < end and e > start)


def drop_spans(text: str, spans: Iterable[Span]) -> tuple[str, OffsetMap]:
    """`text` without these spans, and the map of offsets.

    White space around a removed sentence goes with it, and so do citation marks right behind it, lines of which only a
    bullet, a number or table bars would be left, and blank lines that would become doubled.
    """
    removed = _joined(text, [_widened(text, span) for span in _clipped(text, spans)])
    if not removed:
        return text, OffsetMap(((0, len(text)),) if text else ())
    removed = _joined(text, [*removed, *_bare_lines(text, removed)])
    removed = _joined(text, [_spaced(text, span) for span in removed])
    kept: list[Span] = []
    position = 0
    for start, end in [*removed, (len(text), len(text))]:
        if start > position:
            kept.append((position, start))
        position = end
    if not any(not text[start:end].isspace() for start, end in kept):
        return "", OffsetMap(())
    return "".join(text[start:end] for start, end in kept), OffsetMap(tuple(kept))


def _clipped(text: str, spans: Iterable[Span]) -> list[Span]:
    clipped = ((max(0, start), min(len(text), end)) for start, end in spans)
    return sorted(span for span in clipped if span[0] < span[1])


def _joined(text: str, spans: Iterable[Span]) -> list[Span]:
    """Spans in order, with those joined between which there is only white space of one line."""
    out: list[Span] = []
    for start, end in sorted(spans):
        if start >= end:
            continue
        if out and (start <= out[-1][1] or not text[out[-1][1] : start].strip(" \t")):
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((start, end))
    return out


def _widened(text: str, span: Span) -> Span:
    """The span with citation marks behind it, and without an emphasis mark whose partner stays."""
    start, end = span
    if marks := _MARKS.match(text, end):
        end = marks.end()
    piece = text[start:end]
    for mark in _EMPHASIS:
        if piece.count(mark) % 2:
            if piece.endswith(mark):
                end -= len(mark)
            elif piece.startswith(mark):
                start += len(mark)
    return start, end


def _bare_lines(text: str, removed: list[Span]) -> list[Span]:
    """Whole lines, line end included, that have nothing left but what a line begins with."""
    lines: list[Span] = []
    for start, end in removed:
        first = text.rfind("\n", 0, start) + 1
        last = text.find("\n", end)
        last = len(text) if last < 0 else last
        rest = _without(text, first, last, removed)
        if _BARE_LINE.fullmatch(rest) or _BARE_ROW.fullmatch(rest):
            lines.append((first, min(last + 1, len(text))))
    return lines


def _without(text: str, start: int, end: int, removed: list[Span]) -> str:
    pieces, position = [], start
    for span_start, span_end in removed:
        if span_end > start and span_start < end:
            pieces.append(text[position : max(position, span_start)])
            position = max(position, span_end)
    pieces.append(text[position:end] if position < end else "")
    return "".join(pieces)


def _spaced(text: str, span: Span) -> Span:
    """The span with the white space that would be doubled, or left at an edge, without what it separated."""
    start, end = span
    at_line_start = not start or text[start - 1] == "\n"
    if at_line_start and (end == len(text) or text[end - 1] == "\n"):
        # Whole lines went: of the blank lines on both sides one is enough, and none at the edges of the text.
        while end < len(text) and text[end] == "\n" and (not start or text.endswith("\n\n", 0, start)):
            end += 1
        if end == len(text):
            start = len(text[:start].rstrip())
        return start, end
    opens = text[max(0, start - 2) : start] in _EMPHASIS and not text[max(0, start - 3) : start - 2].strip()
    while end < len(text) and text[end] in " \t" and (at_line_start or opens or text[start - 1] in " \t"):
        end += 1
    if end == len(text) or text[end] == "\n" or text.startswith(_EMPHASIS, end):
        while start and text[start - 1] in " \t":
            start -= 1
    return start, end
