"""The file a model means when it names one: whole segments of real paths, never a guess. Pure.

The order: normalise, exact, extension aliases on the same stem, the one file that shares the longest run of whole
trailing segments, the one file that differs in case only, the file that defines `class_name`, else a refusal that
lists the candidates. A file of another base name is never taken for the one asked, and a tie is never broken in
silence. Symbolic links and submodules, and whatever lies below them, are refused. Knows nothing of git: it sees a
listing of entries and a way to look up definitions.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from checks.review.types import Definition, TreeFile

MOST_CANDIDATES = 20
"""A refusal lists this many candidates; `PathMatch.total` says how many there were."""

Definitions = Callable[[str], Sequence[Definition]]

_ALIASES = (
    ("js", "jsx", "ts", "tsx", "mjs", "cjs", "mts", "cts"),
    ("c", "cc", "cpp", "cxx"),
    ("h", "hh", "hpp", "hxx"),
    ("py", "pyi", "pyw", "pyc"),
    ("java", "class"),
    ("kt", "kts"),
    ("yml", "yaml"),
    ("md", "mdx", "markdown"),
    ("htm", "html"),
    ("scss", "sass"),
)
_ALIASES_OF = {extension: group for group in _ALIASES for extension in group}
# What a name without an extension may stand for: files that reviews speak of by their stem.
_CODE = (
    *(
        "py",
        "js",
        "jsx",
        "ts",
        "tsx",
        "mjs",
        "cjs",
        "go",
        "java",
        "rs",
        "c",
        "cc",
        "cpp",
        "h",
        "hpp",
        "cs",
        "rb",
        "php",
    ),
    *("kt", "swift", "scala", "vue", "svelte", "sh", "sql"),
)
_DRIVE = re.compile(r"[A-Za-z]:(?=/)")
_AROUND = " \t\r\n`'\"<>"
_NAME = re.compile(r"[^\W\d][\w$]*")


class How(StrEnum):
    """How a path was matched."""

    EXACT = "exact"
    NORMALISED = "normalised"
    EXTENSION = "extension"
    SUFFIX = "suffix"
    CASE = "case"
    DEFINITION = "definition"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class PathMatch:
    """The outcome of a match. `path` is an entry of the tree, or None: then `note` says why in words.

    `candidates` are the files that came equally near (at most `MOST_CANDIDATES` of `total`). `definition` is the file
    that alone defines the class asked for, where it is another one than `path`: both may be worth showing.
    """

    path: str | None
    how: How
    candidates: tuple[str, ...] = ()
    total: int = 0
    note: str = ""
    definition: str | None = None

    @property
    def files(self) -> tuple[str, ...]:
        """Matched file and definition file, without doubles; empty when refused."""
        return tuple(path for path in (self.path, self.definition) if path is not None)


@dataclass(frozen=True, slots=True)
class _Asked:
    segments: tuple[str, ...]
    absolute: bool

    @property
    def path(self) -> str:
        return "/".join(self.segments)


class PathIndex:
    """A tree made ready for questions. Building sorts the entries once, a question costs some binary searches."""

    __slots__ = ("_files", "_folded", "_links", "_reversed")

    def __init__(self, tree: Iterable[TreeFile]) -> None:
        files: list[str] = []
        links: set[str] = set()
        for entry in tree:
            if entry.kind == "file":
                files.append(entry.path)
            else:
                links.add(entry.path)
        self._files = frozenset(files)
        self._links = links
        self._reversed = sorted("/".join(reversed(path.split("/"))) + "/" for path in files)
        self._folded: dict[str, list[str]] | None = None

    def __contains__(self, path: str) -> bool:
        return path in self._files

    def below_link(self, segments: Sequence[str]) -> str | None:
        """The symbolic link or submodule that a path is or leads through."""
        if not self._links:
            return None
        prefixes = ("/".join(segments[:length]) for length in range(1, len(segments) + 1))
        return next((prefix for prefix in prefixes if prefix in self._links), None)

    def longest_suffix(self, segments: Sequence[str]) -> tuple[int, list[str]]:
        """How many whole trailing segments the nearest files share with a path, and all these files, sorted."""
        backwards = [*reversed(segments)]
        for length in range(len(backwards), 0, -1):
            prefix = "/".join(backwards[:length]) + "/"
            low = bisect_left(self._reversed, prefix)
            if low < len(self._reversed) and self._reversed[low].startswith(prefix):
                # The last code point is the greatest there is: everything that begins with the prefix sorts before.
                high = bisect_left(self._reversed, prefix + "\U0010ffff", low)
                return length, sorted(_forwards(key) for key in self._reversed[low:high])
        return 0, []

    def differing_in_case(self, path: str) -> list[str]:
        """Files whose whole path is the same but for case."""
        if self._folded is None:
            folded: dict[str, list[str]] = {}
            for name in self._files:
                folded.setdefault(name.casefold(), []).append(name)
            self._folded = folded
        return sorted(self._folded.get(path.casefold(), []))


def match_path(
    index: PathIndex,
    *,
    file_path: str,
    file_name: str = "",
    class_name: str = "",
    definitions: Definitions | None = None,
) -> PathMatch:
    """Find the file that a hop request or an issue names. `definitions` is asked only when `class_name` is given."""
    raw = file_path.strip(_AROUND)
    name = file_name.strip(_AROUND)
    found = _by_path(index, raw, name) if raw or name else _refused("no path was given")
    if found.how is How.REFUSED and not found.candidates and found.note in _FINAL:
        return found
    return _with_definition(index, found, class_name, definitions)


_LEAVES = "the path leads out of the repository"
_LINK = "the path is, or leads through, a symbolic link or submodule"
_FINAL = frozenset({_LEAVES, _LINK})


def normalise(path: str) -> tuple[tuple[str, ...], bool] | None:
    """Segments of a path and whether it was absolute; None when it leads out of the tree.

    Separators of Windows, `.` and `..`, empty segments, quotes, `file://` and a drive letter are dealt with.
    """
    asked = _normalise(path.strip(_AROUND))
    return None if asked is None else (asked.segments, asked.absolute)


def _normalise(raw: str) -> _Asked | None:
    text = raw.replace("\\", "/").removeprefix("file://")
    drive = _DRIVE.match(text)
    text = text[2:] if drive else text
    absolute = text.startswith("/")
    segments: list[str] = []
    for segment in text.split("/"):
        if segment in {"", "."}:
            continue
        if segment == "..":
            if not segments:
                return None
            segments.pop()
        elif "\0" in segment:
            return None
        else:
            segments.append(segment)
    return _Asked(tuple(segments), absolute)


def _by_path(index: PathIndex, raw: str, name: str) -> PathMatch:
    if raw in index:
        return PathMatch(path=raw, how=How.EXACT)
    asked = _normalise(raw or name)
    if asked is None:
        return _refused(_LEAVES)
    if not asked.segments:
        return _refused("no path was given")
    found = _lookup(index, asked)
    if found.path is None and not found.candidates and found.note not in _FINAL and _is_folder(raw, name):
        joined = _normalise(f"{raw}/{name}")
        return found if joined is None else _lookup(index, joined)
    return found


def _is_folder(raw: str, name: str) -> bool:
    """Whether `file_path` seems to name only the folder of `file_name`."""
    last = raw.replace("\\", "/").rstrip("/").rpartition("/")[2]
    return bool(raw) and bool(name) and "/" not in name and last != name and "." not in last


def _lookup(index: PathIndex, asked: _Asked) -> PathMatch:
    if index.below_link(asked.segments):
        return _refused(_LINK)
    if asked.path in index:
        return PathMatch(path=asked.path, how=How.NORMALISED)
    for step in (_git_prefix, _extension, _suffix, _case):
        found = step(index, asked)
        if found is not None:
            return found
    return _refused(f"no file of the commit is called {asked.segments[-1]}")


def _git_prefix(index: PathIndex, asked: _Asked) -> PathMatch | None:
    """`a/` and `b/` as diffs write them."""
    if asked.segments[0] not in {"a", "b"} or len(asked.segments) < 2 or asked.absolute:
        return None
    rest = asked.segments[1:]
    if index.below_link(rest):
        return _refused(_LINK)
    path = "/".join(rest)
    return PathMatch(path=path, how=How.NORMALISED) if path in index else None


def _extension(index: PathIndex, asked: _Asked) -> PathMatch | None:
    stem, dot, extension = asked.segments[-1].rpartition(".")
    group = _ALIASES_OF.get(extension) if dot else _CODE
    if group is None:
        return None
    stem = stem if dot else asked.segments[-1]
    # An absolute path may begin anywhere: the longest rest that exists is meant, as with exact names.
    begins = range(len(asked.segments)) if asked.absolute else range(1)
    for begin in begins:
        folder = asked.segments[begin:-1]
        paths = ("/".join((*folder, f"{stem}.{other}")) for other in group if other != extension)
        hits = [path for path in paths if path in index]
        if asked.absolute and "/".join(asked.segments[begin:]) in index:
            return None
        if hits:
            return _one_of(hits, How.EXTENSION, "differ from the path only in their extension")
    return None


def _suffix(index: PathIndex, asked: _Asked) -> PathMatch | None:
    length, hits = index.longest_suffix(asked.segments)
    if not hits:
        return None
    tail = "/".join(asked.segments[-length:])
    if asked.absolute:
        # It may begin anywhere before the part that is known: also with a link.
        if any(index.below_link(asked.segments[begin:]) for begin in range(len(asked.segments) - length)):
            return _refused(_LINK)
        if tail in hits:
            return PathMatch(path=tail, how=How.NORMALISED)
    return _one_of(hits, How.SUFFIX, f"end in {tail}")


def _case(index: PathIndex, asked: _Asked) -> PathMatch | None:
    begins = range(len(asked.segments)) if asked.absolute else range(1)
    for begin in begins:
        hits = index.differing_in_case("/".join(asked.segments[begin:]))
        if hits:
            return _one_of(hits, How.CASE, "differ from the path only in case")
    return None


def _one_of(hits: list[str], how: How, what: str) -> PathMatch:
    if len(hits) == 1:
        return PathMatch(path=hits[0], how=how)
    return _refused(f"{len(hits)} files {what}", hits)


def _with_definition(index: PathIndex, found: PathMatch, class_name: str, definitions: Definitions | None) -> PathMatch:
    name = wanted_name(class_name)
    if not name or definitions is None or found.how is How.EXACT:
        return found
    paths = sorted({d.path for d in definitions(name) if d.path in index})
    if found.path is not None:
        alone = len(paths) == 1 and paths[0] != found.path
        return _add_definition(found, paths[0]) if alone else found
    # A tie is broken by the definition only when exactly one of the tied files holds it.
    tied = [path for path in paths if path in set(found.candidates)] if found.candidates else []
    if len(tied) == 1 or (not tied and len(paths) == 1):
        return PathMatch(
            path=(tied or paths)[0], how=How.DEFINITION, candidates=found.candidates, total=found.total, note=found.note
        )
    if paths and not found.candidates:
        return _refused(f"{found.note}; {len(paths)} files define {name}", paths)
    return found


def _add_definition(found: PathMatch, path: str) -> PathMatch:
    return PathMatch(path=found.path, how=found.how, definition=path)


def wanted_name(class_name: str) -> str:
    """The identifier to look up for what a model calls a class: `pkg.Name`, `Name<T>`, `Name.method()` give `Name`."""
    parts = _NAME.findall(class_name.partition("<")[0].partition("(")[0])
    return next((part for part in parts if part[0].isupper()), parts[-1] if parts else "")


def _refused(note: str, candidates: Sequence[str] = ()) -> PathMatch:
    return PathMatch(
        path=None, how=How.REFUSED, candidates=tuple(candidates[:MOST_CANDIDATES]), total=len(candidates), note=note
    )


def _forwards(key: str) -> str:
    return "/".join(reversed(key[:-1].split("/")))
