"""Which commit a conversation speaks of: permalinks in its text, or the blob ids of its diffs. Pure but for the commits
it is shown; knows nothing of fetching.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

import pygit2
from pygit2.enums import ObjectType, SortMode

from checks.review.diffs import FileDiff, find_diffs

MOST_COMMITS = 3000
"""Commits looked at for the one that holds a diff's blobs, the newest first."""

MOST_TIPS = 8
"""Branches that hold the same files, of which the first with a fitting base is taken."""

_PERMALINK = re.compile(
    r"https?://(?P<site>[\w.:-]{1,120}/[\w.~/-]{1,200}?)(?:/-)?/(?:blob|blame|raw|tree|commit)/(?P<sha>[0-9a-f]{40})(?![0-9a-f])",
    re.IGNORECASE,
)


def permalinks(texts: Iterable[str]) -> Counter[tuple[str, str]]:
    """How often each (host/owner/name, commit) is linked, lower case."""
    found: Counter[tuple[str, str]] = Counter()
    for text in texts:
        if "://" in text:
            found.update((m["site"].lower(), m["sha"].lower()) for m in _PERMALINK.finditer(text))
    return found


def newest(repository: pygit2.Repository, commits: Sequence[str]) -> str | None:
    """The one commit that all others of a set lead to; None when there is no such one."""
    for one in commits:
        if all(other == one or repository.descendant_of(one, other) for other in commits):
            return one
    return None


def blob_diffs(texts: Iterable[str]) -> tuple[FileDiff, ...]:
    """The diffs of a conversation that say which blobs they compare, the last one of each path."""
    by_path: dict[str, FileDiff] = {}
    for text in texts:
        if "index " in text:
            by_path.update((d.path, d) for d in find_diffs(text) if d.path and d.old_blob and d.new_blob)
    return tuple(by_path.values())


def find_commits(repository: pygit2.Repository, diffs: Sequence[FileDiff]) -> list[str]:
    """The commits in which every changed file is the blob that the diffs lead to: the branches and pull requests whose
    last commit is such a one, oldest first (what is stacked on a change or merged later holds its files too), at most
    `MOST_TIPS`; else the newest commit of the history."""
    wanted = [(d.path, d.new_blob or "") for d in diffs]
    if not wanted or not _all_known(repository, wanted):
        return []
    tips = sorted(_tips(repository), key=lambda commit: -commit.commit_time)
    found = [str(commit.id) for commit in reversed(tips) if _holds(commit, wanted)][:MOST_TIPS]
    if not found:
        walked = _walk(repository, [str(commit.id) for commit in tips], wanted)
        found = [walked] if walked is not None else []
    return found


def find_base(repository: pygit2.Repository, head: str, diffs: Sequence[FileDiff]) -> str | None:
    """The nearest ancestor of a commit in which every changed file is the blob that the diffs start from."""
    wanted = [(d.old_path, d.old_blob or "") for d in diffs]
    return _walk(repository, [str(parent.id) for parent in repository[head].peel(ObjectType.COMMIT).parents], wanted)


def _walk(repository: pygit2.Repository, starts: Sequence[str], wanted: Sequence[tuple[str, str]]) -> str | None:
    if not starts:
        return None
    walker = repository.walk(starts[0], SortMode.TIME)
    for start in starts[1:]:
        walker.push(start)
    for number, commit in enumerate(walker):
        if number >= MOST_COMMITS:
            return None
        if _holds(commit, wanted):
            return str(commit.id)
    return None


def _all_known(repository: pygit2.Repository, wanted: Sequence[tuple[str, str]]) -> bool:
    """Whether the repository has all the blobs: if not, no commit of it can be meant, and none is walked."""
    try:
        return all(repository.get(blob) is not None for _, blob in wanted if blob.strip("0"))
    except ValueError:  # an abbreviation that is ambiguous: the walk decides
        return True


def _tips(repository: pygit2.Repository) -> list[pygit2.Commit]:
    found: dict[str, pygit2.Commit] = {}
    for name in repository.references:
        try:
            commit = repository.references[name].peel(ObjectType.COMMIT)
        except (KeyError, ValueError, pygit2.GitError):  # a tag of a tree, a dangling symbolic reference
            continue
        found[str(commit.id)] = commit
    return list(found.values())


def _holds(commit: pygit2.Commit, wanted: Sequence[tuple[str, str]]) -> bool:
    return all(_is(commit.tree, path, blob) for path, blob in wanted)


def _is(tree: pygit2.Tree, path: str, blob: str) -> bool:
    try:
        return str(tree[path].id).startswith(blob)
    except (KeyError, ValueError):
        return not blob.strip("0")
