"""A text as sentences of comparable items: content words, quantities, names, operators, negations. Pure.

Items carry code point offsets of the text they come from. It does not compare texts; `checks.facts.features` does.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from checks.facts.lexicon import OPERATORS, Lexicon
from checks.facts.normalise import Code, Word, joined, tokens
from checks.facts.quantity import Quantity
from checks.facts.wordlists import LIGHT, NEGATORS, STOP


class Kind(IntEnum):
    """What an item is for the comparison."""

    WORD = 0
    LIGHT = 1
    NAME = 2
    NUMBER = 3
    OPERATOR = 4
    NEGATION = 5


class Item(NamedTuple):
    """One comparable item at `text[start:end]`.

    `key` is a stem, or "group:value" for operators. `quantity` is set for numbers only.
    """

    kind: Kind
    key: str
    start: int
    end: int
    quantity: Quantity | None = None
    group: str = ""


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence, list item, heading or table row: `text[start:end]` and its items.

    `keys` are the stems of words and names and the operators (stop words left out); `heading` marks titles of
    sections and questions, which state nothing themselves; `row` marks rows of tables and records;
    `clauses` are the offsets where clauses after the first begin.
    """

    start: int
    end: int
    items: tuple[Item, ...]
    keys: frozenset[str]
    heading: bool = False
    row: bool = False
    clauses: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Analysed:
    """A text with its sentences; `keys` and `numbers` are those of the whole text and of its title."""

    text: str
    sentences: tuple[Sentence, ...]
    keys: frozenset[str]
    numbers: tuple[Quantity, ...]
    russian: bool
    title_keys: frozenset[str] = field(default=frozenset())
    title_numbers: tuple[Quantity, ...] = ()


_END = re.compile(
    r"(?:[.!?…]+[\"'»”’)\]]*|[。！？])(?=\s|$)\s*|\s*\n\s*\n\s*|\s*\n(?=\s*(?:[-*•|#>]|\d{1,3}[.)]\s))|(?<=\|)\s*\n"
)
_KEY_VALUE_LINE = re.compile(r"^[^\n.!?]{1,60}?:[ \t][^\n]{1,160}$", re.MULTILINE)
_ABBREVIATION = re.compile(
    r"(?:\b(?:e\.g|i\.e|etc|mr|mrs|ms|dr|st|vs|approx|fig|inc|ltd|co|jr|sr|prof|dept|est|jan|feb|mar|apr|"
    r"aug|sept?|oct|nov|dec|u\.s|т\.е|т\.д|т\.п|т\.к|др|пр|рис|табл|стр|гл|ул|им|см|напр|проф)"
    r"|(?<![\w])(?<!\d )[^\W\d_]|^\s*\d{1,3})\.$",
    re.IGNORECASE,
)
# Tried only where a word of `_PHRASE_STARTS` stands: a search through the whole text costs more than all else.
_PHRASES = re.compile(
    r"(?P<min>at least\b|no(?:t)? (?:less|fewer) than\b|minimum of\b|or more\b|не менее\b|не меньше\b|как минимум\b)"
    r"|(?P<max>at most\b|no(?:t)? more than\b|up to\b|maximum of\b|or (?:less|fewer)\b|не более\b|не больше\b)"
    r"|(?P<gt>(?:more|greater|longer|higher) than\b|(?:over|above)(?= [\d€$£])|exceeding\b|свыше\b|более\b)"
    r"|(?P<lt>(?:less|fewer|shorter|lower) than\b|(?:under|below)(?= [\d€$£])|менее\b)"
    r"|(?P<no>no longer\b|fail(?:s|ed)? to\b|rather than\b|instead of\b)"
    r"|(?P<must>ha(?:s|ve) to\b|needs? to\b)|(?P<skip>not only\b|as well as\b|не только\b)",
    re.IGNORECASE,
)
_PHRASE_STARTS = frozenset(
    (
        "at", "no", "not", "minimum", "or", "up", "maximum", "more", "greater", "longer", "higher", "over", "above",
        "exceeding", "less", "fewer", "shorter", "lower", "under", "below", "fail", "fails", "failed", "rather",
        "instead", "has", "have", "need", "needs", "as", "не", "как", "свыше", "более", "менее",
    )
)  # fmt: skip
_CYRILLIC = re.compile(r"[а-яё]", re.IGNORECASE)
_CLAUSE = re.compile(r";\s+|,\s+(?:and|but|while|whereas|а|но)\s+")
_ROW = re.compile(r"[^\n.!?:;|]{1,40}[:=|] ?[^\n;|]{1,200}[;|]")
_LETTER = re.compile(r"[^\W_]")
_CELL_STARTS = frozenset(("| ", ": ", "* ", "**", "; "))
_NOT_UN = ("under", "unit", "uni", "until", "unless", "uncle", "union", "unders")
_HEADING = re.compile(r"\s*(?:#{1,6}\s|\*\*[^*\n]+\*\*\s*$)")


def _spans(text: str) -> list[tuple[int, int]]:
    """Sentence spans, outer white space cut off, in order."""
    spans = []
    start = 0
    cuts = [(m.start(), m.end()) for m in _END.finditer(text)]
    cuts.extend((m.end(), m.end()) for m in _KEY_VALUE_LINE.finditer(text))
    for at, end in sorted(cuts):
        if at < start:
            continue
        mark = text[at : at + 1]
        if mark == "." and (_ABBREVIATION.search(text, max(start, at - 12), at + 1) or text[end : end + 1].islower()):
            continue
        spans.append((start, end))
        start = end
    spans.append((start, len(text)))
    trimmed = []
    for begin, end in spans:
        piece = text[begin:end]
        if stripped := piece.strip():
            offset = begin + len(piece) - len(piece.lstrip())
            trimmed.append((offset, offset + len(stripped)))
    return trimmed


def analyse(text: str, lexicon: Lexicon, *, title: str = "") -> Analysed:
    """Sentences and items of a text. Runs in linear time; nothing is cut, however long the text."""
    spans = _spans(text)
    starts = [start for start, _ in spans]
    per_sentence: list[list[Item]] = [[] for _ in spans]
    for item in _items(text, starts, lexicon):
        at = bisect_right(starts, item.start) - 1
        if at >= 0:
            per_sentence[at].append(item)
    sentences = []
    for (start, end), items in zip(spans, per_sentence, strict=True):
        keys = frozenset(item.key for item in items if item.kind <= Kind.NAME or item.kind is Kind.OPERATOR)
        heading = text[end - 1] == "?" or bool(_HEADING.match(text, start, end)) or _stands_alone(text, start, end)
        row = text[start] == "|" or bool(_ROW.match(text, start, end))
        sentences.append(Sentence(start, end, tuple(items), keys, heading, row, _clauses(text, start, end)))
    letters = len(_CYRILLIC.findall(text, 0, 400))
    title_items = list(_items(title, [0], lexicon)) if title else []
    return Analysed(
        text=text,
        sentences=tuple(sentences),
        keys=frozenset().union(*(s.keys for s in sentences)) if sentences else frozenset(),
        numbers=tuple(i.quantity for s in sentences for i in s.items if i.quantity is not None),
        russian=letters * 3 > min(len(text), 400),
        title_keys=frozenset(item.key for item in title_items if item.kind <= Kind.NAME),
        title_numbers=tuple(i.quantity for i in title_items if i.quantity is not None),
    )


def _clauses(text: str, start: int, end: int) -> tuple[int, ...]:
    return tuple(match.end() for match in _CLAUSE.finditer(text, start, end))


def _stands_alone(text: str, start: int, end: int) -> bool:
    """A short line without a stop, above a blank line: a heading whose mark a loader took away."""
    if end - start > 80 or text[end - 1] in ".!:;|…" or not text.startswith("\n\n", end):
        return False
    return text[start].isalnum() and (start == 0 or text[start - 1] == "\n") and "\n" not in text[start:end]


def _items(text: str, starts: list[int], lexicon: Lexicon) -> list[Item]:
    sentence_starts = {_first_letter(text, start) for start in starts}
    found: list[Item] = []
    skip_to = 0
    all_tokens = joined(tokens(text), text)
    for number, token in enumerate(all_tokens):
        if token.start < skip_to:
            continue
        if isinstance(token, Word):
            if token.lower in _PHRASE_STARTS and (phrase := _PHRASES.match(text, token.start)):
                skip_to = phrase.end()
                item = _phrase_item(phrase)
                if item is not None:
                    found.append(item)
                continue
            following = all_tokens[number + 1] if number + 1 < len(all_tokens) else None
            first = token.start in sentence_starts or text[token.start - 2 : token.start] in _CELL_STARTS
            item = _word_item(token, following, text, first, lexicon)
            if item is not None:
                if item.kind is Kind.NEGATION and found and found[-1].key == "mode:must":
                    # "must not" forbids, as "may not" does
                    found[-1] = found[-1]._replace(key="mode:may")
                found.extend(_undone(item, token.lower, lexicon))
        elif isinstance(token, Quantity):
            found.append(Item(Kind.NUMBER, "#", token.start, token.end, token))
        else:
            found.append(
                Item(Kind.NAME, text[token.start : token.end].lower().replace("-", ""), token.start, token.end)
            )
    return found


def _first_letter(text: str, start: int) -> int:
    match = _LETTER.search(text, start)
    return match.start() if match else start


def _phrase_item(phrase: re.Match[str]) -> Item | None:
    name = phrase.lastgroup or ""
    if name == "skip":
        return None
    if name == "no":
        return Item(Kind.NEGATION, "not", phrase.start(), phrase.end())
    group = "mode" if name == "must" else "bound"
    return Item(Kind.OPERATOR, f"{group}:{name}", phrase.start(), phrase.end(), group=group)


def _word_item(
    token: Word, following: Code | Quantity | Word | None, text: str, first: bool, lexicon: Lexicon
) -> Item | None:
    word = token.lower
    if "'" in word or "’" in word:
        if word.endswith(("n't", "n’t")):
            return Item(Kind.NEGATION, "not", token.start, token.end)
        word = re.split("['’]", word)[0]
    if word in NEGATORS:
        return Item(Kind.NEGATION, "not", token.start, token.end)
    capital = text[token.start].isupper()
    month = word == "may" and capital and not first
    if (operator := OPERATORS.get(word)) and not month:
        return Item(Kind.OPERATOR, ":".join(operator), token.start, token.end, group=operator[0])
    if word in STOP and not (capital and len(word) > 1 and text[token.start : token.end].isupper()):
        return None
    if len(word) == 1 and not capital:
        return None
    key = lexicon.words.stem(word)
    kind = Kind.LIGHT if word in LIGHT else Kind.WORD
    if capital and (not first or _name_at_start(token, following, text, key, lexicon)):
        kind = Kind.NAME
    return Item(kind, key, token.start, token.end)


def _undone(item: Item, word: str, lexicon: Lexicon) -> tuple[Item, ...]:
    """ "unused" as "not" and "used", so that it meets "has not been used"; other words as they are."""
    if item.kind is Kind.WORD and len(word) > 5 and word.startswith(("un", "non")) and not word.startswith(_NOT_UN):
        base = lexicon.words.stem(word[2:] if word.startswith("un") else word[3:])
        if lexicon.known(base) and len(base) > 2:
            negation = Item(Kind.NEGATION, "not", item.start, item.start)
            kind = Kind.LIGHT if base in LIGHT else Kind.WORD
            return negation, Item(kind, base, item.start, item.end)
    return (item,)


def _name_at_start(
    token: Word, following: Code | Quantity | Word | None, text: str, key: str, lexicon: Lexicon
) -> bool:
    """A capital at a sentence's start is a name when the word is no ordinary one or another capital follows."""
    if len(token.lower) > 1 and text[token.start : token.end].isupper():
        return True
    if isinstance(following, Code) and following.start - token.end < 2:
        return True
    if isinstance(following, Word) and text[following.start].isupper() and following.start - token.end < 2:
        return following.lower not in STOP
    return token.lower[0] < "а" and not lexicon.known(key) and key not in OPERATORS
