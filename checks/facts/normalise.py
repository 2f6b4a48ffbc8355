"""Numbers, quantities and dates of a text, in comparable form. Pure.

A written number may have several readings ("16.181" is sixteen thousand or sixteen); two quantities agree when any
reading of one equals any reading of the other in the same dimension. It does not know about sentences or facts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from checks.facts.quantity import CLOCK, DATE, ORDINAL, Date, Quantity
from checks.facts.units import (
    APPROXIMATORS,
    CURRENCY_PREFIXES,
    MONTHS,
    ORDINALS,
    SCALES,
    SMALL_NUMBERS,
    UNITS,
    Unit,
)
from checks.facts.wordlists import NEGATORS, STOP

_RANGE_MARKS = frozenset(("-", "–", "—", "to", "or", "and", "до", "или", "и"))
_ADDING = frozenset(("time", "calendar", "length", "mass"))
_NO_NOUN = STOP | NEGATORS
_ARTICLE_UNITS = frozenset(
    ("century", "day", "decade", "hour", "kilogram", "kilometer", "kilometre", "litre", "mile", "month", "week", "year")
)
_DOZENS = frozenset(("dozen", "дюжина", "дюжину"))
_COUNTING_WORDS = (frozenset(ORDINALS) | frozenset(SMALL_NUMBERS) | _DOZENS | {"a", "an", "half", "полчаса"}) - {
    "second"
}
_LETTERS = r"[^\W\d_]"
# "в 2020 году", "1998 г.": a unit behind a year
_YEAR_MARKS = (UNITS["год"], UNITS["г"])
_GROUPED_DIGITS = re.compile(r"[1-9]\d{0,2}(?:\.\d{3}){2,}")
_MONTH_WORD = "|".join(sorted(MONTHS, key=len, reverse=True))

_START = re.compile(rf"{_LETTERS}+(?:['’](?:t|s|re|ve|ll|d|m)\b)?|\d", re.IGNORECASE)
_CODE = re.compile(rf"{_LETTERS}+-?\d\w*(?:[-.]\d\w*)*")
_MONTH_DAY = re.compile(
    rf"""
    (?P<md_month>{_MONTH_WORD})\b\.?\s(?:(?P<md_day>\d{{1,2}})(?:st|nd|rd|th)?(?!\d|[.,]\d)
    (?:,?\s(?P<md_year>\d{{4}})(?!\d))?|(?P<md_only_year>(?:1[0-9]|20)\d\d)(?!\d))
    """,
    re.VERBOSE | re.IGNORECASE,
)
_NUMERIC = re.compile(
    rf"""
    (?P<iso>\d{{4}}-\d{{2}}-\d{{2}}(?!\d))
  | (?P<dmy>\d{{1,2}}[./]\d{{1,2}}[./](?:\d{{4}}|\d{{2}})(?![\d/]))
  | (?P<daymonth>(?P<dm_day>\d{{1,2}})(?:st|nd|rd|th|-го)?\s(?:of\s)?(?P<dm_month>{_MONTH_WORD})\b\.?
        (?:,?\s(?P<dm_year>\d{{4}})(?!\d))?)
  | (?P<clock>(?P<hour>\d{{1,2}}):(?P<minute>\d\d)(?![\d:])(?:\s?(?P<half>[ap]\.?m\b\.?))?)
  | (?P<clock12>(?P<hour12>\d{{1,2}})\s?(?P<half12>[ap]\.?m\b\.?))
  | (?P<version>\d+(?:\.\d+){{2,}}(?![\w]))
  | (?P<grouped>\d{{1,3}}(?:[ \u00a0\u202f]\d{{3}})+(?!\d)(?:[.,]\d+)?)
  | (?P<number>\d+(?:[.,'’]\d+)*)(?P<suffix>{_LETTERS}+(?:/{_LETTERS}+)?)?
    """,
    re.VERBOSE | re.IGNORECASE,
)
_UNIT_AFTER = re.compile(
    rf"""
    [ \u00a0\u202f-]?
    (?:(?:working|business|full|whole|consecutive|calendar|рабочих|полных)[ ])?
    (°\s?[CF]|[%€$£₽°℃℉]|(?:km|m|км|м)/{_LETTERS}+|m²|м²|{_LETTERS}+)(?!\d)
    """,
    re.VERBOSE | re.IGNORECASE,
)
_PREFIX_CURRENCY = re.compile(r"(?:([€$£₽])|\b(EUR|USD|GBP))[ \u00a0\u202f]?$", re.IGNORECASE)
_NOUN_AFTER = re.compile(rf"\s*-?({_LETTERS}+)")
_SCALE_AFTER = re.compile(rf"([ \u00a0\u202f]?)({_LETTERS}+)\b\.?")
_NUMBER_WORD_AFTER = re.compile(rf"(?:\sand\s|[ -])({_LETTERS}+)")
_UNIT_WORD_AFTER = re.compile(rf"(?:\san?)?\s({_LETTERS}+)")


@dataclass(slots=True)
class Word:
    """A run of letters at `text[start:end]`; `lower` is its lower-case form, ё written as е."""

    start: int
    end: int
    lower: str


@dataclass(frozen=True, slots=True)
class Code:
    """An identifier with digits at `text[start:end]`, such as "X200" or "2.4.1"."""

    start: int
    end: int


def number_readings(text: str) -> tuple[float, ...]:
    """Every value a written number may have: "1,5" one, "16.181" two (point or comma may group thousands)."""
    digits = re.sub(r"[ \u00a0\u202f'’]", "", text)
    marks = [c for c in digits if c in ".,"]
    if not marks:
        return (float(digits),)
    last = marks[-1]
    head, _, tail = digits.rpartition(last)
    plain_head = head.replace(",", "").replace(".", "")
    decimal = float(f"{plain_head}.{tail}")
    grouped = float(digits.replace(",", "").replace(".", ""))
    groups = re.split(r"[.,]", digits)
    well_grouped = all(len(g) == 3 for g in groups[1:]) and 1 <= len(groups[0]) <= 3 and groups[0] != "0"
    if len(set(marks)) == 2:
        return (decimal,)
    if len(marks) > 1:
        return (grouped,) if well_grouped else (decimal,)
    if not well_grouped:
        return (decimal,)
    return (decimal, grouped)


def tokens(text: str) -> list[Quantity | Code | Word]:
    """Quantities, codes and words of a text in order, not overlapping."""
    found: list[Quantity | Code | Word] = []
    before: list[str] = []
    item: Quantity | Code | Word
    at = 0
    while match := _START.search(text, at):
        start, at = match.span()
        if text[start].isdecimal():
            numeric = _NUMERIC.match(text, start)
            assert numeric is not None  # every digit begins at least a number
            item, at = _read(numeric, text, before)
            found.append(item)
            continue
        lower = match.group().lower().replace("ё", "е")
        if at < len(text) and (text[at].isdecimal() or text[at] == "-") and (code := _CODE.match(text, start)):
            found.append(Code(start, code.end()))
            at = code.end()
            continue
        if lower in MONTHS and (dated := _MONTH_DAY.match(text, start)):
            item, at = _read(dated, text, before)
        elif lower in _COUNTING_WORDS:
            counted, at = _read_word(lower, match, text, before)
            item = counted or Word(start, at, lower)
        else:
            item = Word(start, at, lower)
        before.append(lower)
        found.append(item)
    return found


def quantities(text: str) -> list[Quantity]:
    """Only the quantities of a text, ranges and sums joined."""
    return [item for item in joined(tokens(text), text) if isinstance(item, Quantity)]


def joined(found: list[Quantity | Code | Word], text: str) -> list[Quantity | Code | Word]:
    """Give ranges one unit ("10-15 km", "from 4 to 8 hours") and add up "1 hour 30 minutes"."""
    result: list[Quantity | Code | Word] = []
    last_at = -1
    for item in found:
        if isinstance(item, Quantity) and not item.dates:
            last = result[last_at] if last_at >= 0 else None
            between = text[last.end : item.start].strip().lower() if last is not None else "?"
            if isinstance(last, Quantity) and len(between) < 4:
                if not last.dimension and item.dimension and between in _RANGE_MARKS:
                    factor = item.readings[0] / item.raw[0] if item.raw[0] else 1.0
                    readings = tuple(value * factor for value in last.raw)
                    result[last_at] = replace(last, readings=readings, dimension=item.dimension, noun="")
                elif _adds_up(last, item, between):
                    total = (last.readings[0] + item.readings[0],)
                    del result[last_at + 1 :]
                    result[last_at] = replace(last, end=item.end, readings=total, raw=total)
                    continue
            last_at = len(result)
        elif isinstance(item, Quantity):
            last_at = -1
        result.append(item)
    return result


def _adds_up(last: Quantity, item: Quantity, between: str) -> bool:
    if item.dimension != last.dimension or item.dimension not in _ADDING or between not in ("", "and", "и"):
        return False
    return last.readings[0] / max(last.raw[0], 1e-9) > item.readings[0] / max(item.raw[0], 1e-9)


def _read(match: re.Match[str], text: str, before: list[str]) -> tuple[Quantity | Code, int]:
    kind = match.lastgroup
    if kind == "version" and not _GROUPED_DIGITS.fullmatch(match.group()):
        return Code(match.start(), match.end()), match.end()
    if kind in ("iso", "dmy", "daymonth") or match.re is _MONTH_DAY:
        dates = _date_readings(match.groupdict())
        if dates:
            return Quantity(match.start(), match.end(), (), (), DATE, dates), match.end()
        return Code(match.start(), match.end()), match.end()
    if kind in ("clock", "clock12"):
        groups = match.groupdict()
        hour, minute = int(groups["hour"] or groups["hour12"]), int(groups["minute"] or 0)
        half = (groups["half"] or groups["half12"] or "").lower()
        if half:
            hour = hour % 12 + (12 if half.startswith("p") else 0)
        value = (float(hour * 60 + minute),)
        return Quantity(match.start(), match.end(), value, value, CLOCK), match.end()
    return _read_number(match, text, before)


def _date_readings(groups: dict[str, str | None]) -> tuple[Date, ...]:
    readings: list[Date]
    if "md_month" in groups:
        year_number = int(groups["md_year"] or groups["md_only_year"] or 0)
        readings = [(year_number, MONTHS[(groups["md_month"] or "").lower()], int(groups["md_day"] or 0))]
    elif iso := groups["iso"]:
        year, month, day = iso.split("-")
        readings = [(int(year), int(month), int(day))]
    elif dmy := groups["dmy"]:
        first, second, year = re.split(r"[./]", dmy)
        full = int(year) if len(year) == 4 else 2000 + int(year)
        readings = [(full, int(second), int(first))]
        if "/" in dmy and int(second) <= 31:
            readings.append((full, int(first), int(second)))
    else:
        month_number = MONTHS[(groups["dm_month"] or "").lower()]
        readings = [(int(groups["dm_year"] or 0), month_number, int(groups["dm_day"] or 0))]
    return tuple(dict.fromkeys(d for d in readings if 0 <= d[1] <= 12 and d[2] <= 31))


def _approximate(before: list[str]) -> bool:
    return any(word in APPROXIMATORS for word in before[-2:])


def _unit_at(text: str, at: int) -> tuple[Unit | None, int]:
    match = _UNIT_AFTER.match(text, at)
    if match is None:
        return None, at
    form = re.sub(r"\s", "", match.group(1).lower())
    unit = UNITS.get(form)
    if unit is None and form == "per" and text[match.end() : match.end() + 5].lower() == " cent":
        return ("percent", 1.0), match.end() + 5
    if unit is None or (form in ("s", "в", "с") and text[at : match.start(1)].isspace()):
        return None, at
    return unit, match.end()


def _scale_at(text: str, at: int) -> tuple[float, int]:
    """A scale word ("million") or letter standing at once behind the digits ("5k")."""
    factor = 1.0
    while match := _SCALE_AFTER.match(text, at):
        form = match.group(2).lower()
        if form not in SCALES or form == "m" or (form == "k" and match.group(1)):
            break
        factor *= SCALES[form]
        at = match.end() if form in ("тыс", "млн", "млрд", "трлн") else match.end(2)
    return factor, at


def _finish(start: int, at: int, values: tuple[float, ...], text: str, before: list[str]) -> Quantity:
    """Attach scale, unit, currency and noun to the number that ends at `at`."""
    scale, at = _scale_at(text, at)
    raw = tuple(value * scale for value in values)
    unit, end = _unit_at(text, at)
    prefix = _PREFIX_CURRENCY.search(text, max(0, start - 5), start)
    if prefix:
        unit, start = (CURRENCY_PREFIXES[(prefix.group(1) or prefix.group(2)).lower()], 1.0), prefix.start()
        end = at
    approximate = _approximate(before)
    if unit in _YEAR_MARKS and len(raw) == 1 and 1000 <= raw[0] <= 2100:
        unit = None  # "в 2020 году" names a year, it does not count years
    if unit is not None:
        readings = tuple(value * unit[1] for value in raw)
        return Quantity(start, end, readings, raw, unit[0], approximate=approximate)
    match = _NOUN_AFTER.match(text, at)
    noun = match.group(1).lower() if match else ""
    return Quantity(start, at, raw, raw, approximate=approximate, noun="" if noun in _NO_NOUN else noun)


def _read_number(match: re.Match[str], text: str, before: list[str]) -> tuple[Quantity | Code, int]:
    written = match.group("number") or match.group()
    suffix = (match.group("suffix") or "").lower()
    start = match.start()
    end = match.end("number") if match.group("number") else match.end()
    values = number_readings(written)
    if suffix in ("st", "nd", "rd", "th", "й", "я", "го", "ая", "ый"):
        return Quantity(start, match.end(), values, values, ORDINAL), match.end()
    if suffix and suffix not in UNITS and suffix not in SCALES:
        return Code(start, match.end()), match.end()
    signed = start > 0 and text[start - 1] in "-−–" and (start == 1 or text[start - 2] in " (\n\t\u00a0")
    if signed:
        start, values = start - 1, tuple(-value for value in values)
    quantity = _finish(start, end, values, text, before)
    return quantity, max(quantity.end, end)


def _read_word(word: str, match: re.Match[str], text: str, before: list[str]) -> tuple[Quantity | None, int]:
    start, end = match.span()
    if word in ORDINALS:
        value = (ORDINALS[word],)
        return Quantity(start, end, value, value, ORDINAL, weak=word == "first"), end
    if word in _DOZENS:
        return Quantity(start, end, (12.0,), (12.0,)), end
    if word not in SMALL_NUMBERS:
        return _read_article(word, match, text)
    value_so_far, at = _number_words(word, end, text)
    quantity = _finish(start, at, (value_so_far,), text, before)
    if at == end and SMALL_NUMBERS[word] == 1 and not quantity.dimension:
        quantity = replace(quantity, weak=True)
    return quantity, quantity.end


def _read_article(word: str, match: re.Match[str], text: str) -> tuple[Quantity | None, int]:
    """ "a week", "half an hour": one or half a unit; the article alone is only a weak count."""
    if word == "полчаса":
        return Quantity(match.start(), match.end(), (1800.0,), (0.5,), "time"), match.end()
    after = _UNIT_WORD_AFTER.match(text, match.end())
    if after is None or after.group(1).lower() not in _ARTICLE_UNITS:
        return None, match.end()
    dimension, factor = UNITS[after.group(1).lower()]
    count = 0.5 if word == "half" else 1.0
    return Quantity(match.start(), after.end(), (count * factor,), (count,), dimension, weak=count == 1), after.end()


def _number_words(first: str, at: int, text: str) -> tuple[float, int]:
    """Value of number words from `first` on ("two hundred and five"), and where they end."""
    total, current = 0.0, SMALL_NUMBERS[first]
    while match := _NUMBER_WORD_AFTER.match(text, at):
        word = match.group(1).lower().replace("ё", "е")
        if word in SMALL_NUMBERS and (
            (current >= 20 and SMALL_NUMBERS[word] < 10 and current % 10 == 0)
            or (current >= 100 and current % 100 == 0 and SMALL_NUMBERS[word] < 100)
        ):
            current += SMALL_NUMBERS[word]
        elif word == "hundred" and current < 20:
            current *= 100
        elif SCALES.get(word, 0) >= 1000 and len(word) > 1:
            total, current = total + current * SCALES[word], 0.0
        else:
            break
        at = match.end()
    return total + current, at
