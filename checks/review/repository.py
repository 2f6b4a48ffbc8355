"""The configured repositories, and the snapshot that a review speaks of.

Order: what the request pins, permalinks in its messages, blob ids of the diffs in its messages, the code in its
messages (partial). A pin that cannot be met is a reason in words, never something else instead. git is asked on
threads of this pool, so the event loop never waits for a disk; fetches have threads of their own, so that a slow server
holds up nobody who needs no fetch. Knows nothing of issues and judges.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import pygit2
import structlog

from checks.errors import RepositoryError
from checks.review.credentials import RepositorySettings
from checks.review.diffs import FileDiff
from checks.review.mirror import GitMirror
from checks.review.pins import blob_diffs, find_base, find_commits, newest, permalinks
from checks.review.request_files import read_messages
from checks.review.snapshot import BlobKnowledge, GitSnapshot
from checks.review.types import Pin, Snapshot

_READERS = 4
_FETCHERS = 4
_MOST_SNAPSHOTS = 24
_MOST_UNKNOWN = 1000
_RETRY_UNKNOWN_S = 20.0
_CONNECT_TIMEOUT_MS = 15_000
_SILENCE_TIMEOUT_MS = 30_000

T = TypeVar("T")
Message = tuple[str, str]


class RepositoryPool:
    """All mirrors of a gateway, shared by its routes. Open it as an async context manager; it refreshes the mirrors in
    the background. `directory` keeps the mirrors over restarts. `deadline_s` bounds one search for a snapshot: a fetch
    that takes longer goes on for the next request.

    `only(names)` is what a route gets: nothing outside of its names can be reached through it.
    """

    def __init__(
        self,
        settings: Sequence[RepositorySettings],
        directory: Path,
        *,
        deadline_s: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._mirrors = {one.name: GitMirror(one, directory, clock=clock) for one in settings}
        self._knowledge = {one.name: BlobKnowledge() for one in settings}
        self._deadline_s = deadline_s
        self._clock = clock
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="git-read")
        self._fetchers = ThreadPoolExecutor(_FETCHERS, thread_name_prefix="git-fetch")
        self._snapshots: OrderedDict[tuple[str, str, str | None, tuple[str, ...]], GitSnapshot] = OrderedDict()
        self._unknown: OrderedDict[tuple[str, str], float] = OrderedDict()
        self._failed: dict[str, tuple[float, str, str]] = {}
        self._fetching: dict[tuple[str, str | None], asyncio.Future[None]] = {}
        self._refreshing: list[asyncio.Task[None]] = []
        self._log = structlog.get_logger("repositories")

    async def __aenter__(self) -> Self:
        # Settings of the whole process, in libgit2: without them a server that falls silent holds a thread for ever.
        pygit2.settings.server_connect_timeout = _CONNECT_TIMEOUT_MS
        pygit2.settings.server_timeout = _SILENCE_TIMEOUT_MS
        for mirror in self._mirrors.values():
            ca = mirror.settings.ca_bundle
            if ca is not None:
                try:
                    pygit2.settings.set_ssl_cert_locations(str(ca), None)
                except pygit2.GitError as error:
                    raise RepositoryError(
                        f"repository {mirror.name}: the CA bundle {ca} cannot be read: {error}",
                        hint="give a PEM file of certificates that this user may read",
                    ) from error
        self._refreshing = [
            asyncio.create_task(self._refresh(mirror))
            for mirror in self._mirrors.values()
            if mirror.settings.local is None and mirror.settings.refresh_s > 0
        ]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for mirror in self._mirrors.values():
            mirror.close()
        for task in self._refreshing:
            task.cancel()
        await asyncio.gather(*self._refreshing, return_exceptions=True)
        self._readers.shutdown(wait=False, cancel_futures=True)
        self._fetchers.shutdown(wait=False, cancel_futures=True)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._mirrors)

    def mirror(self, name: str) -> GitMirror:
        """One mirror by its configured name."""
        return self._mirrors[name]

    def only(self, names: Sequence[str]) -> RouteRepositories:
        """The repositories of one route. Raises `RepositoryError` for a name that is not configured."""
        unknown = [name for name in names if name not in self._mirrors]
        if unknown:
            raise RepositoryError(
                f"no repository is called {', '.join(unknown)}",
                hint=f"configured are: {', '.join(self._mirrors) or 'none'}",
            )
        return RouteRepositories(self, {name: self._mirrors[name] for name in names}, self._deadline_s)

    async def snapshot(self, pin: Pin, messages: Sequence[Message]) -> Snapshot | str:
        """Like `only(all names).snapshot`."""
        return await self.only(self.names).snapshot(pin, messages)

    async def read(self, work: Callable[[], T]) -> T:
        """Run blocking work on git's objects off the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, work)

    async def fetch(self, mirror: GitMirror, revision: str | None = None) -> None:
        """Fetch once, however many ask at the same time. Raises `RepositoryError`; a server that just failed is left
        in peace for a while, and its error told again."""
        at, words, hint = self._failed.get(mirror.name, (0.0, "", ""))
        if words and self._clock() - at < _RETRY_UNKNOWN_S:
            raise RepositoryError(words, hint=hint)
        key = (mirror.name, revision)
        running = self._fetching.get(key)
        if running is None:
            running = asyncio.get_running_loop().run_in_executor(self._fetchers, mirror.fetch, revision)
            self._fetching[key] = running
            running.add_done_callback(lambda done: self._fetched(key, done))
        await asyncio.shield(running)

    def _fetched(self, key: tuple[str, str | None], done: asyncio.Future[None]) -> None:
        self._fetching.pop(key, None)
        # Asking for the exception marks it as seen: nobody may be waiting any more.
        error = None if done.cancelled() else done.exception()
        if isinstance(error, RepositoryError):
            self._failed[key[0]] = (self._clock(), str(error), error.hint)
        elif error is None:
            self._failed.pop(key[0], None)

    async def commit(self, mirror: GitMirror, revision: str) -> str | None:
        """The commit of a revision; fetched when unknown, or when a name may have moved. None when there is none."""
        found = await self.read(lambda: mirror.resolve(revision))
        stale = mirror.is_name(revision) and self._is_stale(mirror)
        if mirror.settings.local is not None or (found is not None and not stale):
            return found
        key = (mirror.name, revision)
        tried = self._unknown.get(key)
        if found is None and tried is not None and self._clock() - tried < _RETRY_UNKNOWN_S:
            return None
        try:
            await self.fetch(mirror, revision)
        except RepositoryError:
            if found is None:
                raise
            # The last known place of a branch is better than none when its server is away.
            self._log.warning("repository_refresh_failed", repository=mirror.name)
            return found
        found = await self.read(lambda: mirror.resolve(revision))
        if found is None:
            self._unknown[key] = self._clock()
            while len(self._unknown) > _MOST_UNKNOWN:
                self._unknown.popitem(last=False)
        return found

    async def open(self, mirror: GitMirror, head: str, base: str | None, notes: Sequence[str] = ()) -> GitSnapshot:
        """The snapshot of two known commits, kept for the next request."""
        key = (mirror.name, head, base, tuple(notes))
        known = self._snapshots.get(key)
        if known is None:
            made = await self.read(lambda: self._make(mirror, head, base, notes))
            known = self._snapshots.setdefault(key, made)
        self._snapshots.move_to_end(key)
        while len(self._snapshots) > _MOST_SNAPSHOTS:
            self._snapshots.popitem(last=False)
        return known

    def _make(self, mirror: GitMirror, head: str, base: str | None, notes: Sequence[str]) -> GitSnapshot:
        repository = mirror.repository()
        merged, told = _merge_base(repository, base, head) if base is not None else (None, [])
        return GitSnapshot(
            repository,
            name=mirror.name,
            revision=head,
            base_revision=merged,
            notes=[*notes, *told],
            knowledge=self._knowledge[mirror.name],
        )

    def _is_stale(self, mirror: GitMirror) -> bool:
        return mirror.fetched_at is None or self._clock() - mirror.fetched_at > mirror.settings.refresh_s

    async def _refresh(self, mirror: GitMirror) -> None:
        """Fetch now and then, so that requests find what they need."""
        while True:
            try:
                await self.fetch(mirror)
            except RepositoryError as error:
                self._log.warning("repository_refresh_failed", repository=mirror.name, error=str(error))
            await asyncio.sleep(mirror.settings.refresh_s)


class RouteRepositories:
    """The repositories that one route may use: an implementation of `Repositories`. Make it with
    `RepositoryPool.only`."""

    def __init__(self, pool: RepositoryPool, mirrors: Mapping[str, GitMirror], deadline_s: float) -> None:
        self._pool = pool
        self._mirrors = mirrors
        self._deadline_s = deadline_s

    async def snapshot(self, pin: Pin, messages: Sequence[Message]) -> Snapshot | str:
        """The snapshot a review speaks of, or why there is none, in words. Never raises but for cancellation."""
        try:
            async with asyncio.timeout(self._deadline_s):
                return await self._find(pin, messages)
        except TimeoutError:
            return f"the repository was not ready within {self._deadline_s:g} seconds; fetching goes on"
        except RepositoryError as error:
            return str(error)

    async def _find(self, pin: Pin, messages: Sequence[Message]) -> Snapshot | str:
        chosen = self._chosen(pin)
        if isinstance(chosen, str):
            return chosen
        texts = [text for _, text in messages]
        if pin.revision is not None:
            if len(chosen) != 1:
                return f"the request names a revision but no repository; this route has: {self._listed()}"
            (mirror,) = chosen.values()
            return await self._pinned(mirror, pin.revision, pin.base_revision or await self._start(mirror, pin, texts))
        steps: list[Callable[[], Awaitable[Snapshot | None]]] = [
            lambda: self._by_permalinks(chosen, texts, pin.base_revision),
            lambda: self._by_blobs(chosen, texts, pin.base_revision),
        ]
        for step in steps:
            found = await step()
            if found is not None:
                return found
        carried = await self._pool.read(lambda: read_messages(messages))
        if carried is not None:
            return carried
        return (
            "the request names no revision, and its messages hold no permalink, no diff of a known commit and no code"
        )

    def _chosen(self, pin: Pin) -> Mapping[str, GitMirror] | str:
        if pin.repository is None:
            return self._mirrors
        wanted = pin.repository.strip().lower().removesuffix(".git")
        for name, mirror in self._mirrors.items():
            web = mirror.settings.web
            names = {name.lower(), web, web.partition("/")[2] if web else None}
            if wanted in names or wanted.partition("://")[2] == web:
                return {name: mirror}
        return f"this route has no repository {pin.repository!r}; it has: {self._listed()}"

    def _listed(self) -> str:
        return ", ".join(self._mirrors) or "none"

    async def _pinned(
        self, mirror: GitMirror, revision: str, base: str | None, notes: Sequence[str] = ()
    ) -> Snapshot | str:
        head = await self._pool.commit(mirror, revision)
        if head is None:
            return f"repository {mirror.name} has no revision {revision!r}"
        if base is None:
            return await self._pool.open(mirror, head, None, notes)
        base_commit = await self._pool.commit(mirror, base)
        if base_commit is None:
            return f"repository {mirror.name} has no base revision {base!r}"
        return await self._pool.open(mirror, head, base_commit, notes)

    async def _start(self, mirror: GitMirror, pin: Pin, texts: Sequence[str]) -> str | None:
        """Where the diff in the request starts from, for a request that pins no base."""
        head = await self._pool.commit(mirror, pin.revision or "")
        diffs = await self._pool.read(lambda: blob_diffs(texts)) if head is not None else ()
        return await self._pool.read(partial(_base, mirror, str(head), diffs)) if diffs else None

    async def _by_permalinks(
        self, mirrors: Mapping[str, GitMirror], texts: Sequence[str], base: str | None
    ) -> Snapshot | None:
        counted = permalinks(texts)
        for mirror in mirrors.values():
            web = mirror.settings.web
            commits = [sha for (site, sha), _ in counted.most_common() if site == web]
            known = [found for sha in commits[:8] if (found := await self._pool.commit(mirror, sha)) is not None]
            if known:
                head = await self._pool.read(partial(_newest, mirror, known))
                if head is not None:
                    return _snapshot(await self._pinned(mirror, head, base))
        return None

    async def _by_blobs(
        self, mirrors: Mapping[str, GitMirror], texts: Sequence[str], base: str | None
    ) -> Snapshot | None:
        diffs = await self._pool.read(lambda: blob_diffs(texts))
        if not diffs:
            return None
        for again in (False, True):
            for mirror in mirrors.values():
                if again and not await self._fetched_for(mirror, str(diffs[0].new_blob)):
                    continue
                spot = await self._pool.read(partial(_spot, mirror, diffs))
                if spot is not None:
                    head, start, notes = spot
                    return _snapshot(await self._pinned(mirror, head, base or start, notes))
        return None

    async def _fetched_for(self, mirror: GitMirror, blob: str) -> bool:
        """Fetch because a blob is unknown, pull requests included, at most now and then for the same blob."""
        if mirror.settings.local is not None:
            return False
        # An abbreviated id that no commit has: the mirror tries branches, then the refs of pull requests.
        try:
            await self._pool.commit(mirror, blob)
        except RepositoryError:
            return False
        return True


def _snapshot(found: Snapshot | str) -> Snapshot | None:
    return None if isinstance(found, str) else found


def _newest(mirror: GitMirror, commits: Sequence[str]) -> str | None:
    return newest(mirror.repository(), commits)


def _base(mirror: GitMirror, head: str, diffs: Sequence[FileDiff]) -> str | None:
    return find_base(mirror.repository(), head, diffs)


def _spot(mirror: GitMirror, diffs: Sequence[FileDiff]) -> tuple[str, str | None, tuple[str, ...]] | None:
    """Commit and base of diffs by their blob ids, and what is worth knowing about the choice."""
    repository = mirror.repository()
    heads = find_commits(repository, diffs)
    if not heads:
        return None
    bases = ((head, find_base(repository, head, diffs)) for head in heads)
    head, base = next((pair for pair in bases if pair[1] is not None), (heads[0], None))
    notes = [f"commit {head[:12]} was found by the blob ids of the diff in the request"]
    if len(heads) > 1:
        notes.append(f"{len(heads)} branches hold these files in the same state; outside of the diff they may differ")
    return head, base, tuple(notes)


def _merge_base(repository: pygit2.Repository, base: str, head: str) -> tuple[str | None, list[str]]:
    """The commit a change is compared with, and what is odd about it."""
    try:
        merged: pygit2.Oid | None = repository.merge_base(base, head)
    except (pygit2.GitError, KeyError) as error:
        raise RepositoryError(
            f"the history between {base[:12]} and {head[:12]} cannot be read: {error}",
            hint="a shallow clone lacks it: let the gateway fetch its own mirror, or fetch the whole history",
        ) from error
    if merged is None:
        return None, [f"{base[:12]} and {head[:12]} have no common ancestor: what changed is not known"]
    if str(merged) == head and base != head:
        return str(merged), [f"{head[:12]} is already contained in the base {base[:12]}: nothing is left that changed"]
    if str(merged) != base:
        behind = f"{base[:12]} is no ancestor of {head[:12]}"
        return str(merged), [f"{behind}: compared with their merge base {str(merged)[:12]}"]
    return base, []
