"""Writes verdicts back into a review: what leaves, what is marked, what moves, and what depends on it. Pure.

Works on handles alone, so every format follows the same rules: nothing outside the touched spans changes, edits are
sorted and do not overlap, and no treatment gives no edit. Knows no format.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from checks.review.findings import jsontext, rules
from checks.review.findings.found import (
    Block,
    Count,
    Found,
    Mark,
    Opinion,
    Section,
    Series,
    Slot,
    Span,
    Summary,
    one_line,
    quote,
)
from checks.review.types import Treated, Treatment
from checks.types import IssueLabel, TextEdit

_BLANK_LINES: Final = re.compile(r"(?:[ \t]*\r?\n)+")
_STATUSES: Final = {IssueLabel.HALLUCINATION: "accepted"}


def edits(
    text: str, blocks: Sequence[Block], treatments: Mapping[int, Treated], schema: Mapping[str, Any] | None
) -> tuple[TextEdit, ...]:
    """The edits for issues numbered through all blocks in order."""
    out: list[TextEdit] = []
    number = 0
    for block in blocks:
        treated = [treatments.get(number + index, Treated()) for index in range(len(block.found))]
        number += len(block.found)
        out += _block(text, block, treated, schema)
    return settle(text, out)


def settle(text: str, edits: Iterable[TextEdit]) -> tuple[TextEdit, ...]:
    """Sorted, without those that stand inside a removed span, without those that change nothing."""
    out: list[TextEdit] = []
    for edit in sorted(edits, key=lambda edit: (edit.start, -edit.end)):
        if text[edit.start : edit.end] == edit.replacement:
            continue
        if out and edit.start < out[-1].end:
            if edit.end > out[-1].end and not edit.replacement and not out[-1].replacement:
                # Two removals share a blank line.
                out[-1] = TextEdit(out[-1].start, edit.end)
            continue
        out.append(edit)
    return tuple(out)


def apply(text: str, edits: Iterable[TextEdit]) -> str:
    """The text with these edits made; they are sorted and do not overlap."""
    pieces: list[str] = []
    position = 0
    for edit in edits:
        pieces += text[position : edit.start], edit.replacement
        position = edit.end
    return "".join((*pieces, text[position:]))


def _block(text: str, block: Block, treated: list[Treated], schema: Mapping[str, Any] | None) -> Iterator[TextEdit]:
    gone = _gone(block, treated, schema)
    yield from _removals(text, block, gone)
    for index, (found, what) in enumerate(zip(block.found, treated, strict=True)):
        if index in gone:
            continue
        if what.start_line is not None:
            yield from _moved(found, what)
        if what.treatment is not Treatment.KEEP:
            yield from (_mark(text, mark, what) for mark in found.handle.marks)
    if gone:
        yield from _dependents(text, block, gone)
        yield from _numbered(block, gone)


def _gone(block: Block, treated: list[Treated], schema: Mapping[str, Any] | None) -> set[int]:
    """The issues that leave: asked to, able to, and not needed by the caller's schema."""
    gone = {
        index
        for index, what in enumerate(treated)
        if what.treatment is Treatment.DROP and block.found[index].handle.removable
    }
    if not schema:
        return gone
    by_series: dict[Series, list[int]] = {}
    for index in sorted(gone):
        series = block.found[index].handle.series
        if series is not None:
            by_series.setdefault(series, []).append(index)
    for series, members in by_series.items():
        kept = len(series.items) - len(members)
        needed = max(0, min(len(members), least_items(schema, series.path) - kept))
        gone -= set(members[:needed])
    return gone


def least_items(schema: Mapping[str, Any], path: Sequence[str]) -> int:
    """`minItems` of the list at this path of a JSON Schema; 0 where it says nothing. Follows local references."""
    at: Any = schema
    for step in path:
        at = _resolved(schema, at)
        if not isinstance(at, Mapping):
            return 0
        if step == "[]" or step.isdigit():
            at = at.get("items")
        else:
            properties = at.get("properties")
            at = properties.get(step) if isinstance(properties, Mapping) else None
    at = _resolved(schema, at)
    least = at.get("minItems") if isinstance(at, Mapping) else None
    return least if isinstance(least, int) and not isinstance(least, bool) else 0


def _resolved(schema: Mapping[str, Any], at: Any) -> Any:
    for _ in range(16):
        if not isinstance(at, Mapping):
            return at
        if isinstance(reference := at.get("$ref"), str) and reference.startswith("#/"):
            target: Any = schema
            for step in reference[2:].split("/"):
                target = target.get(step) if isinstance(target, Mapping) else None
            at = target
        elif "properties" not in at and "items" not in at and isinstance(at.get("anyOf"), list):
            at = next((one for one in at["anyOf"] if isinstance(one, Mapping) and one.get("type") != "null"), None)
        else:
            return at
    return at


def _removals(text: str, block: Block, gone: set[int]) -> Iterator[TextEdit]:
    by_series: dict[Series, set[Span]] = {}
    alone: list[Span] = [
        (section.start, section.end)
        for section in block.dependents
        if isinstance(section, Section) and section.members <= gone
    ]
    for index in gone:
        handle = block.found[index].handle
        if handle.series is None:
            alone.append(handle.span)
        else:
            by_series.setdefault(handle.series, set()).add(handle.span)
    for start, end in _tidied(text, alone):
        yield TextEdit(start, end)
    for series, spans in by_series.items():
        places = {place for place, span in enumerate(series.items) if span in spans}
        if series.by_lines:
            yield from _lines_gone(text, series, places)
        else:
            span = (series.start, series.end)
            for start, end in jsontext.without_elements(text, span, series.items, places, unfinished=series.open):
                yield TextEdit(start, end)


def _lines_gone(text: str, series: Series, places: set[int]) -> Iterator[TextEdit]:
    if len(places) == len(series.items):
        # The last line's end stays.
        colon = text.index(":", series.start) + 1
        yield TextEdit(colon, series.start + len(text[series.start : series.end].rstrip()), f" {series.empty}")
        return
    for place in places:
        yield TextEdit(*series.items[place])


def _tidied(text: str, spans: list[Span]) -> Iterator[Span]:
    """Spans joined where they touch; of blank lines on both sides only those before stay, at the end of a text none."""
    joined: list[Span] = []
    for start, end in sorted(spans):
        if joined and not text[joined[-1][1] : start].strip() and start >= joined[-1][1]:
            joined[-1] = (joined[-1][0], end)
        elif joined and start < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    for start, end in joined:
        whole = (not start or text[start - 1] == "\n") and (end == len(text) or text[end - 1] == "\n")
        before = not start or text.endswith(("\n\n", "\n\r\n"), 0, start)
        if whole and before and (blank := _BLANK_LINES.match(text, end)) is not None:
            end = blank.end()
        while whole and end == len(text) and text.endswith(("\n\n", "\n\r\n"), 0, start):
            start -= 1
        yield start, end


def _moved(found: Found, what: Treated) -> Iterator[TextEdit]:
    start = what.start_line if what.start_line is not None else 1
    end = max(start, what.end_line if what.end_line is not None else start)
    if (start, end) == (found.issue.start_line, found.issue.end_line):
        return
    for slot in found.handle.lines:
        template = _template(slot, single=start == end)
        if template is not None:
            yield TextEdit(slot.start, slot.end, template.format(start=start, end=end) if template else "")


def _template(slot: Slot, *, single: bool) -> str | None:
    return slot.single if single else slot.several


def _mark(text: str, mark: Mark, what: Treated) -> TextEdit:
    note, label = one_line(what.note), what.label.value if what.label is not None else ""
    if mark.bare:
        said = note or label or "marked"
    else:
        said = f"[{label}: {note}]" if label and note else f"[{label or note or 'marked'}]"
    status = _STATUSES.get(what.label, "underReview") if what.label is not None else "underReview"
    before = mark.before.replace("{status}", status)
    if "\n" in before and text.find("\r\n", max(0, mark.start - 2000), mark.start + 2000) >= 0:
        before = before.replace("\r\n", "\n").replace("\n", "\r\n")
    return TextEdit(mark.start, mark.end, before + quote(said, mark.quoting) + mark.after)


def _dependents(text: str, block: Block, gone: set[int]) -> Iterator[TextEdit]:
    everything = len(gone) == len(block.found)
    for dependent in block.dependents:
        match dependent:
            case Count(start, end, members, noun):
                left = len(members - gone)
                if left != len(members):
                    yield TextEdit(start, end, str(left))
                    if noun is not None:
                        yield TextEdit(*noun, "" if left == 1 else "s")
            case Summary(at, quoting):
                yield TextEdit(at, at, " " + quote(rules.removed(len(gone), len(block.found)), quoting))
            case Opinion(start, end, replacement) if everything:
                yield TextEdit(start, end, replacement)
            case _:
                pass


def _numbered(block: Block, gone: set[int]) -> Iterator[TextEdit]:
    """Numbers of a list that counted one by one, counted anew."""
    ordinals = [(index, found.handle.ordinal) for index, found in enumerate(block.found)]
    spans = [(index, span) for index, span in ordinals if span is not None]
    if len(spans) != len(block.found):
        return
    left = 0
    for index, span in spans:
        if index not in gone:
            left += 1
            yield TextEdit(*span, str(left))
