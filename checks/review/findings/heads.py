"""How an issue in Markdown begins: a heading, list item or line that names a file and a line. Knows one line at a time.

A heading with a file and a line is strong enough alone; an item or a plain line needs a severity in it, or words before
it that announce a review, since answers to questions name files and lines too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from checks.review.findings import fields
from checks.review.findings.found import Mark, Quoting, Slot, Span
from checks.review.findings.outline import Kind, Line, location
from checks.review.types import Severity

FORMAT: Final = "markdown"
_THINGS: Final = (
    r"(?:issues?|findings?|problems?|bugs?|concerns?|nits?|nitpicks?|vulnerabilit(?:y|ies)|violations?|defects?|remarks?"
    r"|review[ \t]comments?|comments?)"
)
ANNOUNCES: Final = re.compile(
    rf"(?:\b(?:found|following|identified|spotted|noticed|here[ \t](?:are|is)|these|\d+)\b[^.\n]{{0,80}}?\b{_THINGS}\b)"
    rf"|^[^\w\n]{{0,8}}(?:[\w-]+[ \t]+){{0,3}}?{_THINGS}[^\w\n]*(?:\(?\d+\)?)?[^\w\n]*$"
    r"|^[^\w\n]{0,8}(?:code[ \t]+|pr[ \t]+|pull[ \t]request[ \t]+)?review"
    r"(?:[ \t](?:summary|results?|notes|feedback))?[^\w\n]*$"
    r"|^[^\w\n]{0,8}(?:critical|high|medium|low|major|minor|blocking|must[ \t]fix|should[ \t]fix)\b[^.\n]{0,30}$",
    re.IGNORECASE,
)
_SECTION: Final = re.compile(
    r"[^\w\n]{0,8}(?P<level>critical|blocker|high|major|medium|low|minor|nits?)\b", re.IGNORECASE
)
PRAISES: Final = re.compile(
    r"\b(?:what (?:i|we) (?:liked?|love)|what(?:'s| is)? (?:went |works? |done )?(?:good|well)"
    r"|positives?|praise|strengths?"
    r"|good (?:things|parts|practices)|well done|nice|kudos|highlights|looks? good|no issues)\b",
    re.IGNORECASE,
)
_LEVELS: Final = (
    "critical|blocker|blocking|high|major|medium|moderate|low|minor|nit|nitpick|trivial|info|warning|error|p[0-4]"
)
_TAG: Final = re.compile(
    rf"[\[(*_`]{{1,3}}[^\w\n]{{0,4}}(?P<a>{_LEVELS})(?:[ \t](?:severity|priority|issue|bug))?"
    r"[^\w\n]{0,3}[\])*_`:]{1,3}:?"
    rf"|^[^\w\n`]{{0,6}}(?P<b>{_LEVELS})(?:[ \t](?:severity|priority))?[ \t]*(?::|—|–|-[ \t])",
    re.IGNORECASE,
)
_UNDER: Final = re.compile(
    r"(?:\*\*|`|\[|\()?[Ll](?:ines?)?[ \t:#.]{0,2}(?P<range>(?P<first>\d{1,7})(?P<dash>[ \t]*(?:-|–|to)[ \t]*L?)?"
    r"(?(dash)(?P<last>\d{1,7})))(?:\*\*|`|\]|\))?[ \t]*(?::|—|–|-)(?:\*\*)?[ \t]*"
)
# Words that lead on to the file, at the end of a title.
_LEADS_ON: Final = re.compile(r"[ \t]+(?:in|at|on|from|of|inside|within)[ \t]*\Z", re.IGNORECASE)
_DONE: Final = re.compile(
    r"\b(?:fix(?:es|ed)|resolv(?:es|ed)|clos(?:es|ed)|address(?:es|ed)|solv(?:es|ed))\b", re.IGNORECASE
)
_CIRCLE: Final = re.compile("[🔴🟠🟡🔵⚪]")
_EDGES: Final = " \t\r*_:—–-()[]|#,;•>`~"
_NUMBER: Final = re.compile(r"^\W*\d{1,3}[.)][ \t]+")
BOLD: Final = re.compile(r"[ \t]*(?:\d{1,3}[.)][ \t]+)?\*\*(?P<title>[^*\n]{1,200}+)\*\*:?[ \t]*\r?")


@dataclass(slots=True, kw_only=True)
class Head:
    """An issue that has begun. `body_at` is where its text goes on; `level` is the heading's, 0 for anything else.

    `lone` issues are one line; `tier` is the section of a review bot's comment it stands in; `fielded` ones are told
    in `Key: value` lines.
    """

    format: str
    start: int
    body_at: int
    path: str | None = None
    where: fields.Lines = fields.WHOLE_FILE
    slots: tuple[Slot, ...] = ()
    title: str = ""
    severity: Severity | None = None
    category: str | None = None
    revision: str | None = None
    level: int = 0
    indent: int = 0
    item: bool = False
    mark: Mark
    ordinal: Span | None = None
    tier: str = ""
    fielded: bool = False


def read(text: str, line: Line, *, announced: bool) -> Head | None:
    """The issue that begins on this line, or None."""
    if line.kind not in (Kind.HEADING, Kind.ITEM, Kind.TEXT):
        return None
    place = location(text, line.content, line.end)
    if place is None:
        return None
    before, after_at = text[line.content : place.start], place.end
    if before.count("**") % 2 and text.startswith("**", after_at):
        # The file stands in bold, or at the end of a bold title.
        after_at += 2
    after = text[after_at : line.end]
    tag = severity_tag(before) or severity_tag(after[:80])
    heading = line.kind is Kind.HEADING
    leading = not clean(before) or before.lstrip().startswith("**")
    if not heading and tag is None and not (announced and (leading or line.kind is Kind.ITEM)):
        return None
    if line.kind is Kind.TEXT and not leading:
        return None
    title, body_at = _title(before, after, after_at, line)
    at = _visible_end(text, line) if heading else line.content
    mark = Mark(at, at, Quoting.MARKDOWN, "\n\n> ", "") if heading else Mark(at, at, Quoting.MARKDOWN)
    return Head(
        format=FORMAT,
        start=line.start,
        body_at=body_at,
        path=place.path,
        where=place.where,
        slots=place.slots,
        title=title,
        severity=tag,
        level=line.level,
        indent=line.indent,
        item=line.kind is Kind.ITEM,
        mark=mark,
        ordinal=line.ordinal or _heading_number(text, line),
    )


def read_under(text: str, line: Line, file: str) -> Head | None:
    """The issue of a list item that begins with lines of the file its heading names, or None."""
    match = _UNDER.match(text, line.content, line.end) if line.kind is Kind.ITEM else None
    if match is None:
        return None
    where = fields.lines(match["first"], match["last"])
    dash = match["dash"] or "-"
    after = text[match.end() : line.end]
    return Head(
        format=FORMAT,
        start=line.start,
        body_at=match.end(),
        path=file,
        where=where,
        slots=(Slot(*match.span("range"), "{start}", "{start}" + dash + "{end}"),),
        severity=severity_tag(after[:80]),
        indent=line.indent,
        item=True,
        mark=Mark(match.end(), match.end(), Quoting.MARKDOWN),
        ordinal=line.ordinal,
    )


def file_named(text: str, line: Line) -> str:
    """The file that a heading is about, when it names one and nothing else; "" otherwise."""
    words = text[line.content : line.end].strip().strip("#*: \t")
    words = words.removeprefix("File:").strip(" `*")
    return words if " " not in words and fields.plausible_path(words) and "/" + words != words else ""


def _title(before: str, after: str, after_at: int, line: Line) -> tuple[str, int]:
    """The title on an issue's first line, and where its body begins."""
    named = _LEADS_ON.sub("", clean(before))
    if line.kind is Kind.HEADING:
        return clean(after) or named, line.end
    if named and not clean(after):
        return named, line.end
    if named:
        return named, after_at
    match = re.search(r"\*\*([^*\n]{1,200}+)\*\*", after)
    if match is not None and not clean(after[: match.start()]):
        return clean(match[1]), after_at + match.end()
    return "", after_at


def clean(words: str) -> str:
    """Words without emphasis, separators, numbers and severity tags around them."""
    words = _NUMBER.sub("", _CIRCLE.sub("", words))
    words = _TAG.sub("", words, count=1)
    stripped = words.strip(_EDGES)
    # A code span or a call at an edge keeps its marks.
    if stripped.count("`") % 2:
        stripped = f"`{stripped}" if words.lstrip(" \t*_:—–-").startswith("`") else f"{stripped}`"
    if stripped.count("(") > stripped.count(")"):
        stripped += ")"
    return stripped if any(character.isalnum() for character in stripped) else ""


def announces(words: str) -> bool:
    """Whether a heading or the line before a list says that issues follow; issues that were fixed are none."""
    return bool(ANNOUNCES.search(words)) and not _DONE.search(words)


def section_severity(words: str) -> Severity | None:
    """The severity of everything under a heading that begins with one."""
    match = _SECTION.match(words)
    return fields.severity(match["level"].rstrip("s")) if match is not None and len(words) < 60 else None


def untagged(body: str) -> str:
    """A body without the separators and the severity tag at its beginning."""
    body = body.strip().lstrip(":—–-").strip()
    tag = _TAG.match(body)
    return body[tag.end() :].lstrip(" \t:—–-") if tag is not None else body


def severity_tag(words: str) -> Severity | None:
    """A severity that is set off from the words around it."""
    if (match := _TAG.search(words)) is not None:
        return fields.severity(match["a"] or match["b"])
    return fields.severity(circle[0]) if (circle := _CIRCLE.search(words)) is not None else None


def _visible_end(text: str, line: Line) -> int:
    return line.end - 1 if text[line.end - 1 : line.end] == "\r" else line.end


def _heading_number(text: str, line: Line) -> Span | None:
    match = re.compile(r"(\d{1,3})[.)][ \t]").match(text, line.content, line.end)
    return match.span(1) if match is not None and line.kind is Kind.HEADING else None
