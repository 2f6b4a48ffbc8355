"""Small real git repositories for tests, written with libgit2: no git command is needed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pygit2
from pygit2.enums import FileMode

AUTHOR = pygit2.Signature("A Tester", "tester@example.invalid", 1_700_000_000, 0)


@dataclass(frozen=True)
class Link:
    """A symbolic link to `target`."""

    target: str


@dataclass(frozen=True)
class Submodule:
    """A submodule at a made-up commit."""

    commit: str = "1" * 40


Content = str | bytes | Link | Submodule


@dataclass
class Repo:
    """A bare repository that commits are written into."""

    path: Path
    git: pygit2.Repository = field(init=False)
    time: int = 1_700_000_000

    def __post_init__(self) -> None:
        self.git = pygit2.init_repository(str(self.path), bare=True)

    def commit(
        self, files: Mapping[str, Content], *parents: str, ref: str | None = "refs/heads/main", message: str = "change"
    ) -> str:
        """Write a commit that holds exactly these files; `ref` is moved to it."""
        self.time += 60
        who = pygit2.Signature("A Tester", "tester@example.invalid", self.time, 0)
        oid = self.git.create_commit(None, who, who, message, self._tree(files), list(parents))
        if ref is not None:
            self.git.references.create(ref, oid, force=True)
        return str(oid)

    def _tree(self, files: Mapping[str, Content]) -> pygit2.Oid:
        builder = self.git.TreeBuilder()
        folders: dict[str, dict[str, Content]] = {}
        for path, content in files.items():
            head, slash, rest = path.partition("/")
            if slash:
                folders.setdefault(head, {})[rest] = content
            elif isinstance(content, Link):
                builder.insert(head, self.git.create_blob(content.target.encode()), FileMode.LINK)
            elif isinstance(content, Submodule):
                builder.insert(head, pygit2.Oid(hex=content.commit), FileMode.COMMIT)
            else:
                data = content.encode() if isinstance(content, str) else content
                builder.insert(head, self.git.create_blob(data), FileMode.BLOB)
        for name, inner in folders.items():
            builder.insert(name, self._tree(inner), FileMode.TREE)
        return builder.write()

    def blob(self, commit: str, path: str) -> str:
        return str(self.git[commit].tree[path].id)

    def diff(self, base: str, head: str) -> str:
        """What `git diff base head` prints, with abbreviated blob ids and renames found."""
        diff = self.git.diff(base, head)
        diff.find_similar()
        return str(diff.patch)
