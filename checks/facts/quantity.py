"""A quantity and when two of them agree or clash. Pure; it does not know how text is scanned."""

from __future__ import annotations

from dataclasses import dataclass

Date = tuple[int, int, int]
DATE = "date"
ORDINAL = "ordinal"
CLOCK = "clock"
_RELATIVE_TOLERANCE = 1e-9  # what converting a unit costs a float; two numbers that differ as written never agree
_ROUNDING_TOLERANCE = 0.03


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number, date or clock time at `text[start:end]`.

    `readings` are in the base unit of `dimension` ("" for a plain number), `raw` as written. Dates keep `dates`
    (year, month, day; 0 where unsaid). `weak` marks words such as "one" that often count nothing; `approximate`
    those that follow "about". `noun` is the word that follows a plain number, lower case.
    """

    start: int
    end: int
    readings: tuple[float, ...]
    raw: tuple[float, ...]
    dimension: str = ""
    dates: tuple[Date, ...] = ()
    weak: bool = False
    approximate: bool = False
    noun: str = ""


def _close(left: float, right: float, tolerance: float) -> bool:
    return abs(left - right) <= tolerance * max(abs(left), abs(right), 1e-12)


def _overlap(left: tuple[float, ...], right: tuple[float, ...], tolerance: float = _RELATIVE_TOLERANCE) -> bool:
    return any(_close(a, b, tolerance) for a in left for b in right)


def _dates_agree(stated: tuple[Date, ...], given: tuple[Date, ...]) -> bool:
    return any(all(s in (0, g) for s, g in zip(a, b, strict=True)) for a in stated for b in given)


def agrees(stated: Quantity, given: Quantity) -> bool:
    """Whether `given` (from the evidence) bears out `stated` (from the fact)."""
    if stated.dates and given.dates:
        return _dates_agree(stated.dates, given.dates)
    if stated.dates:
        return False
    if given.dates:
        return not stated.dimension and any(stated.raw[0] == date[0] for date in given.dates)
    tolerance = _RELATIVE_TOLERANCE
    if stated.approximate and not given.approximate:
        tolerance = _ROUNDING_TOLERANCE
    if stated.dimension == given.dimension:
        return _overlap(stated.readings, given.readings, tolerance)
    if "" in (stated.dimension, given.dimension) and CLOCK not in (stated.dimension, given.dimension):
        return _overlap(stated.raw, given.raw, tolerance)
    return False


def conflicts(stated: Quantity, given: Quantity) -> bool:
    """Whether the two speak of comparable things and differ: another value, or the same value in another unit."""
    if agrees(stated, given):
        return False
    if stated.dates and given.dates:
        return not any(
            all(0 in (s, g) or s == g for s, g in zip(a, b, strict=True)) for a in stated.dates for b in given.dates
        )
    if stated.dates or given.dates:
        other = given if stated.dates else stated
        return not other.dimension and 1000 <= other.raw[0] <= 2100 and other.raw[0] == int(other.raw[0])
    if stated.dimension == given.dimension:
        return bool(stated.dimension) or stated.noun == given.noun or _both_years(stated, given)
    return bool(stated.dimension and given.dimension) and _overlap(stated.raw, given.raw)


def _both_years(left: Quantity, right: Quantity) -> bool:
    return all(1000 <= q.raw[0] <= 2100 and q.raw[0] == int(q.raw[0]) for q in (left, right))
