"""Reviewdog's diagnostics: one object (rdjson) or one per line (rdjsonl). A mark goes before the message.

Knows that a diagnostic inherits the severity of the whole, that an end is inclusive without a column and exclusive with
one (so that column 1 ends on the line before), and that columns count UTF-8 bytes. Format: reviewdog's
`proto/rdf/reviewdog.proto`.
"""

from __future__ import annotations

from itertools import islice
from typing import Any, Final

from checks.review.findings import fields
from checks.review.findings.found import MOST_ISSUES, Block, Found, Handle, Series
from checks.review.findings.jsontext import Node, Region, line_slot, text_mark, without_members
from checks.review.types import Issue

FORMAT: Final = "rdjson"
BY_LINE: Final = "rdjsonl"


def read(text: str, region: Region) -> Block | None:
    """The diagnostics of an rdjson object, or None for anything else."""
    diagnostics = region.root.get("diagnostics")
    if diagnostics is None or diagnostics.kind != "array":
        return None
    spans = tuple((item.start, item.end) for item in diagnostics.items)
    series = Series(diagnostics.start, diagnostics.end, spans, diagnostics.open, ("diagnostics",))
    inherited = region.root.text("severity")
    read_items = (read_item(text, item, series, FORMAT, inherited) for item in diagnostics.items)
    found = tuple(islice((item for item in read_items if item is not None), MOST_ISSUES))
    if diagnostics.items and not found:
        return None
    return Block(format=FORMAT, start=region.start, end=region.end, found=found, cut=region.root.open)


def read_item(text: str, item: Node, series: Series | None, name: str, inherited: str = "") -> Found | None:
    """One diagnostic, or None for any other object."""
    location = item.get("location")
    message = item.get("message")
    if item.open or location is None or message is None or not location.text("path") or message.kind != "string":
        return None
    span = location.get("range")
    start = span.at("start", "line") if span is not None else None
    end = span.at("end", "line") if span is not None else None
    where = fields.lines(start.value if start else None, end.value if end else None)
    last, column = where.end, span.at("end", "column") if span is not None else None
    if column is not None and column.value == 1 and last is not None and where.start is not None and last > where.start:
        last -= 1
    code = item.at("code", "value")
    suggestion = None
    if (suggestions := item.get("suggestions")) is not None and suggestions.items:
        words = suggestions.items[0].get("text")
        suggestion = str(words.value) if words is not None else None
    extra: dict[str, Any] = {"code": str(code.value)} if code is not None else {}
    issue = Issue(
        number=0,
        format=name,
        path=location.text("path"),
        start_line=where.start,
        end_line=last,
        title=str(code.value) if code is not None else "",
        body=str(message.value).strip(),
        severity=fields.severity(item.text("severity") or inherited),
        category=str(code.value) if code is not None else None,
        suggestion=suggestion,
        start=item.start,
        end=item.end,
        extra=extra,
    )
    slots = line_slot(start, "{start}") + line_slot(end, "{end}")
    if span is not None:
        # With its column gone, an end counts its own line.
        slots += without_members(text, span.get("start"), ("column",))
        slots += without_members(text, span.get("end"), ("column",))
    handle = Handle(span=(item.start, item.end), series=series, marks=text_mark(message), lines=slots)
    return Found(issue, handle, (where.note,) if where.note else ())
