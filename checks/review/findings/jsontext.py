"""JSON inside other text: where it stands, its values with exact spans, and what can be kept of it when it is cut.

tree-sitter reads it, so a trailing comma, a comment, a missing comma or a raw line feed in a string cost nothing else.
JSON is found by its first bracket and ends with the matching one, strings skipped: a code fence inside a string ends
nothing. Knows no format.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import tree_sitter
import tree_sitter_json

from checks.review.findings.found import MOST_ISSUES, Mark, Quoting, Slot, Span

DEEPEST: Final = 64
LONGEST: Final = 1_000_000
# Starts that could never be finished are tried this often: each may cost a walk over the rest of the text.
_FAILURES: Final = 5
_START: Final = re.compile(r'\{\s*"|\[\s*\{\s*"')
_TOKEN: Final = re.compile(r'"(?:[^"\\]++|\\.)*+("?)|([\[{])|([\]}])', re.DOTALL)
_LANGUAGE: Final = tree_sitter.Language(tree_sitter_json.language())
_PAIRS: Final = {"{": "}", "[": "]"}
_FOREIGN: Final = re.compile(r"[^\x00-\x7f]")
_NUMERAL: Final = re.compile(r"\s*\d{1,9}\s*")


_UNREAD: Final = object()


@dataclass(frozen=True, slots=True)
class _Source:
    """The text that was parsed: where it begins in the whole text, and where what was really there ends."""

    text: str
    offset: int
    whole: int


@dataclass(frozen=True, slots=True)
class Member:
    """A key of an object with its value; `start` is where the key begins."""

    key: str
    start: int
    node: Node


class Node:
    """A JSON value. `kind` is object, array, string, number, true, false or null; `open` that the text ended in it.

    What is in it is read when it is asked for: of a long list only what is used costs anything.
    """

    __slots__ = ("_items", "_members", "_source", "_tree", "_value", "end", "kind", "open", "start")

    def __init__(self, tree: tree_sitter.Node, source: _Source) -> None:
        self.kind = tree.type
        self.start = tree.start_byte + source.offset
        self.end = min(tree.end_byte + source.offset, source.whole)
        self.open = tree.end_byte + source.offset > source.whole
        self._tree = tree
        self._source = source
        self._members: tuple[Member, ...] | None = None
        self._items: tuple[Node, ...] | None = None
        self._value: Any = _UNREAD

    @property
    def value(self) -> Any:
        """A text, number or truth value; None for null, for lists and objects."""
        if self._value is _UNREAD:
            self._value = _scalar(self.kind, self._source.text[self._tree.start_byte : self._tree.end_byte])
        return self._value

    @property
    def members(self) -> tuple[Member, ...]:
        """The keys of an object with their values, in order."""
        if self._members is None:
            children = self._tree.named_children if self.kind == "object" else []
            self._members = tuple(_members(children, self._source))
        return self._members

    @property
    def items(self) -> tuple[Node, ...]:
        """The elements of a list."""
        if self._items is None:
            children = self._tree.named_children if self.kind == "array" else []
            self._items = tuple(Node(child, self._source) for child in _values(children))
        return self._items

    def get(self, *keys: str) -> Node | None:
        """The value under the first of these keys that the object has; null counts as absent."""
        for key in keys:
            for member in reversed(self.members):
                if member.key == key and member.node.kind != "null":
                    return member.node
        return None

    def at(self, *path: str) -> Node | None:
        """The value at the end of a path of keys."""
        node: Node | None = self
        for key in path:
            node = node.get(key) if node is not None else None
        return node

    def text(self, *keys: str) -> str:
        """The first of these keys that holds a text which is not blank; numbers count as their digits."""
        for key in keys:
            node = self.get(key)
            if node is not None and node.kind in ("string", "number") and (value := str(node.value).strip()):
                return value
        return ""


@dataclass(frozen=True, slots=True)
class Region:
    """A piece of text that is JSON: `root.open` when it was cut, `end` where reading stopped."""

    start: int
    end: int
    root: Node


@dataclass(frozen=True, slots=True)
class _Extent:
    """How far a bracket's contents reach: to `end`; `whole` to the last bracket that closed, `closers` close the rest.

    What nests too deep is left out, as if the text had ended before it.
    """

    end: int
    whole: int
    closers: str
    deep: bool = False


def regions(text: str, skipped: Sequence[Span], use: Callable[[Region], bool]) -> int:
    """Gives every piece of JSON outside the skipped spans to `use`, in order, which says whether it was a review.

    Returns how far further text can change nothing: the start of a piece that the text ended in, or the text's length.
    """
    position, failures, barred, count = 0, 0, 0, 0
    sure = len(text)
    while failures < _FAILURES and count < MOST_ISSUES and (match := _START.search(text, position)) is not None:
        start = match.start()
        while barred < len(skipped) and skipped[barred][1] <= start:
            barred += 1
        if barred < len(skipped) and skipped[barred][0] <= start:
            position = skipped[barred][1]
            continue
        extent = _extent(text, start)
        position = extent.end
        if extent.whole > start + LONGEST:
            sure = min(sure, start)
            continue
        readable = start < extent.whole
        root = _parse(text, start, extent) if readable else None
        used = root is not None and use(Region(start, extent.end, root))
        count += used
        if extent.closers and not used and extent.end == len(text):
            sure = min(sure, start)
        if extent.closers and not used and not extent.deep:
            # Perhaps this bracket was no JSON at all: what stands in it may be.
            failures, position = failures + 1, start + 1
    return sure if failures < _FAILURES else 0


def _extent(text: str, start: int) -> _Extent:
    stack: list[str] = []
    whole, closers, depth, deep = start, "", 0, False
    for match in _TOKEN.finditer(text, start):
        if opened := match[2]:
            depth += 1
            if not deep:
                stack.append(_PAIRS[opened])
                deep = depth > DEEPEST
                closers = closers or _closing(stack)
        elif closed := match[3]:
            depth -= 1
            if not deep:
                if stack[-1] != closed:
                    return _Extent(match.start(), whole, closers)
                stack.pop()
                whole, closers = match.end(), _closing(stack)
            if not depth:
                return _Extent(match.end(), whole, closers, deep)
        elif not match[1]:
            break
    return _Extent(len(text), whole, closers, deep)


def _closing(stack: list[str]) -> str:
    return "".join(reversed(stack))


def _parse(text: str, start: int, extent: _Extent) -> Node | None:
    source = text[start : extent.whole] + extent.closers
    # Beyond ASCII there are only the contents of strings: one byte for each character keeps offsets as they are.
    tree = tree_sitter.Parser(_LANGUAGE).parse(_FOREIGN.sub("x", source).encode("ascii"))
    root = next((child for child in tree.root_node.named_children if child.type in ("object", "array")), None)
    return Node(root, _Source(source, start, extent.whole)) if root is not None else None


def _members(children: list[tree_sitter.Node], source: _Source) -> Iterator[Member]:
    for pair in children:
        if pair.type == "ERROR":
            yield from _members([child for child in pair.named_children if child.type == "pair"], source)
        elif pair.type == "pair":
            parts = [child for child in pair.named_children if child.type not in ("ERROR", "comment")]
            if len(parts) == 2 and parts[0].type == "string":
                key = _scalar("string", source.text[parts[0].start_byte : parts[0].end_byte])
                yield Member(str(key), pair.start_byte + source.offset, Node(parts[1], source))


def _values(children: list[tree_sitter.Node]) -> Iterator[tree_sitter.Node]:
    for child in children:
        if child.type == "ERROR":
            # A forgotten comma leaves the element before it in an error node.
            yield from (inner for inner in child.named_children if inner.type == "object")
        elif child.type not in ("comment", "pair"):
            yield child


_DECODER: Final = json.JSONDecoder(strict=False)


def _scalar(kind: str, source: str) -> Any:
    if kind in ("string", "number"):
        try:
            return _DECODER.decode(source)
        except ValueError:
            # A wrong escape: the characters as they stand.
            return source[1:-1] if kind == "string" else None
    return {"true": True, "false": False}.get(kind)


def line_slot(node: Node | None, template: str = "{start}") -> tuple[Slot, ...]:
    """The place of a line number, written as a number or as a text of digits."""
    if node is None or node.kind not in ("number", "string"):
        return ()
    inside = node.kind == "string"
    if inside and not _NUMERAL.fullmatch(str(node.value)):
        return ()
    return (Slot(node.start + inside, node.end - inside, template, template),)


def text_mark(node: Node | None, *, after: str = " ") -> tuple[Mark, ...]:
    """The place of a mark at the beginning of a text."""
    if node is None or node.kind != "string":
        return ()
    return (Mark(node.start + 1, node.start + 1, Quoting.JSON, after=after),)


def without_members(text: str, owner: Node | None, keys: Iterable[str], *, always: bool = True) -> tuple[Slot, ...]:
    """Slots that take keys out of an object when an issue moves; only to a single line unless `always`."""
    if owner is None or owner.kind != "object" or owner.open:
        return ()
    names = frozenset(keys)
    spans = [(member.start, member.node.end) for member in owner.members]
    gone = {index for index, member in enumerate(owner.members) if member.key in names}
    removed = without_elements(text, (owner.start, owner.end), spans, gone, unfinished=False)
    return tuple(Slot(start, end, "", "" if always else None) for start, end in removed)


_COMMA: Final = re.compile(r"\s*,\s*")


def without_elements(text: str, span: Span, items: Sequence[Span], gone: set[int], *, unfinished: bool) -> list[Span]:
    """What to take out of a list (its span with brackets) so that the elements `gone` leave and it stays valid."""
    spans: list[Span] = []
    index = 0
    while index < len(items):
        if index not in gone:
            index += 1
            continue
        last = index
        while last + 1 in gone:
            last += 1
        start, end = items[index][0], items[last][1]
        comma = _COMMA.match(text, end)
        if last + 1 < len(items):
            end = items[last + 1][0]
        elif index and not (unfinished and comma):
            start = items[index - 1][1]
        elif unfinished:
            end = comma.end() if comma else end
        else:
            end = comma.end() if comma else end
            start = span[0] + 1 if not text[span[0] + 1 : start].strip() else start
            end = span[1] - 1 if not text[end : span[1] - 1].strip() else end
        spans.append((start, end))
        index = last + 1
    return spans
