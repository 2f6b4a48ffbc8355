"""YAML text to plain values that remember where each stands in the file. Pure; the environment comes in as a mapping.

Reads YAML with the scalars of version 1.2: only `true` and `false` are booleans, so that `off`, `no` and `on` stay the
words they look like, and `12:30` stays a text. Duplicate keys and tags are problems. Anchors, aliases and merge keys
work, up to a bound on what they may unfold to. Knows nothing of what the values mean.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from gateway.config.environment import ExpansionError, expand
from gateway.config.problems import Mark, Path, Problem, dotted

MAX_BYTES: Final = 1_000_000
MAX_VALUES: Final = 50_000
MAX_DEPTH: Final = 40

_TAG: Final = "tag:yaml.org,2002:"
_MERGE: Final = "<<"


class _Loader(yaml.SafeLoader):
    """Composes nodes only. Its resolvers are those of YAML 1.2's core schema."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - the base's own shape


for _tag, _pattern, _first in (
    ("null", r"(?:~|null|Null|NULL|)", ["~", "n", "N", ""]),
    ("bool", r"(?:true|True|TRUE|false|False|FALSE)", list("tTfF")),
    ("int", r"(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)", list("-+0123456789")),
    ("float", r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", list("-+0123456789.")),
):
    _Loader.add_implicit_resolver(f"{_TAG}{_tag}", re.compile(rf"^{_pattern}$"), _first)


@dataclass(slots=True)
class Source:
    """A file's values. `marks` says where each path's key (or list item) stands, `written` what a scalar said there.

    `written` holds the text before expansion, so that showing it never shows what a variable held. `broken` says that
    the values are not all there, so that looking further into them would only mislead.
    """

    file: str
    data: dict[str, Any] = field(default_factory=dict)
    marks: dict[Path, Mark] = field(default_factory=dict)
    written: dict[Path, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    broken: bool = False

    def mark(self, path: Path) -> Mark | None:
        """Where a path stands, or its nearest part that stands in the file."""
        while path and path not in self.marks:
            path = path[:-1]
        return self.marks.get(path)

    def problem(self, path: Path, text: str, mark: Mark | None = None) -> None:
        """Note a problem at a path (or at `mark`)."""
        self.problems.append(Problem(self.file, mark or self.mark(path), dotted(path), text))


def parse(text: str, file: str, environ: Mapping[str, str]) -> Source:
    """Read YAML. Never raises: whatever is wrong stands in the result's `problems`."""
    source = Source(file, broken=True)
    try:
        root = yaml.compose(text, Loader=_Loader)
    except yaml.YAMLError as error:
        source.problems.append(_syntax_problem(file, text, error))
        return source
    except (ValueError, OverflowError):
        # The scanner converts escapes such as "\UFFFFFFFF" without looking.
        source.problem((), "is not YAML: it holds an escape that is no character; write the character itself")
        return source
    except RecursionError:
        source.problem((), f"is nested too deeply; at most {MAX_DEPTH} levels are read")
        return source
    if root is None:
        source.problem((), "is empty; it needs at least `upstreams` and `routes`, see examples/quickstart/gateway.yaml")
    elif not isinstance(root, yaml.MappingNode):
        what = "a list" if isinstance(root, yaml.SequenceNode) else "a single value"
        source.problem((), f"is {what}; it must be sections, as in `upstreams:` and `routes:`", _mark(root))
    else:
        source.broken = False
        source.data = _Unfolding(source, environ).value(root, ())
    return source


def _mark(node: yaml.Node) -> Mark:
    start = node.start_mark
    return Mark(start.line + 1, start.column + 1)


def _syntax_problem(file: str, text: str, error: yaml.YAMLError) -> Problem:
    if isinstance(error, yaml.MarkedYAMLError):
        place = error.problem_mark or error.context_mark
        mark = Mark(place.line + 1, place.column + 1) if place else None
        what = " ".join(part for part in (error.context, error.problem) if part)
        line = text.splitlines()[place.line] if place and place.line < len(text.splitlines()) else ""
        return Problem(file, mark, "", f"is not YAML: {what}; {_syntax_remedy(what, line)}")
    position = getattr(error, "position", 0)
    before = text[:position]
    mark = Mark(before.count("\n") + 1, position - before.rfind("\n"))
    return Problem(file, mark, "", "holds a control character, which YAML does not allow; remove it")


def _syntax_remedy(what: str, line: str) -> str:
    if "${" in line and ("{" in line.replace("${", "") or "[" in line):
        return 'inside { } and [ ] put a reference in quotes, e.g. {port: "${PORT}"}'
    if "'\\t'" in what:
        return "indent with spaces, not tabs"
    if "single document" in what:
        return "keep one document, without a second `---`"
    if "undefined alias" in what:
        return "define it first with `&name`, or put a value that begins with `*` in quotes"
    if "mapping values are not allowed" in what:
        return "put a value that holds `: ` in quotes, and check the indentation"
    if "could not find expected ':'" in what:
        return "each line of a section is `key: value`; check this line and the one before"
    return "check indentation, quotes and brackets here and in the line before"


class _Unfolding:
    """Turns nodes into values, with a mark for each; aliases unfold in place."""

    def __init__(self, source: Source, environ: Mapping[str, str]) -> None:
        self._source = source
        self._environ = environ
        self._open: list[int] = []
        self._count = 0

    def value(self, node: yaml.Node, path: Path) -> Any:
        self._count += 1
        if self._count > MAX_VALUES:
            if not self._source.broken:
                self._source.broken = True
                self._source.problem(path, f"unfolds to more than {MAX_VALUES} values; use fewer aliases", _mark(node))
            return None
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path)
        if id(node) in self._open:
            self._source.problem(path, "contains itself through its alias; write the values out", _mark(node))
            return None
        if len(path) >= MAX_DEPTH:
            self._source.problem(path, f"is nested too deeply; at most {MAX_DEPTH} levels are read", _mark(node))
            return None
        self._open.append(id(node))
        try:
            if isinstance(node, yaml.SequenceNode):
                return self._sequence(node, path)
            assert isinstance(node, yaml.MappingNode)
            return self._mapping(node, path)
        finally:
            self._open.pop()

    def _sequence(self, node: yaml.SequenceNode, path: Path) -> list[Any]:
        self._plain_tag(node, path, "seq")
        items = []
        for index, item in enumerate(node.value):
            self._source.marks[*path, index] = _mark(item)
            items.append(self.value(item, (*path, index)))
        return items

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        self._plain_tag(node, path, "map")
        # Merged sections first, so that what the section says itself also keeps its own place in the file.
        merged: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if _is_merge(key_node):
                merged = {**self._merge(value_node, path), **merged}
        own: dict[str, Any] = {}
        lines: dict[str, Mark] = {}
        for key_node, value_node in node.value:
            mark = _mark(key_node)
            if _is_merge(key_node):
                continue
            if not isinstance(key_node, yaml.ScalarNode):
                self._source.problem(path, "has a key that is a list or a section; keys are words", mark)
                continue
            key = key_node.value
            if not _is_unicode(key):
                self._source.problem(path, "has a key that is not valid Unicode; write it out", mark)
                continue
            here = (*path, key)
            if key in lines:
                first = lines[key].line
                self._source.problem(here, f"is given twice, first in line {first}; keep one of the two", mark)
                continue
            lines[key] = self._source.marks[here] = mark
            own[key] = self.value(value_node, here)
        return {**merged, **own}

    def _merge(self, node: yaml.Node, path: Path) -> dict[str, Any]:
        """Values of `<<: *other` or `<<: [*first, *second]`; the first of several wins, own keys win over all."""
        if isinstance(node, yaml.MappingNode):
            found = self.value(node, path)
            return found if isinstance(found, dict) else {}
        if isinstance(node, yaml.SequenceNode):
            found = {}
            for item in reversed(node.value):
                if isinstance(item, yaml.MappingNode):
                    found.update(self._merge(item, path))
                else:
                    self._source.problem(path, "`<<` takes sections only, e.g. `<<: *defaults`", _mark(item))
            return found
        self._source.problem(path, "`<<` takes a section, e.g. `<<: *defaults`", _mark(node))
        return {}

    def _plain_tag(self, node: yaml.Node, path: Path, kind: str) -> None:
        if node.tag != f"{_TAG}{kind}":
            self._source.problem(path, "has a YAML tag (`!...`), which is not read here; remove it", _mark(node))

    def _scalar(self, node: yaml.ScalarNode, path: Path) -> Any:
        written = self._source.written[path] = node.value
        kind = node.tag.removeprefix(_TAG)
        if kind not in ("null", "bool", "int", "float", "str"):
            self._source.problem(path, "has a YAML tag (`!...`), which is not read here; remove it", _mark(node))
            return None
        try:
            text = expand(written, self._environ)
        except ExpansionError as error:
            self._source.problem(path, str(error), _mark(node))
            return None
        if not _is_unicode(text) or "\x00" in text:
            self._source.problem(path, "holds a character that is not valid Unicode, or a NUL; remove it", _mark(node))
            return None
        if text != written:
            # An unquoted value that expands to nothing is nothing, as if its line ended after the colon.
            return text if text or node.style else None
        return _typed(kind, text) if node.style is None else text


def _is_merge(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.style is None and node.value == _MERGE


def _is_unicode(text: str) -> bool:
    """False for half of a surrogate pair, which the parser accepts as an escape and nothing after it does."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _typed(kind: str, text: str) -> Any:
    """The value of an unquoted scalar. What does not fit its kind stays text, for validation to refuse."""
    if kind == "bool":
        return {"true": True, "false": False}.get(text.lower(), text)
    if kind == "null":
        return None if text.lower() in ("", "~", "null") else text
    try:
        if kind == "int":
            return int(text, 0) if text[:2] in ("0o", "0x") else int(text)
        return float(text) if kind == "float" else text
    except ValueError:
        return text
