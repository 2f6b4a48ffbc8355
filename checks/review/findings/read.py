"""Detects the formats of an answer and reads its issues: JSON, XML, YAML, lines of tools, then Markdown for the rest.

Whatever one reader takes is closed to those after it, so no issue is read twice. An answer that is no review (a
description, a score, a plain answer, a tool's arguments) has no issues. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from checks.review.findings import (
    checkstyle,
    jsonblocks,
    jsontext,
    markdown,
    pipe_rows,
    pr_agent,
    rdjson,
    workflow,
)
from checks.review.findings import treat as writing
from checks.review.findings.fields import clean_path
from checks.review.findings.found import MOST_ISSUES, Block, Found, Span
from checks.review.findings.outline import MOST_LINES, fenced
from checks.review.types import Completeness, Issue, Review, Treated
from checks.types import TextEdit

LONGEST: Final = 4_000_000
# Fences that may hold JSON of a review, by what their first line says; others hold code.
_JSON_FENCES: Final = ("", "json", "jsonc", "json5", "jsonl", "ndjson", "sarif", "text", "txt", "plaintext", "output")


_FENCES: Final = ("```", "````", "`````", "~~~", "~~~~")


@dataclass(frozen=True, slots=True)
class _Scan:
    """What was read of a text: blocks in order, and how far no further text can change it."""

    blocks: tuple[Block, ...]
    settled: int
    notes: tuple[str, ...] = ()
    too_long: bool = False


def read_review(text: str, *, repo_root: str | None = None, truncated: bool = False) -> Review:
    """The issues of an answer, in the order of the text. Never raises; no issues when it is no review.

    `repo_root` is the folder of the repository on the reviewer's machine: absolute paths are cut there. With
    `truncated` (the model stopped for length) an issue that could go on is left out, since it may not be whole.
    """
    scan = _scan(text)
    issues: list[Issue] = []
    notes = list(scan.notes)
    for number, block in enumerate(scan.blocks):
        for found in block.found:
            if truncated and not _whole(text, block, found):
                notes.append("the last issue was cut off and is left alone")
                continue
            path = clean_path(found.issue.path or "", repo_root)
            issues.append(replace(found.issue, number=len(issues), block=number, path=path))
            notes += (f"issue {len(issues)}: {note}" for note in found.notes)
        notes += block.notes
    if len(issues) >= MOST_ISSUES:
        notes.append(f"of one kind at most {MOST_ISSUES} issues are read")
    cut = truncated or any(block.cut for block in scan.blocks)
    formats = tuple(dict.fromkeys(found.issue.format for block in scan.blocks for found in block.found))
    return Review(
        text=text,
        formats=formats if issues else (),
        issues=tuple(issues),
        completeness=Completeness.TRUNCATED if cut else Completeness.COMPLETE,
        notes=tuple(notes),
        layout=scan.blocks,
        too_long=scan.too_long,
    )


def treat(
    review: Review, treatments: Mapping[int, Treated], *, schema: Mapping[str, Any] | None = None
) -> tuple[TextEdit, ...]:
    """The edits of `review.text` that write these treatments (by issue number) back, sorted, without overlap.

    `schema` is the JSON Schema the caller asked the model to follow: issues that its `minItems` needs are marked in
    place of removed. Issues without a treatment stay as they are, to the byte.
    """
    kept = review.layout
    # A review that was put together by somebody else has no layout: its text tells.
    blocks = kept if isinstance(kept, tuple) else _scan(review.text).blocks
    places = {
        (found.issue.start, found.issue.end, found.issue.format): number
        for number, found in enumerate(found for block in blocks for found in block.found)
    }
    numbered = {
        places[key]: treatments[issue.number]
        for issue in review.issues
        if issue.number in treatments and (key := (issue.start, issue.end, issue.format)) in places
    }
    return writing.edits(review.text, blocks, numbered, schema)


def settled(text: str) -> int:
    """Length of the prefix whose issues no further text can change; 0 when unsure. Grows with the text."""
    return _scan(text).settled


def _whole(text: str, block: Block, found: Found) -> bool:
    """Whether an issue was seen to its end: JSON and XML tell, everything else only by what follows."""
    if found.handle.series is not None and not found.handle.series.by_lines:
        return True
    if block.format in (rdjson.BY_LINE, checkstyle.FORMAT) or not found.handle.removable:
        return True
    if block.format == pr_agent.FORMAT:
        return bool(text[found.handle.span[1] : block.end].strip())
    return found.handle.span[1] <= block.settled


def _scan(text: str) -> _Scan:
    if len(text) > LONGEST:
        return _Scan((), 0, (f"a text of more than {LONGEST} characters is not read",), too_long=True)
    if text.count("\n") > MOST_LINES:
        return _Scan((), 0, (f"a text of more than {MOST_LINES} lines is not read",), too_long=True)
    blocks: list[Block] = []
    sure = _json(text, blocks)
    _take(blocks, checkstyle.read(text))
    _yaml(text, blocks)
    for block in (workflow.read(text), pipe_rows.read(text)):
        _take(blocks, [block] if block is not None else [])
    rest = markdown.read(text, _with_fences(text, _spans(blocks)))
    if rest is not None:
        blocks.append(rest)
    ordered = tuple(sorted(blocks, key=lambda block: block.start))
    return _Scan(ordered, _settled(ordered, sure))


def _json(text: str, blocks: list[Block]) -> int:
    barred = [span for span, info in fenced(text) if info.split(" ")[0] not in _JSON_FENCES] if "```" in text else []

    def use(region: jsontext.Region) -> bool:
        block = jsonblocks.read(text, region)
        if block is None:
            return False
        blocks.append(block)
        return True

    sure = jsontext.regions(text, barred, use)
    blocks[:] = _by_line(text, blocks)
    return sure


def _by_line(text: str, blocks: list[Block]) -> list[Block]:
    """Single objects that follow each other, each on its own line, as one block whose lines can be taken out."""
    out: list[Block] = []
    run: list[Block] = []
    for block in [*blocks, None]:
        single = block is not None and not block.cut and all(found.handle.series is None for found in block.found)
        if single and block is not None and (not run or not text[run[-1].end : block.start].strip()):
            run.append(block)
            continue
        out += _joined(text, run)
        run = [block] if single and block is not None else []
        if block is not None and not single:
            out.append(block)
    return out


def _joined(text: str, run: list[Block]) -> list[Block]:
    if len(run) < 2 and not (run and run[0].format == rdjson.BY_LINE):
        return run
    found = []
    for block in run:
        for item in block.found:
            span = checkstyle.whole_lines(text, (item.issue.start, item.issue.end))
            found.append(replace(item, handle=replace(item.handle, span=span, removable=True)))
    first, last = run[0], run[-1]
    return [replace(first, end=last.end, found=tuple(found), settled=found[-1].handle.span[1], dependents=())]


def _yaml(text: str, blocks: list[Block]) -> None:
    if "relevant_file" not in text and "key_issues_to_review" not in text:
        return
    for start, end in pr_agent.candidates(text):
        block = pr_agent.read(text, start, end)
        if block is not None:
            # A whole line that is no YAML ends it for good.
            ended = end < len(text) and text.find("\n", end) >= 0
            _take(blocks, [replace(block, settled=end if ended else 0)])


def _take(blocks: list[Block], more: Sequence[Block]) -> None:
    """Adds blocks of which no issue stands in what has been taken."""
    spans = _spans(blocks)
    blocks += [
        block
        for block in more
        if not any(start < taken and end > other for start, end in _spans([block]) for other, taken in spans)
    ]


def _spans(blocks: Sequence[Block]) -> list[Span]:
    """What blocks take of the text: formats of single lines only those lines, all others everything between."""
    spans: list[Span] = []
    for block in blocks:
        if block.format in (workflow.FORMAT, pipe_rows.FORMAT):
            spans += (found.handle.span for found in block.found)
        else:
            spans.append((block.start, block.end))
    return sorted(spans)


def _with_fences(text: str, spans: Sequence[Span]) -> list[Span]:
    """The spans with the fence lines right around them, which go where their contents go."""
    out: list[Span] = []
    for start, end in spans:
        line = text.rfind("\n", 0, start) + 1
        before = text.rfind("\n", 0, max(0, line - 1)) + 1
        after = text.find("\n", end) + 1
        until = text.find("\n", after) if after else -1
        opened = not text[line:start].strip() and text[before:line].lstrip().startswith(_FENCES)
        closed = after and text[after : until if until >= 0 else len(text)].strip() in _FENCES
        if opened:
            start = before
            end = (until if until >= 0 else len(text)) if closed else end
        out.append((start, end))
    return out


def _settled(blocks: Sequence[Block], sure: int) -> int:
    """Up to the first issue that may still change, and no further than the last one that may not."""
    reached, bound = 0, sure
    for block in blocks:
        reached = max(reached, block.settled)
        open_ones = (found.issue.start for found in block.found if found.issue.end > block.settled)
        bound = min(bound, next(open_ones, bound))
    return min(reached, bound)
