"""Words whose change changes a statement: negators, operators, opposites, and words that say the same. Pure.

Small tables for English and Russian are written here by hand; the wide English relations come from a lexicon file
(`Lexicon.read`, made of WordNet by `checks.train.lexicon`). It knows stems, not sentences.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path

import Stemmer

from checks.errors import ModelFileError
from checks.facts.wordlists import EXCLUSIVE_SETS, IRREGULAR, OPERATOR_GROUPS, OPPOSITES, RELATED

OPERATORS: dict[str, tuple[str, str]] = {
    form: (group, value)
    for group, values in OPERATOR_GROUPS.items()
    for value, forms in values.items()
    for form in forms
}


class Words:
    """Stems of English and Russian words, cached. Not safe to share between threads without the caller's lock."""

    def __init__(self) -> None:
        self._english = Stemmer.Stemmer("english")
        self._russian = Stemmer.Stemmer("russian")
        self._bases = dict(row.split(",") for row in IRREGULAR)
        self._cache: dict[str, str] = {}

    def stem(self, word: str) -> str:
        """Stem of a lower-case word; the alphabet decides the language."""
        known = self._cache.get(word)
        if known is None:
            stemmer = self._russian if "а" <= word[0] <= "я" else self._english
            known = str(stemmer.stemWord(self._bases.get(word, word)))
            if len(self._cache) > 200_000:
                self._cache.clear()
            self._cache[word] = known
        return known


class Lexicon:
    """Which stems say the same, which the opposite, which exclude one another."""

    def __init__(self, relations: Mapping[str, Mapping[str, object]] | None = None) -> None:
        relations = relations or {}
        self.words = Words()
        self._wide_related: dict[str, str] = dict(relations.get("related", {}))  # type: ignore[arg-type]
        self._wide_opposite: dict[str, str] = dict(relations.get("opposite", {}))  # type: ignore[arg-type]
        self._parents: dict[str, list[int]] = dict(relations.get("parents", {}))  # type: ignore[arg-type]
        stem = self.words.stem
        self._related: dict[str, set[str]] = {}
        for row in RELATED:
            stems = [stem(word) for word in row.split(",")]
            for one in stems:
                self._related.setdefault(one, set()).update(stems)
        self._opposite: dict[str, set[str]] = {}
        for row in OPPOSITES:
            one, _, others = row.partition(":")
            for other in others.split(","):
                self._opposite.setdefault(stem(one), set()).add(stem(other))
                self._opposite.setdefault(stem(other), set()).add(stem(one))
        self._exclusive = {stem(word): n for n, row in enumerate(EXCLUSIVE_SETS) for word in row}
        self._expanded: dict[str, frozenset[str]] = {}

    @classmethod
    def read(cls, path: Path) -> Lexicon:
        """Lexicon with the relations of a `lexicon.json.gz`; raises `ModelFileError`."""
        try:
            return cls(json.loads(gzip.decompress(path.read_bytes())))
        except (OSError, ValueError, EOFError) as error:
            raise ModelFileError(
                f"cannot read the lexicon {path}: {error}", hint="reinstall the package or run `make classifier`"
            ) from error

    def related(self, stem: str) -> frozenset[str]:
        """Stems that may stand for this one, itself left out."""
        known = self._expanded.get(stem)
        if known is None:
            found = set(self._related.get(stem, ()))
            if wide := self._wide_related.get(stem):
                found.update(wide.split(" "))
            found.discard(stem)
            known = frozenset(found - self._opposite.get(stem, set()))
            if len(self._expanded) > 50_000:
                self._expanded.clear()
            self._expanded[stem] = known
        return known

    def known(self, stem: str) -> bool:
        """Whether the stem is an ordinary English word, so that a capital at a sentence's start says nothing."""
        return stem in self._wide_related or stem in self._parents or stem in self._related

    def opposed(self, one: str, other: str) -> bool:
        """Whether two stems contradict each other in the same place ("open"/"closed", "safe"/"unsafe")."""
        if other in self._opposite.get(one, ()):
            return True
        if other in self._wide_opposite.get(one, "").split(" "):
            return True
        short, long = sorted((one, other), key=len)
        return len(short) > 3 and any(long == prefix + short for prefix in ("un", "in", "im", "dis", "non", "ir", "не"))

    def exclusive(self, one: str, other: str) -> bool:
        """Whether two stems are different members of one closed set (weekdays, colours, directions)."""
        group = self._exclusive.get(one)
        return group is not None and one != other and self._exclusive.get(other) == group

    def siblings(self, one: str, other: str) -> bool:
        """Whether two stems are different kinds of one thing, such as "steel" and "aluminium"."""
        parents = self._parents.get(one)
        if not parents or one == other:
            return False
        return not set(parents).isdisjoint(self._parents.get(other, ()))
