"""A segment as plain words: without list and heading marks, emphasis, link targets and citation marks. Pure."""

from __future__ import annotations

import re

from checks.facts.sentences import CITATION

_MARK = re.compile(
    r"(?:[ \t]*>)*[ \t]*(?:#{1,6}[ \t]+|"
    r"(?:[-*+•‣◦▪●○·–—]|\(?\d{1,3}[.)]|\(?[a-zа-яё]\)|[\u2190-\u2bff\U0001f300-\U0001faff]\ufe0f?)\s+|・)?"
)
_QUOTE_MARK = re.compile(r"[\r\n]+[ \t]*>[ \t]?")
_LINK = re.compile(r"!?\[([^\[\]\n]{1,300})\]\([^()\s]{1,500}\)")
_EMPHASIS = re.compile(r"\*\*|__|~~|`+|(?<!\w)[*_](?=\w)|(?<=\w)[*_](?!\w)")
_SPACES = re.compile(r"\s+")
_BEFORE_STOP = re.compile(r" +(?=[.,;:!?。](?:\s|\Z))")


def plain(text: str) -> str:
    """The words of a segment, on one line."""
    mark = _MARK.match(text)
    if mark and mark.end():
        text = text[mark.end() :]
    if "[" in text or "【" in text or not text.isascii():
        text = CITATION.sub("", _LINK.sub(r"\1", text))
    if "\n" in text:
        text = _QUOTE_MARK.sub(" ", text)
    if text.startswith("|"):
        text = " | ".join(cells(text))
    text = _EMPHASIS.sub("", text)
    return _BEFORE_STOP.sub("", _SPACES.sub(" ", text)).strip()


def cells(row: str) -> list[str]:
    """Cells of a table row, `| a | b |`; of a header row with its separator line, those of the header."""
    line = row.strip().splitlines()[0].strip() if row.strip() else ""
    return [cell.strip() for cell in line.strip("|").split("|")]


def statement(text: str, context: str) -> str:
    """What a segment states, readable by itself: a table row becomes "header: cell; header: cell"."""
    if text.startswith("|") and " | " in context:
        heads, values = context.split(" | "), [plain(cell) for cell in cells(text)]
        named = [f"{head}: {value}" if head else value for head, value in zip(heads, values, strict=False) if value]
        return "; ".join(named + [value for value in values[len(heads) :] if value])
    return plain(text)
