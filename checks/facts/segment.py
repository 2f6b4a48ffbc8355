"""An answer cut into segments: sentences, list items, table rows, headings, code blocks. Pure.

Works on any script by regular expressions and bounded context, in linear time. Knows nothing of judging; which
segments state something is decided in `checkworthy`. Offsets count Unicode code points, `text[s.start:s.end] ==
s.text`, segments are ordered and disjoint and cover every character that is not white space.

Growing text: a segment is *settled* when no further text can change it. For every split of a text,
`segments(full)` begins with `segments(full[:settled(prefix)])`. `SegmentStream` does the same without rescanning.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator

from checks.facts.checkworthy import states_something, title_states_something
from checks.facts.plain import plain
from checks.facts.sentences import sentence_ends
from checks.types import Segment

VERSION = "segment/1"

LONGEST = 600
"""A sentence longer than this many characters is cut at a comma or a space."""

_CONTEXT = 300
_HEAD = 12

_BREAK = re.compile(r"\r\n|[\n\r\x0b\x0c\x85\u2028\u2029]")
_INK = re.compile(r"\S")
_HEAD_MARK = re.compile(
    r"(?P<fence>`{3,}|~{3,})|(?P<heading>#{1,6}(?=\s|\Z))|(?P<row>\|)|(?P<quote>>)|"
    r"(?P<item>(?:[-*+•‣◦▪●○·–—]|\(?\d{1,3}[.)]|\(?[a-zа-яё]\)|[\u2190-\u2bff\U0001f300-\U0001faff]\ufe0f?)(?=\s|\Z)|・)"
)
_SEPARATOR = re.compile(r"[ \t]*\|(?:[ \t]*:?-+:?[ \t]*(?:\||(?=[\r\n]|\Z)))+[ \t]*(?=[\r\n]|\Z)")
_BOLD_LINE = re.compile(r"(\*\*|__)[^*_\n]{0,199}[^*_\n.!?]\1:?\Z")
_CODE_ONLY = re.compile(r"(`+)[^`]+\1[.,;:]?\Z")
_LEADS_ON = re.compile(r"[:：][*_\"'”»)]*\Z")
_TERMINATED = re.compile(r"[.!?…。！？｡।॥؟۔։።។]\S{0,8}\Z")
_AT_COMMA = re.compile(r"(?s:.*)(?:[,;:،؛](?=\s)|[、，；：])")
_AT_SPACE = re.compile(r"(?s:.*\S)(?=\s)")
_HARD_WRAP = range(60, 111)
_JOINS_AFTER = frozenset(",;-–—'\"”»)")


def segments(text: str) -> list[Segment]:
    """All segments of a finished text."""
    return list(_Scanner().scan(text, final=True))


def iterate(text: str) -> Iterator[Segment]:
    """Like `segments`, lazily: a consumer that stops early pays only for what it took."""
    return _Scanner().scan(text, final=True)


def settled(text: str) -> int:
    """Length of the prefix whose segments no further text can change; 0 or the end of a segment."""
    scanner = _Scanner()
    for _ in scanner.scan(text, final=False):
        pass
    return scanner.settled


class SegmentStream:
    """Segments of a text that arrives in pieces; cost per piece grows with the unsettled rest, not with the text."""

    __slots__ = ("_scanner", "_text")

    def __init__(self) -> None:
        self._text = ""
        self._scanner = _Scanner()

    @property
    def text(self) -> str:
        return self._text

    @property
    def settled(self) -> int:
        """Length of the settled prefix."""
        return self._scanner.settled

    def feed(self, piece: str) -> list[Segment]:
        """Segments that this piece settled."""
        self._text += piece
        return list(self._scanner.scan(self._text, final=False))

    def finish(self) -> list[Segment]:
        """The remaining segments, when no more text will come."""
        return list(self._scanner.scan(self._text, final=True))


class _Scanner:
    """One pass from left to right. Between calls it holds what later segments need from earlier text, nothing else."""

    __slots__ = (
        "_base",
        "_closed",
        "_code_searched",
        "_head",
        "_heading",
        "_here",
        "_leads",
        "_line",
        "_row_before",
        "settled",
    )

    def __init__(self) -> None:
        self.settled = 0
        self._line = 0  # start of the physical line that holds the last settled character
        self._here = 0  # start of the physical line being read
        self._closed = True  # the last settled segment was a block of its own: the next line cannot continue it
        self._code_searched = 0  # start of the last line searched for the end of an open code block
        self._base = ""  # context of the prose being read
        self._heading = ""
        self._head = ""  # header row of the table being read
        self._row_before = False
        self._leads: list[tuple[int, str]] = []  # (indent, text) of lead-ins and parent items, outermost first

    def scan(self, text: str, *, final: bool) -> Iterator[Segment]:
        """Segments from `settled` on; when not `final`, only those that no further text can change."""
        while ink := _INK.search(text, self.settled):
            at, before = ink.start(), self.settled
            if self._opens_block(text, at):
                yield from self._block(text, at, final)
            else:
                yield from self._prose(text, at, at, final)
            if self.settled == before:
                return

    def _opens_block(self, text: str, at: int) -> bool:
        """Whether `at` begins a new block rather than going on with the prose before it; finds its physical line."""
        self._here, breaks = self._line, 0
        for found in _BREAK.finditer(text, self.settled, at):
            if not self._closed and _joins(text, self._here, found.start(), found.end(), at):
                self._here = found.end()
                return False
            self._here, breaks = found.end(), breaks + 1
        if breaks > 1:
            self._head, self._row_before = "", False
        return breaks > 0 or self.settled == 0

    def _block(self, text: str, at: int, final: bool) -> Iterator[Segment]:
        end = _line_end(text, at)
        if end < 0 and not final and len(text) - at < _HEAD:
            return
        mark = _HEAD_MARK.match(text, at)
        kind = mark.lastgroup if mark else None
        if kind != "row":
            self._head, self._row_before = "", False
        if mark and kind == "fence":
            code_end = text.find("```", mark.end(), end if end >= 0 else len(text)) if mark[0][0] == "`" else -1
            if code_end < 0:
                yield from self._fence(text, at, mark[0], final)
            else:  # three backticks with three more in the same line are code inside prose
                yield from self._paragraph(text, at, None, final, code_until=code_end + 3)
        elif kind == "row":
            yield from self._row(text, at, end, final)
        elif kind == "heading":
            yield from self._title(text, at, end, final)
        else:
            yield from self._paragraph(text, at, mark, final)

    def _emit(self, text: str, end_points: tuple[int, int], context: str, *, checkable: bool, closed: bool) -> Segment:
        start, end = end_points
        for found in _BREAK.finditer(text, self.settled, end):
            self._line = found.end()
        self.settled, self._closed = end, closed
        return Segment(text[start:end], start, end, context[:_CONTEXT], checkable)

    def _block_segment(self, text: str, at: int, end: int, context: str, *, checkable: bool) -> Segment:
        return self._emit(text, (at, _trimmed(text, at, end)), context, checkable=checkable, closed=True)

    def _fence(self, text: str, at: int, fence: str, final: bool) -> Iterator[Segment]:
        last = r"|\Z" if final else ""
        closing = re.compile(rf"[\n\r][ \t>]*{fence[0]}{{{len(fence)},}}[ \t]*(?=[\n\r]{last})")
        # Lines searched before hold no closing fence: a long block that streams in is not read again and again.
        begin = max(at, self._code_searched)
        found = closing.search(text, begin)
        if found or final:
            self._code_searched = 0
            yield self._block_segment(text, at, found.end() if found else len(text), "", checkable=False)
        else:
            self._code_searched = max(begin, text.rfind("\n", begin), text.rfind("\r", begin))

    def _row(self, text: str, at: int, end: int, final: bool) -> Iterator[Segment]:
        if end < 0 and not final:
            return
        end = end if end >= 0 else len(text)
        line_break = _BREAK.match(text, end)
        separator = None
        if line_break and not self._row_before:
            following = _INK.search(text, line_break.end())
            may_be_separator = following is None or text[following.start()] == "|"
            if not final and may_be_separator and _line_end(text, line_break.end()) < 0:
                return
            separator = _SEPARATOR.match(text, line_break.end())
        self._row_before = True
        row = plain(text[at:end])
        if separator:
            # Header and separator line are one segment: only together can they be told from an ordinary row.
            self._head = row
            yield self._block_segment(text, at, separator.end(), self._context(), checkable=False)
        else:
            yield self._block_segment(text, at, end, self._head or self._context(), checkable=states_something(row))

    def _title(self, text: str, at: int, end: int, final: bool) -> Iterator[Segment]:
        if end < 0 and not final:
            return
        end = end if end >= 0 else len(text)
        title = plain(text[at:end])
        self._heading, self._leads = title, []
        yield self._block_segment(text, at, end, "", checkable=title_states_something(title))

    def _paragraph(
        self, text: str, at: int, mark: re.Match[str] | None, final: bool, *, code_until: int = 0
    ) -> Iterator[Segment]:
        indent = at - self._here
        item = mark is not None and mark.lastgroup == "item"
        if item:
            while self._leads and self._leads[-1][0] >= indent:
                self._leads.pop()
        elif not (self._leads and 0 <= self._leads[-1][0] < indent):
            self._leads = []
        self._base = self._context()
        if item:
            self._leads.append((indent, ""))
        yield from self._prose(text, at, mark.end() if mark else at, final, code_until=code_until)

    def _prose(self, text: str, start: int, body: int, final: bool, *, code_until: int = 0) -> Iterator[Segment]:
        end, complete = _logical_end(text, self._here, start, final)
        ends, spans, sure = sentence_ends(text, min(body, end), end, complete=complete, code_until=code_until)
        for sentence_end in ends:
            for piece in _pieces(text, start, sentence_end, spans):
                yield self._sentence(text, piece)
            found = _INK.search(text, sentence_end, end)
            start = found.start() if found else end
        if not complete:
            *whole, _ = _pieces(text, start, _trimmed(text, start, sure), spans)
            for piece in whole:
                yield self._sentence(text, piece)

    def _sentence(self, text: str, piece: tuple[int, int]) -> Segment:
        raw = text[piece[0] : piece[1]]
        words = plain(raw)
        if _BOLD_LINE.match(raw):
            self._heading, self._leads = words, []
            return self._emit(text, piece, "", checkable=title_states_something(words), closed=False)
        self._note_lead(words)
        checkable = _CODE_ONLY.match(raw) is None and states_something(words)
        return self._emit(text, piece, self._base, checkable=checkable, closed=False)

    def _note_lead(self, words: str) -> None:
        """Remember a sentence that introduces the list below it, or the head of an item that has items of its own."""
        if self._leads and self._leads[-1][0] >= 0:
            if not self._leads[-1][1]:
                self._leads[-1] = (self._leads[-1][0], words[:_CONTEXT])
        elif _LEADS_ON.search(words) or not _TERMINATED.search(words):
            self._leads = [(-1, words[:_CONTEXT])]
        else:
            self._leads = []

    def _context(self) -> str:
        return " ".join(text for _, text in self._leads if text) or self._heading


def _line_end(text: str, at: int) -> int:
    """Offset of the next line break, -1 when the line is not finished."""
    found = _BREAK.search(text, at)
    return found.start() if found else -1


def _trimmed(text: str, start: int, end: int) -> int:
    """`end` moved back over white space, not before `start`."""
    while end > start and text[end - 1].isspace():
        end -= 1
    return end


def _logical_end(text: str, line: int, at: int, final: bool) -> tuple[int, bool]:
    """End of the prose at `at`, over hard-wrapped lines, and whether no further text can move it."""
    start = at
    while True:
        found = _BREAK.search(text, at)
        if found is None:
            return _trimmed(text, start, len(text)), final
        following = _INK.search(text, found.end())
        end = _trimmed(text, start, found.start())
        if following is None:
            return end, final
        apart = _BREAK.search(text, found.end(), following.start())
        if not (final or apart or _head_known(text, following.start())):
            return end, False
        if apart or not _joins(text, line, found.start(), found.end(), following.start()):
            return end, True
        line, at = found.end(), following.start()


def _head_known(text: str, at: int) -> bool:
    """Whether the text has enough of the line at `at` to tell what kind of line it is."""
    if _line_end(text, at) >= 0:
        return True
    if text[at] == ">":
        inner = _INK.search(text, at + 1)
        return inner is not None and len(text) - inner.start() >= _HEAD
    return len(text) - at >= _HEAD


def _joins(text: str, line: int, line_break: int, line_next: int, at: int) -> bool:
    """Whether a line break inside prose is only a wrap: the next line goes on with the sentence.

    `line` and `line_break` bound the first physical line, `line_next` begins the second, `at` is the first visible
    character after the break.
    """
    if _BREAK.search(text, line_next, at):
        return False
    end = _trimmed(text, line, line_break)
    if end == line:
        return False
    last = text[end - 1]
    if not (last.isalnum() or last in _JOINS_AFTER):
        return False
    mark = _HEAD_MARK.match(text, at)
    if mark:
        quoted = _INK.search(text, line)
        if mark.lastgroup != "quote" or quoted is None or text[quoted.start()] != ">":
            return False
        inner = _INK.search(text, mark.end())
        if inner is None or _BREAK.search(text, mark.end(), inner.start()) or _HEAD_MARK.match(text, inner.start()):
            return False
        at = inner.start()
    first = text[at]
    if first.islower():
        return True
    wrapped = end - line in _HARD_WRAP and (first.isupper() or first.isdigit() or first in "\"'“«(")
    return wrapped and text.find(" ", line, end) >= 0


def _pieces(text: str, start: int, end: int, spans: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """A sentence, cut into pieces of at most `LONGEST` characters at commas or spaces, never inside a kept span."""
    while True:
        cut = _cut(text, start, spans) if end - start > LONGEST else end
        if cut >= end:
            yield start, end
            return
        yield start, _trimmed(text, start, cut)
        found = _INK.search(text, cut, end)
        start = found.start() if found else end


def _cut(text: str, start: int, spans: list[tuple[int, int]]) -> int:
    """Where to cut a piece that is too long: in its second half, so that cuts do not depend on where the text ends."""
    floor = start + LONGEST // 2
    window = text[floor : start + LONGEST + 1]
    found = _AT_COMMA.match(window, 0, LONGEST // 2) or _AT_SPACE.match(window)
    cut = floor + found.end() if found else start + LONGEST
    while cut > floor + 1 and unicodedata.combining(text[cut]):
        cut -= 1
    index = bisect_right(spans, (cut, 0)) - 1
    if index >= 0 and spans[index][0] < cut < spans[index][1]:
        opening, closing = spans[index]
        cut = opening if opening > floor else closing
    return cut
