"""The values and seams of the review check. Pure: no I/O, no clock, no randomness.

An *issue* is one remark of a review. It is read out of the answer with its spans, so that what happens to it can be
written back in the same format. Offsets count Unicode code points of the text read; lines count from 1, ends are
inclusive.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

from checks.types import IssueLabel


class Severity(StrEnum):
    """How bad a reviewer says an issue is, most severe first."""

    CRITICAL = "critical"
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"
    INFO = "info"


class Side(StrEnum):
    """Which side of a change an issue points at: the new file (`RIGHT`) or the old one (`LEFT`)."""

    RIGHT = "RIGHT"
    LEFT = "LEFT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Issue:
    """One issue as its reviewer wrote it.

    `path` is relative to the repository with forward slashes, None when the issue names no file; `start_line` is None
    for a whole file. `number` counts the issues of one review from 0. `format` names the reader that found it;
    `start`/`end` span it in the text, `block` tells apart the several blocks of one answer. `revision` is the commit a
    permalink names. `suggestion` comes without its fence. `extra` keeps what only its own format knows.
    """

    number: int
    format: str
    path: str | None
    start_line: int | None = None
    end_line: int | None = None
    side: Side = Side.RIGHT
    title: str = ""
    body: str = ""
    severity: Severity | None = None
    category: str | None = None
    suggestion: str | None = None
    revision: str | None = None
    start: int = 0
    end: int = 0
    block: int = 0
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """Title and body, as a judge reads them."""
        return f"{self.title}\n\n{self.body}".strip() if self.title not in self.body else self.body


class Completeness(StrEnum):
    """Whether a review was read whole."""

    COMPLETE = "complete"
    TRUNCATED = "truncated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """All issues of one answer. Without issues it is no review that could be checked (`no_facts`).

    `formats` names the formats found, in the order of their blocks; `notes` say in plain words what was put right or
    left out while reading (a reversed range, a cut last issue). `layout` is its reader's own: where verdicts can be
    written, so that writing them back does not read the text again. `too_long` says that the text was not read at all,
    for its size; the note says which limit it passed.
    """

    text: str
    formats: tuple[str, ...] = ()
    issues: tuple[Issue, ...] = ()
    completeness: Completeness = Completeness.COMPLETE
    notes: tuple[str, ...] = ()
    layout: object = field(default=None, repr=False, compare=False)
    too_long: bool = False


class Treatment(StrEnum):
    """What happens to an issue in the answer."""

    KEEP = "keep"
    MARK = "mark"
    DROP = "drop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Treated:
    """What happens to one issue: `line` moves it (action `relocate`), `note` is what a mark says."""

    treatment: Treatment = Treatment.KEEP
    note: str = ""
    label: IssueLabel | None = None
    start_line: int | None = None
    end_line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeFile:
    """An entry of a commit's tree. `kind` is `file`, `link` (a symbolic link) or `submodule`; the latter two are never
    read. `size` is 0 where it was not looked up."""

    path: str
    blob: str
    kind: str = "file"
    size: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    """A file at a pinned revision. `partial` tells that only a part is known (the hunks of a diff, a fenced excerpt);
    `first_line` is then the number of its first line, and `known` names the line ranges that are really known: lines
    of the text outside of them are empty and stand only for their number. `note` says what was left out; it never
    stands in the text."""

    path: str
    blob: str
    text: str
    first_line: int = 1
    partial: bool = False
    generated: bool = False
    note: str = ""
    known: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """Where a symbol is defined: `kind` is class, function, method, type, constant and so on."""

    name: str
    kind: str
    path: str
    start_line: int
    end_line: int


class ChangeKind(StrEnum):
    """What a change did to a file."""

    ADDED = "added"
    MODIFIED = "modified"
    DELETED = "deleted"
    RENAMED = "renamed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedFile:
    """A file that a change touched. `old_path` differs from `path` for a rename; `new_lines` and `old_lines` are the
    line ranges (start, end) of its hunks on each side."""

    path: str
    old_path: str
    kind: ChangeKind
    new_lines: tuple[tuple[int, int], ...] = ()
    old_lines: tuple[tuple[int, int], ...] = ()


@runtime_checkable
class Snapshot(Protocol):
    """A repository at one pinned commit, and its base where there is one. Sync: call it off the event loop.

    Raises `RepositoryError` (checks.errors) when objects cannot be read; what does not exist is None or empty.
    """

    @property
    def name(self) -> str:
        """The configured name of the repository, or `request` for files given in the request."""
        ...

    @property
    def revision(self) -> str: ...

    @property
    def base_revision(self) -> str | None: ...

    @property
    def partial(self) -> bool:
        """Whether only what the request carried is known: absence proves nothing then."""
        ...

    @property
    def notes(self) -> Sequence[str]:
        """What is worth knowing about the whole, in plain words: a base that is no ancestor, a file given twice."""
        ...

    def tree(self, side: Side = Side.RIGHT) -> Sequence[TreeFile]:
        """Every entry, sorted by path; `LEFT` is the base."""
        ...

    def read(self, path: str, side: Side = Side.RIGHT) -> SourceFile | None:
        """A text file by its exact path; None when absent, binary, a symbolic link or a submodule."""
        ...

    def definitions(self, name: str) -> Sequence[Definition]:
        """Where a class, function or constant of that name is defined in the commit."""
        ...

    def mentions(self, word: str) -> bool:
        """Whether a word stands anywhere in the commit's text files. Raises `RepositoryError` when the commit is too
        large to be searched: that is no absence."""
        ...

    def changes(self) -> Sequence[ChangedFile]:
        """What changed between base and revision; empty when no base is known."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """What a request says about the code under review, or what was read from its messages. All optional."""

    repository: str | None = None
    revision: str | None = None
    base_revision: str | None = None


@runtime_checkable
class Repositories(Protocol):
    """Finds the snapshot a review speaks of. Never raises for an unknown revision: that is a reason in words."""

    async def snapshot(self, pin: Pin, messages: Sequence[tuple[str, str]]) -> Snapshot | str:
        """The snapshot of a pin, of permalinks or blob ids in the messages (role, text), or of the code the messages
        carry; a text says why there is none."""
        ...
