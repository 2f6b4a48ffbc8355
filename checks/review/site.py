"""A commit under review, made ready for its issues: what the judges are shown of it, and the files they ask for.

Blocks in `look`, which belongs off the event loop; `find` does so by itself. Knows git only through `Snapshot`, nothing
of judges and votes. A file is only ever found by whole segments of real paths or by its definitions, never guessed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from checks.errors import RepositoryError
from checks.review.decide import Request
from checks.review.evidence import EvidenceFound, collect
from checks.review.paths import How, PathIndex, PathMatch, match_path, wanted_name
from checks.review.prompts import Exhibit, Matter
from checks.review.scene import Asked, Found, Scene
from checks.review.symbols import identifiers
from checks.review.types import ChangeKind, Issue, Side, Snapshot, SourceFile
from checks.review.windows import window
from checks.types import IssueLabel

RULES: Final = ("AGENTS.md", "CONTRIBUTING.md")
"""Files of a repository that hold its own rules, where it has them."""

_LONGEST_RULES = 6_000
_MOST_LISTED = 120
_MOST_SYMBOLS = 12


@dataclass(frozen=True, slots=True)
class Unseen:
    """Why no judge can be put before an issue."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What looking at an issue gave. `proof` is why the issue needs no judge, by the evidence called `rule`; `lines`
    is where the code it quotes really stands."""

    scene: Scene | Unseen
    evidence: tuple[Mapping[str, Any], ...] = ()
    proof: str = ""
    rule: str = ""
    lines: tuple[int, int] | None = None


class Site:
    """One commit for one review."""

    def __init__(self, snapshot: Snapshot, *, file_chars: int, rules: Sequence[str] = (), seed: str = "") -> None:
        self.snapshot = snapshot
        self._file_chars = file_chars
        self._rule_files = tuple(dict.fromkeys((*rules, *RULES)))
        self._seed = seed
        self._indexes: dict[Side, PathIndex] = {}

    def look(self, issue: Issue) -> Seen:
        """Evidence and scene of an issue. Raises `RepositoryError` when objects cannot be read."""
        found = collect(issue, self.snapshot, self.index(Side.RIGHT))
        evidence = tuple({"kind": one.kind.value, "detail": one.detail} for one in found)
        lines = self._really(found)
        proof = next((one for one in found if one.proves is IssueLabel.HALLUCINATION), None)
        exhibits = self._own_file(issue, lines)
        return Seen(
            scene=exhibits if isinstance(exhibits, Unseen) else self._scene(issue, exhibits, found),
            evidence=evidence,
            proof=proof.detail if proof is not None else "",
            rule=proof.kind.value if proof is not None else "",
            lines=lines,
        )

    def _scene(self, issue: Issue, exhibits: tuple[Exhibit, ...], found: Sequence[EvidenceFound]) -> Scene:
        matter = Matter(
            issue=issue.text if issue.suggestion is None else f"{issue.text}\n\nIt suggests:\n{issue.suggestion}",
            place=_place(issue),
            exhibits=exhibits,
            rules=self.rules,
            evidence=tuple(one.detail for one in found),
            seed=self._seed,
        )
        return RepositoryScene(self, issue, matter)

    @cached_property
    def rules(self) -> tuple[tuple[str, str], ...]:
        """The project's rules at this commit, as (path, text)."""
        found: list[tuple[str, str]] = []
        for path in self._rule_files:
            file = self.snapshot.read(path)
            if file is not None and file.text.strip():
                text = file.text[:_LONGEST_RULES]
                cut = f"{path} (the first {_LONGEST_RULES} of {len(file.text)} characters)"
                found.append((path if len(text) == len(file.text) else cut, text))
        return tuple(found)

    def index(self, side: Side) -> PathIndex:
        """The tree of a side, ready for questions."""
        if side not in self._indexes:
            self._indexes[side] = PathIndex(self.snapshot.tree(side))
        return self._indexes[side]

    def nearby(self, issue: Issue) -> tuple[str, ...]:
        """Paths worth knowing to name a file by: all of a small tree, else the changed files and the neighbours."""
        paths = [entry.path for entry in self.snapshot.tree() if entry.kind == "file"]
        if len(paths) > _MOST_LISTED:
            folder = (issue.path or "").rpartition("/")[0]
            changed = [file.path for file in self.snapshot.changes()]
            beside = [path for path in paths if path.rpartition("/")[0] == folder]
            paths = list(dict.fromkeys((*changed, *beside)))
        return tuple(paths[:_MOST_LISTED])

    def exhibit(
        self, file: SourceFile, lines: tuple[int, int] | None, symbols: Sequence[str], hop: int, *, old: bool = False
    ) -> Exhibit:
        """A file as the judges see it, windowed around lines and symbols where it is large."""
        seen = window(file, lines, symbols, budget_chars=self._file_chars)
        rows = file.text.split("\n")
        shown = [
            rows[number - file.first_line]
            for start, end in seen.ranges
            for number in range(start, end + 1)
            if 0 <= number - file.first_line < len(rows)
        ]
        notes = [note for note in ("as it was before the change" if old else "", seen.note) if note]
        return Exhibit(
            path=file.path,
            blob=file.blob,
            text="\n".join(shown),
            numbered=seen.text,
            whole=file.text,
            start_line=seen.ranges[0][0] if seen.ranges else None,
            end_line=seen.ranges[-1][1] if seen.ranges else None,
            note="; ".join(notes),
            hop=hop,
            partial=file.partial,
        )

    def _own_file(self, issue: Issue, moved: tuple[int, int] | None) -> tuple[Exhibit, ...] | Unseen:
        """The file the issue points at. None of that name in a whole commit shows nothing: the evidence says so."""
        if issue.path is None:
            return Unseen("the issue names no file")
        side, match = self._meant(issue.path, issue.side)
        if match.path is None:
            if self.snapshot.partial:
                return Unseen(f"the request does not hold {issue.path}")
            return () if not match.candidates else Unseen(f"{issue.path}: {match.note}")
        file = self.snapshot.read(match.path, side)
        if file is None:
            return Unseen(f"{match.path} is no text file")
        symbols = identifiers(issue.text, most=_MOST_SYMBOLS)
        return (self.exhibit(file, moved or _lines(issue), symbols, 0, old=side is Side.LEFT),)

    def _meant(self, path: str, side: Side) -> tuple[Side, PathMatch]:
        """The file an issue names and the side it is on: a deleted file has only an old one, a renamed two names."""
        change = next((one for one in self.snapshot.changes() if path in (one.path, one.old_path)), None)
        if change is not None:
            old = side is Side.LEFT or change.kind is ChangeKind.DELETED
            side, path = (Side.LEFT, change.old_path) if old else (Side.RIGHT, change.path)
        match = match_path(self.index(side), file_path=path)
        if match.path is None and side is Side.LEFT and change is None:
            return Side.RIGHT, match_path(self.index(Side.RIGHT), file_path=path)
        return side, match

    def _really(self, found: Sequence[EvidenceFound]) -> tuple[int, int] | None:
        """Where the code an issue quotes stands, if it is elsewhere; only where a comment can be posted."""
        for one in found:
            if one.start_line is not None and (one.in_change or not self.snapshot.changes()):
                return one.start_line, one.end_line or one.start_line
        return None


@dataclass(frozen=True, slots=True)
class RepositoryScene:
    """An issue in a repository: a judge's request is matched against the files that are really there."""

    site: Site
    issue: Issue
    matter: Matter

    @property
    def listing(self) -> tuple[str, ...]:
        return self.site.nearby(self.issue)

    async def find(self, asked: Asked, shown: tuple[Exhibit, ...], hop: int) -> Found:
        return await asyncio.to_thread(self._find, asked, shown, hop)

    def _find(self, asked: Asked, shown: Sequence[Exhibit], hop: int) -> Found:
        if not (asked.file_path.strip() or asked.file_name.strip() or asked.class_name.strip()):
            return Found(request=Request.REFUSED, note="no file was named")
        try:
            match = match_path(
                self.site.index(Side.RIGHT),
                file_path=asked.file_path,
                file_name=asked.file_name,
                class_name=asked.class_name,
                definitions=self.site.snapshot.definitions,
            )
            return self._shown(match, asked, {exhibit.path for exhibit in shown}, hop)
        except RepositoryError as error:
            return Found(request=Request.REFUSED, how="unreadable", note=str(error))

    def _shown(self, match: PathMatch, asked: Asked, known: set[str], hop: int) -> Found:
        if match.path is None:
            return Found(request=Request.REFUSED, how=match.how.value, candidates=match.candidates, note=match.note)
        name = wanted_name(asked.class_name)
        symbols = [*([name] if name else []), *identifiers(self.issue.text, most=_MOST_SYMBOLS)]
        exhibits: list[Exhibit] = []
        unreadable: list[str] = []
        for path in match.files:
            if path in known:
                continue
            file = self.site.snapshot.read(path)
            if file is None:
                unreadable.append(f"{path} is no text file")
            else:
                exhibits.append(self.site.exhibit(file, self._definition(name, path), symbols, hop))
        request = Request.FOUND if exhibits else Request.REFUSED if unreadable else Request.SHOWN
        also = f"{match.definition} defines {name}" if match.definition else ""
        note = "; ".join(part for part in (match.note, also, *unreadable) if part)
        return Found(
            request=request,
            matched=match.path,
            how=match.how.value if match.how is not How.REFUSED else "refused",
            candidates=match.candidates,
            note=note,
            exhibits=tuple(exhibits),
        )

    def _definition(self, name: str, path: str) -> tuple[int, int] | None:
        """Where a file defines what was asked for."""
        if not name:
            return None
        found = (one for one in self.site.snapshot.definitions(name) if one.path == path)
        return next(((one.start_line, one.end_line) for one in found), None)


def _lines(issue: Issue) -> tuple[int, int] | None:
    if issue.start_line is None:
        return None
    return issue.start_line, issue.end_line or issue.start_line


def _place(issue: Issue) -> str:
    lines = _lines(issue)
    at = "" if lines is None else f", line {lines[0]}" if lines[0] == lines[1] else f", lines {lines[0]} to {lines[1]}"
    return f"In {issue.path or 'no file'}{at}{' (old side of the change)' if issue.side is Side.LEFT else ''}:"
