"""Review comments in CodeRabbit's manner: sections that fold, lines with a range, a header of italic fields.

Knows the tiers of a review body (actionable, outside diff, duplicate, nitpick, additional), that the file of a section
stands in its summary line and the range before each issue, and that the header may have one to five fields. Nitpicks
count as low where nothing else is said.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from checks.review.findings import fields
from checks.review.findings.found import Mark, Quoting, Slot, Span
from checks.review.findings.heads import Head
from checks.review.findings.outline import Line, location
from checks.review.types import Severity

FORMAT: Final = "coderabbit"
_RANGE: Final = re.compile(
    r"[ \t>]*+`(?P<range>(?P<first>\d{1,7})(?P<dash>[ \t]*[-–][ \t]*)?(?(dash)(?P<last>\d{1,7})))`[ \t]*:[ \t]*"
)
_AROUND: Final = re.compile(r"[ \t>]*+In[ \t]+(?=[`@\w])")
_SUMMARY: Final = re.compile(r"<summary>(?P<words>[^<\n]*)(?:\((?P<count>\d{1,5})\))[ \t]*</summary>")
ACTIONABLE: Final = re.compile(r"Actionable comments posted:\D{0,4}(\d{1,5})")
TIERS: Final = {
    "nitpick": "nitpick",
    "outside diff": "outside_diff",
    "duplicate": "duplicate",
    "additional": "additional",
    "actionable": "actionable",
}
_OPENS: Final = re.compile(r"<details\b|<blockquote\b")
_CLOSES: Final = re.compile(r"</details>|</blockquote>")


@dataclass(slots=True)
class Fold:
    """A `<details>` section: where it begins, the file or tier its summary names, and the span of its count."""

    start: int
    path: str = ""
    tier: str = ""
    count: Span | None = None
    issues: list[int] = field(default_factory=list)
    end: int = -1


@dataclass(slots=True)
class Folds:
    """The sections that are open, outermost first, and those that are closed."""

    open: list[Fold] = field(default_factory=list)
    closed: list[Fold] = field(default_factory=list)

    @property
    def path(self) -> str:
        """The file the innermost section speaks of, or ""."""
        return next((fold.path for fold in reversed(self.open) if fold.path), "")

    @property
    def tier(self) -> str:
        """The tier of the innermost section that has one, or ""."""
        return next((fold.tier for fold in reversed(self.open) if fold.tier), "")

    def line(self, text: str, line: Line) -> None:
        """Takes note of what a line opens, names and closes."""
        if text.find("<", line.start, line.end) < 0:
            return
        words = text[line.start : min(line.end, line.start + 1000)]
        for _ in range(words.count("<details")):
            self.open.append(Fold(line.start))
        if self.open and (match := _SUMMARY.search(text, line.start, min(line.end, line.start + 1000))) is not None:
            self._named(match)
        for _ in range(words.count("</details>")):
            if self.open:
                fold = self.open.pop()
                fold.end = line.next
                self.closed.append(fold)

    def _named(self, match: re.Match[str]) -> None:
        fold, words = self.open[-1], match["words"].strip()
        fold.count = match.span("count")
        fold.tier = next((tier for name, tier in TIERS.items() if name in words.lower()), "")
        if not fold.tier and " " not in words.strip("` ") and fields.plausible_path(words.strip("`")):
            fold.path = words.strip("` ")


def depth_change(words: str) -> int:
    """How many sections a line opens more than it closes."""
    if "<" not in words:
        return 0
    return len(_OPENS.findall(words)) - len(_CLOSES.findall(words))


def read(text: str, line: Line, folds: Folds) -> Head | None:
    """The issue that begins on this line, or None."""
    if (match := _RANGE.match(text, line.start, line.end)) is not None and folds.path:
        dash = match["dash"] or "-"
        slot = Slot(*match.span("range"), "{start}", "{start}" + dash + "{end}")
        where = fields.lines(match["first"], match["last"])
        return _head(line, match.end(), folds, folds.path, where, (slot,))
    if (around := _AROUND.match(text, line.start, line.end)) is not None:
        place = location(text, around.end(), line.end)
        if place is None or place.start > around.end() + 1:
            return None
        at = place.end + (text[place.end : place.end + 1] in (":", ","))
        return _head(line, at, folds, place.path, place.where, place.slots)
    header = fields.HEADER.match(text, line.start, min(line.next, line.start + 400))
    if header is not None and "|" in header["fields"] and fields.KIND_WORDS.search(header["fields"]):
        return _head(line, line.start, folds, folds.path or None, fields.WHOLE_FILE, ())
    return None


def _head(
    line: Line, body_at: int, folds: Folds, path: str | None, where: fields.Lines, slots: tuple[Slot, ...]
) -> Head:
    return Head(
        format=FORMAT,
        start=line.start,
        body_at=body_at,
        path=path,
        where=where,
        slots=slots,
        tier=folds.tier or "actionable",
        # The first lines are read by machines: the mark goes to the end, which is not known yet.
        mark=Mark(-1, -1, Quoting.MARKDOWN, "\n\n> ", ""),
    )


def default_severity(tier: str) -> Severity | None:
    """What a tier says when the issue itself says nothing."""
    return Severity.LOW if tier == "nitpick" else None
