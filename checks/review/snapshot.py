"""A repository at one commit, read from git's own objects: no checkout, no file system, so nothing to escape into.

Blocks: call it off the event loop. What is found out about a commit is kept with it (tree, changes, word table), what
is found out about a blob is kept over commits (`BlobKnowledge`), so the second review of a repository reads only what
changed. Knows nothing of fetching and nothing of judging.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import pygit2
from pygit2.enums import AttrCheck, DeltaStatus, FileMode, ObjectType

from checks.errors import RepositoryError
from checks.review.languages import grammar_of
from checks.review.recognise import is_binary, is_generated, is_pointer
from checks.review.symbols import EMPTY, Outline, outline
from checks.review.types import ChangedFile, ChangeKind, Definition, Side, SourceFile, TreeFile
from checks.review.words import Hashes, WordTable, word_hashes

LARGEST_SEARCH = 1_000_000_000
"""A commit with more bytes of text than this is not searched for words."""

MOST_PARSED = 600
"""A name that is written like a definition in more files than this is not looked up."""

_KINDS = {FileMode.BLOB: "file", FileMode.BLOB_EXECUTABLE: "file", FileMode.LINK: "link", FileMode.COMMIT: "submodule"}
_NO_TEXT = re.compile(
    r"\.(?:png|jpe?g|gif|webp|ico|bmp|tiff?|pdf|zip|gz|bz2|xz|zst|7z|jar|war|whl|so|dll|dylib|exe|bin|woff2?|ttf|otf|"
    r"eot|mp[34]|mov|avi|webm|wav|ogg|flac|onnx|pt|npz|npy|parquet|sqlite3?|wasm|class|pyc)\Z",
    re.IGNORECASE,
)
_ADDED, _DELETED, _RENAMED = DeltaStatus.ADDED, DeltaStatus.DELETED, DeltaStatus.RENAMED
_STATUS = {_ADDED: ChangeKind.ADDED, _DELETED: ChangeKind.DELETED, _RENAMED: ChangeKind.RENAMED}
_BEFORE_A_NAME = r"(?<![\w.>:])(?<!new )(?<!::)"
_ATTRIBUTES = AttrCheck.INDEX_ONLY | AttrCheck.NO_SYSTEM | AttrCheck.INCLUDE_COMMIT


class BlobKnowledge:
    """Outlines and word hashes by blob id, for one repository; the least recently used go first. Thread-safe."""

    def __init__(self, *, most_outlines: int = 4096, most_words: int = 40_000_000) -> None:
        self._lock = threading.Lock()
        self._outlines: OrderedDict[tuple[str, str], Outline] = OrderedDict()
        self._words: OrderedDict[str, Hashes] = OrderedDict()
        self._most_outlines, self._most_words, self._held = most_outlines, most_words, 0

    def outline(self, blob: str, path: str, text: str) -> Outline:
        """The outline of a blob; the same blob under another path is parsed again, as its grammar may differ."""
        key = (blob, path)
        with self._lock:
            if key in self._outlines:
                self._outlines.move_to_end(key)
                return self._outlines[key]
        found = outline(path, text)
        with self._lock:
            self._outlines[key] = found
            while len(self._outlines) > self._most_outlines:
                self._outlines.popitem(last=False)
        return found

    def words(self, blob: str) -> Hashes | None:
        with self._lock:
            found = self._words.get(blob)
            if found is not None:
                self._words.move_to_end(blob)
            return found

    def keep_words(self, blob: str, hashes: Hashes) -> None:
        with self._lock:
            if blob not in self._words:
                self._words[blob] = hashes
                self._held += len(hashes)
            while self._held > self._most_words and self._words:
                self._held -= len(self._words.popitem(last=False)[1])


class GitSnapshot:
    """One commit, and the merge base it is compared with. Ids are full hexadecimal ones."""

    partial = False

    def __init__(
        self,
        repository: pygit2.Repository,
        *,
        name: str,
        revision: str,
        base_revision: str | None = None,
        notes: Sequence[str] = (),
        knowledge: BlobKnowledge | None = None,
    ) -> None:
        self._repository = repository
        self._name, self._revision, self._base = name, revision, base_revision
        self._notes = tuple(notes)
        self._knowledge = knowledge or BlobKnowledge()
        self._lock = threading.RLock()
        self._text_files: list[TreeFile] = []

    @property
    def name(self) -> str:
        return self._name

    @property
    def revision(self) -> str:
        return self._revision

    @property
    def base_revision(self) -> str | None:
        return self._base

    @property
    def notes(self) -> Sequence[str]:
        return self._notes

    def tree(self, side: Side = Side.RIGHT) -> Sequence[TreeFile]:
        """Every entry, sorted by path; empty on the left side without a base."""
        with self._lock:
            return self._new_tree if side is Side.RIGHT else self._old_tree

    def read(self, path: str, side: Side = Side.RIGHT) -> SourceFile | None:
        """A text file by its exact path. None when absent, binary, a pointer to a large file, a link, a submodule."""
        revision = self._revision if side is Side.RIGHT else self._base
        if revision is None or not path or path.startswith("/"):
            return None
        try:
            entry = self._commit(revision).tree[path]
        except (KeyError, ValueError):
            return None
        if _KINDS.get(entry.filemode) != "file":
            return None
        data = self._blob(str(entry.id))
        if is_binary(data) or is_pointer(data):
            return None
        text, note = _decode(data)
        generated = self._says_generated(path, revision)
        if generated is None:
            generated = is_generated(path, text)
        return SourceFile(path=path, blob=str(entry.id), text=text, generated=generated, note=note)

    def definitions(self, name: str) -> Sequence[Definition]:
        """Where the commit defines a name. Only files that hold it, written like a definition, are parsed.

        Raises `RepositoryError` when that is so in more than `MOST_PARSED` files: a part of them would mislead.
        """
        if not name:
            return ()
        like = re.compile(rf"{_BEFORE_A_NAME}\b{re.escape(name)}\b".encode())
        found: list[tuple[TreeFile, bytes]] = []
        for file, data in self._holding(name):
            if grammar_of(file.path) is not None and like.search(data):
                found.append((file, data))
                if len(found) > MOST_PARSED:
                    raise RepositoryError(
                        f"{self._name}: {name} stands in more than {MOST_PARSED} source files of {self._revision[:12]}",
                        hint="ask for a rarer name, or for the path of the file",
                    )
        outlines = [self._knowledge.outline(file.blob, file.path, _decode(data)[0]) for file, data in found]
        return tuple(definition for one in outlines for definition in one.named(name))

    def outline(self, file: SourceFile) -> Outline:
        """The outline of a file of this snapshot, from what is known of its blob."""
        return self._knowledge.outline(file.blob, file.path, file.text) if grammar_of(file.path) else EMPTY

    def mentions(self, word: str) -> bool:
        """Whether a text whose words are whole stands in any text file of the commit."""
        return next(self._holding(word), None) is not None

    def changes(self) -> Sequence[ChangedFile]:
        """What changed between merge base and commit, renames found; the hunks are those a code host shows."""
        with self._lock:
            return self._changes

    @cached_property
    def _new_tree(self) -> tuple[TreeFile, ...]:
        return tuple(_entries(self._commit(self._revision).tree))

    @cached_property
    def _old_tree(self) -> tuple[TreeFile, ...]:
        return tuple(_entries(self._commit(self._base).tree)) if self._base is not None else ()

    @cached_property
    def _changes(self) -> tuple[ChangedFile, ...]:
        if self._base is None:
            return ()
        try:
            diff = self._repository.diff(self._base, self._revision)
            assert isinstance(diff, pygit2.Diff)
            diff.find_similar()
            return tuple(_changed(patch) for patch in diff if patch is not None)
        except (pygit2.GitError, KeyError, ValueError) as error:
            raise self._unreadable(error) from error

    @cached_property
    def _table(self) -> WordTable:
        """The words of every text file; sets `_text_files`, whose places are the numbers in the table."""
        files, hashes, read = [], [], 0
        for file in self._new_tree:
            if file.kind != "file" or _NO_TEXT.search(file.path):
                continue
            known = self._knowledge.words(file.blob)
            if known is None:
                data = self._blob(file.blob)
                read += len(data)
                if read > LARGEST_SEARCH:
                    raise RepositoryError(
                        f"{self._name} at {self._revision[:12]} has more than {LARGEST_SEARCH:,} bytes to search",
                        hint="searches for names in the whole tree are left out; files named by path are still read",
                    )
                known = word_hashes(b"" if is_binary(data) or is_pointer(data) else data)
                self._knowledge.keep_words(file.blob, known)
            if len(known):
                files.append(file)
                hashes.append(known)
        self._text_files = files
        return WordTable(hashes)

    def _holding(self, text: str) -> Iterator[tuple[TreeFile, bytes]]:
        """Files that hold a text whose words are whole, with their bytes."""
        with self._lock:
            numbers = self._table.files_with(text)
        exact = re.compile(rb"(?<![\w\x80-\xff])" + re.escape(text.encode()) + rb"(?![\w\x80-\xff])")
        for number in numbers:
            file = self._text_files[number]
            data = self._blob(file.blob)
            if exact.search(data):
                yield file, data

    def _says_generated(self, path: str, revision: str) -> bool | None:
        """What .gitattributes of the commit says, None when it says nothing."""
        try:
            said = self._repository.get_attr(path, "linguist-generated", _ATTRIBUTES, revision)
        except (pygit2.GitError, KeyError, ValueError):
            return None
        return None if said is None else said in {True, "true", "set"}

    def _commit(self, revision: str | None) -> pygit2.Commit:
        try:
            found = self._repository[revision or ""]
            return found.peel(ObjectType.COMMIT)
        except (KeyError, ValueError, pygit2.GitError) as error:
            raise self._unreadable(error) from error

    def _blob(self, blob: str) -> bytes:
        try:
            kind, data = self._repository.odb.read(blob)
        except (KeyError, ValueError, pygit2.GitError) as error:
            raise self._unreadable(error) from error
        assert kind == ObjectType.BLOB
        return data

    def _unreadable(self, error: Exception) -> RepositoryError:
        return RepositoryError(
            f"{self._name} at {self._revision[:12]}: objects cannot be read: {error}",
            hint="the mirror may be a shallow or damaged clone: delete it, it is fetched again",
        )


def _entries(tree: pygit2.Tree) -> list[TreeFile]:
    """All entries below a tree, sorted by path. Folders are walked with a stack of their own, however deep."""
    found: list[TreeFile] = []
    stack: list[tuple[str, Any]] = [("", tree)]
    while stack:
        prefix, folder = stack.pop()
        for entry in folder:
            path = prefix + entry.raw_name.decode("utf-8", "replace")
            if entry.filemode == FileMode.TREE:
                stack.append((f"{path}/", entry))
            else:
                kind = _KINDS.get(entry.filemode, "file")
                found.append(TreeFile(path=path, blob=str(entry.id), kind=kind))
    found.sort(key=lambda file: file.path)
    return found


def _changed(patch: pygit2.Patch) -> ChangedFile:
    delta = patch.delta
    new, old = [], []
    for hunk in patch.hunks:
        if hunk.new_lines:
            new.append((hunk.new_start, hunk.new_start + hunk.new_lines - 1))
        if hunk.old_lines:
            old.append((hunk.old_start, hunk.old_start + hunk.old_lines - 1))
    kind = _STATUS.get(delta.status, ChangeKind.MODIFIED)
    path, old_path = delta.new_file.path, delta.old_file.path
    return ChangedFile(path=path, old_path=old_path, kind=kind, new_lines=tuple(new), old_lines=tuple(old))


def _decode(data: bytes) -> tuple[str, str]:
    try:
        return data.decode(), ""
    except UnicodeDecodeError:
        return data.decode("utf-8", "replace"), "bytes that are not UTF-8 are shown as U+FFFD"
