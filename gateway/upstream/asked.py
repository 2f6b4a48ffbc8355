"""What kind of answer a question asks for, told by its words, and whether a sentence has one. Pure; English, Russian.

Words like "how much" or "cost" say what the answer must look like, not what it is about: a sentence need not repeat
them, but it must have a price.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

_NUMBER_WORD = (
    r"one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|dozen|hundred|thousand|million|half|"
    r"один|одна|одно|два|две|три|четыре|пять|шесть|семь|восемь|девять|десять|сто|тысяча|миллион|половина"
)
_NUMBER = rf"(?:\d[\d.,]*|\b(?:{_NUMBER_WORD})\b)"
_TIME = (
    r"(?:seconds?|minutes?|mins?|hours?|h|days?|weeks?|months?|years?|"
    r"секунд\w*|минут\w*|час\w*|д(?:ень|ня|ней)|недел\w*|месяц\w*|год\w*|лет)\b"
)
_WHEN = (
    r"\b(?:january|february|march|april|may|june|july|august|september|october|november|december|monday|tuesday|"
    r"wednesday|thursday|friday|saturday|sunday|midnight|noon|daily|always|never|январ\w*|феврал\w*|март\w*|апрел\w*|"
    r"ма[йя]|июн\w*|июл\w*|август\w*|сентябр\w*|октябр\w*|ноябр\w*|декабр\w*|понедельник\w*|вторник\w*|сред[ауы]|"
    r"четверг\w*|пятниц\w*|суббот\w*|воскресень\w*)\b"
)
_I = re.IGNORECASE


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of question: how it is recognised, the words that only say so, and what an answer must have."""

    asked: re.Pattern[str]
    words: frozenset[str]
    answer: re.Pattern[str]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_PRICE_ASKED = (
    r"\b(?:costs?|prices?|priced|how much(?= (?:is|are|do|does|did|for|to|will|would|must)\b|\W*$)|fees?|expensive|"
    r"сколько сто[ия]т|цен[аыу]|стоимость)\b"
)
_PRICE = (
    r"[€$£¥₽]|\b(?:euros?|eur|usd|gbp|dollars?|pounds?|cents?|free|руб\w*|евро|цент\w*|бесплатн\w*)(?![a-zа-я])|"
    r"(?:price|cost|fee)s?[a-z_]*\b[^.]{0,20}\d"
)
_SIZE_ASKED = r"\b(?:how (?:old|tall|big|large|fast|high|deep|heavy|wide|often|much)|what (?:number|percentage))\b"
_WHEN_ASKED = r"\b(?:when|(?:what|which) (?:year|date|day|time)|когда|в каком году|какого числа|во сколько)\b"
_KINDS = (
    Kind(
        re.compile(_PRICE_ASKED, _I),
        _words("cost costs price prices priced much fee fees expensive стоит стоят цена цены цену стоимость"),
        re.compile(_PRICE, _I),
    ),
    Kind(
        re.compile(r"\b(?:how long|how much time|как долго|сколько времени)\b", _I),
        _words("long time долго времени"),
        re.compile(rf"{_NUMBER}(?:[\s–-]+\w+){{0,2}}?[\s-]*{_TIME}", _I),
    ),
    Kind(
        re.compile(r"\b(?:how far|как далеко)\b", _I),
        _words("far далеко"),
        re.compile(rf"{_NUMBER}\s*(?:km|kilomet\w+|m|met(?:er|re)s?|miles?|км|километр\w*|метр\w*|м)\b", _I),
    ),
    Kind(
        re.compile(_WHEN_ASKED, _I),
        _words("year date day time году числа"),
        re.compile(rf"\d|{_WHEN}", _I),
    ),
    Kind(
        re.compile(_SIZE_ASKED, _I),
        _words("old tall big large fast high deep heavy wide often much number percentage"),
        re.compile(_NUMBER, _I),
    ),
)
_COUNTED = re.compile(r"\b(?:how many|сколько)\s+(\w+)", _I)
_COUNT = re.compile(_NUMBER, _I)
_WORD = re.compile(r"\w+(?:['’]\w+)?")
_REACH = 4
"""A number counts a noun when it stands at most so many words before it."""


def kinds_of(query: str) -> list[Kind]:
    """The kinds that a question is of."""
    return [kind for kind in _KINDS if kind.asked.search(query)]


def fits(sentence: str, query: str, kinds: Sequence[Kind], stem: Callable[[Sequence[str]], Sequence[str]]) -> bool:
    """Whether a sentence has what the question asks for: a price, a duration, a date, a number of what is counted."""
    if not all(kind.answer.search(sentence) for kind in kinds):
        return False
    counted = _COUNTED.search(query)
    if counted is None or any(counted.group(1).casefold() in kind.words for kind in kinds):
        return True
    (noun,) = stem([counted.group(1).casefold()])
    words = [word.casefold() for word in _WORD.findall(sentence)]
    stems = stem(words)
    numbers = [at for at, word in enumerate(words) if _COUNT.fullmatch(word)]
    return any(0 < at - number <= _REACH for at, own in enumerate(stems) if own == noun for number in numbers)
