"""Issues told in `Key: value` lines, one after another: `File:`, `Line:`, `Severity:`, `Issue:`, `Fix:`.

Bulleted, bold or bare (as review tools print them on a terminal). Knows that a value may go on over several lines and
hold a fence, and that a file alone, with nothing said against it, is no issue.
"""

from __future__ import annotations

import re
from typing import Final

from checks.review.findings import fields
from checks.review.findings.found import Mark, Quoting, Slot, Span
from checks.review.findings.heads import Head, clean
from checks.review.findings.outline import location

_KEYS: Final = {
    name: meaning
    for meaning, names in {
        "file": "file|path|filename|file path|location|file name",
        "line": "line|lines|line number|line numbers|line(s)|line range",
        "severity": "severity|priority|level",
        "title": "issue|title|problem|finding|bug|summary|concern",
        "body": "description|details|detail|explanation|comment|impact|message|reason|why",
        "fix": "fix|suggestion|recommendation|suggested fix|recommended fix|proposed fix",
        "category": "type|category|kind|rule",
        "confidence": "confidence",
    }.items()
    for name in names.split("|")
}
FIELD: Final = re.compile(
    r"[ \t>]*+(?:(?:[-*+•]|\d{1,3}[.)])[ \t]+)?[^\w\s`*]{0,3}[ \t]*(?:\*\*|__)?"
    r"(?P<key>[A-Za-z][A-Za-z() ]{2,18}?)(?:\*\*|__)?[ \t]*:(?:\*\*|__)?[ \t]*"
)


def key_of(text: str, start: int, end: int) -> tuple[str, int] | None:
    """The meaning of a line's key and where its value begins; None for a line without a known key."""
    match = FIELD.match(text, start, end)
    meaning = _KEYS.get(match["key"].strip().lower()) if match is not None else None
    return (meaning, match.end()) if meaning and match is not None else None


def names_file(text: str, value_at: int, end: int) -> bool:
    """Whether the value of a `file` line can be a file."""
    value = text[value_at:end].strip().strip("`*")
    return location(text, value_at, end) is not None or (" " not in value and fields.plausible_path(value))


def finish(text: str, head: Head, values: dict[str, Span], end: int) -> tuple[Head, str] | None:
    """The issue its fields tell of, and its body; None when nothing is said against the file."""
    said = {key: text[start:stop].strip() for key, (start, stop) in values.items()}
    title = clean(said.get("title", "").split("\n", 1)[0])
    if not ({"title", "body", "fix"} & said.keys() or (head.title and {"line", "severity"} & said.keys())):
        return None
    start, stop = values["file"]
    place = location(text, start, stop)
    head.path = place.path if place is not None else said["file"].split("\n", 1)[0].strip().strip("`* ")
    head.where, head.slots = (place.where, place.slots) if place is not None else (fields.WHOLE_FILE, ())
    if "line" in values and head.where.start is None:
        digits = re.compile(r"\d[\d \t\-–—~tohrug]*\d|\d").search(text, *values["line"])
        if digits is not None:
            head.where = fields.lines(digits[0].replace("through", "to"))
            head.slots = (Slot(digits.start(), digits.end(), "{start}", "{start}-{end}"),)
    head.severity = fields.severity(said.get("severity"))
    head.category = said.get("category") or None
    own = head.title
    head.title = own or title
    spoken = values.get("body") or values.get("title") or values.get("fix")
    if spoken is not None:
        head.mark = Mark(spoken[0], spoken[0], Quoting.MARKDOWN)
    parts = [said[key] for key in ("title", "body", "fix") if said.get(key)]
    if own:
        return head, "\n\n".join(parts)
    rest = [said[key] for key in ("body", "fix") if said.get(key)]
    tail = said.get("title", "").split("\n", 1)[1:]
    return head, "\n\n".join([*tail, *rest]).strip() or head.title
