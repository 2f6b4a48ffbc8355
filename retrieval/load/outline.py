"""Builds the text of a structured document line by line, and remembers where headings begin. Pure.

Knows no format: HTML and Markdown feed it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from retrieval.load.clean import clean
from retrieval.types import Section

_RUN = re.compile(r"\s+")


class Outline:
    """Receives words and line breaks in reading order; `text` and `sections` are the result.

    White space runs become one space, at most one empty line stands between paragraphs, and text given as verbatim
    keeps its own line breaks and indentation.
    """

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._size = 0
        self._breaks = 0
        self._space = False
        self._mark = ""
        self._path: list[tuple[int, str]] = []
        self._sections: list[Section] = []

    @property
    def text(self) -> str:
        return "".join(self._parts)

    @property
    def sections(self) -> tuple[Section, ...]:
        return tuple(self._sections)

    def words(self, text: str) -> None:
        """Running text; a leading or trailing space counts as a word border."""
        collapsed = _RUN.sub(" ", clean(text))
        body = collapsed.strip(" ")
        self._space = self._space or collapsed.startswith(" ")
        if not body:
            return
        self._separate()
        self._put(body)
        self._space = collapsed.endswith(" ")

    def verbatim(self, text: str) -> None:
        """Preformatted text on lines of its own."""
        body = "\n".join(line.rstrip() for line in clean(text).split("\n")).strip("\n")
        if body.strip():
            self.line()
            self._separate()
            self._put(body)
            self.line()

    def item(self, mark: str) -> None:
        """What follows is a list item; the mark stands before its first words."""
        self.line()
        self._mark = mark

    def line(self) -> None:
        """What follows starts a new line."""
        self._breaks = max(self._breaks, 1)

    def paragraph(self) -> None:
        """What follows starts after an empty line."""
        self._breaks = 2

    def heading(self, level: int, text: str) -> None:
        """A heading, written on a line of its own; what follows belongs to it."""
        name = _RUN.sub(" ", clean(text)).strip()
        if not name:
            return
        self.paragraph()
        self._separate()
        self._path = [entry for entry in self._path if entry[0] < level] + [(level, name)]
        self._sections.append(Section(offset=self._size, heading=tuple(title for _, title in self._path)))
        self._put(name)
        self.paragraph()

    def _separate(self) -> None:
        if self._size and self._breaks:
            self._put("\n" * self._breaks)
        elif self._size and self._space:
            self._put(" ")
        self._breaks, self._space = 0, False
        if self._mark:
            mark, self._mark = self._mark, ""
            self._put(f"{mark} ")

    def _put(self, text: str) -> None:
        self._parts.append(text)
        self._size += len(text)


def table_row(header: Sequence[str], cells: Sequence[str]) -> str:
    """A row that can be read without its table: `header: value; header: value`. Empty cells are left out.

    Without a header the values alone, separated by `; `.
    """
    pairs = []
    for position, cell in enumerate(cells):
        value = _RUN.sub(" ", cell).strip()
        name = header[position] if position < len(header) else ""
        if value:
            pairs.append(f"{name}: {value}" if name else value)
    return "; ".join(pairs)
