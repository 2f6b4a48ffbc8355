"""What a passage says about a fact, as numbers: coverage, agreement and contrast. Pure.

The passage's sentence (or two neighbours) that covers the fact best is the window; the fact is laid along it in order,
and the places where they part tell an edit ("12" for "20", "open" for "closed") from a paraphrase. A feature vector
belongs to one (query, fact, passage) pair and never depends on other passages. It does not know the model.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from checks.facts.analysis import Analysed, Item, Kind, Sentence, analyse
from checks.facts.contrast import NEUTRAL, align, contrasts, same_beginning
from checks.facts.lexicon import Lexicon
from checks.facts.quantity import Quantity, agrees

FEATURES: tuple[str, ...] = (
    # how much of the fact is there
    "cover", "cover_exact", "cover_two", "cover_passage", "cover_query", "cover_query_window", "cover_anchor",
    "cover_said", "uncovered", "uncovered_share", "unknown", "light_uncovered", "items", "strong",
    # numbers
    "numbers", "numbers_agreed", "numbers_missing", "numbers_nowhere", "numbers_apart", "numbers_clash",
    "numbers_clash_place", "units_clash",
    # names
    "names", "names_missing", "names_nowhere", "names_replaced", "subject_missing",
    # words that turn a statement round
    "negation_differs", "negation_fact_only", "negation_window_only", "negation_open", "opposites",
    "opposites_place", "exclusive", "siblings", "operators_clash", "operators_clash_place",
    "operators_fact_only", "misbound",
    # order and gaps
    "replaced", "inserted", "left_out", "in_order", "swapped", "longest_run", "window_covered",
    # circumstances
    "yes_no", "asked", "russian", "sentences", "window_items", "hedged", "clean",
)  # fmt: skip
Vector = npt.NDArray[np.float32]

# A neighbour is quoted too when it adds this much coverage.
_QUOTE_GAIN = 0.15
_SOFT_RELATED = 0.85
_SOFT_PREFIX = 0.8
# A name that only the title or a heading has: what the passage is about need not be said in every sentence.
_BY_TITLE = 0.9
_HEADING_PENALTY = 0.25
_WEIGHTS = {Kind.WORD: 1.0, Kind.LIGHT: 0.35, Kind.NAME: 1.3, Kind.NUMBER: 1.3, Kind.OPERATOR: 0.3}
_TEMPLATE = re.compile(
    r"^\s*(?:Question|Вопрос):\s*(?P<question>.*?)\s*(?:Answer|Ответ):\s*(?P<answer>.*?)\s*$", re.DOTALL
)
_DEPENDENT = re.compile(
    r"\W*(?:(?:yes|no|да|нет)\b|(?:it|its|they|their|he|his|she|her|this|that|these|those|both|there|"
    r"он|она|оно|они|его|ее|её|их|это|эта|этот|эти)\b|\S+(?:\s+\S+){0,2}\W*$)",
    re.IGNORECASE,
)
_YES_NO = re.compile(r"^\W*(?P<yes>yes|да)\b\W*$|^\W*(?:no|нет)\b\W*$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact made ready for many passages: its own items, and the items of the question and context beside it."""

    items: tuple[Item, ...]
    content: tuple[Item, ...]
    weights: tuple[float, ...]
    asked: frozenset[str]
    flipped: bool
    yes_no: bool
    templated: bool
    russian: bool


def prepare(fact: str, lexicon: Lexicon, *, query: str = "", context: str = "") -> Fact:
    """Analyse a fact once. "Question: … Answer: …" is taken apart; a bare yes or no is laid on the question."""
    match = _TEMPLATE.match(fact)
    core, asked = (match["answer"], match["question"]) if match else (fact, query)
    yes_no = _YES_NO.match(core)
    if yes_no:
        core, asked = (asked or core), ""
    elif not match and not _DEPENDENT.match(core):
        asked = ""  # a fact with its own subject stands or falls by itself
    analysed = analyse(core, lexicon)
    items = tuple(item for sentence in analysed.sentences for item in sentence.items)
    content = tuple(item for item in items if item.kind is not Kind.NEGATION)
    beside = analyse(f"{asked}\n{context}", lexicon) if asked or context else None
    own = {item.key for item in content}
    asked_items = (item for sentence in (beside.sentences if beside else ()) for item in sentence.items)
    asked_keys = frozenset(i.key for i in asked_items if i.kind in (Kind.WORD, Kind.NAME) and i.key not in own)
    return Fact(
        items=items,
        content=content,
        weights=tuple(_weight(item) for item in content),
        asked=asked_keys,
        flipped=bool(yes_no and not yes_no["yes"]),
        yes_no=bool(yes_no),
        templated=bool(match),
        russian=analysed.russian,
    )


def _weight(item: Item) -> float:
    if item.quantity is not None and item.quantity.weak:
        return 0.3
    if item.key in NEUTRAL:
        return 0.0
    return _WEIGHTS[item.kind]


@dataclass(slots=True)
class _Window:
    """One or two neighbouring sentences with the fact's coverage by them."""

    sentences: tuple[Sentence, ...]
    scores: list[float]
    cover: float

    @property
    def span(self) -> tuple[int, int]:
        return self.sentences[0].start, self.sentences[-1].end


def soft_match(key: str, keys: frozenset[str], lexicon: Lexicon) -> float:
    """How well a stem is borne out by a set of stems: 1 itself, less for a related word or a common beginning."""
    if key in keys:
        return 1.0
    if not lexicon.related(key).isdisjoint(keys):
        return _SOFT_RELATED
    if len(key) >= 5:
        head = key[:5]
        for other in keys:
            if other.startswith(head) and same_beginning(key, other):
                return _SOFT_PREFIX
    return 0.0


def _item_score(item: Item, sentence: Sentence, lexicon: Lexicon, title: frozenset[str] = frozenset()) -> float:
    if item.quantity is not None:
        return float(any(i.quantity is not None and agrees(item.quantity, i.quantity) for i in sentence.items))
    score = soft_match(item.key, sentence.keys, lexicon)
    if score < _BY_TITLE and item.kind is Kind.NAME and item.key in title:
        return _BY_TITLE
    return score


def _share(scores: list[float], weights: tuple[float, ...]) -> float:
    total = sum(weights)
    return sum(s * w for s, w in zip(scores, weights, strict=True)) / total if total else 0.0


def _windows(fact: Fact, passage: Analysed, lexicon: Lexicon) -> tuple[_Window, _Window]:
    """Best single sentence, and best of it with a neighbour. Sentences are ranked by plain overlap first (cheap)."""
    own = frozenset(item.key for item in fact.content)
    numbers = [item.quantity for item in fact.content if item.quantity is not None]
    ranked = []
    for at, sentence in enumerate(passage.sentences):
        shared = len(own & sentence.keys)
        if numbers:
            found = [i.quantity for i in sentence.items if i.quantity is not None]
            shared += sum(any(agrees(n, f) for f in found) for n in numbers)
        asked = len(fact.asked & sentence.keys)
        ranked.append((2 * sentence.heading - shared - 0.25 * asked, at))
    ranked.sort()
    best: tuple[float, int, list[float]] | None = None
    for _, at in ranked[:4]:
        sentence = passage.sentences[at]
        scores = [_item_score(item, sentence, lexicon, passage.title_keys) for item in fact.content]
        cover = _share(scores, fact.weights) - _HEADING_PENALTY * sentence.heading
        rank = cover + 0.02 * len(fact.asked & sentence.keys) - 0.001 * len(sentence.items)
        if best is None or rank > best[0] + 1e-9:
            best = (rank, at, scores)
    assert best is not None
    _, at, scores = best
    one = _Window((passage.sentences[at],), scores, _share(scores, fact.weights))
    two = one
    for near in (at - 1, at + 1):
        if 0 <= near < len(passage.sentences):
            other = passage.sentences[near]
            if other.row and passage.sentences[at].row:
                continue  # what the next row of a table says is said of something else
            both = [
                max(s, _item_score(item, other, lexicon) if s < 1 else s)
                for s, item in zip(scores, fact.content, strict=True)
            ]
            cover = _share(both, fact.weights)
            if cover > two.cover + 1e-9:
                two = _Window(tuple(passage.sentences[i] for i in sorted((at, near))), both, cover)
    return one, two


def measure(fact: Fact, passage: Analysed, lexicon: Lexicon) -> tuple[Vector, tuple[int, int]]:
    """Feature vector in the order of `FEATURES`, and the span of the window in the passage (code points)."""
    vector = np.zeros(len(FEATURES), dtype=np.float32)
    if not passage.sentences or not fact.content:
        vector[_INDEX["yes_no"]] = fact.yes_no
        vector[_INDEX["sentences"]] = len(passage.sentences)
        return vector, (0, 0)
    one, two = _windows(fact, passage, lexicon)
    # Contrast is read off one sentence: a neighbour adds words that cover by chance and hides the clash.
    titled = {item for item, score in zip(fact.content, one.scores, strict=True) if score == _BY_TITLE}
    items = tuple(item for item in fact.items if item not in titled)
    alignment = align(items, one.sentences[0].items, lexicon, one.sentences[0].clauses)
    values = _coverage(fact, passage, one, two, lexicon)
    values |= _numbers_and_names(fact, passage, one, two)
    values |= contrasts(alignment, fact.flipped, lexicon)
    values |= {
        "yes_no": fact.yes_no,
        "asked": fact.templated,
        "russian": fact.russian,
        "sentences": min(len(passage.sentences), 40),
        "window_items": len(alignment.window),
        "hedged": sum(i.kind is Kind.OPERATOR for i in fact.items),
    }
    values["clean"] = float(_clean(values))
    for name, value in values.items():
        vector[_INDEX[name]] = value
    quoted = two if two.cover > one.cover + _QUOTE_GAIN else one
    return vector, quoted.span


def _clean(values: dict[str, float]) -> bool:
    """Everything said is there and nothing speaks against it."""
    worries = (
        "uncovered", "numbers_missing", "names_missing", "opposites", "operators_clash", "negation_fact_only",
        "negation_window_only", "misbound",
    )  # fmt: skip
    return not any(values[name] for name in worries)


def _coverage(fact: Fact, passage: Analysed, one: _Window, two: _Window, lexicon: Lexicon) -> dict[str, float]:
    around = passage.keys | passage.title_keys
    window_keys = frozenset().union(*(s.keys for s in one.sentences))
    everywhere = [
        _anywhere(item, passage, around, lexicon) if score < 1 else 1.0
        for item, score in zip(fact.content, two.scores, strict=True)
    ]
    words = [(i, s, e) for i, s, e in zip(fact.content, one.scores, everywhere, strict=True) if i.quantity is None]
    anchors = [(s, w) for i, s, w in zip(fact.content, one.scores, fact.weights, strict=True) if i.quantity is None]
    plain = (Kind.WORD, Kind.NAME)
    uncovered = [i for i, s, _ in words if s == 0 and i.kind in plain]
    strong = sum(i.kind in plain for i, _, _ in words)
    said = [s for i, s, _ in words if i.kind in plain and s != _BY_TITLE]
    asked = len(fact.asked)
    # "It weighs 3 kg" may have its subject sentences before; an answer of two words has it beside.
    near = window_keys | passage.title_keys if fact.templated else around
    return {
        "cover": one.cover,
        "cover_exact": _share([float(s == 1) for s in one.scores], fact.weights),
        "cover_two": two.cover,
        "cover_passage": _share(everywhere, fact.weights),
        "cover_query": len(fact.asked & around) / asked if asked else 1.0,
        "cover_query_window": len(fact.asked & near) / asked if asked else 1.0,
        "cover_anchor": _share([s for s, _ in anchors], tuple(w for _, w in anchors)) if anchors else 1.0,
        "cover_said": sum(s > 0 for s in said) / len(said) if said else 1.0,
        "uncovered": min(len(uncovered), 8),
        "uncovered_share": len(uncovered) / strong if strong else 0.0,
        "unknown": min(sum(e == 0 and i.kind in plain for i, _, e in words), 8),
        "light_uncovered": min(sum(s == 0 and i.kind is Kind.LIGHT for i, s, _ in words), 5),
        "items": min(len(fact.content), 40),
        "strong": min(strong, 40),
    }


def _anywhere(item: Item, passage: Analysed, around: frozenset[str], lexicon: Lexicon) -> float:
    if item.quantity is not None:
        stated: Quantity = item.quantity
        return float(any(agrees(stated, n) for n in (*passage.numbers, *passage.title_numbers)))
    return soft_match(item.key, around, lexicon)


def _numbers_and_names(fact: Fact, passage: Analysed, window: _Window, two: _Window) -> dict[str, float]:
    around = passage.keys | passage.title_keys
    given = [i.quantity for s in window.sentences for i in s.items if i.quantity is not None]
    everywhere = (*passage.numbers, *passage.title_numbers)
    stated = [i.quantity for i in fact.content if i.quantity is not None and not i.quantity.weak]
    beside = [i.quantity for s in two.sentences for i in s.items if i.quantity is not None]
    missing = [q for q in stated if not any(agrees(q, g) for g in given)]
    names = [(i, s) for i, s in zip(fact.content, window.scores, strict=True) if i.kind is Kind.NAME]
    absent = [i for i, s in names if s == 0 and i.key not in passage.title_keys]
    return {
        "numbers": len(stated),
        "numbers_agreed": len(stated) - len(missing),
        "numbers_missing": len(missing),
        "numbers_apart": sum(not any(agrees(q, g) for g in (*beside, *passage.title_numbers)) for q in missing),
        "numbers_nowhere": sum(not any(agrees(q, g) for g in everywhere) for q in missing),
        "names": len(names),
        "names_missing": len(absent),
        "names_nowhere": sum(i.key not in around for i in absent),
        "subject_missing": float(bool(names) and names[0][1] == 0 and names[0][0].key not in around),
    }


_INDEX = {name: at for at, name in enumerate(FEATURES)}
__all__ = ["FEATURES", "Fact", "Vector", "measure", "prepare", "soft_match"]
