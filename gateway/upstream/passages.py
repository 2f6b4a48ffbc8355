"""The sentences of retrieved passages that answer a question best, by words. Pure; no language model.

A sentence scores by the share of the question's words that it has, each word weighted by its rarity among all
sentences of the passages (Spärck Jones, 1972), words of its title and headings counted in part. Words are compared by
stem (Snowball, English and Russian). It knows nothing of meaning: a paraphrase without a common word is not found.

Saying nothing is better than a true sentence that answers something else: every word of the question must occur in the
passages, nearly all of them in the sentence itself or above it, and the sentence must have the kind of thing asked for.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from gateway.upstream.asked import fits, kinds_of
from retrieval.types import Hit, Passage

Stem = Callable[[Sequence[str]], Sequence[str]]
"""Lower-case words to stems, one for one."""

NO_ANSWER = "I could not find an answer to this in the documents."
NO_ANSWER_RU = "Я не нашёл ответа на этот вопрос в документах."

_WORD = re.compile(r"\w+(?:['’]\w+)?")
_CYRILLIC = re.compile(r"[а-яё]", re.IGNORECASE)
_LATIN = re.compile(r"[a-z]", re.IGNORECASE)
# Paragraphs, list items, and rows of a table as the loaders write them: `plan: Day pass; price: 7.50`.
_BLOCK = re.compile(r"\n[ \t]*\n|\n(?=[ \t]*(?:[-*+•]|\d{1,3}[.)]|#{1,6}|\|)[ \t])|\n(?=[^\n:;]{1,60}: [^\n;]*; )")
_MARKER = re.compile(r"^[ \t]*(?:[-*+•>]|\d{1,3}[.)])[ \t]+")
_HEADING = re.compile(r"^[ \t]*#{1,6}[ \t]|^[^\n]+\n[=-]{3,}[ \t]*$")
_FENCE = re.compile(r"^(```|~~~).*?^\1[ \t]*$", re.MULTILINE | re.DOTALL)
_BOUNDARY = re.compile(r"[.!?…]+[\"'»”’)\]]*\s+(?=[\"'«“‘(\[]?[\dA-ZА-ЯЁ])|[。！？]+")
_ABBREVIATION = re.compile(
    r"(?:^|[\s(])(?:[A-ZА-ЯЁ]|mr|mrs|ms|dr|prof|st|vs|etc|e\.g|i\.e|no|nos|fig|sec|art|approx|inc|ltd|"
    r"т\.е|т\.д|т\.п|г|гг|ул|стр|рис|им|др|руб|тыс|млн)\.$",
    re.IGNORECASE,
)
_REFERS_BACK = re.compile(
    r"(?:it|its|they|their|he|his|she|her|this|these|that|those|он|она|оно|они|его|её|ее|их|это|эта|этот|эти)\b", re.I
)
# Words that say how something is asked, not what about.
_STOP = frozenset(
    """a about am an and any are as at be been being by can could did do does for from had has have how i if in into is
    it its it's many may me might much must my need of on or our ours please shall should so tell than that the their
    them then there these they this those to us want was we were what when where which who whom whose why will with
    would you your yours long often explain describe give know one get got find use need happen work there available
    а бы был была были было быть в во вы где да для до его ее её если есть же за и из или им их к как какая какие какой
    каков какова каково кем ко когда кого кто ли мне мой моя мы на над нам не него нет но о об он она они оно от
    пожалуйста по под при про с сколько скажите со так там то тоже ты у уже чего чем что чтобы эта эти это этот я
    расскажи расскажите можно нужно""".split()  # noqa: SIM905
)

# Frequent verbs whose past no stemmer leads back.
_IRREGULAR = {
    past: verb
    for verb, pasts in {
        "begin": "began begun",
        "break": "broke broken",
        "bring": "brought",
        "build": "built",
        "buy": "bought",
        "choose": "chose chosen",
        "find": "found",
        "give": "gave given",
        "go": "went gone",
        "hold": "held",
        "keep": "kept",
        "leave": "left",
        "lose": "lost",
        "make": "made",
        "meet": "met",
        "pay": "paid",
        "sell": "sold",
        "send": "sent",
        "spend": "spent",
        "steal": "stole stolen",
        "take": "took taken",
        "wear": "wore worn",
        "write": "wrote written",
    }.items()
    for past in pasts.split()
}

_CONTEXT_WEIGHT = 0.5
_RANK_WEIGHT = 0.08
_ENOUGH = 0.6
_NEAR_BEST = 0.8
_MIN_OWN = 0.2
_LACK_ONE_OF = 4


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of the passage of source number `source` (from 1), its code point span in the passage's text."""

    source: int
    start: int
    end: int
    text: str


def best_sentences(query: str, hits: Sequence[Hit], stem: Stem, *, limit: int = 3) -> list[Sentence]:
    """Up to `limit` sentences that answer `query`, in the order of the sources; empty if nothing overlaps enough.

    Each is verbatim, its line breaks and runs of white space made single spaces.
    """
    kinds = kinds_of(query)
    asking = frozenset(word for kind in kinds for word in kind.words)
    wanted = _stems(query, stem, asking)
    if not wanted:
        return []
    candidates = [sentence for number, hit in enumerate(hits, 1) for sentence in sentences(hit.passage, number)]
    words = [_stems(sentence.text, stem) for sentence in candidates]
    context = [_stems(" ".join((hit.passage.title, *hit.passage.heading)), stem) for hit in hits]
    if not wanted <= frozenset().union(*words, *context):
        return []
    weights = _rarity(wanted, words)
    total = sum(weights.values())
    may_lack = len(wanted) // _LACK_ONE_OF
    scored = []
    for position, (sentence, own) in enumerate(zip(candidates, words, strict=True)):
        covered = sum(weights[word] for word in wanted & own) / total
        above = context[sentence.source - 1]
        if position and _REFERS_BACK.match(sentence.text) and candidates[position - 1].source == sentence.source:
            above = above | words[position - 1]
        around = sum(weights[word] for word in (wanted - own) & above) / total
        coverage = covered + _CONTEXT_WEIGHT * around
        if covered < _MIN_OWN or coverage < _ENOUGH or len(wanted - own - above) > may_lack:
            continue
        if fits(sentence.text, query, kinds, stem):
            scored.append((coverage + _RANK_WEIGHT / sentence.source, -position, sentence, own))
    return _chosen(sorted(scored, key=lambda entry: entry[:2], reverse=True), limit)


def _chosen(ranked: list[tuple[float, int, Sentence, frozenset[str]]], limit: int) -> list[Sentence]:
    """The best and those near it that say something else."""
    chosen: list[Sentence] = []
    said: list[frozenset[str]] = []
    for score, _, sentence, own in ranked:
        if len(chosen) == limit or score < _NEAR_BEST * ranked[0][0]:
            break
        if any(len(own & other) > 0.8 * min(len(own), len(other)) for other in said):
            continue
        chosen.append(sentence)
        said.append(own)
    return sorted(chosen, key=lambda sentence: (sentence.source, sentence.start))


def answer(query: str, hits: Sequence[Hit], stem: Stem, *, limit: int = 3) -> list[str]:
    """The answer in pieces, one a sentence, each with its source's mark `[n]` before the final stop.

    One piece that says so when the documents do not answer.
    """
    found = best_sentences(query, hits, stem, limit=limit)
    if not found:
        russian = len(_CYRILLIC.findall(query)) > len(_LATIN.findall(query))
        return [NO_ANSWER_RU if russian else NO_ANSWER]
    marked = [_marked(sentence) for sentence in found]
    return [piece if place == 0 else f" {piece}" for place, piece in enumerate(marked)]


def _marked(sentence: Sentence) -> str:
    bare = sentence.text.rstrip(".!?…。！？;")
    return f"{bare} [{sentence.source}]{sentence.text[len(bare) :] or '.'}"


def sentences(passage: Passage, source: int) -> list[Sentence]:
    """Sentences of a passage that can stand in an answer: no headings, no code, no questions, no scraps."""
    text = passage.text
    titles = {passage.title, *passage.heading}
    found: list[Sentence] = []
    for start, end in _blocks(text):
        block = text[start:end]
        if _HEADING.match(block) or block.lstrip().startswith("|") or block.strip() in titles:
            continue
        marker = _MARKER.match(block)
        offset = marker.end() if marker else 0
        for first, last in _spans(block, offset):
            piece = block[first:last]
            shown = " ".join(piece.split())
            if len(shown) >= 12 and not shown.endswith("?") and len(_WORD.findall(shown)) >= 3:
                lead = len(piece) - len(piece.lstrip())
                tail = len(piece) - len(piece.rstrip())
                found.append(Sentence(source, start + first + lead, start + last - tail, shown))
    return found


def _blocks(text: str) -> Iterable[tuple[int, int]]:
    """Spans of paragraphs and list items, fenced code left out."""
    at = 0
    stretches = []
    for fence in _FENCE.finditer(text):
        stretches.append((at, fence.start()))
        at = fence.end()
    stretches.append((at, len(text)))
    for start, end in stretches:
        cuts = [start, *(match.start() for match in _BLOCK.finditer(text, start, end)), end]
        for first, last in pairwise(cuts):
            lead = len(text[first:last]) - len(text[first:last].lstrip())
            if first + lead < last:
                yield first + lead, last


def _spans(block: str, offset: int) -> Iterable[tuple[int, int]]:
    """Sentence spans of a block from `offset` on."""
    start = offset
    for match in _BOUNDARY.finditer(block, offset):
        stop = match.end()
        if _ABBREVIATION.search(block[start:stop].rstrip()):
            continue
        yield start, stop
        start = stop
    if start < len(block):
        yield start, len(block)


def _stems(text: str, stem: Stem, without: frozenset[str] = frozenset()) -> frozenset[str]:
    found = _WORD.findall(text.casefold())
    words = [_IRREGULAR.get(word, word) for word in found if word not in _STOP and word not in without]
    return frozenset(stem(words))


def _rarity(wanted: frozenset[str], words: Sequence[frozenset[str]]) -> dict[str, float]:
    count = len(words)
    return {word: math.log(1.0 + (count + 1) / (1 + sum(word in own for own in words))) for word in wanted}
