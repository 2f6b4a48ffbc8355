"""A fact laid along a sentence: what is kept in order, and what stands where something else should stand. Pure.

Between two items that both share, a fact's item with no counterpart and a sentence's item with no counterpart face
each other: a number with another number, a word with its opposite. Such gaps are what a small edit leaves behind.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

from checks.facts.analysis import Item, Kind
from checks.facts.lexicon import Lexicon
from checks.facts.quantity import Quantity, agrees, conflicts

_MAX_WINDOW = 120
# "can carry 80 kg" says what "carries 80 kg" says, "if you lose it" what "losing it" says: alone such a word is no
# difference, against its rival ("must", "unless") it is one.
NEUTRAL = frozenset(("mode:may", "condition:if", "inclusion:in"))


@dataclass(frozen=True, slots=True)
class Gap:
    """Items of the fact and of the window between two neighbours of the alignment; `inner` if it has both borders."""

    fact: tuple[Item, ...]
    window: tuple[Item, ...]
    inner: bool


@dataclass(frozen=True, slots=True)
class Alignment:
    """The longest common order of fact and window; `pairs` are positions in both, `partners` any match of an item.

    `taken` are the window's positions with a match, `clauses` the offsets where its later clauses begin.
    """

    fact: tuple[Item, ...]
    window: tuple[Item, ...]
    pairs: tuple[tuple[int, int], ...]
    partners: tuple[tuple[int, ...], ...]
    taken: frozenset[int]
    clauses: tuple[int, ...] = ()

    def gaps(self) -> list[Gap]:
        """Gaps in order; only items without a partner anywhere in the other text are in them."""
        gaps = []
        borders = [(-1, -1), *self.pairs, (len(self.fact), len(self.window))]
        for (f0, w0), (f1, w1) in pairwise(borders):
            fact = tuple(self.fact[i] for i in range(f0 + 1, f1) if not self.partners[i])
            window = tuple(self.window[j] for j in range(w0 + 1, w1) if j not in self.taken)
            if fact or window:
                gaps.append(Gap(fact, window, f0 >= 0 and f1 < len(self.fact)))
        return gaps


def _matches(item: Item, other: Item, related: frozenset[str]) -> bool:
    if item.quantity is not None or other.quantity is not None:
        if item.quantity is None or other.quantity is None:
            return False
        return agrees(item.quantity, other.quantity)
    if item.kind is Kind.NEGATION or other.kind is Kind.NEGATION:
        return item.kind is other.kind
    if item.key == other.key:
        return True
    if item.group or other.group:
        return False
    if other.key in related:
        return True
    return same_beginning(item.key, other.key)


def same_beginning(one: str, other: str) -> bool:
    """Whether two stems share so long a beginning that they are forms of one word ("calibrat", "calibration")."""
    common = max(5, -(-7 * max(len(one), len(other)) // 10))
    return one[:common] == other[:common] and min(len(one), len(other)) >= common


def align(
    fact: tuple[Item, ...], window: tuple[Item, ...], lexicon: Lexicon, clauses: tuple[int, ...] = ()
) -> Alignment:
    """Longest common order (Hunt and Szymanski 1977), in O(matches log n). Long windows count from their start."""
    window = window[:_MAX_WINDOW]
    by_key: dict[str, list[int]] = {}
    for j, other in enumerate(window):
        by_key.setdefault(other.key, []).append(j)
    partners: list[tuple[int, ...]] = []
    for item in fact:
        exact = by_key.get(item.key, [])
        if item.quantity is not None or not exact:
            related = lexicon.related(item.key) if item.kind <= Kind.NAME else frozenset()
            partners.append(tuple(j for j, other in enumerate(window) if _matches(item, other, related)))
        else:
            partners.append(tuple(exact))
    tails: list[int] = []
    chain: list[tuple[int, int, int]] = []  # fact position, window position, index of the predecessor
    tail_nodes: list[int] = []
    for i, places in enumerate(partners):
        for j in reversed(places):
            at = bisect_left(tails, j)
            chain.append((i, j, tail_nodes[at - 1] if at else -1))
            if at == len(tails):
                tails.append(j)
                tail_nodes.append(len(chain) - 1)
            else:
                tails[at] = j
                tail_nodes[at] = len(chain) - 1
    pairs = []
    node = tail_nodes[-1] if tail_nodes else -1
    while node >= 0:
        i, j, node = chain[node]
        pairs.append((i, j))
    taken = frozenset(j for places in partners for j in places)
    return Alignment(fact, window, tuple(reversed(pairs)), tuple(partners), taken, clauses)


def contrasts(alignment: Alignment, flipped: bool, lexicon: Lexicon) -> dict[str, float]:
    """Features of contrast; see `checks.facts.features.FEATURES`. `flipped` adds one negation (a bare "no")."""
    values = dict.fromkeys(
        (
            "numbers_clash_place", "opposites_place", "siblings", "operators_clash_place", "replaced", "inserted",
            "left_out", "names_replaced",
        ),
        0.0,
    )  # fmt: skip
    for gap in alignment.gaps():
        for name, value in _gap(gap, lexicon).items():
            values[name] += value
    lone_fact = [i for i, p in zip(alignment.fact, alignment.partners, strict=True) if not p]
    lone_window = [w for j, w in enumerate(alignment.window) if j not in alignment.taken]
    values |= _anywhere(lone_fact, lone_window, lexicon)
    values |= _order(alignment)
    values |= _negations(alignment, flipped)
    values["misbound"] = float(_misbound(alignment) or _borrowed(alignment))
    return values


def _gap(gap: Gap, lexicon: Lexicon) -> dict[str, float]:
    fact_words = [i for i in gap.fact if i.kind in (Kind.WORD, Kind.NAME)]
    window_words = [i for i in gap.window if i.kind in (Kind.WORD, Kind.NAME)]
    numbers = [i.quantity for i in gap.fact if i.quantity is not None]
    given = [i.quantity for i in gap.window if i.quantity is not None]
    operators = [i for i in gap.fact if i.group]
    values: dict[str, float] = {
        "numbers_clash_place": sum(any(conflicts(n, g) for g in given) for n in numbers),
        "opposites_place": sum(any(lexicon.opposed(i.key, w.key) for w in window_words) for i in fact_words),
        "siblings": sum(any(lexicon.siblings(i.key, w.key) for w in window_words) for i in fact_words),
        "operators_clash_place": sum(
            any(o.group == w.group and o.key != w.key for w in gap.window if w.group) for o in operators
        ),
    }
    if fact_words and window_words and (gap.inner or len(window_words) <= 3):
        values["replaced"] = min(len(fact_words), len(window_words))
        fact_names = sum(i.kind is Kind.NAME for i in fact_words)
        values["names_replaced"] = min(fact_names, sum(i.kind is Kind.NAME for i in window_words))
    elif fact_words:
        values["inserted"] = len(fact_words)
    if gap.inner and not gap.fact:
        values["left_out"] = len(window_words) + len(given)
    return values


def _anywhere(lone_fact: list[Item], lone_window: list[Item], lexicon: Lexicon) -> dict[str, float]:
    words = [i for i in lone_fact if i.kind <= Kind.NAME]
    others = [w for w in lone_window if w.kind <= Kind.NAME]
    numbers = [i.quantity for i in lone_fact if i.quantity is not None and not i.quantity.weak]
    given = [w.quantity for w in lone_window if w.quantity is not None]
    operators = [i for i in lone_fact if i.group]
    groups = {w.group: w.key for w in lone_window if w.group}
    clashing = [(n, g) for n in numbers for g in given if conflicts(n, g)]
    return {
        "numbers_clash": float(len({id(n) for n, _ in clashing})),
        "units_clash": float(any(not set(n.raw).isdisjoint(g.raw) for n, g in clashing)),
        "opposites": float(sum(any(lexicon.opposed(i.key, w.key) for w in others) for i in words)),
        "exclusive": float(sum(any(lexicon.exclusive(i.key, w.key) for w in others) for i in words)),
        "operators_clash": float(sum(o.group in groups and groups[o.group] != o.key for o in operators)),
        "operators_fact_only": float(sum(o.group not in groups and o.key not in NEUTRAL for o in operators)),
    }


def _order(alignment: Alignment) -> dict[str, float]:
    content = [i for i, item in enumerate(alignment.fact) if item.kind is not Kind.NEGATION]
    aligned = sum(alignment.fact[i].kind is not Kind.NEGATION for i, _ in alignment.pairs)
    longest = run = 0
    last: tuple[int, int] | None = None
    for i, j in alignment.pairs:
        run = run + 1 if last is not None and (i, j) == (last[0] + 1, last[1] + 1) else 1
        longest = max(longest, run)
        last = (i, j)
    total = max(len(content), 1)
    window_content = [j for j, w in enumerate(alignment.window) if w.kind in (Kind.WORD, Kind.NAME, Kind.NUMBER)]
    covered = sum(j in alignment.taken for j in window_content)
    return {
        "in_order": aligned / total,
        "swapped": float(min(_swapped(alignment), 4)),
        "longest_run": longest / total,
        "window_covered": covered / len(window_content) if window_content else 0.0,
    }


def _swapped(alignment: Alignment) -> int:
    """Pairs of names, or of numbers, that stand the other way round ("A bought B" against "B bought A")."""
    count = 0
    for kind in (Kind.NAME, Kind.NUMBER):
        places = [p[0] for i, p in zip(alignment.fact, alignment.partners, strict=True) if p and i.kind is kind]
        count += sum(one > other + 1 for one, other in pairwise(places))
    return count


def _scope(items: tuple[Item, ...], at: int) -> list[int]:
    """Positions a negation at `at` bears on: up to three items behind it, or the one before when none follows."""
    behind = [k for k in range(at + 1, min(at + 4, len(items))) if items[k].kind is not Kind.NEGATION]
    strong = [k for k in behind if items[k].kind not in (Kind.LIGHT, Kind.OPERATOR)]
    return behind if strong or at == 0 else [*behind, at - 1]


def _negations(alignment: Alignment, flipped: bool) -> dict[str, float]:
    """Negations of either side that bear on a shared item which the other side leaves plain."""
    fact, window = alignment.fact, alignment.window
    fact_scopes = [_scope(fact, i) for i, item in enumerate(fact) if item.kind is Kind.NEGATION]
    window_scopes = [_scope(window, j) for j, item in enumerate(window) if item.kind is Kind.NEGATION]
    reached = [{j for i in scope for j in alignment.partners[i]} for scope in fact_scopes]
    # a negated word the window does not have at all is uncovered, not contradicted
    fact_only = sum(bool(r) and not any(r & set(w) for w in window_scopes) for r in reached)
    negation_open = not window_scopes and any(s and not r for s, r in zip(fact_scopes, reached, strict=True))
    # a negation of the window counts when what it bears on first is something the fact states plainly
    stated = {j for i, places in enumerate(alignment.partners) if fact[i].kind is not Kind.NEGATION for j in places}
    window_only = 0
    for scope in window_scopes:
        if stated & set(scope[:2]) and not any(r & set(scope) for r in reached):
            window_only += 1
    if flipped:
        fact_only, window_only = (fact_only + 1, 0) if not window_only else (0, 0)
    return {
        "negation_differs": float((fact_only + window_only) % 2),
        "negation_fact_only": float(fact_only),
        "negation_window_only": float(window_only),
        "negation_open": float(negation_open),
    }


def _borrowed(alignment: Alignment) -> bool:
    """A name of the fact stands in another clause than the rest of it, whose own clause names somebody else.

    "The first is Upper Mill, and the last is Cape Merrow" does not make Cape Merrow the first.
    """
    if not alignment.clauses:
        return False
    clause = [bisect_left(alignment.clauses, item.start + 1) for item in alignment.window]
    said: Counter[int] = Counter()
    names: list[set[int]] = []
    for item, places in zip(alignment.fact, alignment.partners, strict=True):
        found = {clause[j] for j in places}
        if item.kind is Kind.NAME and found:
            names.append(found)
        elif item.kind in (Kind.WORD, Kind.NUMBER):
            said.update(found)
    if not said or not names:
        return False
    main = said.most_common(1)[0][0]
    others = {clause[j] for j in _subjects(alignment, (Kind.NAME,))[1]}
    return main in others and not any(main in found for found in names)


def _subjects(alignment: Alignment, kinds: tuple[Kind, ...]) -> tuple[list[int], list[int]]:
    """Positions of the window's items of some kinds that the fact has, and that it has not."""
    places = [j for j, item in enumerate(alignment.window) if item.kind in kinds]
    return [j for j in places if j in alignment.taken], [j for j in places if j not in alignment.taken]


def _rivals(stated: Quantity, given: Quantity) -> bool:
    return stated.dimension == given.dimension and not agrees(stated, given)


def _misbound(alignment: Alignment) -> bool:
    """A number of the fact stands in the window beside another subject, while a rival number stands nearer to its own.

    "4.2 bar on the Heron and 3.5 bar on the Pelican" bears out no 3.5 bar of the Heron.
    """
    own, foreign = _subjects(alignment, (Kind.NAME,))
    if not own or not foreign:
        own, foreign = _subjects(alignment, (Kind.NAME, Kind.WORD))
    if not own or not foreign:
        return False

    def pull(j: int) -> int:
        return min(abs(j - k) for k in own) - min(abs(j - k) for k in foreign)

    for item, places in zip(alignment.fact, alignment.partners, strict=True):
        if item.quantity is None or not places or item.quantity.weak:
            continue
        rivals = [
            j
            for j, other in enumerate(alignment.window)
            if other.quantity is not None and j not in alignment.taken and _rivals(item.quantity, other.quantity)
        ]
        if rivals and min(pull(j) for j in rivals) < min(pull(j) for j in places):
            return True
    return False
