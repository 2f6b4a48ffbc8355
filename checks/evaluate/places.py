"""Where the code of labelled issues is: in the record itself, or in git repositories in a folder.

A repository is found under the folder as `owner/name`, `owner+name` or `name`, with or without `.git`.
"""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from checks.errors import RepositoryError
from checks.evaluate.issues import LabelledIssue, text_scene
from checks.evaluate.review import Evidence, Labelled
from checks.review.credentials import RepositorySettings
from checks.review.repository import RepositoryPool
from checks.review.site import Site, Unseen
from checks.review.symbols import identifiers
from checks.review.types import Snapshot

_FILE_CHARS = 24_000
_ABSENT = ("path_absent", "line_past_end", "quote_absent", "symbol_absent")


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """Issues with their scenes, and how many had none: their code is not there, or cannot be shown."""

    pairs: tuple[tuple[LabelledIssue, Labelled], ...]
    left_out: int


async def look(issues: Sequence[LabelledIssue], repositories: Path | None, stack: AsyncExitStack) -> Looked:
    """A scene for every issue whose code can be had. Repositories are read in place."""
    pairs = [(one, _from_record(one)) for one in issues if one.diff is not None]
    elsewhere = [one for one in issues if one.diff is None and one.pin is not None]
    named = {one.pin.repository: None for one in elsewhere if one.pin is not None and one.pin.repository is not None}
    places = {name: found for name in named if (found := _place(repositories, name)) is not None}
    if places:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        settings = [RepositorySettings(name=name, url=str(path)) for name, path in places.items()]
        pool = await stack.enter_async_context(RepositoryPool(settings, scratch))
        pairs += await _from_repositories([one for one in elsewhere if one.pin and one.pin.repository in places], pool)
    return Looked(pairs=tuple(pairs), left_out=len(issues) - len(pairs))


def _place(folder: Path | None, name: str) -> Path | None:
    if folder is None:
        return None
    last = name.rpartition("/")[2]
    for candidate in (name, name.replace("/", "+"), last):
        for path in (folder / candidate, folder / f"{candidate}.git"):
            if path.is_dir():
                return path
    return None


def _from_record(labelled: LabelledIssue) -> Labelled:
    scene = text_scene(labelled)
    names = identifiers(labelled.issue.body)
    shown = labelled.diff or ""
    absent = any(not re.search(rf"(?<!\w){re.escape(name)}(?!\w)", shown) for name in names)
    return Labelled(id=labelled.id, scene=scene, label=labelled.label, evidence={"name not in the diff": absent})


async def _from_repositories(
    issues: Sequence[LabelledIssue], pool: RepositoryPool
) -> list[tuple[LabelledIssue, Labelled]]:
    sites: dict[object, Site | None] = {}
    found: list[tuple[LabelledIssue, Labelled]] = []
    for one in issues:
        if one.pin not in sites:
            assert one.pin is not None
            snapshot = await pool.snapshot(one.pin, ())
            sites[one.pin] = Site(snapshot, file_chars=_FILE_CHARS) if isinstance(snapshot, Snapshot) else None
        site = sites[one.pin]
        labelled = await asyncio.to_thread(_seen, one, site) if site is not None else None
        if labelled is not None:
            found.append((one, labelled))
    return found


def _seen(one: LabelledIssue, site: Site) -> Labelled | None:
    try:
        seen = site.look(one.issue)
    except RepositoryError:
        return None
    kinds = {str(evidence["kind"]) for evidence in seen.evidence}
    looks: Evidence = {
        "decisive": bool(seen.proof),
        **{kind: kind in kinds for kind in _ABSENT},
        "any of these": bool(seen.proof) or bool(kinds & set(_ABSENT)),
    }
    if isinstance(seen.scene, Unseen):
        return None
    return Labelled(id=one.id, scene=seen.scene, label=one.label, evidence=looks)
