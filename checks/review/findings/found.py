"""What a reader of a format hands on: an issue, and the places where its verdict can be written. Knows no format.

All offsets count code points of the whole text. A `Handle` is data, so that writing verdicts back needs no knowledge
of the format: which span leaves with the issue, where a mark goes and how text is quoted there, where line numbers
stand. A `Block` adds what depends on its issues: counts, verdicts, summaries, sections that must not stand empty.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, TypeAlias

from checks.review.types import Issue

Span: TypeAlias = tuple[int, int]

# Issues read of one answer: more are no review that anybody reads, and each costs judges.
MOST_ISSUES: Final = 2000
_LONGEST_NOTE: Final = 600
# C0 and C1 controls, zero-width characters, line and paragraph separators, bidirectional controls.
_UNSEEN: Final = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]+")


class Quoting(Enum):
    """How text is written where a mark or a number goes."""

    PLAIN = auto()
    MARKDOWN = auto()
    CELL = auto()
    JSON = auto()
    XML = auto()
    YAML_SINGLE = auto()
    WORKFLOW = auto()


@dataclass(frozen=True, slots=True)
class Slot:
    """A place for line numbers: `{start}` and `{end}` stand in the templates. None leaves the place alone."""

    start: int
    end: int
    single: str | None = "{start}"
    several: str | None = "{start}"


@dataclass(frozen=True, slots=True)
class Mark:
    """A place for a mark; `before` and `after` are written as they are. `{status}` in `before` is the SARIF status.

    `bare` marks say only the note, without brackets and label.
    """

    start: int
    end: int
    quoting: Quoting = Quoting.PLAIN
    before: str = ""
    after: str = " "
    bare: bool = False


@dataclass(frozen=True, slots=True)
class Series:
    """A list that holds issues: its span with the brackets, its elements, and where it stands in the object.

    `open` tells that the text ended before the list did. `empty` replaces a list that loses everything; `by_lines`
    lists have an element per line or group of lines and no commas.
    """

    start: int
    end: int
    items: tuple[Span, ...]
    open: bool = False
    path: tuple[str, ...] = ()
    by_lines: bool = False
    empty: str = "[]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Handle:
    """Where the verdict on one issue is written. `removable` is False where nothing may stand in its place."""

    span: Span
    series: Series | None = None
    marks: tuple[Mark, ...] = ()
    lines: tuple[Slot, ...] = ()
    ordinal: Span | None = None
    removable: bool = True


@dataclass(frozen=True, slots=True)
class Found:
    """An issue with its handle. The issue's path is as written; its number and block are given later."""

    issue: Issue
    handle: Handle
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Count:
    """A number that tells how many of `members` (places in the block's issues) there are.

    `noun` spans the letters that differ between one and several ("s"), if any.
    """

    start: int
    end: int
    members: frozenset[int]
    noun: Span | None = None


@dataclass(frozen=True, slots=True)
class Summary:
    """The end of a free text about the issues: a sentence there tells how many were removed."""

    at: int
    quoting: Quoting


@dataclass(frozen=True, slots=True)
class Opinion:
    """A verdict on the whole that cannot stand once every issue has left."""

    start: int
    end: int
    replacement: str


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the text that has no sense without any of its members."""

    start: int
    end: int
    members: frozenset[int]


Dependent: TypeAlias = Count | Summary | Opinion | Section


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One piece of the text in one format, with its issues in the order of the text.

    `settled` is how far no further text can change what was read, None for nowhere; `cut` that the text ended early.
    """

    format: str
    start: int
    end: int
    found: tuple[Found, ...]
    dependents: tuple[Dependent, ...] = ()
    cut: bool = False
    settled: int = 0
    notes: tuple[str, ...] = field(default=())


def one_line(note: str) -> str:
    """A note as one printable line of bounded length."""
    line = " ".join(_UNSEEN.sub(" ", note).split())
    return line if len(line) <= _LONGEST_NOTE else line[: _LONGEST_NOTE - 1] + "…"


def quote(text: str, quoting: Quoting) -> str:
    """A line of text as it is written in a place of that kind."""
    match quoting:
        case Quoting.JSON:
            return json.dumps(text, ensure_ascii=False)[1:-1]
        case Quoting.XML:
            return (
                text.replace("&", "&amp;")
                .replace("<", "&lt;")
                .replace(">", "&gt;")
                .replace('"', "&quot;")
                .replace("'", "&apos;")
            )
        case Quoting.YAML_SINGLE:
            return text.replace("'", "''")
        case Quoting.WORKFLOW:
            return text.replace("%", "%25")
        case Quoting.CELL:
            return quote(text, Quoting.MARKDOWN).replace("|", "&#124;")
        case Quoting.MARKDOWN:
            return text.replace("<", "&lt;").replace("`", "'").replace("://", ":&#47;/")
        case Quoting.PLAIN:
            return text
