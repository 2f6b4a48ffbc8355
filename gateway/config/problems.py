"""A problem of a configuration: where it is, what is wrong, what to do. Pure values."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

Path = tuple[str | int, ...]
"""Where a value stands in the configuration: keys and list positions, outermost first."""


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """A place in the file; both count from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing to put right. `text` says what is wrong and what to do; `str()` gives the line shown to people."""

    file: str
    mark: Mark | None
    key: str
    text: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.mark.line}:{self.mark.column}" if self.mark else self.file
        return f"{place} {self.key}: {self.text}" if self.key else f"{place}: {self.text}"


def dotted(path: Path) -> str:
    """`routes.support.collections[0]` for `("routes", "support", "collections", 0)`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text


def suggestion(word: str, known: Iterable[str]) -> str:
    """ "; did you mean `x`?" for the known word nearest to a mistyped one, or "" when none is near."""
    near = difflib.get_close_matches(word.lower(), list(known), n=1, cutoff=0.6)
    return f"; did you mean `{near[0]}`?" if near else ""


def listed(words: Iterable[str], *, most: int = 12) -> str:
    """`a, b, c`; a long list is cut, saying how many are left out."""
    names = list(words)
    text = ", ".join(names[:most])
    return text if len(names) <= most else f"{text} and {len(names) - most} more"
