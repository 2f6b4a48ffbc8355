"""A bare mirror of one repository on this machine: opened, fetched, asked for commits. Knows nothing of reviews.

Everything here blocks: call it off the event loop. Nothing is ever checked out. One process fetches at a time (flock
on a file beside the mirror); one that was killed while it fetched leaves at most a temporary pack and stale lock
files, which the next holder of the lock removes. Objects are never collected, so a commit that was once fetched stays
readable when its branch is rewritten. Reading needs no lock.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pygit2
from pygit2.enums import FetchPrune, ObjectType

from checks.errors import RepositoryError
from checks.review.credentials import InstallationTokens, RepositorySettings
from checks.review.transport import Callbacks

_BRANCHES = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
_SHA = re.compile(r"[0-9a-f]{7,64}\Z")
_FULL = frozenset({40, 64})
# What may stand in the name of a branch or tag; nothing of revision syntax (`~`, `^`, `@{`, `:`) is understood.
_REF = re.compile(r"(?!.*(?:\.\.|//|@\{|\.lock\Z))[^\s~^:?*\[\\\x00-\x1f\x7f/.-][^\s~^:?*\[\\\x00-\x1f\x7f]{0,200}\Z")
_SHORTHAND = re.compile(r"(?:pull|merge-requests|pull-requests)/\d+(?:/(?:head|from))?\Z")
_LOCK_RETRY_S = 0.05
_STALE_PACKS = ("pack_git2_*", "tmp_pack_*", "*.lock")


class GitMirror:
    """One configured repository. `directory` is where all mirrors live; a local repository is read in place."""

    def __init__(
        self, settings: RepositorySettings, directory: Path, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.settings = settings
        slug = re.sub(r"[^\w.-]+", "-", settings.name)[:60]
        digest = hashlib.sha256(settings.shown_url.encode()).hexdigest()[:12]
        self.path = settings.local or directory / f"{slug}-{digest}.git"
        self._clock = clock
        self._lock = threading.Lock()
        self._repository: pygit2.Repository | None = None
        self._tokens = InstallationTokens(settings.github_app, settings) if settings.github_app else None
        self._closed = threading.Event()
        self.fetched_at: float | None = None

    def close(self) -> None:
        """Make a fetch that runs give up soon, so that nobody waits for it at the end of the process."""
        self._closed.set()

    @property
    def name(self) -> str:
        return self.settings.name

    def repository(self) -> pygit2.Repository:
        """The repository, opened once. Raises `RepositoryError` when there is none."""
        with self._lock:
            if self._repository is None:
                self._repository = self._open()
            return self._repository

    def resolve(self, revision: str) -> str | None:
        """The commit that a full or abbreviated id, a branch, a tag, a `refs/...` name or `pull/7` means here; None
        when unknown. A name never means two things: a branch goes before a tag."""
        repository = self.repository()
        text = revision.strip()
        if _SHA.fullmatch(text.lower()):
            commit = _commit(repository, text.lower())
            if commit is not None or len(text) in _FULL:
                return commit
        if text == "HEAD" or _REF.fullmatch(text):
            for name in _ref_names(text):
                commit = _commit_of_ref(repository, name)
                if commit is not None:
                    return commit
        return None

    def is_name(self, revision: str) -> bool:
        """Whether a revision is a name that can move, and no commit id."""
        return _SHA.fullmatch(revision.strip().lower()) is None

    def fetch(self, revision: str | None = None) -> None:
        """Fetch branches and tags; then, if `revision` is still unknown, that commit itself, then the refs of pull and
        merge requests. Returns when done; whether the revision is known now, `resolve` tells.

        Raises `RepositoryError` when the server cannot be reached, refuses, or takes longer than `fetch_timeout_s`.
        """
        if self.settings.local is not None:
            return
        deadline = self._clock() + self.settings.fetch_timeout_s
        with self._exclusive(deadline):
            self._clean()
            self.repository()
            # A handle of its own: reading goes on through the other one meanwhile.
            repository = pygit2.Repository(str(self.path))
            self._pull(repository, self._specs(revision), deadline)
            self.fetched_at = self._clock()
            if revision is not None and self.resolve(revision) is None:
                self._pull_revision(repository, revision.strip(), deadline)

    def _specs(self, revision: str | None) -> list[str]:
        if revision is not None and (revision.startswith("refs/") or _SHORTHAND.fullmatch(revision)):
            return [f"+{name}:{name}" for name in _ref_names(revision)[:1]]
        return list(_BRANCHES)

    def _pull_revision(self, repository: pygit2.Repository, revision: str, deadline: float) -> None:
        if len(revision) in _FULL and _SHA.fullmatch(revision.lower()):
            sha = revision.lower()
            # Servers may refuse to give a commit by its id; then the refs that could hold it are fetched.
            with suppress(RepositoryError):
                self._pull(repository, [f"+{sha}:refs/pinned/{sha}"], deadline)
        if self.resolve(revision) is None and _SHA.fullmatch(revision.lower()):
            self._pull(repository, [f"+{ref}:{ref}" for ref in self.settings.pull_refs], deadline)

    def _pull(self, repository: pygit2.Repository, specs: list[str], deadline: float) -> None:
        callbacks = Callbacks(self.settings, self._tokens, self._over(deadline))
        prune = FetchPrune.PRUNE if specs == list(_BRANCHES) else FetchPrune.NO_PRUNE
        try:
            remote = repository.remotes.create_anonymous(self.settings.url)
            arguments: dict[str, Any] = {"callbacks": callbacks, "prune": prune}
            if self.settings.proxy:
                arguments["proxy"] = self.settings.proxy
            try:
                remote.fetch(specs, **arguments)
            except pygit2.GitError:
                if callbacks.refusal or specs != list(_BRANCHES):
                    raise
                # A branch `a` that became `a/b`: git removes the old ref only after it failed to write the new one.
                self._drop_vanished(repository, remote, callbacks)
                remote.fetch(specs, **arguments)
        except (pygit2.GitError, OSError, ValueError, KeyError) as error:
            raise self._failed(callbacks.refusal or str(error)) from error

    def _over(self, deadline: float) -> Callable[[], str]:
        def over() -> str:
            if self._closed.is_set():
                return "the gateway is stopping"
            late = self._clock() >= deadline
            return f"it took longer than {self.settings.fetch_timeout_s:g} seconds" if late else ""

        return over

    def _drop_vanished(self, repository: pygit2.Repository, remote: Any, callbacks: Callbacks) -> None:
        there = {head.name for head in remote.list_heads(callbacks=callbacks)}
        for name in list(repository.references):
            if name.startswith(("refs/heads/", "refs/tags/")) and name not in there:
                repository.references.delete(name)

    def _open(self) -> pygit2.Repository:
        if not self.path.exists():
            if self.settings.local is not None:
                raise RepositoryError(
                    f"repository {self.name}: there is nothing at {self.path}",
                    hint="give the path of a git repository on this machine, or an address that it can be fetched from",
                )
            self._make()
        try:
            return pygit2.Repository(str(self.path))
        except pygit2.GitError as error:
            raise RepositoryError(
                f"repository {self.name}: {self.path} cannot be opened as a git repository: {error}",
                hint="check that it is one and that this user owns it; a mirror may be deleted, it is fetched again",
            ) from error

    def _make(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # Made beside it and renamed: a process that dies in between leaves no half repository behind.
        new = self.path.with_suffix(f".{os.getpid()}.{threading.get_ident()}.new")
        try:
            pygit2.init_repository(str(new), bare=True)
            with suppress(OSError):  # another process was first
                new.rename(self.path)
        finally:
            shutil.rmtree(new, ignore_errors=True)

    def _clean(self) -> None:
        """Remove what a killed fetch left. Only the holder of the lock may call it."""
        for folder, patterns in ((self.path / "objects" / "pack", _STALE_PACKS), (self.path / "refs", ("*.lock",))):
            for pattern in patterns:
                for path in folder.rglob(pattern):
                    path.unlink(missing_ok=True)
        (self.path / "packed-refs.lock").unlink(missing_ok=True)

    @contextmanager
    def _exclusive(self, deadline: float) -> Iterator[None]:
        """One fetch at a time, over threads and processes; the kernel frees the lock of a process that died."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            while True:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if self._clock() >= deadline or self._closed.is_set():
                        raise self._failed("another process has been fetching it for too long") from None
                    time.sleep(_LOCK_RETRY_S)
            yield
        finally:
            os.close(handle)

    def _failed(self, why: str) -> RepositoryError:
        secrets = [s for s in (self.settings.token, self.settings.proxy, self.settings.url) if s]
        for secret in secrets:
            why = why.replace(secret, self.settings.shown_url if secret == self.settings.url else "***")
        return RepositoryError(
            f"repository {self.name} could not be fetched from {self.settings.shown_url}: {why}",
            hint="check the address, the credentials, the CA bundle and the proxy of this repository",
        )


def _ref_names(text: str) -> tuple[str, ...]:
    if text == "HEAD" or text.startswith("refs/"):
        return (text,)
    if _SHORTHAND.fullmatch(text):
        kind, number, *rest = text.split("/")
        last = rest[0] if rest else ("from" if kind == "pull-requests" else "head")
        return (f"refs/{kind}/{number}/{last}", f"refs/heads/{text}")
    return (f"refs/heads/{text}", f"refs/tags/{text}", f"refs/remotes/origin/{text}")


def _commit(repository: pygit2.Repository, sha: str) -> str | None:
    """The full id of a commit, or of the commit an annotated tag points at. None when unknown or ambiguous."""
    try:
        found = repository.get(sha)
        return None if found is None else str(found.peel(ObjectType.COMMIT).id)
    except (ValueError, KeyError, pygit2.GitError):
        return None


def _commit_of_ref(repository: pygit2.Repository, name: str) -> str | None:
    try:
        return str(repository.references[name].peel(ObjectType.COMMIT).id)
    except (KeyError, ValueError, pygit2.GitError):
        return None
