"""The code that a request's own messages carry, as a partial snapshot: fenced files with a path, tagged files, diffs.

Everything here is partial: what is not shown may well exist, so absence proves nothing. Pure; linear in the text;
knows nothing of git.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from checks.review.diffs import FileDiff, Hunk, find_diffs
from checks.review.numbered_diffs import find_numbered_diffs
from checks.review.paths import normalise
from checks.review.recognise import is_generated
from checks.review.symbols import outline
from checks.review.types import ChangedFile, Definition, Side, SourceFile, TreeFile

NAME = "request"

MOST_TEXT = 8_000_000
"""Characters of messages that are read, the newest first."""

_MOST_GAP = 20_000
_MOST_FENCES = 5_000
_PATH = (
    r"[\w@.+~()\[\]/\\-]{0,300}\.[A-Za-z][\w+]{0,11}|"
    r"(?:[\w@.+/-]{0,300}/)?(?:Dockerfile|Makefile|Gemfile|Rakefile)"
)
_INFO = re.compile(
    rf"(?:\S+[ \t]+)?(?:(?:file|filename|path|title|name)=)?[\"'{{]?(?P<path>{_PATH})[\"'}}]?(?:[ \t].*)?\Z|"
    rf"[\w+#-]+:(?P<after>{_PATH})\Z",
    re.IGNORECASE,
)
_ABOVE = re.compile(
    r"[ \t]*(?:#{1,6}[ \t]+|[-*+][ \t]+|\d{1,3}[.)][ \t]+)?(?:\*\*|__)?(?:(?:full |current |new |source )?"
    rf"(?:file|filename|path|file path)\b[ \t]*(?:name)?[ \t]*:?[ \t]*)?(?:\*\*|__)?[ \t]*"
    rf"[`'\"]?(?P<path>{_PATH})[`'\"]?"
    r"(?:\*\*|__)?[ \t]*(?:\([^)\n]{0,60}\)|lines? \d+[-–]\d+)?[ \t]*:?(?:\*\*|__)?[ \t]*\Z",
    re.IGNORECASE,
)
_COMMENT = re.compile(
    rf"[ \t]*(?:#|//|/\*|--|<!--|;)+[ \t]*(?:(?:file|filename|path)[ \t]*:[ \t]*)?(?P<path>(?=[^\n]*[/.])"
    rf"(?:{_PATH}))[ \t]*(?:\*/|-->)?[ \t]*\Z",
    re.IGNORECASE,
)
_TAG = re.compile(
    r"<(?P<tag>file|document|source_file|code)\b[^>\n]{0,200}?\b(?:path|name|filename|file)="
    r"[\"'](?P<path>[^\"'\n]{1,300})[\"'][^>\n]{0,100}>\n?",
    re.IGNORECASE,
)
_FENCE = re.compile(r"[ \t>]*(?P<mark>`{3,}|~{3,})(?P<info>.*)\Z")
_NUMBERED = re.compile(r"[ \t]*(?P<number>\d{1,7})(?:[ \t]?[|:│→\t][ ]?|[ ]{2})(?P<rest>.*)\Z")
_NO_FILE = re.compile(r"\A(?:diff|patch|suggestion|console|bash|sh|shell|text|txt|output|log)\b", re.IGNORECASE)


@dataclass(slots=True)
class _Known:
    """What is known of one side of one file: its line numbers and their text."""

    lines: dict[int, str]
    given: bool = False


class RequestSnapshot:
    """Files and changes read from messages. Make it with `read_messages`."""

    partial = True
    name = NAME
    base_revision = None

    def __init__(
        self, new: Sequence[SourceFile], old: Sequence[SourceFile], changes: Sequence[ChangedFile], notes: Sequence[str]
    ) -> None:
        self._new = {file.path: file for file in new}
        self._old = {file.path: file for file in old}
        self._changes = tuple(changes)
        self.notes = tuple(notes)
        everything = "\0".join(f"{f.path}\0{f.blob}" for f in [*new, *old])
        self.revision = hashlib.sha256(everything.encode()).hexdigest()[:40]

    def tree(self, side: Side = Side.RIGHT) -> Sequence[TreeFile]:
        files = self._side(side)
        return [TreeFile(path=path, blob=files[path].blob, size=len(files[path].text)) for path in sorted(files)]

    def read(self, path: str, side: Side = Side.RIGHT) -> SourceFile | None:
        return self._side(side).get(path)

    def definitions(self, name: str) -> Sequence[Definition]:
        found: list[Definition] = []
        for file in self._new.values():
            if name in file.text:
                shift = file.first_line - 1
                named = outline(file.path, file.text).named(name)
                found += [replace(d, start_line=d.start_line + shift, end_line=d.end_line + shift) for d in named]
        return tuple(found)

    def mentions(self, word: str) -> bool:
        whole = re.compile(rf"(?<!\w){re.escape(word)}(?!\w)")
        return any(whole.search(file.text) for file in [*self._new.values(), *self._old.values()])

    def changes(self) -> Sequence[ChangedFile]:
        return self._changes

    def _side(self, side: Side) -> dict[str, SourceFile]:
        return self._new if side is Side.RIGHT else self._old


def read_messages(messages: Sequence[tuple[str, str]]) -> RequestSnapshot | None:
    """The code in a conversation's messages (role, text); None when there is none. A file given twice counts as it
    was given last; where a file and a diff of it are given, the file's lines are taken for the new side."""
    new: dict[str, _Known] = {}
    old: dict[str, _Known] = {}
    changes: dict[str, ChangedFile] = {}
    notes: list[str] = []
    for text in _newest(messages, notes):
        for diff in (*find_diffs(text), *find_numbered_diffs(text)):
            named = _named(diff, len(changes))
            changes[named.path] = named.changed
            for hunk in named.hunks:
                _add_hunk(new, old, named, hunk)
        for path, body in _files(text):
            first, lines = _unnumbered(body.split("\n"))
            known = new.get(path)
            if known is not None and known.given:
                notes.append(f"{path} was given more than once: the last one counts")
            new[path] = _Known({first + place: line for place, line in enumerate(lines)}, given=True)
    if not new and not old:
        return None
    sources = [_source(path, known, notes) for path, known in sorted(new.items()) if known.lines]
    before = [_source(path, known, notes) for path, known in sorted(old.items()) if known.lines]
    return RequestSnapshot(sources, before, tuple(changes.values()), tuple(dict.fromkeys(notes)))


def _newest(messages: Sequence[tuple[str, str]], notes: list[str]) -> list[str]:
    """Texts of the messages, oldest first, as many of the newest as fit."""
    kept: list[str] = []
    room = MOST_TEXT
    for _, text in reversed(messages):
        if len(text) > room:
            notes.append("older messages of the conversation were not searched for code: they are too long")
            break
        room -= len(text)
        kept.append(text)
    return kept[::-1]


def _named(diff: FileDiff, number: int) -> FileDiff:
    """A diff under clean paths; hunks that name no file get a name of their own, so that they can be shown."""
    if not diff.path:
        name = f"unnamed-{number + 1}.diff"
        return replace(diff, path=name, old_path=name)
    path, old = _clean(diff.path) or diff.path, _clean(diff.old_path) or diff.old_path
    return replace(diff, path=path, old_path=old)


def _add_hunk(new: dict[str, _Known], old: dict[str, _Known], diff: FileDiff, hunk: Hunk) -> None:
    for files, path, start, lines in (
        (new, diff.path, hunk.new_start, hunk.new),
        (old, diff.old_path, hunk.old_start, hunk.old),
    ):
        known = files.setdefault(path, _Known({}))
        if not known.given:
            known.lines.update((start + place, line) for place, line in enumerate(lines))


def _files(text: str) -> Iterator[tuple[str, str]]:
    """(path, content) of every tagged or fenced file."""
    tagged = dict(_tagged(text))
    yield from tagged.items()
    for info, above, content in islice(_fences(text.split("\n")), _MOST_FENCES):
        if not _NO_FILE.match(info):
            path, body = _fenced(info, above, content)
            if path is not None and path not in tagged:
                yield path, body


def _tagged(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    while match := _TAG.search(text, at):
        end = text.find(f"</{match['tag']}>", match.end())
        if end < 0:
            return
        at = end
        path = _clean(match["path"])
        if path:
            yield path, _unfenced(text[match.end() : end].removesuffix("\n"))


def _fences(lines: Sequence[str]) -> Iterator[tuple[str, list[str], str]]:
    """(info, the two lines above, content) of every fenced block, by the rules of CommonMark 0.31, 4.5: a fence ends
    at one of its own kind that is at least as long, or with the text. Any indentation is taken, as in lists."""
    opened: tuple[str, str, int] | None = None
    for number, line in enumerate(lines):
        match = _FENCE.match(line) if "```" in line or "~~~" in line else None
        if match is None:
            continue
        mark, info = match["mark"], match["info"].strip()
        if opened is None:
            if not (mark[0] == "`" and "`" in info):
                opened = (mark, info, number)
        elif mark.startswith(opened[0]) and not info:
            yield opened[1], list(lines[max(0, opened[2] - 2) : opened[2]]), "\n".join(lines[opened[2] + 1 : number])
            opened = None
    if opened is not None:
        yield opened[1], list(lines[max(0, opened[2] - 2) : opened[2]]), "\n".join(lines[opened[2] + 1 :])


def _fenced(info: str, above: list[str], content: str) -> tuple[str | None, str]:
    named = _INFO.match(info)
    if named:
        return _clean(named["path"] or named["after"]), content
    for line in reversed(above):
        if line.strip():
            titled = _ABOVE.match(line)
            if titled:
                return _clean(titled["path"]), content
            break
    first, _, _ = content.partition("\n")
    comment = _COMMENT.match(first)
    # The comment that names the file may be the file's own first line: it stays, so that line numbers hold.
    return (_clean(comment["path"]), content) if comment else (None, content)


def _unfenced(body: str) -> str:
    lines = body.strip("\n").split("\n")
    if len(lines) >= 2 and lines[0].startswith("```") and lines[-1].strip() == "```":
        return "\n".join(lines[1:-1])
    return body


def _clean(path: str) -> str | None:
    parts = normalise(path)
    return "/".join(parts[0]) if parts is not None and parts[0] else None


def _unnumbered(lines: list[str]) -> tuple[int, list[str]]:
    """Lines without the numbers a prompt put before them, and the number of the first; (1, lines) without any."""
    matches = [_NUMBERED.match(line) for line in lines]
    numbers = [int(match["number"]) for match in matches if match]
    rest = [line for line, match in zip(lines, matches, strict=True) if match is None and line.strip()]
    if len(numbers) < 2 or rest or numbers != list(range(numbers[0], numbers[0] + len(numbers))) or numbers[0] < 1:
        return 1, lines
    return numbers[0], [match["rest"] for match in matches if match]


def _source(path: str, known: _Known, notes: list[str]) -> SourceFile:
    """A file from the lines known. Gaps become empty lines, so that numbers hold; `known` says which are real."""
    numbers = sorted(known.lines)
    kept = [numbers[0]]
    for number in numbers[1:]:
        if number - kept[-1] > _MOST_GAP:
            notes.append(f"lines of {path} from {number} on were left out: the gap before them is too large")
            break
        kept.append(number)
    first, last = kept[0], kept[-1]
    text = "\n".join(known.lines.get(number, "") for number in range(first, last + 1))
    blob = hashlib.sha256(f"{first}\0{text}".encode()).hexdigest()[:40]
    return SourceFile(
        path=path,
        blob=blob,
        text=text,
        first_line=first,
        partial=True,
        generated=is_generated(path, text),
        known=tuple(_ranges(kept)),
    )


def _ranges(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    start = previous = numbers[0]
    for number in numbers[1:]:
        if number != previous + 1:
            yield start, previous
            start = number
        previous = number
    yield start, previous
