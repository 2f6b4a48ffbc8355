"""What of a file a judge is shown: the issue's lines and what belongs to them by syntax, within a budget. Pure.

A file that fits is shown whole. Of a larger one, in this order and as far as it fits: the issue's lines, the innermost
definition around them, the heads of the outer ones, the imports, the definitions of the symbols the issue names, the
places that use them, the rest of the outer definition, the neighbourhood. What is left out is told in `note`, beside
the code and never in it: a mark within the code could be taken for the code's own damage.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from checks.review.symbols import Outline, outline
from checks.review.types import SourceFile

CHARACTERS_PER_TOKEN = 3.2
"""Code has fewer characters per token than prose; this is on the careful side."""

LONGEST_LINE = 1000
"""Characters of one line that are shown; what is cut off is told in the note."""

_NEAR = 3
_HEAD = 2
_MOST_USES = 12
_MOST_TOLD = 12
Range = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The part of a file that is shown. `text` has the line numbers before the lines; between two ranges the numbers
    jump. `ranges` are the line ranges shown, `left_out` those that are not, `note` says so in words ("" when whole)."""

    path: str
    blob: str
    text: str
    ranges: tuple[Range, ...]
    left_out: tuple[Range, ...]
    note: str

    @property
    def whole(self) -> bool:
        return not self.left_out and not self.note


def window(
    file: SourceFile,
    lines: Range | None,
    symbols: Sequence[str] = (),
    *,
    budget_chars: int,
    outlined: Outline | None = None,
) -> Window:
    """The window of a file around `lines` (None: the whole file is meant) and `symbols`.

    `budget_chars` bounds the length of `text`, line numbers included; the issue's own lines are shown even where they
    alone are longer, from their first line on, as many as fit, at least one.
    """
    return _Cutting(file, budget_chars, outlined).cut(lines, symbols)


class _Cutting:
    def __init__(self, file: SourceFile, budget: int, outlined: Outline | None) -> None:
        self._file = file
        self._lines = file.text.split("\n")
        if len(self._lines) > 1 and not self._lines[-1]:
            self._lines.pop()  # the line break at the end of a file begins no line
        self._first = file.first_line
        self._last = self._first + len(self._lines) - 1
        self._digits = len(str(self._last))
        self._budget = budget
        self._outlined = outlined
        self._shown: set[int] = set()
        self._used = 0
        known = file.known or ((self._first, self._last),)
        self._known = [(max(a, self._first), min(b, self._last)) for a, b in known]

    def cut(self, lines: Range | None, symbols: Sequence[str]) -> Window:
        everything = [number for start, end in self._known for number in range(start, end + 1)]
        if sum(map(self._cost, everything)) <= self._budget:
            self._shown.update(everything)
            return self._window()
        wanted = self._clamped(lines)
        if wanted is not None:
            self._take_issue(wanted)
        for start, end, whole in self._parts(wanted, symbols):
            if whole:
                self._take_whole(start, end)
            else:
                self._take_lines(range(start, end + 1))
        self._grow(wanted)
        return self._window()

    def _clamped(self, lines: Range | None) -> Range | None:
        """The issue's lines within the file; a line past the end means its last lines."""
        if lines is None:
            return None
        start, end = sorted(lines)
        start = min(max(start, self._first), self._last)
        return start, min(max(end, start), self._last)

    def _take_issue(self, wanted: Range) -> None:
        start, end = wanted
        self._shown.add(start)
        self._used += self._cost(start)
        self._take_lines(range(start + 1, end + 1))
        self._take_lines(range(end + 1, end + _NEAR + 1))
        self._take_lines(range(start - 1, start - _NEAR - 1, -1))

    def _parts(self, wanted: Range | None, symbols: Sequence[str]) -> Iterator[tuple[int, int, bool]]:
        """(start, end, all or nothing) in the order of their worth."""
        outlined = self._outlined if self._outlined is not None else self._outline()
        around = outlined.around(*wanted) if wanted is not None else ()
        if around:
            yield around[0].start_line, around[0].end_line, True
        for outer in around:
            yield outer.start_line, min(outer.start_line + _HEAD - 1, outer.end_line), False
        for start, end in outlined.imports:
            yield start, end, True
        for symbol in symbols:
            for definition in outlined.named(symbol):
                yield definition.start_line, definition.end_line, True
                yield definition.start_line, definition.start_line + _HEAD, False
        for number in self._uses(symbols):
            yield number - 1, number + 1, False
        for outer in around[1:]:
            yield outer.start_line, outer.end_line, True

    def _outline(self) -> Outline:
        # Line numbers of a part that begins later are shifted by its first line: such a part is shown as it is.
        return outline(self._file.path, self._file.text) if self._first == 1 else Outline()

    def _uses(self, symbols: Sequence[str]) -> list[int]:
        names = [re.escape(symbol) for symbol in symbols if symbol]
        if not names:
            return []
        word = re.compile(rf"\b(?:{'|'.join(names)})\b")
        found = (self._first + place for place, line in enumerate(self._lines) if word.search(line))
        return [number for _, number in zip(range(_MOST_USES), found, strict=False)]

    def _take_whole(self, start: int, end: int) -> None:
        new = [n for n in range(max(start, self._first), min(end, self._last) + 1) if self._is_new(n)]
        cost = sum(map(self._cost, new))
        if self._used + cost <= self._budget:
            self._shown.update(new)
            self._used += cost

    def _take_lines(self, numbers: range) -> None:
        """Line by line as far as it fits."""
        for number in numbers:
            if not self._first <= number <= self._last:
                return
            if self._is_new(number):
                cost = self._cost(number)
                if self._used + cost > self._budget:
                    return
                self._shown.add(number)
                self._used += cost

    def _grow(self, wanted: Range | None) -> None:
        """Fill what is left of the budget with the neighbourhood, below and above in turn."""
        if wanted is None:
            self._take_lines(range(self._first, self._last + 1))
            return
        below, above = wanted[1] + 1, wanted[0] - 1
        while below <= self._last or above >= self._first:
            before = self._used
            steps = [n for n in (below, above) if self._first <= n <= self._last and self._is_new(n)]
            for number in steps:
                self._take_lines(range(number, number + 1))
            if steps and self._used == before:
                return
            below, above = below + 1, above - 1

    def _is_new(self, number: int) -> bool:
        return number not in self._shown and any(start <= number <= end for start, end in self._known)

    def _cost(self, number: int) -> int:
        return min(len(self._lines[number - self._first]), LONGEST_LINE) + self._digits + 3

    def _window(self) -> Window:
        numbers = sorted(self._shown)
        cut = []
        rows = []
        for number in numbers:
            line = self._lines[number - self._first].removesuffix("\r")
            if len(line) > LONGEST_LINE:
                cut.append(f"line {number} has {len(line)} characters, of which the first {LONGEST_LINE} are shown")
            rows.append(f"{number:>{self._digits}}| {line[:LONGEST_LINE]}")
        ranges = tuple(_ranges(numbers))
        left_out = tuple(_between(ranges, self._known))
        return Window(
            path=self._file.path,
            blob=self._file.blob,
            text="\n".join(rows),
            ranges=ranges,
            left_out=left_out,
            note=self._note(left_out, cut),
        )

    def _note(self, left_out: Sequence[Range], cut: Sequence[str]) -> str:
        told = []
        if self._file.partial:
            told.append(f"only a part of this file is known, lines {_listed(self._known)}; the rest may say anything")
        if left_out:
            told.append(f"lines {_listed(left_out)} of {self._last} exist and are not shown")
        told += list(cut[:_MOST_TOLD])
        if len(cut) > _MOST_TOLD:
            told.append(f"{len(cut) - _MOST_TOLD} more lines are cut in the same way")
        if self._file.note:
            told.append(self._file.note)
        return "; ".join(told)


def _ranges(numbers: Sequence[int]) -> Iterator[Range]:
    start = previous = None
    for number in numbers:
        if previous is None or start is None:
            start = number
        elif number != previous + 1:
            yield start, previous
            start = number
        previous = number
    if start is not None and previous is not None:
        yield start, previous


def _between(shown: Sequence[Range], known: Sequence[Range]) -> Iterator[Range]:
    """The known lines that no range shows."""
    for start, end in known:
        at = start
        for first, last in shown:
            if last < at or first > end:
                continue
            if first > at:
                yield at, first - 1
            at = last + 1
        if at <= end:
            yield at, end


def _listed(ranges: Sequence[Range]) -> str:
    shown = [str(a) if a == b else f"{a}-{b}" for a, b in ranges[:_MOST_TOLD]]
    more = len(ranges) - len(shown)
    return ", ".join(shown) + (f" and {more} more ranges" if more > 0 else "")
