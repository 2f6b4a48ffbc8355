"""Code that an issue quotes, and where it stands in a file. Pure.

Only text that claims to be there counts: the existing code of a suggestion, removed and kept lines of a diff, and
inline code that is no proposal. Comparison ignores white space at the ends of lines and how much of it stands between
words, as models do not keep it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from checks.review.diffs import find_diffs
from checks.review.symbols import code_spans
from checks.review.types import Issue

_SPACE = re.compile(r"\s+")
_EXISTING_KEYS = ("existing_code", "existingCode", "original_code", "old_code", "code_snippet", "snippet", "quote")
_PROPOSES = re.compile(
    r"\b(?:use|using|add|adding|replace|with|to|into|instead|consider|prefer|change|rename|renaming|should|could|would|"
    r"like|e\.g|such as|rather than|import|introduce|call|calling|return|wrap|named|via|by|suggest|try|new|missing|"
    r"expects?|expected|extract|create|insert|define|proposed?|recommend\w*|fix|option|or|either)\b[^.`]{0,40}\Z",
    re.IGNORECASE,
)
_SHORTEST_SPAN = 12
# A lone name, a path or a key is no quotation of a line: names are searched for elsewhere, as names.
_LIKE_A_LINE = re.compile(r"\S\s+\S.*[(){}\[\]=<>;+*&|]|[(){}\[\]=<>;+*&|].*\S\s+\S|\w\([^)]|\w=\S")


@dataclass(frozen=True, slots=True)
class Quote:
    """Quoted code, line by line, white space evened out. `certain` unless it may be a paraphrase."""

    lines: tuple[str, ...]
    certain: bool

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


def even(line: str) -> str:
    """A line as it is compared."""
    return _SPACE.sub(" ", line).strip()


def quotes(issue: Issue) -> tuple[Quote, ...]:
    """What an issue says stands in the code, the longest first."""
    found = [*_existing(issue), *_diffs(issue), *_spans(issue)]
    unique = {quote.lines: quote for quote in reversed(found) if quote.lines}
    return tuple(sorted(unique.values(), key=lambda q: (not q.certain, -len(q.text), q.text)))


def places(quote: Quote, lines: Sequence[str], first: int = 1) -> tuple[tuple[int, int], ...]:
    """The line ranges of a file (its lines evened out) that hold a quote. A quote of one line may be part of a line."""
    wanted = quote.lines
    found = []
    for place in range(len(lines) - len(wanted) + 1):
        if len(wanted) == 1:
            hit = wanted[0] in lines[place]
        else:
            hit = lines[place] == wanted[0] and tuple(lines[place : place + len(wanted)]) == wanted
        if hit:
            found.append((first + place, first + place + len(wanted) - 1))
    return tuple(found)


def _existing(issue: Issue) -> Iterator[Quote]:
    for key in _EXISTING_KEYS:
        value = issue.extra.get(key)
        if isinstance(value, str) and "..." not in value:
            yield _quote(value, certain=True)


def _diffs(issue: Issue) -> Iterator[Quote]:
    if "@@ " in issue.body:
        for diff in find_diffs(issue.body):
            for hunk in diff.hunks:
                yield _quote("\n".join(hunk.old), certain=True)


def _spans(issue: Issue) -> Iterator[Quote]:
    for offset, span in code_spans(issue.body):
        proposal = _PROPOSES.search(issue.body[max(0, offset - 60) : offset])
        elided = "..." in span or "…" in span
        if proposal is None and len(span) >= _SHORTEST_SPAN and _LIKE_A_LINE.search(span) and not elided:
            yield _quote(span, certain=False)


def _quote(text: str, *, certain: bool) -> Quote:
    lines = [even(line) for line in text.split("\n")]
    while lines and not lines[0]:
        lines.pop(0)
    while lines and not lines[-1]:
        lines.pop()
    return Quote(tuple(lines), certain)
