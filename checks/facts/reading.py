"""What the cross-encoder reads of a pair: the fact, and the sentences of the passage that matter to it. Pure.

A passage is cut down to the sentences that cover the fact best, in their own order, so that a long page costs no more
than a short one and padding does not move a verdict. A number of the fact that agrees with one of those sentences is
written as it stands there ("1.2 million" as "1,200,000"), since the encoder sees spelling and not value.
It knows neither the tokenizer nor the model, and nothing of other passages of the same fact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from checks.facts.analysis import Analysed, Kind, Sentence
from checks.facts.features import Fact
from checks.facts.quantity import Quantity, agrees

# Characters of passage that are read: about 75 word pieces of English.
_ROOM: Final = 340
_LONGEST_TITLE: Final = 60
_LONGEST_FACT: Final = 400
_MOST_SENTENCES: Final = 4
# What covering a word once more is worth beside covering it first; a word of the question; a heading, which states
# nothing; a character of length, which only breaks ties.
_AGAIN: Final = 0.2
_ASKED: Final = 0.25
_HEADING: Final = 2.0
_CHARACTER: Final = 0.001
# A further sentence that brings less than this is left out, however much room there is.
_LEAST_GAIN: Final = 0.3


def reading(fact: Fact, text: str, passage: Analysed, title: str = "") -> tuple[str, str]:
    """(fact as read, title and sentences as read) for the fact `text`; the second is "" when nothing is shared."""
    chosen = _chosen(fact, passage)
    if not chosen:
        return text[:_LONGEST_FACT], ""
    given = [item.quantity for sentence in chosen for item in sentence.items if item.quantity is not None]
    # A single sentence longer than the room is cut by the tokenizer, not here: where it matters is not known.
    words = " ".join(" ".join(passage.text[s.start : s.end].split()) for s in chosen)
    head = " ".join(title.split())[:_LONGEST_TITLE]
    return _as_written(fact, text, given, passage.text)[:_LONGEST_FACT], f"{head}: {words}" if head else words


def _chosen(fact: Fact, passage: Analysed) -> list[Sentence]:
    """Sentences that cover the fact, greedily by what each adds, in the passage's order; [] when none shares a word."""
    weights: dict[str, float] = {}
    for item, weight in zip(fact.content, fact.weights, strict=True):
        if item.quantity is None:
            weights[item.key] = max(weight, weights.get(item.key, 0.0))
    numbers = [item.quantity for item in fact.content if item.quantity is not None]
    left = [(sentence, *_shared(sentence, weights, numbers, fact)) for sentence in passage.sentences]
    left = [entry for entry in left if entry[1] or entry[2]]
    covered: set[str] = set()
    chosen: list[Sentence] = []
    room = _ROOM
    while left and len(chosen) < _MOST_SENTENCES and room > 0:
        gains = [_gain(*entry, covered) for entry in left]
        at = max(range(len(left)), key=gains.__getitem__)
        gain, (sentence, shared, _) = gains[at], left.pop(at)
        length = sentence.end - sentence.start
        if chosen and (gain < _LEAST_GAIN or length > room):
            continue
        chosen.append(sentence)
        covered.update(shared)
        room -= length
    return sorted(chosen, key=lambda sentence: sentence.start)


def _gain(sentence: Sentence, shared: dict[str, float], beside: float, covered: set[str]) -> float:
    """What a sentence adds to those that were chosen before."""
    new = sum(weight if key not in covered else _AGAIN * weight for key, weight in shared.items())
    return new + beside - _HEADING * sentence.heading - _CHARACTER * (sentence.end - sentence.start)


def _shared(
    sentence: Sentence, weights: dict[str, float], numbers: Sequence[Quantity], fact: Fact
) -> tuple[dict[str, float], float]:
    """The fact's words and numbers that the sentence has, by weight, and what it has of the question."""
    shared = {key: weights[key] for key in sentence.keys & weights.keys()}
    if numbers:
        found = [item.quantity for item in sentence.items if item.quantity is not None]
        for at, number in enumerate(numbers):
            if any(agrees(number, other) for other in found):
                shared[f"#{at}"] = 1.0
    return shared, _ASKED * len(fact.asked & sentence.keys)


def _as_written(fact: Fact, text: str, given: Sequence[Quantity], passage: str) -> str:
    """The fact with each number that agrees with a given one written the same way."""
    if fact.templated or fact.yes_no:
        return text  # its offsets are those of the answer inside the template
    parts, at = [], 0
    for item in fact.items:
        stated = item.quantity
        if item.kind is not Kind.NUMBER or stated is None or stated.weak:
            continue
        same = next((other for other in given if agrees(stated, other)), None)
        if same is not None and item.start >= at:
            parts += [text[at : item.start], passage[same.start : same.end]]
            at = item.end
    return "".join(parts) + text[at:]
