"""Files into a store edit: which are new, changed, unchanged or gone, and what that does to documents and passages.

An unchanged file costs one stat. A changed one is read, and only passages whose id or embedded text changed get a new
row; the rows are what has to be encoded. A file that cannot be read keeps what was stored of it and is reported.

Knows nothing of vectors and indexes, nor of when an edit is published.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from retrieval.edit import StoredPassage, StoreEdit
from retrieval.errors import LoadError, RetrievalError
from retrieval.index.snapshot import sha256_of
from retrieval.load import SourceFile, discover, problems_of
from retrieval.split import embedding_text
from retrieval.store import FileState
from retrieval.types import Document, Loader, Passage
from retrieval.visibility import GROUPS_KEY

# A file written in the same clock tick as it was read can change again and keep its time: such a record is not trusted.
RACY_NS = 2_000_000_000
# The size of a file of which a part could not be read: it never matches, so the file is read again each time.
UNTRUSTED = -1


class Stage(StrEnum):
    """What an ingest is doing; `snapshot` is reported just before the commit, `publish` just after it."""

    LOAD = "load"
    ENCODE = "encode"
    SNAPSHOT = "snapshot"
    PUBLISH = "publish"


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far an ingest is: files while loading, passages while encoding."""

    stage: Stage
    done: int
    total: int
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A file, or a document in it, that could not be taken in. What was stored of it before is kept."""

    path: str
    reason: str
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestReport:
    """What an ingest did, in files (`added`, `changed`, `removed`, `unchanged`) and passages."""

    added: int
    changed: int
    removed: int
    unchanged: int
    passages_added: int
    passages_removed: int
    encoded: int
    generation: int
    problems: tuple[Problem, ...]


@dataclass(slots=True)
class Outcome:
    """What the files did to the store so far; `freed` maps digests of embedded texts to rows that go."""

    added: int = 0
    changed: int = 0
    removed: int = 0
    unchanged: int = 0
    rows: list[int] = field(default_factory=list)
    gone: list[int] = field(default_factory=list)
    freed: dict[bytes, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


def quiet(progress: Progress) -> None:
    """The progress callback of a caller who does not want to know."""


class FileIngest:
    """One pass over files inside one edit."""

    def __init__(
        self, edit: StoreEdit, split: Callable[[Document], Sequence[Passage]], progress: Callable[[Progress], None]
    ) -> None:
        self._edit = edit
        self._split = split
        self._progress = progress
        self._stored = edit.files()
        self._settled: dict[str, str] = {}
        self._waiting: set[str] = set()
        self.outcome = Outcome()

    def run(self, paths: Sequence[Path], loaders: Sequence[Loader], *, prune: bool, reload: bool) -> Outcome:
        """Bring the store in line with the files at and under `paths`.

        A stored file under one of `paths` that is not there any more goes, with `prune` every stored file that is not
        under them. With `reload` every stored file is read again, those elsewhere too. Raises `LoadError` for a path
        that does not exist.
        """
        roots = [_absolute(path) for path in paths]
        present = [path for path in roots if path.exists()]
        for path in roots:
            if path not in present and str(path) not in self._stored:
                raise self._absent(path)
        found = self._discovered(present, loaders)
        covered = {
            name for name in self._stored if (prune and roots) or any(Path(name).is_relative_to(root) for root in roots)
        }
        for stored in sorted(covered - found.keys()):
            self._forget(stored)
        if reload:
            found = {**self._elsewhere(self._stored.keys() - covered, loaders), **found}
        self._waiting = {name for name, source in found.items() if reload or not self._is_unchanged(name, source)}
        for done, (name, source) in enumerate(found.items()):
            self._progress(Progress(stage=Stage.LOAD, done=done, total=len(found), detail=name))
            if name in self._waiting:
                self._take(name, source)
            self._waiting.discard(name)
        self._progress(Progress(stage=Stage.LOAD, done=len(found), total=len(found)))
        return self.outcome

    def forget(self, paths: Iterable[Path]) -> Outcome:
        """Drop every stored file at or under `paths`, whether or not it still exists on disk."""
        roots = [_absolute(path) for path in paths]
        for stored in sorted(self._stored):
            if any(Path(stored).is_relative_to(root) for root in roots):
                self._forget(stored)
        return self.outcome

    # --- which files ---

    def _absent(self, path: Path) -> LoadError:
        under = sum(Path(stored).is_relative_to(path) for stored in self._stored)
        if under:
            return LoadError(
                f"{path} does not exist, but {under} stored files came from it",
                hint="mount or restore it; to remove those files from the collection, forget that path",
            )
        return LoadError(f"{path} does not exist", hint="check the path's spelling and the working directory")

    def _discovered(self, paths: Sequence[Path], loaders: Sequence[Loader]) -> dict[str, SourceFile]:
        found: dict[str, SourceFile] = {}
        for item in discover(paths, loaders):
            path = _absolute(item.path)
            found.setdefault(str(path), replace(item, root=_absolute(item.root), path=path))
        return found

    def _elsewhere(self, paths: Iterable[str], loaders: Sequence[Loader]) -> dict[str, SourceFile]:
        found: dict[str, SourceFile] = {}
        for path in sorted(paths):
            try:
                source = self._discovered([Path(path)], loaders)[path]
            except LoadError as error:
                self._problem(path, f"{error}; its old passages are kept as they were split before", error.hint)
            else:
                found[path] = replace(source, root=Path(self._stored[path].root))
        return found

    def _is_unchanged(self, path: str, source: SourceFile) -> bool:
        stored = self._stored.get(path)
        if stored is None:
            return False
        try:
            stat = source.path.stat()
            if stat.st_size != stored.size:
                return False
            if stat.st_mtime_ns != stored.mtime_ns or stored.read_ns - stored.mtime_ns < RACY_NS:
                read_ns = time.time_ns()
                if sha256_of(source.path) != stored.sha256:
                    return False
                self._edit.put_file(replace(stored, mtime_ns=stat.st_mtime_ns, read_ns=read_ns))
        except OSError:
            return False
        self.outcome.unchanged += 1
        return True

    # --- one file ---

    def _take(self, path: str, source: SourceFile) -> None:
        part = Outcome()
        settled: dict[str, str] = {}
        try:
            with self._edit.attempt():
                self._read(path, source, part, settled)
        except LoadError as error:
            self._problem(path, str(error), error.hint)
        except (RetrievalError, sqlite3.OperationalError, MemoryError):
            raise
        except OSError as error:
            self._problem(path, f"it cannot be read: {error.strerror or error}", "check its permissions")
        except Exception as error:  # a loader from elsewhere may raise anything, and the other files go on
            self._problem(path, f"its loader failed: {type(error).__name__}: {error}")
        else:
            self._merge(part, settled)
            if path in self._stored:
                self.outcome.changed += 1
            else:
                self.outcome.added += 1

    def _read(self, path: str, source: SourceFile, part: Outcome, settled: dict[str, str]) -> None:
        # State is taken before reading: a change during the read shows as a change next time.
        read_ns = time.time_ns()
        stat = source.path.stat()
        sha256 = sha256_of(source.path)
        stored = self._edit.documents_of(path)
        reading = source.loader.load(source.path, root=source.root)
        for document in reading:
            document = self._identified(document, path, source, stored)
            if owner := self._other_owner(document.id, path, settled):
                reason = f"document id {document.id!r} is already taken by {owner}"
                part.problems.append(Problem(path=path, reason=reason, hint="give each document an id of its own"))
                continue
            settled[document.id] = path
            self._put(document, path, part)
        unread = problems_of(reading)
        part.problems += [Problem(path=path, reason=str(error), hint=error.hint) for error in unread]
        for document_id in sorted(stored - settled.keys()):
            # Of a file read in part nothing stored goes: the record that broke may be the one that is missing.
            if not unread and self._edit.owner_of(document_id) == path:
                self._drop(document_id, part)
        self._edit.put_file(
            FileState(
                path=path,
                root=str(source.root),
                size=stat.st_size if not unread else UNTRUSTED,
                mtime_ns=stat.st_mtime_ns,
                read_ns=read_ns,
                sha256=sha256,
            )
        )

    def _identified(self, document: Document, path: str, source: SourceFile, stored: set[str]) -> Document:
        """The document; under an id that names its root where a file of another root has the same relative path."""
        qualified = f"{source.root.name}/{document.id}"
        if qualified not in stored:
            owner = self._other_owner(document.id, path, {})
            if owner is None or Path(owner).is_relative_to(source.root):
                return document
        return replace(document, id=qualified)

    def _other_owner(self, document_id: str, path: str, settled: Mapping[str, str]) -> str | None:
        """The file whose document this id is and stays: not one that is gone or about to be read again."""
        if owner := settled.get(document_id) or self._settled.get(document_id):
            return owner
        owner = self._edit.owner_of(document_id)
        if owner is None or owner == path or owner in self._waiting or not Path(owner).exists():
            return None
        return owner

    def _put(self, document: Document, path: str, part: Outcome) -> None:
        stored = self._edit.passages_of(document.id)
        self._edit.put_document(document, path)
        fresh = []
        for passage in self._split(document):
            passage = replace(passage, metadata=_inherited(document, passage))
            embedded = hashlib.sha256(embedding_text(passage).encode("utf-8", "surrogatepass")).digest()
            old = stored.get(passage.id)
            if old is None or old.embedded != embedded:
                fresh.append((passage, embedded))
                continue
            del stored[passage.id]
            if old.passage != passage:
                self._edit.change_passage(old.row, passage)
        self._release(stored.values(), part)
        part.rows += [self._edit.add_passage(passage, embedded) for passage, embedded in fresh]

    def _drop(self, document_id: str, part: Outcome) -> None:
        self._release(self._edit.passages_of(document_id).values(), part)
        self._edit.drop_document(document_id)

    def _release(self, passages: Iterable[StoredPassage], part: Outcome) -> None:
        going = list(passages)
        self._edit.drop_passages(stored.row for stored in going)
        part.gone += [stored.row for stored in going]
        part.freed.update((stored.embedded, stored.row) for stored in going)

    def _forget(self, path: str) -> None:
        part = Outcome(removed=1)
        for document_id in sorted(self._edit.documents_of(path)):
            self._drop(document_id, part)
        self._edit.drop_file(path)
        self._merge(part, {})

    def _merge(self, part: Outcome, settled: Mapping[str, str]) -> None:
        self._settled.update(settled)
        self.outcome.removed += part.removed
        self.outcome.rows += part.rows
        self.outcome.gone += part.gone
        self.outcome.freed.update(part.freed)
        self.outcome.problems += part.problems

    def _problem(self, path: str, reason: str, hint: str = "") -> None:
        self.outcome.problems.append(Problem(path=path, reason=reason, hint=hint))


def _absolute(path: Path) -> Path:
    # Not `resolve`: a mounted configuration is a link to a directory that gets a new name with every update.
    return Path(os.path.abspath(path))  # noqa: PTH100


def _inherited(document: Document, passage: Passage) -> Mapping[str, str]:
    """A passage's metadata over its document's. Who may read is the document's to say alone."""
    merged = {**document.metadata, **passage.metadata}
    merged.pop(GROUPS_KEY, None)
    if GROUPS_KEY in document.metadata:
        merged[GROUPS_KEY] = document.metadata[GROUPS_KEY]
    return merged
