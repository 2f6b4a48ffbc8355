"""Unified diffs found in any text: a prompt, a fence, a quoted pull request. Pure.

Reads what prompts make of diffs, which strict parsers refuse: hunks in the midst of prose, cut short, with empty
context lines that lost their space, without a file. Nothing is invented: a line that is not there is not known. Paths
come without `a/` and `b/`. The format is that of `git diff` (https://git-scm.com/docs/diff-format).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from checks.review.types import ChangedFile, ChangeKind

MOST_HUNKS = 5000

_GIT = re.compile(r"diff --git (?:\"?a/(?P<old>.+?)\"?) (?:\"?b/(?P<new>.+?)\"?)\Z")
_INDEX = re.compile(r"index (?P<old>[0-9a-f]{4,64})\.\.(?P<new>[0-9a-f]{4,64})(?: [0-7]{6})?\s*\Z")
_HUNK = re.compile(r"@@ -(?P<a>\d{1,8})(?:,(?P<b>\d{1,8}))? \+(?P<c>\d{1,8})(?:,(?P<d>\d{1,8}))? @@")
_OLD = re.compile(r"--- (?P<path>[^\t\n]+)")
_NEW = re.compile(r"\+\+\+ (?P<path>[^\t\n]+)")
_EXTENDED = re.compile(
    r"(?P<what>rename from|rename to|new file mode|deleted file mode|copy from|copy to) (?P<rest>.*)"
)
_CONTINUES = re.compile(r"[ +\-\\\t]|\s*\Z|[\[(]?(?:\.\.\.|…)")
_BODY = (" ", "+", "-", "\\", "\t")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hunk:
    """One hunk: for each side the number of its first line and its lines, without marks and line ends."""

    new_start: int
    new: tuple[str, ...]
    old_start: int
    old: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileDiff:
    """The change of one file as far as it is shown. Paths are "" for hunks that name no file; blob ids may be
    abbreviated, are all zeros for a side that does not exist, and None when no `index` line was given."""

    path: str
    old_path: str
    kind: ChangeKind
    hunks: tuple[Hunk, ...] = ()
    old_blob: str | None = None
    new_blob: str | None = None

    @property
    def changed(self) -> ChangedFile:
        new = tuple((h.new_start, h.new_start + len(h.new) - 1) for h in self.hunks if h.new)
        old = tuple((h.old_start, h.old_start + len(h.old) - 1) for h in self.hunks if h.old)
        return ChangedFile(path=self.path, old_path=self.old_path, kind=self.kind, new_lines=new, old_lines=old)


@dataclass(slots=True)
class _Section:
    """The parts of one file's diff as they are collected."""

    old: str | None = None
    new: str | None = None
    old_blob: str | None = None
    new_blob: str | None = None
    added: bool = False
    deleted: bool = False
    hunks: list[list[str]] | None = None

    def close(self) -> FileDiff | None:
        hunks = tuple(h for lines in self.hunks or () if (h := _parse(lines)) is not None)
        old, new = self.old, self.new
        if not hunks and (old is None or new is None):
            return None
        added = self.added or old == "/dev/null"
        deleted = self.deleted or new == "/dev/null"
        new_path = (old if deleted else new) or old or ""
        old_path = (new if added else old) or new or ""
        kind = ChangeKind.ADDED if added else ChangeKind.DELETED if deleted else ChangeKind.MODIFIED
        if kind is ChangeKind.MODIFIED and new_path != old_path:
            kind = ChangeKind.RENAMED
        return FileDiff(
            path=new_path,
            old_path=old_path,
            kind=kind,
            hunks=hunks,
            old_blob=self.old_blob,
            new_blob=self.new_blob,
        )


def find_diffs(text: str) -> tuple[FileDiff, ...]:
    """All diffs in a text, in order. Linear in its length, never raises."""
    return tuple(_Finder(text.split("\n")).find())


class _Finder:
    def __init__(self, lines: list[str]) -> None:
        self._lines = [line.removesuffix("\r") for line in lines]
        self._section: _Section | None = None
        self._hunks = 0

    def find(self) -> Iterator[FileDiff]:
        at = 0
        while at < len(self._lines):
            line = self._lines[at]
            if line.startswith("diff --git "):
                yield from self._begin(self._git(line))
                at += 1
            elif line.startswith("--- ") and self._has_new(at):
                yield from self._headers(at)
                at += 2
            elif line.startswith("@@ -") and _HUNK.match(line) and self._hunks < MOST_HUNKS:
                at = self._hunk(at)
            else:
                # Prose after a hunk ends the file's diff: a later hunk without a file is not of this one.
                if self._section is not None and self._section.hunks is not None and not _CONTINUES.match(line):
                    yield from self._begin(None)
                self._extended(line)
                at += 1
        yield from self._begin(None)

    def _begin(self, section: _Section | None) -> Iterator[FileDiff]:
        closed = self._section.close() if self._section is not None else None
        self._section = section
        if closed is not None:
            yield closed

    def _git(self, line: str) -> _Section:
        match = _GIT.match(line)
        return _Section(old=match["old"], new=match["new"]) if match else _Section()

    def _has_new(self, at: int) -> bool:
        return at + 1 < len(self._lines) and self._lines[at + 1].startswith("+++ ")

    def _headers(self, at: int) -> Iterator[FileDiff]:
        old, new = _OLD.match(self._lines[at]), _NEW.match(self._lines[at + 1])
        if old is None or new is None:
            return
        # After `diff --git` these two lines belong to the section begun; else they begin one.
        if self._section is None or self._section.hunks is not None:
            yield from self._begin(_Section())
        assert self._section is not None
        self._section.old, self._section.new = _path(old["path"], "a/"), _path(new["path"], "b/")

    def _extended(self, line: str) -> None:
        section = self._section
        if section is None or section.hunks is not None:
            return
        index = _INDEX.match(line)
        if index:
            section.old_blob, section.new_blob = index["old"], index["new"]
            section.added = section.added or not index["old"].strip("0")
            section.deleted = section.deleted or not index["new"].strip("0")
            return
        match = _EXTENDED.match(line)
        if match is None:
            return
        if match["what"] == "rename from":
            section.old = match["rest"]
        elif match["what"] == "rename to":
            section.new = match["rest"]
        section.added = section.added or match["what"] == "new file mode"
        section.deleted = section.deleted or match["what"] == "deleted file mode"

    def _hunk(self, at: int) -> int:
        """Collect one hunk; its header says how many lines to expect, the text says how many there are."""
        header = self._lines[at]
        match = _HUNK.match(header)
        assert match is not None
        old, new = (int(match[key]) if match[key] else 1 for key in "bd")
        lines = [header]
        at += 1
        while at < len(self._lines) and (old > 0 or new > 0):
            line = self._lines[at] or " "
            if not line.startswith(_BODY) or (line == " " and self._ends_here(at)):
                break
            mark = " " if line[0] == "\t" else line[0]
            old -= mark in " -"
            new -= mark in " +"
            lines.append(line if line[0] != "\t" else f" {line}")
            at += 1
        if self._section is None:
            self._section = _Section()
        if self._section.hunks is None:
            self._section.hunks = []
        self._section.hunks.append(lines)
        self._hunks += 1
        return at

    def _ends_here(self, at: int) -> bool:
        """Whether an empty line in a hunk cut short is the end of it: nothing of a diff follows."""
        following = self._lines[at + 1] if at + 1 < len(self._lines) else None
        return self._lines[at] == "" and (
            following is None or (not following.startswith((*_BODY, "@@")) and following != "")
        )


def _parse(lines: list[str]) -> Hunk | None:
    match = _HUNK.match(lines[0])
    assert match is not None
    body = [(line[0], line[1:]) for line in lines[1:]]
    new = tuple(text for mark, text in body if mark in " +")
    old = tuple(text for mark, text in body if mark in " -")
    return Hunk(new_start=int(match["c"]), new=new, old_start=int(match["a"]), old=old) if new or old else None


def _path(raw: str, prefix: str) -> str:
    path = raw.strip().strip('"')
    return path if path == "/dev/null" else path.removeprefix(prefix)
