"""Diffs in the shape that some review bots put into their prompts: per hunk a numbered new side, then the old side.

    ## File: 'src/a.py'
    @@ -10,3 +10,4 @@ def load
    __new hunk__
    10  kept
    11 +added
    __old hunk__
     kept
    -removed

Pure. Each line of the new side has its own number, so nothing has to be counted. Knows nothing of other shapes: those
are in `diffs`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from checks.review.diffs import FileDiff, Hunk
from checks.review.types import ChangeKind

MARK = "__new hunk__"

_FILE = re.compile(r"##+ (?:File|file): ?['\"`]?(?P<path>[^'\"`\n]+?)['\"`]?\s*\Z")
_HEADER = re.compile(r"@@ -(?P<old>\d{1,8})(?:,\d{1,8})? \+\d{1,8}(?:,\d{1,8})? @@")
_LINE = re.compile(r"(?P<number>\d{1,8}) (?P<mark>[ +-])?(?P<text>.*)\Z")
_OLD = "__old hunk__"


@dataclass(slots=True)
class _Reading:
    path: str = ""
    old_start: int = 0
    side: str = ""
    new: list[tuple[int, str]] = field(default_factory=list)
    old: list[str] = field(default_factory=list)
    found: dict[str, list[Hunk]] = field(default_factory=dict)

    def close(self) -> None:
        """End the hunk that is being read."""
        if self.path and (self.new or self.old):
            # Numbers that jump belong to hunks of their own.
            runs: list[list[tuple[int, str]]] = []
            for number, text in self.new:
                if not runs or runs[-1][-1][0] + 1 != number:
                    runs.append([])
                runs[-1].append((number, text))
            hunks = [
                Hunk(new_start=run[0][0], new=tuple(t for _, t in run), old_start=self.old_start, old=())
                for run in runs
            ]
            if self.old:
                hunks.append(Hunk(new_start=0, new=(), old_start=self.old_start, old=tuple(self.old)))
            self.found.setdefault(self.path, []).extend(hunks)
        self.side, self.new, self.old = "", [], []

    def body(self, line: str) -> bool:
        """Read a line of a hunk; False when it is none."""
        if self.side == MARK and (match := _LINE.match(line)):
            self.new.append((int(match["number"]), match["text"]))
        elif self.side == _OLD and line[:1] in {" ", "-"}:
            self.old.append(line[1:])
        else:
            return not line.strip()
        return True


def find_numbered_diffs(text: str) -> tuple[FileDiff, ...]:
    """All files given in this shape, in order. Linear, never raises."""
    if MARK not in text:
        return ()
    reading = _Reading()
    for raw in text.split("\n"):
        line = raw.removesuffix("\r")
        if named := _FILE.match(line):
            reading.close()
            reading.path = named["path"].strip()
        elif header := _HEADER.match(line):
            reading.close()
            reading.old_start = int(header["old"])
        elif line.strip() in {MARK, _OLD}:
            reading.side = line.strip()
        elif not reading.body(line):
            reading.close()
    reading.close()
    return tuple(
        FileDiff(path=path, old_path=path, kind=ChangeKind.MODIFIED, hunks=tuple(hunks))
        for path, hunks in reading.found.items()
    )
