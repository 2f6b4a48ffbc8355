"""A piece of JSON to its issues: finds the lists, asks each format's reader in turn, and notes what depends on them.

Knows which lists can hold issues, not what an issue looks like: that is each format's own file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from checks.review.findings import codex, github, gitlab, loose, rdjson, rules, sarif
from checks.review.findings.fields import severity
from checks.review.findings.found import MOST_ISSUES, Block, Count, Dependent, Found, Opinion, Quoting, Series, Summary
from checks.review.findings.jsontext import Member, Node, Region
from checks.review.types import Severity

_DEEPEST: Final = 8
# Formats of single objects, most particular first; the loose one takes what is left.
_ITEM_READERS: Final = (codex.read_item, gitlab.read_item, github.read_item)


def read(text: str, region: Region) -> Block | None:
    """The issues of a piece of JSON; None when it is no review, however it looks."""
    block = None
    match _first_list(region.root):
        case "runs":
            block = sarif.read(text, region)
        case "diagnostics":
            block = rdjson.read(text, region)
    if block is None:
        walk = _Walk(text)
        walk.value(region.root, (), "")
        found = tuple(walk.found) if region.root.kind == "array" or walk.found else tuple(_alone(text, region))
        if not found:
            return None
        block = Block(
            format=found[0].issue.format,
            start=region.start,
            end=region.end,
            found=found,
            cut=region.root.open,
            settled=walk.closed,
        )
    if not block.cut:
        block = replace(block, settled=region.end)
    return replace(block, dependents=tuple(_dependents(region.root, block.found))) if block.found else None


def _first_list(root: Node) -> str:
    """The key of the first list that could hold issues: it decides on the format, whatever follows it."""
    lists = (member.key for member in root.members if member.node.kind == "array")
    return next((key for key in lists if key in ("runs", "diagnostics") or _holds_issues(key.lower())), "")


def _alone(text: str, region: Region) -> Iterator[Found]:
    if region.root.open or region.root.kind != "object":
        return
    found = rdjson.read_item(text, region.root, None, rdjson.BY_LINE) or _item(text, region.root, None, "")
    if found is not None:
        yield replace(found, handle=replace(found.handle, removable=False))


@dataclass(slots=True)
class _Walk:
    """Collects the issues of nested lists. `closed` is the end of the last element that nothing
    further can change; `firm` tells that this holds for all before it."""

    text: str
    found: list[Found] = field(default_factory=list)
    closed: int = 0
    firm: bool = True

    def value(self, node: Node, path: tuple[str, ...], file: str) -> None:
        if len(path) > _DEEPEST:
            return
        if node.kind == "array":
            self.elements(node, path, file)
        elif node.kind == "object":
            # A list inside an object that names a file speaks of that file.
            own = node.text(*loose.PATHS) or file
            for member in node.members:
                self.value(member.node, (*path, member.key), own)

    def elements(self, node: Node, path: tuple[str, ...], file: str) -> None:
        name = path[-1].lower() if path else ""
        series = Series(node.start, node.end, tuple((item.start, item.end) for item in node.items), node.open, path)
        level = rules.SEVERITY_KEYS.get(name)
        for item in node.items:
            if item.kind != "object" or len(self.found) >= MOST_ISSUES:
                continue
            found = _item(self.text, item, series, file) if level or _holds_issues(name) else None
            if found is None:
                self.value(item, (*path, "[]"), file)
            else:
                self.found.append(_graded(found, level))
                # What stands around a list may still follow it.
                self.firm = self.firm and bool(item.text(*loose.PATHS) or found.issue.format != loose.FORMAT)
            if self.firm and not item.open:
                self.closed = max(self.closed, item.end)


def _holds_issues(name: str) -> bool:
    return not name or name == "[]" or name in loose.LISTS or name.endswith(("issues", "findings", "comments"))


def _graded(found: Found, level: Severity | None) -> Found:
    if level is None or found.issue.severity is not None:
        return found
    return replace(found, issue=replace(found.issue, severity=level))


def _item(text: str, item: Node, series: Series | None, file: str) -> Found | None:
    for read_item in _ITEM_READERS:
        if (found := read_item(text, item, series)) is not None:
            return found
    if series is not None and (found := rdjson.read_item(text, item, series, rdjson.FORMAT)) is not None:
        return found
    return loose.read_item(text, item, series, file)


def _dependents(root: Node, found: tuple[Found, ...]) -> Iterator[Dependent]:
    everything = frozenset(range(len(found)))
    by_severity = {
        level: frozenset(index for index, item in enumerate(found) if item.issue.severity is level)
        for level in Counter(item.issue.severity for item in found)
    }
    spans = [(item.issue.start, item.issue.end) for item in found]
    for owner in _owners(root, spans, 0):
        for member in owner.members:
            yield from _of_member(member, everything, by_severity)


def _owners(node: Node, spans: list[tuple[int, int]], depth: int) -> Iterator[Node]:
    """The objects around the issues and the objects beside them, not the issues' own."""
    if node.kind != "object" or depth > 2 or (node.start, node.end) in spans:
        return
    yield node
    for member in node.members:
        yield from _owners(member.node, spans, depth + 1)


def _of_member(
    member: Member, everything: frozenset[int], by_severity: dict[Severity | None, frozenset[int]]
) -> Iterator[Dependent]:
    node, key = member.node, member.key.lower()
    if node.kind == "string" and key in rules.OPINION_KEYS and (word := rules.neutral(str(node.value))) is not None:
        yield Opinion(node.start + 1, node.end - 1, word)
    elif node.kind == "string" and key in rules.SUMMARY_KEYS and str(node.value).strip():
        yield Summary(node.end - 1, Quoting.JSON)
    elif node.kind == "number" and isinstance(node.value, int):
        level = rules.SEVERITY_KEYS.get(key) or (severity(key) if key.endswith("_count") else None)
        members = by_severity.get(level, frozenset()) if level else everything
        if (level or rules.COUNT_KEY.fullmatch(member.key)) and members and node.value == len(members):
            yield Count(node.start, node.end, members)
