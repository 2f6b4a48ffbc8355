"""Walks through an answer in Markdown and collects its issues, whatever of the Markdown formats each is written in.

Forward only and line by line: an issue is settled when a whole line ends it. What belongs to praise is no issue. Knows
where issues begin and end, not what they look like: that is told by heads, groups, tables, coderabbit and permalinks.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from checks.review.findings import coderabbit, ending, groups, heads, permalinks, tables
from checks.review.findings.coderabbit import Fold, Folds
from checks.review.findings.found import (
    MOST_ISSUES,
    Block,
    Count,
    Dependent,
    Found,
    Mark,
    Quoting,
    Section,
    Span,
)
from checks.review.findings.heads import Head
from checks.review.findings.outline import Kind, Line, outline
from checks.review.types import Severity

_COUNTED: Final = re.compile(
    r"(?<![\w.])(?P<count>\d{1,4})(?:\*\*|__)?[ \t]+(?:[a-z-]+[ \t]+)?"
    r"(?:issue|problem|finding|comment|remark|bug|concern|violation)"
    r"(?P<plural>s?)\b",
    re.IGNORECASE,
)


@dataclass(slots=True)
class _Walk:
    text: str
    lines: list[Line]
    found: list[Found] = field(default_factory=list)
    settled: int = 0
    head: Head | None = None
    values: dict[str, Span] = field(default_factory=dict)
    depth: int = 0
    announced: bool = False
    praise: int = 0
    item: Line | None = None
    title: Line | None = None
    group_start: int | None = None
    blank: bool = False
    table: tables.Table | None = None
    tables: list[tables.Table] = field(default_factory=list)
    folds: Folds = field(default_factory=Folds)
    counts: list[re.Match[str]] = field(default_factory=list)
    file: str = ""
    section: Severity | None = None
    section_level: int = 0
    actionable: re.Match[str] | None = None
    last: Line | None = None
    prior: Line | None = None
    partial: bool = False
    body_seen: bool = False

    def run(self) -> None:
        for index, line in enumerate(self.lines):
            if len(self.found) >= MOST_ISSUES:
                break
            # What a line without its end says may still change; what another format has taken stays taken.
            self.partial = not line.whole and line.kind is not Kind.TAKEN
            if line.kind is Kind.BLANK:
                self.blank, self.table = True, None
                continue
            if line.kind in (Kind.CODE, Kind.TAKEN):
                self.body_seen = True
                # Issues of another format are no part of this one, so that one can leave without the other.
                if self.head is not None and (line.kind is Kind.TAKEN or self.ends_item(line)):
                    self.close()
                if line.kind is Kind.TAKEN:
                    self.item = self.title = self.group_start = None
            elif not self.in_table(index, line):
                self.text_line(line)
            self.prior, self.last, self.blank = self.last, line, False
        self.close(ended=False)

    def text_line(self, line: Line) -> None:
        text = self.text
        self.folds_line(line)
        if line.kind is Kind.HEADING:
            self.heading(line)
        elif line.kind is Kind.RULE:
            self.close()
            self.title = self.group_start = None
            return
        if self.praise:
            return
        if self.head is not None and self.ends_item(line):
            self.close()
        self.counted(line)
        if self.field(line):
            return
        if (link := permalinks.link(text, line)) is not None and self.linked(line, link):
            return
        if (head := self.begins(line)) is not None:
            self.close()
            self.open(head)
            return
        self.plain(line)

    def begins(self, line: Line) -> Head | None:
        head = coderabbit.read(self.text, line, self.folds)
        if head is not None and not head.slots and self.head is not None and not self.body_seen:
            # The header that follows a line of its own issue.
            return None
        head = head or heads.read(self.text, line, announced=self.announced)
        if head is None and self.file and self.announced:
            head = heads.read_under(self.text, line, self.file)
        if head is not None and head.severity is None and head.format == heads.FORMAT:
            head.severity = self.section
        return head

    def plain(self, line: Line) -> None:
        """A line that begins no issue: perhaps a title of fields to come, an announcement, or somebody's body."""
        text = self.text
        bold = heads.BOLD.fullmatch(text, line.content, line.end)
        if line.kind is not Kind.TEXT or bold is not None:
            self.title, self.group_start = (line if line.ordinal or bold or line.kind is Kind.HEADING else None), None
        elif text.find("<", line.start, line.end) < 0:
            self.title = self.group_start = None
        if line.kind is Kind.ITEM and line.ordinal is not None and self.head is None:
            self.item = line
        short = line.end - line.start < 200
        if (
            short
            and self.head is None
            and (line.kind is Kind.HEADING or text[line.start : line.end].rstrip().endswith((":", "*")))
        ) or (short and line.kind is Kind.HEADING):
            self.announced = self.announced or heads.announces(text[line.content : line.end])
        self.body_seen = True

    def heading(self, line: Line) -> None:
        if self.head is not None and (not self.head.level or line.level <= self.head.level):
            self.close()
        if self.praise and line.level <= self.praise:
            self.praise = 0
        self.item = self.title = self.group_start = None
        words = self.text[line.content : line.end]
        self.file = heads.file_named(self.text, line)
        severity = heads.section_severity(words)
        if severity is not None or line.level <= self.section_level:
            self.section, self.section_level = severity, line.level
        if not self.praise and len(words) < 120 and heads.PRAISES.search(words):
            self.close()
            self.praise = line.level

    def ends_item(self, line: Line) -> bool:
        """Whether this line stands outside the list item, or the field group of an item, that is open."""
        head = self.head
        if head is None or line.kind is Kind.HEADING:
            return False
        if head.tier:
            return False
        if line.kind is Kind.ITEM and line.indent <= head.indent and (head.item or line.ordinal is not None):
            return groups.key_of(self.text, line.start, line.end) is None
        if head.fielded and heads.BOLD.fullmatch(self.text, line.content, line.end) is not None:
            return groups.key_of(self.text, line.start, line.end) is None
        if not head.item or not self.blank:
            return False
        indented = self.text[line.start : line.start + 1] in (" ", "\t")
        return not indented and line.kind is not Kind.ITEM

    def folds_line(self, line: Line) -> None:
        words = self.text[line.start : min(line.end, line.start + 1000)]
        change = coderabbit.depth_change(words)
        if self.head is not None:
            self.depth += change
            if self.depth < 0:
                self.close()
        if "<" in words:
            self.folds.line(self.text, line)
        if self.actionable is None and "Actionable" in words:
            self.actionable = coderabbit.ACTIONABLE.search(self.text, line.start, line.end)

    def counted(self, line: Line) -> None:
        if self.head is None and len(self.counts) < 20:
            match = _COUNTED.search(self.text, line.start, min(line.end, line.start + 300))
            if match is not None:
                self.counts.append(match)

    def field(self, line: Line) -> bool:
        """Takes a `Key: value` line of an issue told in fields; False for any other line."""
        key = groups.key_of(self.text, line.start, line.end)
        if key is None:
            if self.head is not None and self.head.fielded and self.values:
                name, (start, _) = next(reversed(self.values.items()))
                self.values[name] = (start, line.end)
            return False
        name, value_at = key
        if self.head is not None and not self.head.fielded and (self.head.path is not None or name != "file"):
            return False
        if self.head is not None and self.head.fielded and name in self.values:
            self.close()
        if self.head is not None and self.head.fielded:
            self.values[name] = (value_at, line.end)
            return True
        if self.group_start is None:
            self.group_start, self.values = line.start, {}
        self.values[name] = (value_at, line.end)
        if name == "file" and groups.names_file(self.text, value_at, line.end):
            self.open_group(line)
        return True

    def open_group(self, line: Line) -> None:
        values, start, title = dict(self.values), self.group_start, self.title
        self.close()
        named = heads.clean(self.text[title.content : title.end]) if title is not None else ""
        if title is not None and heads.announces(self.text[title.content : title.end]):
            named, title = "", None
        if title is not None and title.kind is Kind.ITEM and line.indent <= title.indent and line.kind is Kind.ITEM:
            named, title = "", None
        first = title if title is not None else line
        head = Head(
            format=heads.FORMAT,
            start=first.start if title is not None or start is None else start,
            body_at=line.start,
            title=named,
            level=first.level,
            indent=first.indent,
            item=False,
            mark=Mark(line.start, line.start, Quoting.MARKDOWN),
            ordinal=title.ordinal if title is not None else None,
            fielded=True,
        )
        self.open(head)
        self.values = values

    def linked(self, line: Line, link: permalinks.Link) -> bool:
        item = line if line.ordinal is not None else self.item
        if item is None or not (self.announced or self.counts):
            return False
        found = permalinks.read(self.text, item, line, link)
        if found is None:
            return False
        self.close()
        self.add(found)
        self.item = None
        return True

    def in_table(self, index: int, line: Line) -> bool:
        """Takes a line of a table of issues; False for any other line."""
        if self.table is not None:
            if self.text.find("|", line.start, line.end) < 0 or line.kind is Kind.HEADING:
                self.table = None
                return False
            self.table.rows, self.table.end = self.table.rows + 1, line.next
            if (found := tables.row(self.text, line, self.table)) is not None:
                self.table.issues.append(len(self.found))
                self.add(found)
            return True
        previous = self.lines[index - 1] if index else None
        if previous is None or previous.kind is not Kind.TEXT or line.kind not in (Kind.TEXT, Kind.RULE) or self.praise:
            return False
        self.table = tables.begins(self.text, previous, line)
        if self.table is None:
            return False
        # The header was taken for somebody's body before its delimiter was seen.
        self.last = self.prior
        self.close()
        self.tables.append(self.table)
        return True

    def open(self, head: Head) -> None:
        self.head, self.depth, self.body_seen = head, 0, False
        self.item = self.title = self.group_start = None
        self.values = {}

    def close(self, *, ended: bool = True) -> None:
        """Ends the open issue; not `ended` when only the text has, so that more of it may follow."""
        head, self.head = self.head, None
        if head is None or self.last is None:
            return
        end = self.last.end
        values = self.values
        self.values, self.group_start = {}, None
        found = ending.finish(self.text, head, values, end, self.last.next)
        if found is not None:
            if self.folds.open:
                for fold in self.folds.open:
                    fold.issues.append(len(self.found))
            self.add(found, ended=ended)

    def add(self, found: Found, *, ended: bool = True) -> None:
        self.found.append(found)
        if ended and not self.partial:
            self.settled = found.handle.span[1]


def read(text: str, taken: Sequence[Span]) -> Block | None:
    """The issues of the text outside the spans others have taken, as one block; None without any."""
    walk = _Walk(text, outline(text, taken))
    walk.run()
    if not walk.found:
        return None
    found = tuple(walk.found)
    return Block(
        format=found[0].issue.format,
        start=found[0].issue.start,
        end=found[-1].issue.end,
        found=found,
        dependents=tuple(_dependents(text, walk)),
        settled=walk.settled,
    )


def _dependents(text: str, walk: _Walk) -> list[Dependent]:
    found = walk.found
    everything = frozenset(range(len(found)))
    out: list[Dependent] = [
        Count(*match.span("count"), everything, match.span("plural"))
        for match in walk.counts
        if int(match["count"]) == len(found)
    ]
    actionable = frozenset(index for index, item in enumerate(found) if item.issue.extra.get("tier") == "actionable")
    if walk.actionable is not None and int(walk.actionable[1]) == len(actionable):
        out.append(Count(*walk.actionable.span(1), actionable))
    for fold in walk.folds.closed:
        out += _of_fold(text, fold)
    for table in walk.tables:
        if table.issues and table.rows == len(table.issues):
            out.append(Section(table.start, table.end, frozenset(table.issues)))
    return out


def _of_fold(text: str, fold: Fold) -> list[Dependent]:
    if fold.count is None or not fold.issues:
        return []
    members = frozenset(fold.issues)
    out: list[Dependent] = []
    if int(text[fold.count[0] : fold.count[1]]) == len(members):
        out.append(Count(*fold.count, members))
        out.append(Section(fold.start, fold.end, members))
    return out
