"""Which loader reads a file, and which files there are under a path.

Other packages add loaders through the entry point group `grounding_gateway.loaders`: each entry is a class that needs
no arguments, or a ready loader. Knows no format.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from retrieval.errors import LoadError
from retrieval.load.dump import JsonlLoader
from retrieval.load.html import HtmlLoader
from retrieval.load.markdown import MarkdownLoader
from retrieval.load.pdf import PdfLoader
from retrieval.load.tables import CsvLoader, XlsxLoader
from retrieval.load.text import SourceLoader, TextLoader
from retrieval.types import Loader

ENTRY_POINTS = "grounding_gateway.loaders"
# Code of others and what tools put next to one's own; a path that is given by name is read all the same.
_DIRECTORIES = "node_modules bower_components vendor third_party site-packages venv __pycache__ __MACOSX"
_FILES = "package-lock.json npm-shrinkwrap.json thumbs.db desktop.ini"
# Names without a suffix that are text by custom.
_NAMES = "readme license licence copying changelog changes authors contributors contributing notice news todo install"
SKIPPED_DIRECTORIES = frozenset(_DIRECTORIES.split())
SKIPPED_FILES = frozenset(_FILES.split())
TEXT_NAMES = frozenset(_NAMES.split())


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file to read, the root its document ids are relative to, and the loader that reads it."""

    root: Path
    path: Path
    loader: Loader


def default_loaders() -> tuple[Loader, ...]:
    """The loaders of this package."""
    return (
        TextLoader(),
        MarkdownLoader(),
        HtmlLoader(),
        PdfLoader(),
        CsvLoader(),
        XlsxLoader(),
        JsonlLoader(),
        SourceLoader(),
    )


def installed_loaders() -> tuple[Loader, ...]:
    """The loaders of this package, and those of installed packages, which win where both read a suffix.

    Raises `LoadError` naming the entry point that cannot be loaded.
    """
    return merge_loaders(entry_points(group=ENTRY_POINTS))


def merge_loaders(entries: Iterable[EntryPoint]) -> tuple[Loader, ...]:
    """`default_loaders()` followed by the loaders of `entries`, in the order of their names."""
    found = sorted(entries, key=lambda entry: entry.name)
    return (*default_loaders(), *(_opened(entry) for entry in found))


def _opened(entry: EntryPoint) -> Loader:
    where = f"loader {entry.name!r} ({entry.value})"
    try:
        made = entry.load()
        loader = made() if isinstance(made, type) else made
    except Exception as error:  # another package's import may fail in any way
        raise LoadError(
            f"{where} cannot be loaded: {error}", hint="update or uninstall the package it is from"
        ) from error
    if not isinstance(loader, Loader):
        raise LoadError(f"{where} is no loader", hint="it needs `suffixes` and `load(path, *, root)`")
    return loader


def loader_for(path: Path, loaders: Sequence[Loader]) -> Loader | None:
    """The loader of a file by its suffix; the last one in `loaders` wins."""
    suffix = path.suffix.lower()
    if not suffix and path.name.lower() in TEXT_NAMES:
        suffix = ".txt"
    return next((loader for loader in reversed(loaders) if suffix in loader.suffixes), None)


def discover(paths: Sequence[Path], loaders: Sequence[Loader]) -> Iterator[SourceFile]:
    """The readable files at and under `paths`, in the order of their names, each once.

    Left out under a directory: hidden files, directories of other people's code, suffixes that no loader reads, what is
    no regular file, and links that lead out of the root. Linked directories are not entered. A path given by name is
    taken as it is. Raises `LoadError` for a path that does not exist or cannot be listed, and for a file given by name
    that no loader reads: leaving it out would look as if it had been deleted.
    """
    seen: set[str] = set()
    for path in paths:
        for found in _at(path, loaders):
            real = os.path.realpath(found.path)
            if real not in seen:
                seen.add(real)
                yield found


def _at(path: Path, loaders: Sequence[Loader]) -> Iterator[SourceFile]:
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise LoadError(
            f"{path} cannot be read: {error.strerror or error}", hint="check the path and who may read it"
        ) from error
    if stat.S_ISDIR(mode):
        yield from _under(path, loaders)
        return
    loader = loader_for(path, loaders)
    if loader is None or not stat.S_ISREG(mode):
        known = " ".join(sorted(suffix for each in loaders for suffix in each.suffixes))
        raise LoadError(f"no loader reads {path}", hint=f"known are {known}; rename it, or add a loader")
    yield SourceFile(root=path.parent, path=path, loader=loader)


def _under(root: Path, loaders: Sequence[Loader]) -> Iterator[SourceFile]:
    real_root = os.path.realpath(root)
    waiting = [root]
    while waiting:
        directory = waiting.pop()
        below = []
        for entry in _listed(directory):
            if entry.name.startswith(".") or entry.name.endswith("~"):
                continue
            path = Path(entry.path)
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in SKIPPED_DIRECTORIES:
                    below.append(path)
            elif entry.name.lower() not in SKIPPED_FILES and _is_own_file(entry, real_root):
                loader = loader_for(path, loaders)
                if loader is not None:
                    yield SourceFile(root=root, path=path, loader=loader)
        waiting.extend(reversed(below))


def _listed(directory: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        raise LoadError(
            f"{directory} cannot be listed: {error.strerror or error}", hint="check who may read it"
        ) from error


def _is_own_file(entry: os.DirEntry[str], real_root: str) -> bool:
    """A regular file, not through a link that leads out of the root."""
    try:
        if not entry.is_file():
            return False
        if not entry.is_symlink():
            return True
        return Path(os.path.realpath(entry.path)).is_relative_to(real_root)
    except OSError:
        return False
