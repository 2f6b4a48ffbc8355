"""The fields of an issue as reviewers write them: line numbers, severities, paths, bodies. Knows no format.

Nothing is guessed: what cannot be read is None, and what was put right is told in a note.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from checks.review.types import Severity

_RANGE: Final = re.compile(
    r"[\s#Ll(]*(?:ines?)?[\s:]*(\d{1,9})(?:\s*(?:-|–|—|~|\.\.|,|:|to|and|through)\s*[Ll]?(\d{1,9}))?\s*\)?\s*"
)
_SEVERITIES: Final[dict[str, Severity]] = {
    word: severity
    for severity, words in {
        Severity.CRITICAL: "critical blocker blocking severe fatal emergency p0 sev0 showstopper",
        Severity.HIGH: "high error major important p1 sev1 serious",
        Severity.MEDIUM: "medium moderate warning warn p2 sev2 normal",
        Severity.LOW: "low minor p3 sev3 nit nitpick trivial style cosmetic optional",
        Severity.INFO: "info information informational note notice hint suggestion none p4 remark",
    }.items()
    for word in words.split()
}
_WORD: Final = re.compile(r"[A-Za-z]+\d?")
_CIRCLES: Final = {
    "🔴": Severity.CRITICAL,
    "🟠": Severity.HIGH,
    "🟡": Severity.LOW,
    "🔵": Severity.LOW,
    "⚪": Severity.INFO,
}
_DRIVE: Final = re.compile(r"[A-Za-z]:[\\/]")
_TITLE: Final = re.compile(r"\s*\*\*(?P<title>[^*\n][^\n]*?)\*\*[ \t]*(?:\n|\Z)")
_OPENER: Final = re.compile(
    r"^[ \t]*(?P<ticks>`{3,}|~{3,})[ \t]*(?P<info>suggestion[^\n`]*|diff[ \t]*)\r?\n", re.MULTILINE
)
_CLOSERS: Final = {
    mark: re.compile(rf"^[ \t]*(?P<ticks>{mark}{{3,}})[ \t]*\r?(?:\n|\Z)", re.MULTILINE) for mark in "`~"
}
_KNOWN_NAMES: Final = frozenset(
    ("makefile", "dockerfile", "rakefile", "gemfile", "procfile", "jenkinsfile", "license", "readme", "codeowners")
)
_NAME: Final = re.compile(r"[^/\\]*\.[A-Za-z][\w+-]{0,11}\Z")


@dataclass(frozen=True, slots=True)
class Lines:
    """A range of lines, both None for a whole file; `note` tells what was put right."""

    start: int | None = None
    end: int | None = None
    note: str = ""


WHOLE_FILE: Final = Lines()


def lines(start: Any, end: Any = None) -> Lines:
    """Lines from numbers, digits in a text, `"12-14"`, or a list of two; zero and less mean the whole file."""
    if isinstance(start, list | tuple):
        start, end = (start[0], start[-1]) if start else (None, None)
    first, upto = _range(start)
    last = _range(end)[0] if end is not None else upto
    if first is None:
        first = last
    if first is None:
        return WHOLE_FILE
    last = first if last is None else last
    if last < first:
        return Lines(last, first, f"lines {first}-{last} were given in reverse order")
    return Lines(first, last)


def _range(value: Any) -> tuple[int | None, int | None]:
    if isinstance(value, bool):
        return None, None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int):
        return (value if 0 < value < 10**9 else None), None
    if isinstance(value, str) and len(value) < 64 and (match := _RANGE.fullmatch(value)) is not None:
        first, last = int(match[1]), int(match[2]) if match[2] else None
        return first or None, last or None
    return None, None


def severity(value: Any) -> Severity | None:
    """The severity a word or a coloured circle stands for; None for anything else."""
    if not isinstance(value, str) or len(value) > 80:
        return None
    for word in _WORD.findall(value):
        if (found := _SEVERITIES.get(word.lower())) is not None:
            return found
    return next((found for circle, found in _CIRCLES.items() if circle in value), None)


def clean_path(raw: str, repo_root: str | None = None) -> str | None:
    """A path relative to the repository with forward slashes; None for a blank one. `..` stays as it is written."""
    path = raw.strip().strip("`'\"").strip().removeprefix("file://")
    if "\\" in path and ("/" not in path or _DRIVE.match(path)):
        path = path.replace("\\", "/")
    if root := (repo_root or "").rstrip("/"):
        if path == root:
            return None
        path = path.removeprefix(root + "/")
    if _DRIVE.match(path):
        path = path[2:]
    path = path.lstrip("/")
    while path.startswith("./"):
        path = path[2:].lstrip("/")
    return path or None


def plausible_path(raw: str) -> bool:
    """Whether a word in prose can be a file: it has letters, and folders, an extension, or a well-known name."""
    path = raw.strip()
    if not path or "://" in path or len(path) > 300 or not any(character.isalpha() for character in path):
        return False
    name = path.replace("\\", "/").rsplit("/", 1)[-1]
    return bool(_NAME.fullmatch(name)) or "/" in path or name.lower() in _KNOWN_NAMES or path.startswith(".")


def split_title(body: str) -> tuple[str, str]:
    """A leading bold line and the rest; no title when the body does not begin with one."""
    if (match := _TITLE.match(body)) is not None:
        return match["title"].strip(), body[match.end() :].strip()
    return "", body.strip()


@dataclass(frozen=True, slots=True)
class Opening:
    """How the body of a posted comment begins: a bold title, and a line of italic fields or a priority badge."""

    title: str
    body: str
    severity: Severity | None = None
    category: str | None = None


_ITALIC: Final = r"_[^_\n|]{1,60}_"
HEADER: Final = re.compile(rf"[ \t]*(?P<fields>{_ITALIC}(?:[ \t]*\|[ \t]*{_ITALIC}){{0,4}})[ \t]*(?:\n|\Z)")
KIND_WORDS: Final = re.compile(
    r"potential issue|refactor suggestion|nitpick|verification|bug|security|performance|critical|major|minor|trivial"
    r"|maintainability|functional|data integrity|stability",
    re.IGNORECASE,
)
_BADGE: Final = re.compile(r"</?su[bp]>|!\[(?P<words>[^\]\n]{1,40})\]\([^)\n]*\)")
_EMBLEM: Final = re.compile(r"^[^\w]+|:\w+:\s*")


def split_opening(body: str) -> Opening:
    """Title, header fields and rest of a comment as review bots post them."""
    level, category = None, None
    match = HEADER.match(body)
    if match is not None and KIND_WORDS.search(match["fields"]):
        level, category = header_fields(match["fields"])
        body = body[match.end() :].lstrip()
    title, rest = split_title(body)
    badges = [found["words"] for found in _BADGE.finditer(title) if found["words"]]
    if badges or "<su" in title:
        level = level or severity(" ".join(badges))
        title = _BADGE.sub("", title).strip()
    return Opening(title, rest, level, category)


def header_fields(line: str) -> tuple[Severity | None, str | None]:
    """Severity and kind from a line such as `_⚠️ Potential issue_ | _🔴 Critical_`, in any order and number."""
    words = [part.strip().strip("_").strip() for part in line.split("|")]
    level = next((found for word in reversed(words) if (found := severity(word)) is not None), None)
    return level, _EMBLEM.sub("", words[0]) or None


def split_suggestion(body: str) -> tuple[str, str | None]:
    """The body without its suggestion fence, and the code in it. A diff stays in the body; its new side is the code."""
    opener = _OPENER.search(body)
    while opener is not None:
        closer = _closer(body, opener)
        if closer is None:
            break
        code = body[opener.end() : closer.start()]
        if opener["info"].startswith("suggestion"):
            rest = body[: opener.start()].rstrip() + "\n\n" + body[closer.end() :].lstrip()
            return rest.strip(), code.rstrip("\r\n")
        if (new := new_side(code)) is not None:
            return body.strip(), new
        opener = _OPENER.search(body, closer.end())
    return body.strip(), None


def _closer(body: str, opener: re.Match[str]) -> re.Match[str] | None:
    """The first fence of the same character that is at least as long as the opening one."""
    for match in _CLOSERS[opener["ticks"][0]].finditer(body, opener.end()):
        if len(match["ticks"]) >= len(opener["ticks"]):
            return match
    return None


def new_side(diff: str) -> str | None:
    """The lines a diff leaves, None when it adds none."""
    rows = [row for row in diff.splitlines() if not row.startswith(("---", "+++", "@@", "\\", "diff ", "index "))]
    if not any(row.startswith("+") for row in rows):
        return None
    return "\n".join(row[1:] for row in rows if not row.startswith("-"))
