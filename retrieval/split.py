"""Documents to passages, measured in the encoder's own tokens. Pure.

Borders, strongest first: a page or heading; a block (a paragraph, list item, table row or code line); a sentence; a
word; a code point, for a single token longer than a passage. A block that fits a passage is never cut, so a table row
is cut only when the row alone is too long. Passages of one section are balanced, so that no crumbs remain at its end.

There is no overlap by default: blocks that fit are whole anyway, and a sentence that stands in two passages would be
counted twice as evidence and spend the prompt's budget twice. `overlap_sentences` adds it where long paragraphs are
cut.

Offsets are carried along, never searched for. Every code point that is not white space lies in at least one passage.
Knows nothing of files, formats or vectors but for the metadata key `format` that loaders set.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from retrieval.types import Document, Encoder, Passage, Section

VERSION = 1
TOKENIZED_AT_ONCE = 50_000  # code points; one call over a large text would hold every token's text at once
SPECIAL_TOKENS = 4
PREFIX_CHARACTERS = 160
LONGEST_TOKEN = 32  # code points, above nearly any real token: longer ones are counted as several
LONGEST_GAP = 256  # code points without any token count as one
LEAST_TOKENS = 16
# Loaders of these formats put no line break inside a paragraph, so each line is a block.
FORMATS_OF_LINES = frozenset({"markdown", "html", "table", "code", "record"})
SOFT_LINE = 40  # in other formats a line at least this long that goes on in the next was broken to fit a page

_BLANK = re.compile(r"\n[^\S\n]*\n\s*")
_LINE = re.compile(r"\n")
# After . ! ? or the like, closing quotes and brackets, then white space; or after a full-width stop.
_SENTENCE = re.compile(
    r"[.!?\u2026\u0964\u061f]+[\"'\u201d\u2019\u00bb)\]]*\s+|[\u3002\uff01\uff1f]+[\u300d\u300f\uff09]*\s*"
)
_ABBREVIATION = re.compile(
    r"(?:\b(?:[A-Za-z]|e\.g|i\.e|etc|vs|cf|al|Mr|Mrs|Ms|Dr|Prof|St|No|Fig|Eq|Sec|approx|Inc|Ltd))\.\s+$"
)
_OPEN_END = re.compile(r"[^.!?:;\u2026\u3002\uff01\uff1f]$")
_SPACE = re.compile(r"\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitSettings:
    """`target_tokens` per passage at most, title and headings not counted; the encoder's limit may lower it.

    Where a paragraph had to be cut, its last `overlap_sentences` before the cut are repeated after it, room permitting.
    """

    target_tokens: int = 200
    overlap_sentences: int = 0

    def describe(self) -> str:
        """What an index has to remember of the splitter (`Signature.splitter`)."""
        return f"blocks-{VERSION}/{self.target_tokens}/{self.overlap_sentences}"


def split(document: Document, encoder: Encoder, settings: SplitSettings | None = None) -> list[Passage]:
    """The passages of a document, in order. Linear in its length; an empty or blank document has none.

    Token counts come from `encoder.token_offsets`; with title, headings and prefix a passage stays below
    `encoder.max_tokens`, as far as the prefix leaves room.
    """
    settings = settings or SplitSettings()
    tokens = _Tokens.of(document.text, encoder)
    lines = document.metadata.get("format", "") in FORMATS_OF_LINES
    prefix_tokens: dict[tuple[str, ...], int] = {}
    passages = []
    for section, end in _sections(document):
        if section.heading not in prefix_tokens:
            prefix = encoder.signature().passage_prefix + _prefix(document.title, section.heading)
            prefix_tokens[section.heading] = len(encoder.token_offsets(prefix))
        room = encoder.max_tokens - SPECIAL_TOKENS - prefix_tokens[section.heading]
        limit = max(min(settings.target_tokens, room), min(LEAST_TOKENS, encoder.max_tokens))
        packer = _Packer(document.text, tokens, limit, lines)
        for start, stop in packer.spans(section.offset, end, settings.overlap_sentences):
            passages.append(_passage(document, section, start, stop))
    return passages


def embedding_text(passage: Passage) -> str:
    """What is encoded and indexed: title > headings, a line break, the text. The text alone is what is cited."""
    prefix = _prefix(passage.title, passage.heading)
    return f"{prefix}\n{passage.text}" if prefix else passage.text


def _prefix(title: str, heading: Sequence[str]) -> str:
    parts: list[str] = []
    for part in (title, *heading):
        name = " ".join(part.split())
        if name and (not parts or parts[-1] != name):
            parts.append(name)
    joined = " > ".join(parts)
    # The innermost heading says most, so a long path loses its beginning.
    return joined if len(joined) <= PREFIX_CHARACTERS else "\u2026" + joined[1 - PREFIX_CHARACTERS :]


def _passage(document: Document, section: Section, start: int, end: int) -> Passage:
    text = document.text[start:end]
    raw = text.encode("utf-8", "surrogatepass")
    name = hashlib.sha256(f"{document.id}\0{start}\0".encode("utf-8", "surrogatepass") + raw)
    return Passage(
        id=name.hexdigest()[:32],
        document_id=document.id,
        title=document.title,
        text=text,
        start=start,
        end=end,
        sha256=hashlib.sha256(raw).hexdigest(),
        url=document.url,
        source=document.source,
        heading=section.heading,
        page=section.page,
        metadata=document.metadata,
    )


def _sections(document: Document) -> Iterator[tuple[Section, int]]:
    """(section, its end): the whole text without gaps. A section of nothing but its heading joins the one inside it."""
    size = len(document.text)
    sections = sorted((s for s in document.sections if s.offset < size), key=lambda section: section.offset)
    if not sections or sections[0].offset > 0:
        sections.insert(0, Section(offset=0))
    start: int | None = None
    for position, section in enumerate(sections):
        following = sections[position + 1] if position + 1 < len(sections) else None
        end = following.offset if following else size
        begin = max(0, section.offset) if start is None else start
        start = None
        if following is not None and _is_only_heading(document.text[begin:end], section, following):
            start = begin
            continue
        yield Section(offset=begin, heading=section.heading, page=section.page), end


def _is_only_heading(text: str, section: Section, following: Section) -> bool:
    inside = following.heading[: len(section.heading)] == section.heading and section.page == following.page
    if not section.heading or not inside or len(text) > 2000:
        return False
    words = " ".join(text.split())
    return any(words == " ".join(" ".join(section.heading[depth:]).split()) for depth in range(len(section.heading)))


class _Tokens:
    """How many tokens lie before a code point: where the encoder's tokens begin, sorted."""

    def __init__(self, starts: list[int]) -> None:
        self._starts = starts

    @classmethod
    def of(cls, text: str, encoder: Encoder) -> _Tokens:
        starts: list[int] = []
        for first, last in _parts(text):
            for start, end in encoder.token_offsets(text[first:last]):
                starts.append(first + start)
                # A token over a monstrous run of letters (the model sees "unknown") counts by its length instead.
                if end - start > LONGEST_TOKEN:
                    starts.extend(range(first + start + LONGEST_TOKEN, first + end, LONGEST_TOKEN))
        return cls(starts)

    def count(self, start: int, end: int) -> int:
        """Tokens that begin in [start, end)."""
        return max(self.first(end) - self.first(start), -(-(end - start) // LONGEST_GAP))

    def first(self, offset: int) -> int:
        return bisect_left(self._starts, offset)

    def cut(self, start: int, limit: int, end: int) -> int:
        """The furthest border of a token with at most `limit` tokens from `start` on; always beyond `start`."""
        index = self.first(start) + limit
        offset = self._starts[index] if index < len(self._starts) else end
        return max(start + 1, min(offset, end, start + LONGEST_GAP * limit))


def _parts(text: str) -> Iterator[tuple[int, int]]:
    """Parts of the text that end at white space, where tokens end too."""
    first = 0
    while first < len(text):
        last = min(len(text), first + TOKENIZED_AT_ONCE)
        if last < len(text):
            border = max(text.rfind("\n", first, last), text.rfind(" ", first, last)) + 1
            last = border if border > first else last
        yield first, last
        first = last


@dataclass(frozen=True, slots=True)
class _Piece:
    """An unbroken stretch of text; `cut` says that it is a part of a block that had to be cut."""

    start: int
    end: int
    tokens: int
    cut: bool


class _Packer:
    """Packs the blocks of a section into spans of at most `limit` tokens."""

    def __init__(self, text: str, tokens: _Tokens, limit: int, lines: bool) -> None:
        self._text = text
        self._tokens = tokens
        self._limit = limit
        self._lines = lines

    def spans(self, start: int, end: int, overlap: int) -> Iterator[tuple[int, int]]:
        pieces = [piece for block in self._blocks(start, end) for piece in self._pieces(*block)]
        left = sum(piece.tokens for piece in pieces)
        group: list[_Piece] = []
        size = 0
        aim = self._aim(left)
        before: list[_Piece] = []
        for piece in pieces:
            over = size + piece.tokens - aim
            if group and (size + piece.tokens > self._limit or over > aim - size):
                yield self._span(before, group, overlap)
                left -= size
                aim = self._aim(left)
                before, group, size = group, [], 0
            group.append(piece)
            size += piece.tokens
        if group:
            yield self._span(before, group, overlap)

    def _aim(self, left: int) -> float:
        return left / max(1, -(-left // self._limit))

    def _span(self, before: Sequence[_Piece], group: Sequence[_Piece], overlap: int) -> tuple[int, int]:
        start, end = group[0].start, group[-1].end
        if overlap and before and group[0].cut and before[-1].cut:
            room = self._limit - sum(piece.tokens for piece in group)
            for piece in reversed(before[-overlap:]):
                room -= piece.tokens
                if room < 0 or not piece.cut:
                    break
                start = piece.start
        return start, end

    # --- borders ---

    def _blocks(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """The blocks of a section, without the white space around them."""
        first = start
        for paragraph_end, next_paragraph in self._breaks(_BLANK, start, end):
            for line_end, next_line in self._breaks(_LINE, first, paragraph_end):
                if self._lines or not self._goes_on(first, line_end, next_line):
                    yield from self._trimmed(first, line_end)
                    first = next_line
            yield from self._trimmed(first, paragraph_end)
            first = next_paragraph

    def _breaks(self, pattern: re.Pattern[str], start: int, end: int) -> Iterator[tuple[int, int]]:
        """(end of a stretch, start of the next), the last one at `end`."""
        for match in pattern.finditer(self._text, start, end):
            yield match.start(), match.end()
        yield end, end

    def _goes_on(self, start: int, line_end: int, next_line: int) -> bool:
        """Whether a line was broken only to fit a page: long, without a stop, and the next one starts small."""
        begin = max(start, self._text.rfind("\n", start, line_end) + 1)
        line = self._text[max(begin, line_end - 200) : line_end].rstrip()
        following = self._text[next_line : next_line + 1]
        return len(line) >= SOFT_LINE and following.islower() and _OPEN_END.search(line) is not None

    def _trimmed(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        start = _SPACE.match(self._text, start, end).end()  # type: ignore[union-attr]
        while end > start and self._text[end - 1].isspace():
            end -= 1
        if end > start:
            yield start, end

    def _pieces(self, start: int, end: int) -> Iterator[_Piece]:
        """A block as it is when it fits, else its sentences, else runs of words."""
        count = self._tokens.count(start, end)
        if count <= self._limit:
            yield _Piece(start, end, count, cut=False)
            return
        for first, last in self._sentences(start, end):
            yield from self._words(first, last)

    def _sentences(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        first = start
        for match in _SENTENCE.finditer(self._text, start, end):
            if match.end() >= end or _ABBREVIATION.search(self._text, max(first, match.end() - 16), match.end()):
                continue
            yield from self._trimmed(first, match.end())
            first = match.end()
        yield from self._trimmed(first, end)

    def _words(self, start: int, end: int) -> Iterator[_Piece]:
        count = self._tokens.count(start, end)
        if count <= self._limit:
            yield _Piece(start, end, count, cut=True)
            return
        # Even parts, a little under the limit, since a border may have to move back to the last space.
        step = max(1, -(-count // -(-count // self._limit)))
        while start < end:
            stop = self._tokens.cut(start, step, end)
            if stop < end:
                stop = self._last_space(start, stop)
            for first, last in self._trimmed(start, stop):
                yield _Piece(first, last, min(self._tokens.count(first, last), self._limit), cut=True)
            start = stop

    def _last_space(self, start: int, stop: int) -> int:
        """The border after the last space in the second half of [start, stop), else `stop` itself."""
        if self._text[stop - 1].isspace() or self._text[stop].isspace():
            return stop
        for position in range(stop - 1, (start + stop) // 2, -1):
            if self._text[position].isspace():
                return position + 1
        return stop
