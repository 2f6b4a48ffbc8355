"""PR-Agent's YAML: `review.key_issues_to_review` and `code_suggestions`. A mark goes before the issue's text.

Read with PyYAML's events, without building objects: no alias is followed, no tag obeyed, and every value keeps its
span. Knows that block scalars end with a line feed that is no part of a file name, that models leave colons unquoted
in texts, and that the reply of its scoring call (`suggestion_score`) is no review.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from checks.review.findings import fields
from checks.review.findings.found import MOST_ISSUES, Block, Found, Handle, Mark, Quoting, Series, Slot
from checks.review.types import Issue

FORMAT: Final = "pr-agent"
LONGEST: Final = 200_000
_DEEPEST: Final = 48
_LISTS: Final = frozenset({"key_issues_to_review", "code_suggestions", "code_feedback", "issues", "findings"})
_FILE: Final = ("relevant_file", "file", "path", "filename")
_TEXTS: Final = ("issue_content", "suggestion_content", "description", "content", "body", "message", "comment")
_TITLES: Final = ("issue_header", "one_sentence_summary", "title", "header", "summary")
_STRINGS: Final = (*_FILE, *_TEXTS, *_TITLES, "existing_code", "improved_code", "label", "language")
_START: Final = re.compile(
    r"^(?:review|code_suggestions|key_issues_to_review|code_feedback):[ \t]*(?:\r?\n|\Z|\[)", re.MULTILINE
)
_KEY_LINE: Final = re.compile(
    rf"^(?P<lead>[ \t]*(?:-[ \t]+)?(?:{'|'.join(_STRINGS)}):[ \t]+)(?P<value>[^\n|>\"'\[{{&*!][^\n]*)$", re.MULTILINE
)
_TROUBLE: Final = re.compile(r":(?=\s)|(?<=\s)#|[%@`\t]|:$")
_OUTER_LINE: Final = re.compile(r"^(?![ \t]|- |-$|[\w.\[\]-]+:(?:[ \t]|$))[^\n]+", re.MULTILINE)
_UNSEEN: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]")


@dataclass(slots=True)
class _Node:
    """A value with its span; `style` is the scalar's quoting, `flow` tells of brackets, `closed` of a seen end."""

    start: int
    end: int
    value: str = ""
    style: str | None = None
    kind: str = "scalar"
    flow: bool = False
    closed: bool = False
    keys: dict[str, tuple[_Node, _Node]] = field(default_factory=dict)
    items: list[_Node] = field(default_factory=list)
    pending: _Node | None = None

    def add(self, child: _Node) -> None:
        if self.kind == "sequence":
            self.items.append(child)
        elif self.pending is None:
            self.pending = child
        else:
            self.keys.setdefault(self.pending.value, (self.pending, child))
            self.pending = None

    def get(self, *names: str) -> _Node | None:
        return next((self.keys[name][1] for name in names if name in self.keys), None)

    def text(self, *names: str) -> str:
        node = self.get(*names)
        return node.value.strip() if node is not None and node.kind == "scalar" else ""


def candidates(text: str) -> Iterator[tuple[int, int]]:
    """Where YAML of that kind could stand: from one of its keys at a line's beginning to a line that is no YAML."""
    position = 0
    while (match := _START.search(text, position)) is not None:
        after = _OUTER_LINE.search(text, match.end())
        end = after.start() if after is not None else len(text)
        yield match.start(), end
        position = max(end, match.end())


def read(text: str, start: int, end: int) -> Block | None:
    """The issues of a piece of YAML, or None when there are none or it is too large."""
    if end - start > LONGEST:
        return None
    root, whole = _compose(text[start:end])
    found: list[Found] = []
    for node, key in _lists(root, 0):
        spans = _item_spans(text, start, node)
        series = Series(
            key.end + start, spans[-1][1] if spans else node.end + start, tuple(spans), by_lines=not node.flow
        )
        if node.flow:
            series = Series(node.start + start, node.end + start, tuple(spans), not node.closed)
        for item, span in zip(node.items, spans, strict=True):
            if len(found) < MOST_ISSUES and (issue := _issue(text, start, item, span, series)) is not None:
                found.append(issue)
    if not found:
        return None
    ordered = sorted(found, key=lambda item: item.issue.start)
    return Block(format=FORMAT, start=start, end=end, found=tuple(ordered), cut=not whole)


def _shadow(text: str) -> str:
    """The same text, of the same length, with what would break plain values of known keys replaced."""
    text = _UNSEEN.sub("x", text).replace("\u2028", "x").replace("\u2029", "x").replace("\x85", "x")
    return _KEY_LINE.sub(lambda match: match["lead"] + _TROUBLE.sub("x", match["value"]), text)


def _compose(text: str) -> tuple[_Node | None, bool]:
    """The tree as far as the text is YAML, and whether it was YAML to its end."""
    root: _Node | None = None
    stack: list[_Node] = []
    shadow = _shadow(text)
    try:
        for event in yaml.parse(shadow, Loader=yaml.CSafeLoader):
            if isinstance(event, yaml.CollectionEndEvent):
                closed = stack.pop()
                closed.end, closed.closed = _offset(event.end_mark), True
            elif isinstance(event, yaml.NodeEvent):
                node = _from_event(event, text)
                if stack:
                    stack[-1].add(node)
                root = root or node
                if isinstance(event, yaml.CollectionStartEvent):
                    stack.append(node)
                if len(stack) > _DEEPEST:
                    return root, False
    except yaml.YAMLError:
        return root, False
    return root, True


def _offset(mark: Any) -> int:
    return int(mark.index)


def _from_event(event: Any, text: str) -> _Node:
    start, end = _offset(event.start_mark), _offset(event.end_mark)
    if isinstance(event, yaml.ScalarEvent):
        # A plain value is read off the text itself, not its shadow; its lines fold into one.
        value = event.value if event.style else " ".join(text[start:end].split())
        return _Node(start, end, value, event.style or None, closed=True)
    kind = "sequence" if isinstance(event, yaml.SequenceStartEvent) else "mapping"
    kind = "alias" if isinstance(event, yaml.AliasEvent) else kind
    return _Node(start, end, kind=kind, flow=bool(getattr(event, "flow_style", False)))


def _lists(node: _Node | None, depth: int) -> Iterator[tuple[_Node, _Node]]:
    if node is None or node.kind != "mapping" or depth > 2:
        return
    for key, value in node.keys.values():
        if value.kind == "sequence" and key.value in _LISTS:
            yield value, key
        else:
            yield from _lists(value, depth + 1)


def _item_spans(text: str, offset: int, sequence: _Node) -> list[tuple[int, int]]:
    """Each element's own span; for a list in block style whole lines, from its dash to the next one's."""
    if sequence.flow:
        return [(item.start + offset, item.end + offset) for item in sequence.items]
    starts = [text.rfind("\n", 0, item.start + offset) + 1 for item in sequence.items]
    # A dash alone on its line stands before the element.
    for index, item in enumerate(sequence.items):
        dash = text.rfind("-", 0, item.start + offset)
        if dash >= 0 and not text[dash + 1 : item.start + offset].strip():
            starts[index] = text.rfind("\n", 0, dash) + 1
    last = sequence.items[-1] if sequence.items else sequence
    end = last.end + offset if last.closed else len(text)
    end = starts[-1] + len(text[starts[-1] : end].rstrip()) if starts else end
    line_end = text.find("\n", end)
    return list(zip(starts, [*starts[1:], line_end + 1 if line_end >= 0 else len(text)], strict=True))


def _issue(text: str, offset: int, item: _Node, span: tuple[int, int], series: Series) -> Found | None:
    if item.kind != "mapping" or not item.closed or item.get("suggestion_score", "suggestion_summary") is not None:
        return None
    path, title, body = item.text(*_FILE), item.text(*_TITLES), item.text(*_TEXTS)
    if not path or not (title or body):
        return None
    start, end = item.get("start_line", "relevant_lines_start", "line"), item.get("end_line", "relevant_lines_end")
    where = fields.lines(start.value.strip() if start else None, end.value.strip() if end else None)
    improved = item.get("improved_code", "suggestion", "suggested_code")
    extra = {key: node.value.strip("\n") for key in ("existing_code", "label") if (node := item.get(key)) is not None}
    written = text[span[0] : span[1]]
    visible = span[1] - len(written.lstrip()), span[0] + len(written.rstrip())
    issue = Issue(
        number=0,
        format=FORMAT,
        path=path,
        start_line=where.start,
        end_line=where.end,
        title=title,
        body=body or title,
        severity=fields.severity(item.text("severity", "priority")),
        category=item.text("label", "category") or None,
        suggestion=improved.value.rstrip("\n") if improved is not None and improved.value.strip() else None,
        start=visible[0],
        end=visible[1],
        extra={key: value.strip() if key == "label" else value for key, value in extra.items()},
    )
    said = item.get(*_TEXTS) if item.text(*_TEXTS) else item.get(*_TITLES)
    marks = (_mark(text, offset, said),) if said is not None else ()
    slots = _line_slot(text, offset, start, "{start}") + _line_slot(text, offset, end, "{end}")
    handle = Handle(span=span, series=series, marks=marks, lines=slots)
    return Found(issue, handle, (where.note,) if where.note else ())


def _mark(text: str, offset: int, node: _Node) -> Mark:
    start, end = node.start + offset, node.end + offset
    if node.style in ("|", ">"):
        first = text.find("\n", start) + 1
        while first < end and text[first] in " \n\r\t":
            first += 1
        return Mark(first, first)
    if node.style == '"':
        return Mark(start + 1, start + 1, Quoting.JSON)
    if node.style == "'":
        return Mark(start + 1, start + 1, Quoting.YAML_SINGLE)
    # A plain value cannot begin with a bracket: it becomes a quoted one.
    return Mark(start, end, Quoting.JSON, '"', " " + json.dumps(node.value, ensure_ascii=False)[1:])


def _line_slot(text: str, offset: int, node: _Node | None, template: str) -> tuple[Slot, ...]:
    if node is None or node.kind != "scalar":
        return ()
    match = re.search(r"\d{1,9}", text[node.start + offset : node.end + offset])
    if match is None:
        return ()
    at = node.start + offset
    return (Slot(at + match.start(), at + match.end(), template, template),)
