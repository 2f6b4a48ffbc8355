"""What can be said about an issue without asking a model: facts about paths, names, lines and quotes. Deterministic.

Facts are given to the judges and recorded; all but one decide nothing by themselves, because a remark may rightly name
what does not exist (a file to be added, a function that is missing). Where only a part of the repository is known,
absence proves nothing and is not told. A commit too large to search tells nothing either. Reads through a `Snapshot`,
so it blocks; knows nothing of votes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from checks.errors import RepositoryError
from checks.review.paths import How, PathIndex, PathMatch, match_path
from checks.review.quotes import Quote, even, places, quotes
from checks.review.retraction import retraction
from checks.review.symbols import code_spans, span_identifiers
from checks.review.types import ChangedFile, ChangeKind, Issue, Side, Snapshot, SourceFile
from checks.types import IssueLabel

_MOST_SYMBOLS = 12
_PROPOSES = re.compile(
    r"\b(?:use|using|add|adding|replace|with|instead|consider|prefer|change|rename|renaming|like|e\.g|such as|"
    r"introduce|wrap|named|called|via|suggest|try|new|missing|no|lacks?|without|create|define|undefined|extract|import|into|to)"
    r"\b[^.`]{0,40}\Z",
    re.IGNORECASE,
)


class EvidenceKind(StrEnum):
    """What was found."""

    SELF_RETRACTED = "self_retracted"
    PATH_ABSENT = "path_absent"
    PATH_AMBIGUOUS = "path_ambiguous"
    PATH_MATCHED = "path_matched"
    NOT_A_TEXT_FILE = "not_a_text_file"
    GENERATED_FILE = "generated_file"
    FILE_RENAMED = "file_renamed"
    FILE_DELETED = "file_deleted"
    LINE_PAST_END = "line_past_end"
    SYMBOL_ABSENT = "symbol_absent"
    QUOTE_ABSENT = "quote_absent"
    QUOTE_ELSEWHERE = "quote_elsewhere"
    FILE_UNTOUCHED = "file_untouched"
    LINE_OUTSIDE_CHANGE = "line_outside_change"
    REVISION_MISMATCH = "revision_mismatch"
    SNAPSHOT_NOTE = "snapshot_note"


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceFound:
    """One fact. `detail` says it in words a judge can use. `proves` is the label that it decides without a model, None
    for most. `start_line`/`end_line` are where the issue's code really is (`QUOTE_ELSEWHERE`); `in_change` tells that
    a comment can be posted there, as the place lies in a hunk of the change."""

    kind: EvidenceKind
    detail: str
    proves: IssueLabel | None = None
    path: str | None = None
    start_line: int | None = None
    end_line: int | None = None
    in_change: bool = False


def collect(issue: Issue, snapshot: Snapshot, index: PathIndex | None = None) -> tuple[EvidenceFound, ...]:
    """Everything that is known without a model, the decisive first. `index` saves sorting the tree again for every
    issue; make it of `snapshot.tree()`. Raises `RepositoryError` only when objects of the pinned commit are broken."""
    return tuple(_Collecting(issue, snapshot, index).all())


class _Collecting:
    def __init__(self, issue: Issue, snapshot: Snapshot, index: PathIndex | None) -> None:
        self._issue = issue
        self._snapshot = snapshot
        self._index = index
        self._changes = snapshot.changes()

    def all(self) -> Iterator[EvidenceFound]:
        yield from self._retracted()
        for note in self._snapshot.notes:
            yield EvidenceFound(kind=EvidenceKind.SNAPSHOT_NOTE, detail=note)
        yield from self._revision()
        path = None
        if self._issue.path is not None:
            side, matched = self._matched(self._issue.path)
            path = matched.path
            yield from self._about_path(matched)
            if path is not None:
                yield from self._about_file(path, side)
        yield from self._symbols(path)

    def _retracted(self) -> Iterator[EvidenceFound]:
        sentence = retraction(self._issue.title, self._issue.body)
        if sentence is not None:
            yield EvidenceFound(
                kind=EvidenceKind.SELF_RETRACTED,
                detail=f"the issue withdraws itself: {sentence[:200]!r}",
                proves=IssueLabel.HALLUCINATION,
            )

    def _revision(self) -> Iterator[EvidenceFound]:
        named = self._issue.revision
        if named is None or self._snapshot.partial or self._snapshot.revision.startswith(named.lower()):
            return
        at = self._snapshot.revision[:12]
        yield EvidenceFound(
            kind=EvidenceKind.REVISION_MISMATCH,
            detail=f"the issue links to commit {named[:12]}, the code under review is at {at}",
        )

    def _matched(self, path: str) -> tuple[Side, PathMatch]:
        """The file meant and the side it is on: deleted files exist on the left only."""
        side = self._issue.side
        if side is Side.LEFT:
            renamed = next((c.old_path for c in self._changes if c.path == path), path)
            matched = match_path(PathIndex(self._snapshot.tree(Side.LEFT)), file_path=renamed)
            if matched.path is not None:
                return Side.LEFT, matched
        index = self._index if self._index is not None else PathIndex(self._snapshot.tree())
        matched = match_path(index, file_path=path)
        if matched.how in {How.EXACT, How.NORMALISED}:
            return Side.RIGHT, matched
        old = next((c for c in self._changes if c.old_path == path), None)
        if old is not None and old.kind is ChangeKind.RENAMED:
            return Side.RIGHT, PathMatch(path=old.path, how=How.NORMALISED)
        if old is not None and old.kind is ChangeKind.DELETED:
            return Side.LEFT, PathMatch(path=old.old_path, how=How.EXACT)
        return Side.RIGHT, matched

    def _about_path(self, matched: PathMatch) -> Iterator[EvidenceFound]:
        asked, at = self._issue.path, self._snapshot.revision[:12]
        if matched.path is None and matched.candidates:
            listed = ", ".join(matched.candidates[:6])
            detail = f"{asked} is not a file of the commit; {matched.note}: {listed}"
            yield EvidenceFound(kind=EvidenceKind.PATH_AMBIGUOUS, detail=detail)
        elif matched.path is None:
            if not self._snapshot.partial:
                detail = f"{asked} is not a file of commit {at}: {matched.note}"
                yield EvidenceFound(kind=EvidenceKind.PATH_ABSENT, detail=detail)
        elif matched.path != asked and matched.how not in {How.EXACT, How.NORMALISED}:
            detail = f"{asked} is not a file of the commit; {matched.path} is meant ({matched.how.value})"
            yield EvidenceFound(kind=EvidenceKind.PATH_MATCHED, detail=detail, path=matched.path)

    def _about_file(self, path: str, side: Side) -> Iterator[EvidenceFound]:
        change = next((c for c in self._changes if path in {c.path, c.old_path}), None)
        yield from self._about_change(path, change)
        file = self._snapshot.read(path, side)
        if file is None:
            detail = f"{path} is in the commit, but is no text: binary, or kept in another place"
            yield EvidenceFound(kind=EvidenceKind.NOT_A_TEXT_FILE, detail=detail, path=path)
            return
        if file.generated:
            yield EvidenceFound(kind=EvidenceKind.GENERATED_FILE, detail=f"{path} is generated by a machine", path=path)
        lines = file.text.split("\n")
        lines = lines[:-1] if len(lines) > 1 and not lines[-1] else lines
        yield from self._past_end(file, len(lines))
        yield from self._quotes(file, [even(line) for line in lines], change, side)
        yield from self._outside(path, change, side)

    def _about_change(self, path: str, change: ChangedFile | None) -> Iterator[EvidenceFound]:
        if change is None:
            if self._changes and not self._snapshot.partial:
                detail = f"the change under review does not touch {path}"
                yield EvidenceFound(kind=EvidenceKind.FILE_UNTOUCHED, detail=detail, path=path)
        elif change.kind is ChangeKind.RENAMED:
            detail = f"the change renames {change.old_path} to {change.path}"
            yield EvidenceFound(kind=EvidenceKind.FILE_RENAMED, detail=detail, path=change.path)
        elif change.kind is ChangeKind.DELETED:
            detail = f"the change deletes {change.old_path}"
            yield EvidenceFound(kind=EvidenceKind.FILE_DELETED, detail=detail, path=change.old_path)

    def _past_end(self, file: SourceFile, count: int) -> Iterator[EvidenceFound]:
        end = self._issue.end_line or self._issue.start_line
        if end is not None and end > count and not file.partial:
            detail = f"the issue points at line {end} of {file.path}, which has {count} lines"
            yield EvidenceFound(kind=EvidenceKind.LINE_PAST_END, detail=detail, path=file.path)

    def _outside(self, path: str, change: ChangedFile | None, side: Side) -> Iterator[EvidenceFound]:
        start, end = self._issue.start_line, self._issue.end_line or self._issue.start_line
        if change is None or start is None or end is None:
            return
        hunks = change.new_lines if side is Side.RIGHT else change.old_lines
        if hunks and not _within(start, end, hunks):
            near = ", ".join(f"{a}-{b}" for a, b in hunks[:8])
            detail = f"lines {start}-{end} of {path} lie outside of what the change shows (lines {near})"
            yield EvidenceFound(kind=EvidenceKind.LINE_OUTSIDE_CHANGE, detail=detail, path=path)

    def _quotes(
        self, file: SourceFile, lines: Sequence[str], change: ChangedFile | None, side: Side
    ) -> Iterator[EvidenceFound]:
        hunks = () if change is None else change.new_lines if side is Side.RIGHT else change.old_lines
        for quote in quotes(self._issue)[:8]:
            found = places(quote, lines, file.first_line)
            if found:
                moved = self._moved(file, quote, found, hunks)
                if moved is not None:
                    # One place is enough: the longest certain quote goes first.
                    yield moved
                    return
                if quote.certain:
                    return
            elif not file.partial and not self._in_base(file.path, quote, change):
                told = quote.text if len(quote.text) <= 200 else quote.text[:200] + " (cut)"
                detail = f"the quoted code {told!r} stands nowhere in {file.path}"
                yield EvidenceFound(kind=EvidenceKind.QUOTE_ABSENT, detail=detail, path=file.path)

    def _moved(
        self,
        file: SourceFile,
        quote: Quote,
        found: Sequence[tuple[int, int]],
        hunks: Sequence[tuple[int, int]],
    ) -> EvidenceFound | None:
        """The one place where the quoted code is, when it is not where the issue says."""
        start, end = self._issue.start_line, self._issue.end_line or self._issue.start_line
        if start is None or end is None or any(a <= end and b >= start for a, b in found):
            return None
        inside = [place for place in found if _within(*place, hunks)]
        # Several places: the one that the change shows, else nobody can tell which is meant.
        one = inside if len(inside) == 1 else found
        if len(one) != 1:
            return None
        (first, last) = one[0]
        return EvidenceFound(
            kind=EvidenceKind.QUOTE_ELSEWHERE,
            detail=f"the quoted code {quote.text[:200]!r} stands at lines {first}-{last} of {file.path}, "
            f"not at {start}-{end}",
            path=file.path,
            start_line=first,
            end_line=last,
            in_change=bool(inside),
        )

    def _in_base(self, path: str, quote: Quote, change: ChangedFile | None) -> bool:
        """Whether the change removed the quoted code: then the quote is of the old file."""
        old = self._snapshot.read(change.old_path if change is not None else path, Side.LEFT)
        return old is not None and bool(places(quote, [even(line) for line in old.text.split("\n")]))

    def _symbols(self, path: str | None) -> Iterator[EvidenceFound]:
        if self._snapshot.partial:
            return
        names: dict[str, None] = {}
        for text in (self._issue.title, self._issue.body):
            for offset, span in code_spans(text):
                if not _PROPOSES.search(text[max(0, offset - 60) : offset]):
                    names.update(dict.fromkeys(span_identifiers(span)))
        at = self._snapshot.revision[:12]
        for name in list(names)[:_MOST_SYMBOLS]:
            try:
                there = self._snapshot.mentions(name)
            except RepositoryError:  # too large to search: silence is no absence
                return
            if not there and not self._removed(name, path):
                detail = f"the name {name} stands in no file of commit {at}"
                yield EvidenceFound(kind=EvidenceKind.SYMBOL_ABSENT, detail=detail)

    def _removed(self, name: str, path: str | None) -> bool:
        """Whether the old side of the file holds the name: the change removed it, the remark may be about that."""
        change = next((c for c in self._changes if path in {c.path, c.old_path}), None)
        old = self._snapshot.read(change.old_path, Side.LEFT) if change is not None else None
        return old is not None and re.search(rf"\b{re.escape(name)}\b", old.text) is not None


def _within(start: int, end: int, ranges: Sequence[tuple[int, int]]) -> bool:
    return any(a <= start and end <= b for a, b in ranges)
